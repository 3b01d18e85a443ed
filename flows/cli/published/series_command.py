"""``tabularium series``: all current periods of a product in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tabularium
from tabularium.flows.cli.terminal import one_line_errors, out, working

_EXAMPLES = """\
Example:  tabularium series releases/persons --table age_by_sex --level region --out persons.csv

Example:  tabularium series releases/persons --out persons.duckdb"""


def series(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a product: holds PERIOD/RELEASE.", metavar="FOLDER")
    ],
    out_file: Annotated[
        Path, typer.Option("--out", help="File to write: .csv, .parquet or .duckdb.", metavar="FILE")
    ],
    table: Annotated[
        str | None, typer.Option(help="The table, for .csv and .parquet, if there are several.")
    ] = None,
    level: Annotated[
        str | None, typer.Option(help="The level, for .csv and .parquet; default: the last one.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Do not compare the files with the certificates first.")
    ] = False,
) -> None:
    """Write all current periods of a product as one table with a column `period`. Costs no budget.

    A .duckdb file gets every table at every level, as TABLE__LEVEL: rows of two levels count the same people
    and are never in one table. Withdrawn releases are left out; an unreadable one is an error.
    """
    with one_line_errors():
        with working("reading releases"):
            found = tabularium.series(folder, verify=not unverified)
            found.write(out_file, table=table, level=level, overwrite=overwrite)
        periods = [each.period for each in found.releases]
        text = f"{len(periods)} periods, {periods[0]} to {periods[-1]}: {out_file}"
        out.print(text, soft_wrap=True, highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="series", epilog=_EXAMPLES)(series)
