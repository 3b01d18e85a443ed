"""Denoise: noise on every cell, and then as much of it removed as the noisy table itself allows.

What one record changes: one cell, by 1. The only look at the counts is one draw of discrete Laplace noise of
scale 1/ε per cell, as in ``identity``: ε-differentially private by parallel composition over disjoint cells.
Under zCDP it is one draw of discrete Gaussian noise, σ² = 1/2ρ, as in ``gaussian``. All that follows sees the
noisy counts only: post-processing, which costs nothing. The noisy counts stay in the measurement.

Neighbouring cells are averaged over boxes of a dyadic grid: over all recursive partitions into boxes at once,
under a prior fitted to the noisy table (``mixture``; ``sparse``, where halves of boxes may be empty), or by
setting to zero Haar coefficients that mere noise may give (``wavelet``). Form and strength are chosen by an
unbiased estimate of the mean squared error (``scoring``). Only the sparse form does not keep the total: it
must be asked for, and the noisy table decides whether it is taken (``forms.mostly_empty``).

With ``workload="ranges"`` sums over boxes are measured too; for that, and why it is private, see
``tabularium.mechanisms.histograms.denoise_ranges.measure``.

Cost: O(d·2^d·n) time and memory for n cells and d axes.

Source: Xu, Zhang, Xiao, Yang, Yu, Winslett 2013 (the idea); Donoho 1997; Coifman, Donoho 1995; Willems,
Shtarkov, Tjalkens 1995; Stephens 2017. The whole, the noise distributions and the error estimate are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.denoise.boxes import Layout, axes_of
from tabularium.mechanisms.histograms.denoise.tables import (
    CHOOSING,
    DenoiseOptions,
    denoise_table,
    denoise_tables,
)
from tabularium.mechanisms.histograms.denoise_ranges.measure import draw_sums, finish_sums, noisy_tree
from tabularium.mechanisms.histograms.parameter_checks import exact_number, one_of, whole_number
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
)
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in

MOST_SHIFTS = 256
LONGEST = 1 << 40
STRONGEST = 10


@dataclass(frozen=True)
class Denoise(Mechanism):
    """Noise on every cell, then averages over neighbouring cells where the noisy table supports them.

    Parameters
    ----------
    form
        ``"mixture"`` over all dyadic partitions, or ``"wavelet"`` shrinkage. ``"auto"``: the mixture, unless
        wavelets, or nothing at all, have clearly less estimated error. ``"sparse"``: the mixture with empty
        boxes, where most cells seem to be empty and the noisy total agrees, and elsewhere as ``"auto"``. With
        ``"sparse"`` totals may come out low.
    strength
        How strongly to smooth, in a given form, such as ``"0.9"``. Mixture: how likely a box is flat when
        learning begins, below 1. Wavelets: the threshold, relative to the largest value of pure noise. By
        default some are tried: 0.9 and 0.5, or 0.6, 0.8 and 1.
    categorical
        Axes whose cells have no order, numbered from 0: nothing is averaged across them. Where a table is
        measured by area, the areas are axis 0. An axis of two cells needs no order.
    shifts
        Over how many places of the dyadic grid to average. By default 16, and fewer from about 400 000 cells
        (one axis) or 200 000 cells (two axes) on.
    sign
        What to do about negative cells. ``"total"``: there are none, and the total of the noisy table is kept
        (except by the sparse form). ``"cut"``: they become zero, which moves the total up. ``"free"``: they
        stay. ``"auto"``: ``"total"``, unless ``"cut"`` is clearly more accurate; for wavelets always
        ``"total"``.
    workload
        ``"cells"``: least error of single cells. ``"ranges"``: of sums over ranges, and over boxes of several
        axes. Ranges have one form and no negative cells: of the other parameters they take ``categorical``
        and ``longest`` only.
    longest
        With ``workload="ranges"``, the longest range that is to be accurate, in cells along each axis. By
        default any.
    """

    form: Literal["auto", "mixture", "sparse", "wavelet"] = "auto"
    strength: Fraction | None = None
    categorical: tuple[int, ...] | None = None
    shifts: int | None = None
    sign: Literal["auto", "total", "cut", "free"] = "auto"
    workload: Literal["cells", "ranges"] = "cells"
    longest: int | None = None

    name: ClassVar[str] = "denoise"
    noisy_cells_purpose: ClassVar = "cells"

    def __post_init__(self) -> None:
        one_of(self.form, ("auto", "mixture", "sparse", "wavelet"), "form")
        one_of(self.sign, ("auto", "total", "cut", "free"), "sign")
        if self.strength is not None:
            object.__setattr__(self, "strength", _strength(self.strength, self.form))
        if self.categorical is not None:
            object.__setattr__(self, "categorical", _axes(self.categorical))
        if self.shifts is not None:
            whole_number(self.shifts, 1, MOST_SHIFTS, "shifts")
        one_of(self.workload, ("cells", "ranges"), "workload")
        if self.longest is not None:
            whole_number(self.longest, 1, LONGEST, "longest")
        if self.form == "sparse" and self.sign == "total":
            raise MechanismError(
                "the sparse form does not keep the total", where="sign", hint="leave out form or sign"
            )
        _check_workload(self)

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise to each cell, for the whole budget."""
        if self.workload == "ranges":
            return draw_sums(counts, channel, self._apart(counts.shape), self.longest)
        self.check_shape(counts.shape)
        return {"cells": channel.add_noise(counts, channel.remaining, purpose="cells")}, {}

    def finish(self, measured: Measured) -> Release:
        """Return the denoised counts, float64, in the shape of the counts; their errors depend on the data.

        ``diagnostics["risk"]`` is the estimated mean squared error per cell. It is unbiased, hence sometimes
        negative where hardly any error is left; ``risk_standard_error`` says how far to trust it.
        """
        if self.workload == "ranges":
            return finish_sums(measured, self._apart(tuple(measured.meta["shape"])))
        cells = measured.arrays["cells"]
        noise = noise_in(measured.transcript[0])
        result = denoise_table(cells, noise, self._layout(cells.shape), self._options())
        return measured.release(
            result.values,
            **result.diagnostics,
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy cells; for ranges the noisy sums of all levels of the tree."""
        if self.workload == "cells":
            return self.noisy_cells(measured)
        return noisy_tree(measured, self._apart(tuple(measured.meta["shape"])))

    @property
    def per_cell_noise(self) -> bool:
        """Of cells, yes: all that follows is made of the noisy cells. Sums for ranges are drawn too."""
        return self.workload == "cells"

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse axes that there are not, or too many of them."""
        self._layout(shape)

    def finish_tables(self, tables: Array, event: Event) -> tuple[Array, list[dict[str, Any]]]:
        """Return what ``finish`` would make of each of many tables."""
        options = self._options()
        if self.form == "sparse":
            # Totals of regions are added up: what is taken for empty in each would not be little in all.
            options = replace(options, form="auto")
        made = denoise_tables(tables, noise_in(event), self._layout(tables.shape[1:]), options)
        return np.stack([one.values for one in made]), [one.diagnostics for one in made]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON-able values; those of ranges only where they are asked for."""
        result = super().parameters()
        if self.workload == "cells":
            del result["workload"], result["longest"]
        return result

    def _apart(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return axes_of(shape, self.categorical or ())

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        return Layout.of(shape, self.categorical or ())

    def _options(self) -> DenoiseOptions:
        strength = None if self.strength is None else float(self.strength)
        return DenoiseOptions(form=self.form, strength=strength, shifts=self.shifts, sign=self.sign)


def _strength(value: Any, form: str) -> Fraction:
    """Return a strength that its form can take, exactly."""
    if form in CHOOSING:
        raise MechanismError(
            "a strength means something in a given form only",
            where="strength",
            hint="name a form too, or leave the strength out",
        )
    most = 1 if form == "mixture" else STRONGEST
    hint = f'write a number between 0 and {most} as text, such as "0.9"'
    strength = exact_number(value, "strength", called="a strength", hint=hint)
    if not 0 < strength < most:
        raise MechanismError("this strength is out of bounds", where="strength", hint=hint)
    return strength


def _check_workload(mechanism: Denoise) -> None:
    """Refuse what means nothing for the workload."""
    if mechanism.workload == "cells":
        if mechanism.longest is not None:
            raise MechanismError(
                "only ranges have a longest one", where="longest", hint="write workload: ranges too"
            )
        return
    given = {
        "form": mechanism.form != "auto",
        "strength": mechanism.strength is not None,
        "shifts": mechanism.shifts is not None,
        "sign": mechanism.sign != "auto",
    }
    for name, is_given in given.items():
        if is_given:
            raise MechanismError(
                "this means something for single cells only", where=name, hint="leave it out for ranges"
            )


def _axes(value: Any) -> tuple[int, ...]:
    """Return the numbers of axes, as a tuple of different whole numbers."""
    hint = "give a list of the axes' numbers, such as [1, 2]; the first axis is 0"
    if not isinstance(value, (list, tuple)):
        raise MechanismError("this must be a list of axes", where="categorical", hint=hint)
    if any(isinstance(axis, bool) or not isinstance(axis, int) for axis in value):
        raise MechanismError("an axis is named by its number", where="categorical", hint=hint)
    if len(set(value)) < len(value):
        raise MechanismError("an axis is named twice", where="categorical", hint=hint)
    return tuple(value)
