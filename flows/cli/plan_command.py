"""``tabularium plan``: what wanted margins of error cost, and the shares and levels that meet them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabularium._plan import see_beside
from tabularium.flows.cli.options import AsJson, SpecPath
from tabularium.flows.cli.terminal import one_line_errors, out, print_json, table, working
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.bounds_like import in_figures

if TYPE_CHECKING:
    from tabularium import Plan

_EXAMPLES = """\
Example:  tabularium plan census.yaml --plot census-plan.svg --out census-planned.yaml

Example:  tabularium plan census.yaml --budget 1/2 --like releases/census/2025/ID --bounds"""


def plan_spec(
    spec: SpecPath,
    budget: Annotated[
        str | None, typer.Option(help="Find the best margins for this budget, not the smallest budget.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Use the counts of this published release.", metavar="RELEASE"),
    ] = None,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Also try other mechanisms on the counts of RELEASE.")
    ] = False,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Give measures the bounds that RELEASE proposes.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw budget against margin: .svg, .png or .pdf.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="New spec file with the plan, in the folder of SPEC.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the plan into SPEC itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the smallest budget, the shares and the levels that meet the targets of SPEC. Opens no data."""
    with one_line_errors():
        import tabularium

        target = _target(spec, out_file, write=write)
        _check_plot(plot)
        release = None if like is None else tabularium.open(like)
        with working("planning" if release is None else "planning, with simulated releases"):
            found = tabularium.plan(spec, budget=budget, like=release, mechanisms=mechanisms, bounds=bounds)
        if plot is not None:
            found.draw(plot)
        if target is not None:
            found.save(target, overwrite=write)
        if as_json:
            print_json(found.as_dict())
        else:
            show_plan(found)
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
    see_beside(out_file, spec)
    return out_file


def _check_plot(plot: Path | None) -> None:
    from tabularium.tasks.plan.trade_off_plot import FORMATS

    if plot is not None and plot.suffix.lower() not in FORMATS:
        raise InputError("is no picture", where=f"--plot {plot}", hint=f"end it in {', '.join(FORMATS)}")


def show_plan(found: Plan) -> None:
    """Print a plan: what it costs, what each level gets and why, and what other budgets would give."""
    plan = found._found
    privacy = plan.loaded.spec.privacy
    out.print(
        f"{plan.loaded.spec.product}: {privacy.symbol} = {_number(plan.budget)} for one {privacy.protects}, "
        f"{privacy.relation}",
        highlight=False,
    )
    grid = table("cells", "target", ">wanted ±", ">margin ±", ">of budget", ">drives")
    for each in plan.margins:
        wanted = "-" if each.wanted is None else in_figures(each.wanted)
        drives = f"{each.drives:.0%}" if each.drives >= 0.005 else "-"
        part = f"{float(each.part):.1%}" if each.part else "added up"
        grid.add_row(each.where, each.target or "-", wanted, in_figures(each.margin), part, drives)
    out.print(grid)
    budgets = table(
        f"± at {privacy.symbol} =", *(f">{_number(b)}" for b, _ in plan.trade_off), title="Other budgets"
    )
    for place, each in enumerate(plan.margins):
        budgets.add_row(each.where, *(in_figures(margins[place]) for _, margins in plan.trade_off))
    out.print(budgets)
    for line in found.notes:
        out.print(line, soft_wrap=True, highlight=False, markup=False)


def _number(number: Fraction) -> str:
    return f"{float(number):.6g}" if Fraction(f"{float(number):.6g}") == number else str(number)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan", epilog=_EXAMPLES)(plan_spec)
