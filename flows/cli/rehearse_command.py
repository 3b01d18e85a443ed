"""``tabularium rehearse``: a spec tried on made-up records, through the whole chain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.options import AsJson, SpecPath
from tabularium.flows.cli.terminal import TerminalReporter, one_line_errors, out, print_json

_EXAMPLES = """\
Example:  tabularium rehearse census.yaml --rows 50000

Example:  tabularium rehearse census.yaml --like releases/census/2025/current --out /tmp/rehearsal"""


def rehearse(
    spec: SpecPath,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of records; default: what RELEASE counts or SPEC expects, else 10 000."
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Make records like the tables of this published release.", metavar="RELEASE"),
    ] = None,
    period: Annotated[str | None, typer.Option(help="For this period instead.")] = None,
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder to write; default: rehearsal, in the folder of SPEC.", metavar="DIR"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same records.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Try SPEC on made-up records, through the whole chain. Opens no data and no home, spends nothing.

    Writes tables, margins, a report, and rehearsal.json instead of a certificate, all marked as a rehearsal.
    It replaces a rehearsal in DIR, unless DIR holds other files.
    """
    with one_line_errors():
        import tabularium
        from tabularium.tasks.runtime.progress import reporting_to

        reporter = TerminalReporter(quiet=as_json)
        with reporting_to(reporter):
            found = tabularium.rehearse(
                spec, rows=rows, like=like, period=period, folder=out_folder, seed=seed
            )
        if as_json:
            made_up = found._made_up and found._made_up.document()
            told = {"folder": str(found.folder), "rehearsal": made_up, "tables": list(found)}
            print_json({**told, "stages": reporter.stages})
            return
        out.print(found, highlight=False)
        out.print(f"Look at: {found.folder / 'report.html'}", soft_wrap=True, markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(rehearse)
