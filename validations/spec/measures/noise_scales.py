"""How large the noise of a measurement will be, as far as that is settled before anything is measured."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.inference import laplace_margin
from tabularium.validations.spec.measures.measure_fields import CHOICE_MARGIN
from tabularium.validations.spec.parts.table_parts import Table

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
    # Of a tree under pure differential privacy each level has its part of ε, under zCDP of ρ.
    folds = measure.levels if definition == "pure" else math.sqrt(measure.levels)
    if measure.form == "choice":  # the scale by which it misses, in records; ε costs ε²/2 there
        folds = 2 * float(max(measure.rank, 1 - measure.rank))
        loss *= 1 - (measure.margin_share or CHOICE_MARGIN)
    scale, margin = noise_of(plain, loss, confidence, largest=measure.sensitivities[group] * folds)
    unit = 1 if measure.form in ("tree", "choice") else measure.step
    in_unit = None if margin is None else math.ceil(margin * unit)
    # Of any other no number of its array is published.
    return (scale or 0) * float(unit), in_unit if measure.kind == "sum" else None


def noise_of(
    mechanism: str, loss: Fraction, confidence: float, *, largest: float = 1
) -> tuple[float | None, int | None]:
    """Return the scale of noise that costs ``loss``, and a half-width that holds it with this confidence.

    ``largest``: the most by which one record changes what is measured.
    """
    if mechanism in _LAPLACE:
        scale = float(largest / float(loss))
        return scale, laplace_margin(scale, confidence)
    if mechanism in _GAUSSIAN:
        scale = largest * math.sqrt(1 / (2 * float(loss)))
        return scale, math.ceil(NormalDist().inv_cdf(0.5 + confidence / 2) * scale)
    return None, None
