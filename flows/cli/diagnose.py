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
        str | None, typer.Argument(help="Name of the run, from its last line; default: the last run.")
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show why the data of a run were refused: rules, columns, kinds of fault, lines; no value, no count.

    This comes from the data and no budget covers it: show it only to people who may see the data.

    With --json: the run, or a list of all that are kept, oldest first, with these fields:

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


def _show(found: Diagnosis) -> None:
    out.print(Text.assemble((found.run, "bold"), f"  {found.product}, {found.period}"), soft_wrap=True)
    out.print(Text(f"  {found.message}"))
    columns = [
        ("rule", [each.rule for each in found.findings]),
        ("column", [each.column for each in found.findings]),
        ("kind", [each.kind for each in found.findings]),
        ("file", [each.file for each in found.findings]),
        (">line", ["" if each.line is None else str(each.line) for each in found.findings]),
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
