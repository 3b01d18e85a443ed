"""Measurements whose losses cannot be chosen one by one.

A table with several arrays, its counts and those of its measures, measures the same levels of each with the
same parts of the array's loss. So the loss of an array at a level is a product, that of the array times the
part of the level; and an array whose share is settled beforehand stands in a fixed proportion to another one
of its table. In logarithms both are linear: log loss = log proportion + factors · unknowns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices


@dataclass(frozen=True)
class Place:
    """What one measurement is of.

    Attributes
    ----------
    table, level
        Arrays of one table have the same parts for their levels.
    array
        What is measured.
    head
        The array whose loss it follows: its own, or one of its table to which it is in proportion.
    """

    table: str
    level: str
    array: str
    head: str


@dataclass(frozen=True, eq=False)
class Ties:
    """What the losses of measurements have in common.

    Attributes
    ----------
    factors
        (measurements, unknowns): 1 where a loss is multiplied by what an unknown is the logarithm of.
    blocks
        (measurements,) those of one number are left out together.
    heads
        (measurements,) the measurement of the same level that each follows; its own number where it is free.
    proportions
        (measurements,) loss over that of the head.
    """

    factors: Floats
    blocks: Indices
    heads: Indices
    proportions: Floats

    @classmethod
    def none(cls, measurements: int) -> Ties:
        """Return that of losses that are each free."""
        every = np.arange(measurements)
        return cls(np.eye(measurements), every, every, np.ones(measurements))

    @classmethod
    def of(cls, places: Sequence[Place], proportions: Floats) -> Ties:
        """Tie the arrays of each table, whose levels stand in one order, the deepest last."""
        heads: dict[str, set[str]] = {}
        for place in places:
            heads.setdefault(place.table, set()).add(place.head)
        last = {place.table: place.level for place in places}
        unknowns: dict[tuple[str, ...], int] = {}
        rows: list[list[int]] = []
        for place in places:
            several = len(heads[place.table]) > 1
            own: list[tuple[str, ...]] = [("head", place.head)] if several else []
            if not several or place.level != last[place.table]:
                own.append(("level", place.table, place.level))
            rows.append([unknowns.setdefault(name, len(unknowns)) for name in own])
        factors = np.zeros((len(places), len(unknowns)))
        for row, own_columns in enumerate(rows):
            factors[row, own_columns] = 1.0
        levels = [(place.table, place.level) for place in places]
        numbers = {level: number for number, level in enumerate(dict.fromkeys(levels))}
        at = {(place.array, place.level): number for number, place in enumerate(places)}
        followed = np.array([at[place.head, place.level] for place in places])
        return cls(factors, np.array([numbers[level] for level in levels]), followed, proportions)

    @property
    def loose(self) -> bool:
        """Whether every loss may be chosen by itself."""
        return len(self.factors) == np.count_nonzero(self.factors.any(axis=0))

    def following(self, losses: Floats) -> Floats:
        """Return losses of which only those of heads count: the others are in proportion to them."""
        found: Floats = losses[self.heads] * self.proportions
        return found

    def fitted(self, losses: Floats) -> Floats:
        """Return the tied losses that are nearest to some, in logarithms; what is zero stays so."""
        free = losses > 0
        wanted = np.log(losses[free] / self.proportions[free])
        unknowns = np.linalg.lstsq(self.factors[free], wanted, rcond=None)[0]
        found = np.zeros(len(losses))
        found[free] = self.proportions[free] * np.exp(self.factors[free] @ unknowns)
        return found
