"""``tabularium check``: every mistake of a spec at once, or what it will publish and cost."""

from __future__ import annotations

from pathlib import Path

import typer

import tabularium
from tabularium.flows.cli.options import AsJson, SpecPath
from tabularium.flows.cli.terminal import err, one_line_errors, out, print_json


def check_spec(spec: SpecPath, as_json: AsJson = False) -> None:
    """Say everything that is wrong with SPEC, or what it will publish and cost. Opens no data."""
    with one_line_errors():
        if not report_spec(spec, as_json=as_json):
            raise typer.Exit(1)


def report_spec(spec: Path, *, as_json: bool) -> bool:
    """Print what is wrong with ``spec``, or its summary; return whether it is in order."""
    checked = tabularium.check(spec)
    if as_json:
        print_json(checked.as_dict())
    elif checked:
        out.print(checked)
    else:
        err.print(checked, soft_wrap=True, highlight=False)
        count = len(checked.problems)
        err.print(f"{count} problem{'s' if count > 1 else ''}", style="bold red")
    return bool(checked)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check", epilog="Example:  tabularium check census.yaml")(check_spec)
