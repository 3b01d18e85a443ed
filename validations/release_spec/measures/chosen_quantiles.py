"""Quantiles by choice: one value of the grid is drawn by permute-and-flip; no count is published.

A record adds 1 to the cell of its value in a histogram, and nothing of it is released but the choice and sums
next to it, which measure its margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    NUMBERS_BEFORE_SUMS,
    chosen_interval,
    chosen_position,
)
from tabularium.mechanisms.kernels.outward_cells import outward_sums, reaches
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import NoiseCurve
from tabularium.validations.release_spec.measures.measure import Noise, Numbers, Problem, noise_scale
from tabularium.validations.release_spec.measures.of_column import CELLS, OfRank
from tabularium.validations.release_spec.scalars import Share

CHOOSING = "quantile_choices"
MARGIN_SHARE = Fraction(1, 4)


class ChosenQuantile(OfRank):
    """A median or quantile of a column, chosen in every cell by itself."""

    method: Literal["choice"] = Field(
        description="How a quantile is measured: by a `tree` of counts (the default), or a private `choice`.",
    )
    margin_share: Share | None = Field(
        default=None,
        description='Of a choice: the part of its budget that measures its margin; default: `"1/4"`.',
    )

    way: ClassVar[str] = "choice"
    written_with: ClassVar[str | None] = "method: choice"
    adds_up: ClassVar[bool] = False
    margin_method: ClassVar[str | None] = "beside"

    @classmethod
    def reads(cls, written: Mapping[str, object]) -> bool:
        return super().reads(written) and written.get("method") == "choice"

    @property
    def margin_part(self) -> Fraction:
        return self.margin_share or MARGIN_SHARE

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.margin_share == 1:
            yield ("margin_share",), "leaves the choice nothing", "write a share below 1"

    @property
    def parts(self) -> int:
        return self.bins

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(map(str, range(NUMBERS_BEFORE_SUMS + 2 * reaches(self.bins))))

    @property
    def mechanism(self) -> tuple[str, dict[str, int | str]]:
        parameters: dict[str, int | str] = {
            "at": str(self.rank),
            "heaviest": self.heaviest,
            "margin_share": str(self.margin_part),
        }
        return CHOOSING, parameters

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        weights, values = powers
        np.add.at(array, self.bins * cells + values, weights)

    def noise_terms(self, loss: Fraction, definition: Definition) -> tuple[Fraction, float]:
        """Return those of the scale by which it misses, in records; ε costs ε²/2 there."""
        return loss * (1 - self.margin_part), 2 * float(max(self.rank, 1 - self.rank))

    def cell_noise(self, variance: float, loss: Fraction, definition: Definition, group: int) -> Noise:
        """Return how far it misses, and the variance of the counts measured with it."""
        part, folds = self.noise_terms(loss, definition)
        scale = noise_scale(definition, part, self.sensitivities[group] * folds)
        curve = NoiseCurve(definition, float(self.heaviest))
        precision = curve.precision(np.array([float(loss * self.margin_part)]))[0]
        return Noise(1 / float(precision), {}, rate=1 / scale if scale else math.inf)

    def estimate(self, numbers: Numbers) -> Floats:
        return self.bottom + float(self.step) * chosen_position(numbers.parts)

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        low, high = chosen_interval(numbers.parts, numbers.spread, self.bins, level)
        return self.reach_of(at, numbers, low, high)

    def expected_half(self, records: float, noise: Noise, level: float) -> float:
        """Return the middle one of the margins that some cells with made-up noise would have."""
        bins, draw, rate = self.bins, generator(0), noise.rate * records
        missed = np.abs(np.arange(bins) - (math.ceil(self.rank * bins) - 1)) / bins
        likely = np.exp(-np.where(missed > 0, missed * rate, 0.0))
        chosen = draw.choice(bins, CELLS, p=likely / likely.sum())
        around = outward_sums(np.ones((CELLS, bins), np.int64), chosen) * (records / bins)
        made_up = around + draw.normal(0.0, math.sqrt(noise.variance), around.shape)
        numbers = np.column_stack([chosen, np.full(CELLS, noise.rate), made_up])
        low, high = chosen_interval(numbers, np.full(numbers.shape, noise.variance), bins, level)
        return self.middle_reach(chosen_position(numbers), low, high)
