"""What was measured and how: mechanism, parameters, sensitivity, noise and scale of each measurement."""

from __future__ import annotations

from math import prod

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import Event, spent
from tabularium.mechanisms.accounting.transcript import CHOOSING, GAUSSIANS
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.tasks.publish.certificate.installed_code import audits
from tabularium.tasks.publish.certificate.spending import budgets, by_measurement
from tabularium.validations import certificate as said
from tabularium.validations.spec.checks.table_checks import MECHANISM
from tabularium.validations.spec.model import ReleaseSpec

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
