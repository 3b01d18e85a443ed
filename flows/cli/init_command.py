"""``tabularium init``: a first spec for a file of data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.terminal import one_line_errors, out

_EXAMPLES = """\
Example:  tabularium init people.csv

Example:  tabularium init survey.sav --out survey.yaml"""


def init(
    data: Annotated[Path, typer.Argument(help="A CSV, Parquet, SPSS, SAS or Stata file.", metavar="DATA")],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="The new spec; default: NAME.yaml in the current folder.", metavar="SPEC"),
    ] = None,
) -> None:
    """Write a first spec from the names and types of the columns of DATA. Reads no record.

    The first line of a CSV file must hold names, not a record. Your decisions are marked FILL IN in the spec;
    `tabularium check` lists those that are left.
    """
    with one_line_errors():
        import tabularium
        from tabularium.validations.spec.kinds import format_of

        spec = tabularium.init(data, out_file)
        lines = [f"Written: {spec}", f"Next: fill it in, then tabularium check {spec}"]
        if format_of(data.name) == "csv":
            lines.insert(1, f"The names are the first line of {data.name}: if it is a record, delete {spec}.")
        for line in lines:
            out.print(line, soft_wrap=True, markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(init)
