"""Commands about a spec: ``init``, ``check``, ``plan``, ``rehearse``."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tabularium
from tabularium.flows.cli.terminal import (
    AsJson,
    HomePath,
    SpecPath,
    TerminalReporter,
    err,
    one_line_errors,
    out,
    print_json,
    table,
    working,
)
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from tabularium import Plan

_INIT_EXAMPLES = """\
Example:  tabularium init people.csv

Example:  tabularium init survey.sav --out survey.yaml"""


def init(
    data: Annotated[Path, typer.Argument(help="A CSV, Parquet, SPSS, SAS or Stata file.", metavar="DATA")],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="New spec; default: NAME.yaml, here.", metavar="SPEC"),
    ] = None,
) -> None:
    """Write a first spec from the names and types of the columns of DATA. Reads no record.

    The first line of a CSV file must hold names. Your decisions are marked FILL IN in the spec; `tabularium
    check` lists those that are left.
    """
    with one_line_errors():
        import tabularium
        from tabularium.validations.release_spec.kinds import format_of

        spec = tabularium.init(data, out_file)
        lines = [f"Written: {spec}", f"Next: fill it in, then tabularium check {spec}"]
        if format_of(data.name) == "csv":
            lines.insert(1, f"The names are the first line of {data.name}: if it is a record, delete {spec}.")
        for line in lines:
            out.print(line, soft_wrap=True, markup=False, highlight=False)


_CHECK_EXAMPLES = """\
Example:  tabularium check census.yaml

Example:  tabularium check census.yaml --like releases/census/2025/current"""


def check_spec(
    spec: SpecPath,
    like: Annotated[
        Path | None,
        typer.Option(help="Published release that gives the sizes of cells.", metavar="RELEASE"),
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


_PLAN_EXAMPLES = """\
Example:  tabularium plan census.yaml --plot census-plan.svg --out census-planned.yaml

Example:  tabularium plan census.yaml --budget 1/2 --like releases/census/2025/ID --bounds"""


def plan_spec(
    spec: SpecPath,
    budget: Annotated[str | None, typer.Option(help="Find the best margins for this budget instead.")] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Published release whose counts are used.", metavar="RELEASE"),
    ] = None,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Also try other mechanisms on RELEASE.")
    ] = False,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Give measures the bounds that RELEASE proposes.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw budget against margin: .svg, .png or .pdf.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="New spec with the plan, in the folder of SPEC.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write it into SPEC itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the smallest budget, the shares and the levels that meet the targets of SPEC. Opens no data."""
    with one_line_errors():
        import tabularium

        target = _target(spec, out_file, write=write)
        _check_plot(plot)
        release = None if like is None else tabularium.open(like)
        with working("planning" if release is None else "planning, with simulated releases"):
            result = tabularium.plan(spec, budget=budget, like=release, mechanisms=mechanisms, bounds=bounds)
        if plot is not None:
            result.draw(plot)
        if target is not None:
            result.save(target, overwrite=write)
        if as_json:
            print_json(result.as_dict())
        else:
            show_plan(result)
            for made in (plot, target):
                if made is not None:
                    out.print(f"Written: {made}", soft_wrap=True, highlight=False)


def _target(spec: Path, out_file: Path | None, *, write: bool) -> Path | None:
    """Return the spec file to write; refuse one that the options do not settle."""
    if out_file is not None and write:
        raise InputError("--out and --write are two files", where="--write", hint="choose one of them")
    if out_file is None:
        return spec if write else None
    if os.path.lexists(out_file):
        raise InputError("this file exists", where=f"--out {out_file}", hint="name a new one")
    from tabularium._plan import require_same_folder

    require_same_folder(out_file, spec)
    return out_file


def _check_plot(plot: Path | None) -> None:
    from tabularium.tasks.plan.finished_plan import FORMATS

    if plot is not None and plot.suffix.lower() not in FORMATS:
        raise InputError("is no picture", where=f"--plot {plot}", hint=f"end it in {', '.join(FORMATS)}")


def show_plan(result: Plan) -> None:
    """Print a plan: what it costs, what each level gets and why, and what other budgets would give."""
    from tabularium.tasks.plan.targets import in_figures

    plan = result._found
    privacy = plan.loaded.spec.privacy
    out.print(
        f"{plan.loaded.spec.product}: {privacy.symbol} = {_number(plan.budget)} for one {privacy.protects}, "
        f"{privacy.relation}",
        highlight=False,
    )
    grid = table("cells", "target", ">wanted ±", ">margin ±", ">of budget", ">drives")
    for margin in plan.margins:
        wanted = "-" if margin.wanted is None else in_figures(margin.wanted)
        drives = f"{margin.drives:.0%}" if margin.drives >= 0.005 else "-"
        part = f"{float(margin.part):.1%}" if margin.part else "added up"
        grid.add_row(margin.where, margin.target or "-", wanted, in_figures(margin.margin), part, drives)
    out.print(grid)
    budgets = table(
        f"± at {privacy.symbol} =", *(f">{_number(b)}" for b, _ in plan.trade_off), title="Other budgets"
    )
    for index, margin in enumerate(plan.margins):
        budgets.add_row(margin.where, *(in_figures(margins[index]) for _, margins in plan.trade_off))
    out.print(budgets)
    for line in result.notes:
        out.print(line, soft_wrap=True, highlight=False, markup=False)


def _number(number: Fraction) -> str:
    return f"{float(number):.6g}" if Fraction(f"{float(number):.6g}") == number else str(number)


_REHEARSE_EXAMPLES = """\
Example:  tabularium rehearse census.yaml --rows 50000

Example:  tabularium rehearse census.yaml --like releases/census/2025/current --out /tmp/rehearsal"""


def rehearse(
    spec: SpecPath,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Records; default: those of RELEASE or SPEC, else 10 000."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Published release that the records resemble.", metavar="RELEASE"),
    ] = None,
    period: Annotated[str | None, typer.Option(help="Period, instead of that of SPEC.")] = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Default: rehearsal, in the folder of SPEC.", metavar="DIR"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same records.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Try SPEC on made-up records, through the whole chain. Opens no data and no home, spends nothing.

    Writes tables, margins, a report, and rehearsal.json instead of a certificate, all marked. It replaces a
    rehearsal in DIR, unless DIR holds other files.
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
    """Add the commands."""
    app.command(epilog=_INIT_EXAMPLES)(init)
    app.command(name="check", epilog=_CHECK_EXAMPLES)(check_spec)
    app.command(name="plan", epilog=_PLAN_EXAMPLES)(plan_spec)
    app.command(epilog=_REHEARSE_EXAMPLES)(rehearse)
