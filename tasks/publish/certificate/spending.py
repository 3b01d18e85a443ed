"""What the budget was spent on: its parts, how they are added up, and how ε, δ and ρ give one another."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from tabularium.mechanisms.accounting import Event
from tabularium.tasks.publish.certificate.certificate_parts import Charged
from tabularium.tasks.publish.guarantee import settled_beforehand
from tabularium.validations import certificate as said
from tabularium.validations.spec.model import ReleaseSpec

_Kind = Literal["tally", "table", "measure", "histogram"]
_SUMS = (
    "Tallies, tables, levels and histograms see the same records one after the other: what they cost is "
    "added (sequential composition; exact for ε and for ρ).",
    "Draws inside one scope of disjoint cells count as the dearest of its branches: a record is in one "
    "cell of a table. The evidence is in the transcript, where `branches` names scope and branch of every "
    "draw; the noise channel gave each branch its cells, and refuses a cell that another branch has.",
    "One unit changes at most `changed_records` records, k; what it loses follows by group privacy: k "
    "times the ε of a record, or k² times the ρ.",
    "Releases of one account are added too, whatever their periods: no composition in parallel over releases "
    "is claimed here.",
)


def budgets(spec: ReleaseSpec) -> dict[str, Fraction]:
    """Return what each measurement may cost one record, by its name in the transcript."""
    found = {f"{name}/{level}" if level else name: loss for (name, level), loss in spec.losses.items()}
    return found | {each.purpose: spec.privacy.record_budget * each.share for each in spec.tallies}


def by_measurement(spec: ReleaseSpec, events: Iterable[Event]) -> dict[str, list[Event]]:
    """Return the draws of each measurement of a spec; ``""`` has those that belong to none."""
    found: dict[str, list[Event]] = {purpose: [] for purpose in (*budgets(spec), "")}
    for event in events:
        found[next((each for each in found if each and _is_for(event.purpose, each)), "")].append(event)
    return found


def _is_for(named: str, purpose: str) -> bool:
    return f"{named.removeprefix('error of ')}/".startswith(f"{purpose}/")


def conversion(spec: ReleaseSpec) -> said.Conversion:
    """Return which of ε, δ and ρ is exact, and how the others follow from it."""
    privacy = spec.privacy
    if privacy.definition == "pure":
        return said.Conversion(
            exact="epsilon",
            delta="0",
            rho=privacy.budget**2 / 2,
            words="ε is exact and δ is 0. ε-DP is ρ-zCDP with ρ = ε²/2 (Bun and Steinke 2016, Proposition "
            "1.4), exact as it stands here.",
        )
    settled = settled_beforehand(spec)
    words = (
        "ρ is exact. It gives (ε, δ) with the least ε that is found over all α > 1 in Proposition 12 of "
        "Canonne, Kamath and Steinke 2020; each α gives a valid one, and ρ and δ are rounded to the safe "
        "side."
    )
    if settled:
        words += (
            " Every draw was settled before the first, so the privacy loss distributions of the draws were "
            "composed as well (dp-accounting, rounded pessimistically), and the smaller ε is stated."
        )
    return said.Conversion(exact="rho", draws_settled_beforehand=settled, words=words)


def allocation(spec: ReleaseSpec) -> tuple[said.BudgetPart, ...]:
    """Return the parts of the budget in the order of drawing; their shares add up to exactly 1."""
    record = spec.privacy.record_budget
    parts: list[tuple[_Kind, str, str | None, Fraction, Fraction]] = [
        ("tally", each.of, None, record * each.share, Fraction(0)) for each in spec.tallies
    ]
    margins = {table.name: table.margin_share or Fraction(0) for table in spec.tables}
    parts += [
        (
            "table" if name in margins else "measure" if "-" in name else "histogram",
            name,
            level or None,
            loss,
            margins.get(name, Fraction(0)),
        )
        for (name, level), loss in spec.losses.items()
    ]
    return tuple(
        said.BudgetPart(
            kind=kind,
            name=name,
            level=level,
            share=loss / record,
            per_unit=spec.privacy.budget * loss / record,
            per_record=loss,
            of_it_for_margins=margin,
        )
        for kind, name, level, loss, margin in parts
    )


def composition(spec: ReleaseSpec, events: list[Event]) -> said.Composition:
    """Return by which rules the draws are added up, and where disjoint cells are used."""
    parallel = []
    for purpose, own in by_measurement(spec, events).items():
        branches = {branch: event.alike for event in own for branch in event.branches}
        if branches:
            scopes, number = len({scope for scope, _ in branches}), sum(branches.values())
            parallel.append(said.Parallel(measurement=purpose, scopes=scopes, branches=number))
    return said.Composition(
        rule="sequential",
        changed_records=spec.privacy.changed_records,
        parallel=tuple(parallel),
        across_releases="sequential",
        words=_SUMS,
    )


def own_amount(spec: ReleaseSpec) -> Fraction:
    """Return what the main charge of the release itself is: nothing, if an earlier one paid for it."""
    return spec.main_amount if spec.measurements_of is None else Fraction(0)


def rests_on(spec: ReleaseSpec, measurements: str) -> said.RestsOn | None:
    """Return which release paid for the measurements, and how much, if it was an earlier one.

    Parameters
    ----------
    measurements
        Their digest.
    """
    if spec.measurements_of is None:
        return None
    return said.RestsOn(release_id=spec.measurements_of, measurements=measurements, amount=spec.main_amount)


def whole(spec: ReleaseSpec, charged: Charged) -> ReleaseSpec:
    """Return the spec with the budget that all charges of the release cost: every further try adds to it."""
    more = spec.tally_amount * max(len(charged.tried) - 1, 0)
    privacy = spec.privacy.model_copy(update={"budget": spec.privacy.budget + more})
    return spec.model_copy(update={"privacy": privacy})
