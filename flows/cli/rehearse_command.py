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
        typer.Option(min=1, help="Number of records; as many as RELEASE counts or SPEC expects, or 10 000."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Make records like the tables of this published release.", metavar="RELEASE"),
    ] = None,
    period: Annotated[str | None, typer.Option(help="For this period instead.")] = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the outcome; rehearsal beside SPEC.", metavar="DIR"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same records.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Try SPEC on made-up records, through the whole chain. Opens no data and no home, spends nothing.

    What comes out says everywhere that it is a rehearsal: tables, margins and a report to look at, and
    rehearsal.json in the place of a certificate. A rehearsal that is in DIR is replaced, unless other files
    lie beside it.
    """
    with one_line_errors():
        import tabularium
        from tabularium.tasks.runtime.progress import reporting_to

        reporter = TerminalReporter(quiet=as_json)
        with reporting_to(reporter):
            release = tabularium.rehearse(
                spec, rows=rows, like=like, period=period, folder=out_folder, seed=seed
            )
        if as_json:
            made_up = release._made_up and release._made_up.document()
            summary = {"folder": str(release.folder), "rehearsal": made_up, "tables": list(release)}
            print_json({**summary, "stages": reporter.stages})
            return
        out.print(release, highlight=False)
        out.print(f"Look at: {release.folder / 'report.html'}", soft_wrap=True, markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(rehearse)
