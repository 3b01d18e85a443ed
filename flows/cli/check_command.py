"""``tabularium check``: every mistake of a spec at once, or what it will publish and cost."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.text import Text

from flows.cli.options import AsJson, SpecPath
from flows.cli.terminal import err, out, print_json
from validations.spec.problems import format_problems
from validations.spec.summary import check, render


def check_spec(spec: SpecPath, as_json: AsJson = False) -> None:
    """Say everything that is wrong with SPEC, or what it will publish and cost. Opens no data."""
    if not report_spec(spec, as_json=as_json):
        raise typer.Exit(1)


def report_spec(spec: Path, *, as_json: bool) -> bool:
    """Print what is wrong with ``spec``, or its summary; return whether it is in order."""
    checked = check(spec)
    if as_json:
        print_json(checked.as_json())
    elif checked.summary is not None:
        out.print(render(checked.summary))
    else:
        err.print(Text(format_problems(checked.problems)), soft_wrap=True, highlight=False)
        count = len(checked.problems)
        err.print(f"{count} problem{'s' if count > 1 else ''}", style="bold red")
    return checked.summary is not None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check", epilog="Example:  tabularium check census.yaml")(check_spec)
