"""``tabularium diff``: what differs between two specs, or between two releases of a product."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tabularium
from tabularium.flows.cli.options import AsJson
from tabularium.flows.cli.terminal import one_line_errors, out, print_json, table, working

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium import Changes, SpecDiff

_EXAMPLES = """\
Example:  tabularium diff people.yaml people-planned.yaml

Example:  tabularium diff releases/people/2025/current releases/people/2026/current --json"""


def diff(
    before: Annotated[Path, typer.Argument(help="A spec, or the folder of a release.", metavar="A")],
    after: Annotated[Path, typer.Argument(help="Another of the same kind.", metavar="B")],
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", help="Exit with 1 if the specs differ, or the two releases are not the same one."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what differs between A and B. Opens no data and costs no budget.

    For two specs: every field, with its effect on cost and margins. For two releases of a product: how many
    cells changed by more than the margin of the difference, how many would by chance, and what was done
    differently.
    """
    with one_line_errors():
        with working("comparing"):
            found = tabularium.diff(before, after)
            said = found.as_dict()
        if as_json:
            print_json(said)
        elif isinstance(found, tabularium.Changes):
            _show_changes(found)
        else:
            _show_specs(found)
        if exit_code and found:
            raise typer.Exit(1)


def _show_specs(found: SpecDiff) -> None:
    _say(found._headline())
    _print(found.fields, "Fields")
    changed = found.margins[found.margins["before"].fillna(-1) != found.margins["after"].fillna(-1)]
    _print(changed, "Margins of a measured cell that become others")


def _show_changes(found: Changes) -> None:
    _say(found._headline())
    _print(
        found.summary,
        "Cells that changed by more than the margin of the difference, and how many would by chance",
    )
    _print(found.fields, "Made otherwise")


def _print(frame: DataFrame, title: str) -> None:
    if frame.empty:
        return
    numbers = {name for name in frame if frame[name].dtype.kind in "if"}
    grid = table(*(f">{name}" if name in numbers else str(name) for name in frame), title=title)
    for row in frame.itertuples(index=False):
        grid.add_row(*map(_written, row))
    out.print(grid)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:g}"
    return "-" if value is None else str(value)


def _say(text: str) -> None:
    out.print(text, soft_wrap=True, highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="diff", epilog=_EXAMPLES)(diff)
