"""How large the noise of a measurement will be, as far as that is settled before anything is measured."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.inference import laplace_margin
from tabularium.validations.release_spec.measures.measure import noise_scale
from tabularium.validations.release_spec.tables import Table

_LAPLACE = ("identity", "cells")  # one discrete Laplace draw per cell
_GAUSSIAN = ("gaussian",)  # one discrete Gaussian draw per cell


def array_noise(
    table: Table, loss: Fraction, confidence: float, definition: Definition, group: int = 0
) -> tuple[float | None, int | None]:
    """Return scale and margin of a level; of a sum or mean in the unit of its column, and rounded up.

    ``group``: of which group, where bounds differ by groups.
    """
    measure = table.measured
    if measure is None:
        return noise_of(table.mechanism, loss, confidence)
    plain = "identity" if definition == "pure" else "gaussian"
    part, folds = measure.noise_terms(loss, definition)
    scale, margin = noise_of(plain, part, confidence, largest=measure.sensitivities[group] * folds)
    in_unit = None if margin is None else math.ceil(margin * measure.noise_unit)
    # Of any other no number of its array is published.
    return (scale or 0) * float(measure.noise_unit), in_unit if measure.linear else None


def noise_of(
    mechanism: str, loss: Fraction, confidence: float, *, largest: float = 1
) -> tuple[float | None, int | None]:
    """Return the scale of noise that costs ``loss``, and a half-width that holds it with this confidence.

    ``largest``: the most by which one record changes what is measured.
    """
    if mechanism in _LAPLACE:
        scale = noise_scale("pure", loss, largest)
        return scale, laplace_margin(scale, confidence)
    if mechanism in _GAUSSIAN:
        scale = noise_scale("zcdp", loss, largest)
        return scale, math.ceil(NormalDist().inv_cdf(0.5 + confidence / 2) * scale)
    return None, None
