"""``tabularium plan``: what wanted margins of error cost, and the shares and levels that meet them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabularium.flows.cli.options import AsJson, SpecPath
from tabularium.flows.cli.terminal import one_line_errors, out, print_json, table, working
from tabularium.flows.sample.file_writing import written_aside
from tabularium.mechanisms.errors import InputError, MechanismError
from tabularium.tasks.plan.figures import in_figures

if TYPE_CHECKING:
    from tabularium.tasks.plan.finished_plan import Plan

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
        typer.Option(help="Judge by the counts of this published release.", metavar="RELEASE"),
    ] = None,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Try other mechanisms on the counts of RELEASE, too.")
    ] = False,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Give measures the bounds that RELEASE proposes.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw budget against margin: .svg, .png or .pdf.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="New spec file with the plan in it, beside SPEC.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the plan into SPEC itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the smallest budget, the shares and the levels for the targets of SPEC. Opens no data."""
    with one_line_errors():
        from tabularium.tasks.plan.planning import plan
        from tabularium.tasks.plan.trade_off_plot import draw_trade_off
        from tabularium.tasks.publish.read_release import Released
        from tabularium.validations.spec.load import load_spec

        target = _target(spec, out_file, write=write)
        _check_plot(plot)
        given = None if budget is None else _amount(budget)
        release = None if like is None else Released.open(like, whole=True)
        loaded = load_spec(spec)
        with working("planning" if release is None else "planning, with simulated releases"):
            found = plan(loaded, budget=given, like=release, mechanisms=mechanisms, bounds=bounds)
        if plot is not None:
            draw_trade_off(found, plot)
        if target is not None:
            write_plan(found, target, overwrite=write)
        if as_json:
            print_json(plan_as_json(found))
        else:
            show_plan(found)
            for made in (plot, target):
                if made is not None:
                    out.print(f"Written: {made}", soft_wrap=True, highlight=False)


def _target(spec: Path, out_file: Path | None, *, write: bool) -> Path | None:
    """Return the spec file to write; refuse one that the options do not settle."""
    if out_file is not None and write:
        raise InputError("--out and --write are two files", where="--write", mend="choose one of them")
    if out_file is None:
        return spec if write else None
    if os.path.lexists(out_file):
        raise InputError("this file exists", where=f"--out {out_file}", mend="name a new one")
    if out_file.resolve().parent != spec.resolve().parent:
        raise InputError(
            "a spec names its code lists and its source by where it lies",
            where=f"--out {out_file}",
            mend=f"write it beside {spec.name}",
        )
    return out_file


def _check_plot(plot: Path | None) -> None:
    from tabularium.tasks.plan.trade_off_plot import FORMATS

    if plot is not None and plot.suffix.lower() not in FORMATS:
        raise InputError("is no picture", where=f"--plot {plot}", mend=f"end it in {', '.join(FORMATS)}")


def _amount(text: str) -> Fraction:
    from tabularium.mechanisms.accounting import exact_amount

    try:
        found = exact_amount(text)
    except MechanismError:
        found = Fraction(0)
    if found <= 0:
        raise InputError("this is no budget", where="--budget", mend='write "1/3" or "0.1"')
    return found


def write_plan(plan: Plan, target: Path, *, overwrite: bool) -> None:
    """Write the plan's spec file, once it has been read back.

    Raises
    ------
    InputError
        The file exists, or cannot be written.
    """
    from tabularium.tasks.plan.spec_edits import check_written, planned_text

    with written_aside([target], overwrite=overwrite) as (aside,):
        aside.write_text(planned_text(plan), encoding="utf-8")
        check_written(aside, plan)


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values; exact fractions as text."""
    spec = plan.loaded.spec
    return {
        "product": spec.product,
        "budget": str(plan.budget),
        "definition": spec.privacy.definition,
        "confidence": str(spec.publication.confidence),
        "could_be_smaller_by_at_most": plan.gap,
        "judged_on": None if plan.tuning is None else plan.tuning.model_dump(),
        "margins_are": "simulated" if plan.simulated else "linear",
        "tables": [
            {
                "name": each.name,
                "share": str(each.share),
                "levels": {name: str(share) for name, share in each.levels.items()},
                "measures": {name: str(measure.share) for name, measure in each.measures.items()},
            }
            for each in spec.tables
        ],
        "not_planned": list(plan.kept),
        "planned_without_prior": _with_prior(plan),
        "bounds": [
            {
                "table": each.table,
                "measure": each.measure,
                "from": each.start,
                "to": each.end,
                "step": str(each.step),
                "proposed": each.new,
                "taken_over": each.new and plan.bounded,
                "why": each.why,
            }
            for each in plan.bounds
        ],
        "margins": [
            {
                "table": each.table.partition("-")[0],
                "measure": each.measure,
                "level": each.level,
                "target": each.target,
                "wanted": each.wanted,
                "margin": round(each.margin, 3),
                "part_of_budget": str(each.part),
                "drives": round(each.drives, 4),
            }
            for each in plan.margins
        ],
        "trade_off": [
            {"budget": str(budget), "margins": [round(margin, 3) for margin in margins]}
            for budget, margins in plan.trade_off
        ],
        "mechanisms": [
            {
                "table": each.table,
                "level": each.level,
                "mechanism": each.mechanism,
                "error_of_plain_noise": round(each.error, 3),
                "better": each.better,
            }
            for each in plan.proposals
        ],
    }


def show_plan(plan: Plan) -> None:
    """Print a plan: what it costs, what each level gets and why, and what other budgets would give."""
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
    for line in _notes(plan):
        out.print(line, soft_wrap=True, highlight=False, markup=False)


def _notes(plan: Plan) -> list[str]:
    """Return what is to be known of the numbers."""
    from tabularium.tasks.plan.aims import in_words

    confidence = f"{float(plan.loaded.spec.publication.confidence):.4g}"
    of = f"± is the margin at confidence {confidence}"
    if plan.simulated and plan.tuning is not None:
        notes = [
            f"{of} of releases simulated on the counts of {plan.tuning.release}, over the cells that hold "
            "something; levels of few cells have that of the linear estimate."
        ]
    else:
        notes = [
            f"{of} of the worst cell after consistency; small counts have less, which --like RELEASE shows."
        ]
    first = max(plan.margins, key=lambda each: each.drives)
    if first.target:
        notes.append(f"Costs most: {first.where} ({first.target}), {first.drives:.0%} of the budget.")
    if plan.gap is not None:
        notes.append(f"Other shares could save at most {100 * plan.gap + 0.05:.1f} % of this budget.")
    if plan.simulated and any(each.measure for each in plan.margins):
        notes.append("Margins of measures are those of the linear estimate.")
    if _with_prior(plan):
        notes.append(
            f"Planned without their prior: {', '.join(_with_prior(plan))}. Drawn towards it margins are "
            "mostly narrower; by how much, only the new noisy counts will show."
        )
    if plan.kept:
        notes.append(
            "Not aimed for, and kept in the spec's proportion to the count, or to the first measure with "
            f"a target: {', '.join(plan.kept)}."
        )
    notes += [
        f"{'Taken over' if plan.bounded else 'Proposed'} for {each.table}: {each.measure}: from "
        f"{each.start:,} to {each.end:,} by {float(each.step):g}; {each.why}."
        if each.new
        else f"No bounds proposed for {each.table}: {each.measure}: {each.why}."
        for each in plan.bounds
    ]
    if plan.closer:
        notes.append(
            f"Narrower than shown: {', '.join(in_words(each, '') for each in plan.closer)}, which agree with "
            "each other in a way that is not worked out (such as nested codings of uneven groups), or have "
            "cells that are exactly zero."
        )
    notes += [
        f"Wider than wanted: {each.where}, ±{in_figures(each.margin)} and not "
        f"±{in_figures(each.wanted or 0)}."
        for each in plan.missed
    ]
    notes += [
        f"{each.where}: {each.mechanism} has {each.error:.0%} of the error of plain noise here, and "
        "margins of another kind: docs/how-to/choose-a-mechanism.md."
        for each in plan.proposals
        if each.better
    ]
    return notes


def _with_prior(plan: Plan) -> list[str]:
    """Return the tables that are to be drawn towards an earlier release, or the level above."""
    return [each.name for each in plan.loaded.spec.tables if each.prior is not None]


def _number(number: Fraction) -> str:
    return f"{float(number):.6g}" if Fraction(f"{float(number):.6g}") == number else str(number)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan", epilog=_EXAMPLES)(plan_spec)
