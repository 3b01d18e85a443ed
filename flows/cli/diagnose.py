"""``tabularium diagnose``: why the data of a run were refused, from the home where it ran."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import one_line_errors, out, print_json, table
from tabularium.tasks.runtime.diagnoses import Diagnosis, find, names
from tabularium.tasks.runtime.home import Home

_MOST = 10


def diagnose(
    run: Annotated[
        str | None, typer.Argument(help="Name of the run, as its last line said; the last one if absent.")
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show why the data of a run were refused: rules, columns, kinds of fault, lines; no value, no count.

    Those are known from the data and paid for by no budget: show them to nobody who may not see the data.

    With --json the run, or a list of all that are kept, the oldest first, with these fields:

    - run, spec, product, period: what was refused
    - stage: which stage refused; message: the line that was shown then
    - findings: the reasons one by one, each with rule, column, kind, file and line
    """
    with one_line_errors():
        installation = Home.found(home)
        kept = names(installation)
        if as_json:
            print_json(
                asdict(find(installation, run))
                if run
                else [asdict(find(installation, name)) for name in kept]
            )
            return
        if not (run or kept):
            out.print(f"No data were refused in {installation.path}", soft_wrap=True, markup=False)
            out.print(
                "Noisy rules and invariants that stopped a run are not kept here: their line was on the "
                "terminal and in the flow run.",
                soft_wrap=True,
            )
            return
        _show(find(installation, run or kept[-1]))
        if not run and kept[:-1]:
            earlier = ", ".join(reversed(kept[-1 - _MOST : -1]))
            out.print(Text(f"Earlier: {earlier}"))


def _show(diagnosis: Diagnosis) -> None:
    out.print(
        Text.assemble((diagnosis.run, "bold"), f"  {diagnosis.product}, {diagnosis.period}"), soft_wrap=True
    )
    out.print(Text(f"  {diagnosis.message}"))
    columns = [
        ("rule", [finding.rule for finding in diagnosis.findings]),
        ("column", [finding.column for finding in diagnosis.findings]),
        ("kind", [finding.kind for finding in diagnosis.findings]),
        ("file", [finding.file for finding in diagnosis.findings]),
        (">line", ["" if finding.line is None else str(finding.line) for finding in diagnosis.findings]),
    ]
    used = [(name, values) for name, values in columns if any(values)]
    if used:
        rows = table(*(name for name, _ in used))
        for row in zip(*(values for _, values in used), strict=True):
            rows.add_row(*map(Text, row))
        out.print(rows)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium diagnose 20261122T143000-1f3a9c2e")(diagnose)
