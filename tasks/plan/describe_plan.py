"""What is to be known of a plan: as plain values, and as sentences."""

from __future__ import annotations

from typing import Any

from tabularium.tasks.plan.aims import in_words
from tabularium.tasks.plan.bounds_like import in_figures
from tabularium.tasks.plan.finished_plan import Plan


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
        "without_targets": list(plan.rest),
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


def notes_on(plan: Plan) -> list[str]:
    """Return what is to be known of the numbers."""
    spec = plan.loaded.spec
    confidence = f"{float(spec.publication.confidence):.4g}"
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
    if plan.rest:
        part = sum(float(each.share) for each in spec.tables if each.name in plan.rest)
        said = "with what the targets leave" if plan.given else "with the share that is written"
        notes.append(
            f"Without a target, {said}: {', '.join(plan.rest)} ({part:.1%} of what tables have). "
            "Margins follow from that."
        )
    kept = [each for each in plan.kept if each.partition(":")[0] not in plan.rest]
    if kept:
        notes.append(
            "Not aimed for, and kept in the spec's proportion to the count, or to the first measure with "
            f"a target: {', '.join(kept)}."
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
