"""``tabularium check``: every mistake of a spec at once, or what it will publish, cost and be worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tabularium
from tabularium.flows.cli.options import AsJson, HomePath, SpecPath
from tabularium.flows.cli.terminal import err, one_line_errors, out, print_json, working

_EXAMPLES = """\
Example:  tabularium check census.yaml

Example:  tabularium check census.yaml --like releases/census/2025/current"""


def check_spec(
    spec: SpecPath,
    like: Annotated[
        Path | None,
        typer.Option(help="Take the sizes of cells from this published release.", metavar="RELEASE"),
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """List every mistake in SPEC, or what it will publish, its cost and accuracy. Opens no data."""
    with one_line_errors():
        with working("checking"):
            checked = tabularium.check(spec, like=like, home=home)
        if as_json:
            print_json(checked.as_dict())
        elif checked:
            out.print(checked)
        else:
            err.print(checked, soft_wrap=True, highlight=False)
            count = len(checked.problems)
            err.print(f"{count} problem{'s' if count > 1 else ''}", style="bold red")
        if not checked:
            raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check", epilog=_EXAMPLES)(check_spec)
