"""What was measured and how: mechanism, parameters, sensitivity, noise and scale of each measurement."""

from __future__ import annotations

from math import prod
from typing import Any

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import Event, ratio, spent
from tabularium.mechanisms.accounting.transcript import CHOOSING, GAUSSIANS
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.tasks.publish.certificate.installed_code import audits
from tabularium.tasks.publish.certificate.spending import budgets, by_measurement
from tabularium.validations.spec.checks.histogram_checks import MECHANISM
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


def measured(spec: ReleaseSpec, events: list[Event]) -> list[dict[str, Any]]:
    """Return each measurement in the order of the allocation, with its draws; equal draws stand as one."""
    limits, own = budgets(spec), by_measurement(spec, events)
    found = []
    tallies = {each.purpose: each.of for each in spec.tallies}
    for purpose in [*tallies, *(name for name in limits if name not in tallies)]:
        mechanism = None if purpose in tallies else mechanism_of(spec, purpose.partition("/")[0])
        found.append(
            {
                "name": tallies.get(purpose, purpose.partition("/")[0]),
                "level": None if purpose in tallies else purpose.partition("/")[2] or None,
                "purpose": purpose,
                "mechanism": None if mechanism is None else mechanism.name,
                "parameters": {} if mechanism is None else mechanism.parameters(),
                "per_record": str(limits[purpose]),
                "spent_per_record": str(spent(own[purpose])),
                "draws": _alike(own[purpose]),
            }
        )
    return found


def mechanism_of(spec: ReleaseSpec, name: str) -> Mechanism:
    """Return the mechanism of a table, of the array of a measure, or of a histogram."""
    table = next((each for each in spec.arrays if each.name == name), None)
    if table is not None:
        return build(table.mechanism, **table.parameters)
    histogram = next(each for each in spec.histograms if each.name == name)
    return build(MECHANISM, **{**histogram.parameters, "form": "prevalences"})


def _alike(events: list[Event]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in events:
        margins = event.purpose.startswith("error of ")
        kind = (event.primitive, event.loss, event.sensitivity, event.scale_squared, event.width, margins)
        choice = event.primitive in CHOOSING
        written = event.as_dict()
        about = found.setdefault(
            kind,
            {
                "noise": event.primitive,
                "distribution": DISTRIBUTIONS.get(event.primitive),
                "of": "errors, for margins" if margins else "choices" if choice else "numbers",
                "norm": "score" if choice else "L2" if event.primitive in GAUSSIANS else "L1",
                "sensitivity": ratio(event.sensitivity),
                "scale": written["scale"],
                "scale_squared": ratio(event.scale_squared),
                "width": ratio(event.width),
                "loss": ratio(event.loss),
                "draws": 0,
                "numbers": 0,
            },
        )
        about["draws"] += event.alike
        about["numbers"] += event.alike * prod(event.shape)
    return list(found.values())


def audited(spec: ReleaseSpec) -> dict[str, Any]:
    """Return what the last recorded audit found of each mechanism that a spec uses."""
    built = [build(array.mechanism, **array.parameters) for array in spec.arrays]
    mechanisms = [name for mechanism in built for name in mechanism.made_of]
    known, definition = audits(), spec.privacy.definition
    used = dict.fromkeys(mechanisms + [MECHANISM for _ in spec.histograms])
    return {name: known.get(name, {}).get(definition) for name in used}
