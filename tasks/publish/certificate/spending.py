"""What the budget was spent on: its parts, how they are added up, and how ε, δ and ρ give one another."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import prod
from typing import Literal

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import Event, spent
from tabularium.mechanisms.accounting.transcript import CHOOSING, GAUSSIANS
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.tasks.publish.certificate.certificate_parts import Charged
from tabularium.tasks.publish.certificate.installed_code import audits
from tabularium.tasks.publish.guarantee import settled_beforehand
from tabularium.validations import certificate as said
from tabularium.validations.release_spec.checks.table_checks import MECHANISM
from tabularium.validations.release_spec.model import ReleaseSpec

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


def with_total_budget(spec: ReleaseSpec, charged: Charged) -> ReleaseSpec:
    """Return the spec with the budget that all charges of the release cost: every further try adds to it."""
    more = spec.tally_amount * max(len(charged.tried) - 1, 0)
    privacy = spec.privacy.model_copy(update={"budget": spec.privacy.budget + more})
    return spec.model_copy(update={"privacy": privacy})


# --- what was measured and how: mechanism, parameters, sensitivity, noise and scale of each measurement

_LAPLACE = "integer noise z with P(z) ∝ exp(-|z|/scale)"
_GAUSSIAN = "integer noise z with P(z) ∝ exp(-z²/(2·scale²))"
_LATTICE = "; values and noise in steps of `width`"
DISTRIBUTIONS = {
    "discrete_laplace": _LAPLACE,
    "discrete_gaussian": _GAUSSIAN,
    "lattice_laplace": _LAPLACE + _LATTICE,
    "lattice_gaussian": _GAUSSIAN + _LATTICE,
    "exponential": "one candidate, with P ∝ exp(-(best score - score)/scale)",
    "permute_and_flip": "a random one of the candidates whose coin shows heads, with P(heads) = exp(-(best "
    "score - score)/scale)",
    "least_noisy_partition": "the partition of least cost, each cost with " + _LAPLACE,
}


def measured(spec: ReleaseSpec, events: list[Event]) -> tuple[said.Measured, ...]:
    """Return each measurement in the order of the allocation, with its draws; equal draws stand as one."""
    limits, own = budgets(spec), by_measurement(spec, events)
    found = []
    tallies = {each.purpose: each.of for each in spec.tallies}
    for purpose in [*tallies, *(name for name in limits if name not in tallies)]:
        mechanism = None if purpose in tallies else mechanism_of(spec, purpose.partition("/")[0])
        found.append(
            said.Measured(
                name=tallies.get(purpose, purpose.partition("/")[0]),
                level=None if purpose in tallies else purpose.partition("/")[2] or None,
                purpose=purpose,
                mechanism=None if mechanism is None else mechanism.name,
                parameters={} if mechanism is None else mechanism.parameters(),
                per_record=limits[purpose],
                spent_per_record=spent(own[purpose]),
                draws=_alike(own[purpose]),
            )
        )
    return tuple(found)


def mechanism_of(spec: ReleaseSpec, name: str) -> Mechanism:
    """Return the mechanism of a table, of the array of a measure, or of a histogram."""
    table = next((each for each in spec.arrays if each.name == name), None)
    if table is not None:
        return build(table.mechanism, **table.parameters)
    histogram = next(each for each in spec.histograms if each.name == name)
    return build(MECHANISM, **{**histogram.parameters, "form": "prevalences"})


def _alike(events: list[Event]) -> tuple[said.Draws, ...]:
    """Return the draws of a measurement; such as differ in nothing but their cells stand as one."""
    kinds: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        margins = event.purpose.startswith("error of ")
        kind = (event.primitive, event.loss, event.sensitivity, event.scale_squared, event.width, margins)
        kinds.setdefault(kind, []).append(event)
    return tuple(_draws(alike) for alike in kinds.values())


def _draws(alike: list[Event]) -> said.Draws:
    event, one = alike[0], said.Draw.of(alike[0])
    margins, choice = event.purpose.startswith("error of "), event.primitive in CHOOSING
    return said.Draws(
        noise=one.primitive,
        distribution=DISTRIBUTIONS[event.primitive],
        of="errors, for margins" if margins else "choices" if choice else "numbers",
        norm="score" if choice else "L2" if event.primitive in GAUSSIANS else "L1",
        sensitivity=one.sensitivity,
        scale=one.scale,
        scale_squared=one.scale_squared,
        width=one.width,
        loss=one.loss,
        draws=sum(each.alike for each in alike),
        numbers=sum(each.alike * prod(each.shape) for each in alike),
    )


def audited(spec: ReleaseSpec) -> dict[str, said.Audit | None]:
    """Return what the last recorded audit found of each mechanism that a spec uses."""
    built = [build(array.mechanism, **array.parameters) for array in spec.arrays]
    mechanisms = [name for mechanism in built for name in mechanism.components]
    known, definition = audits(), spec.privacy.definition
    used = dict.fromkeys(mechanisms + [MECHANISM for _ in spec.histograms])
    return {name: known.get((name, definition)) for name in used}
