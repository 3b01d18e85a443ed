"""The interface of a measure: a number of every cell besides its count, and the array it is measured by.

A value is clamped to public bounds and put on a public grid of whole steps. Each kind of measure says what
one record then adds to its array, by how much that changes the array, and what is published of the numbers;
one draw of noise with that sensitivity protects all of them. Kinds are listed in
:mod:`tabularium.validations.release_spec.measures.kinds`; nothing else knows their names.

Bounds may differ by groups, the values of another dimension of the table. A record is in a cell of only
one group, so that the cells of each group have the noise for its own bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.noise_distributions import NoiseCurve
from tabularium.validations.domains.domains import CategoryDomain
from tabularium.validations.release_spec.kinds import Part
from tabularium.validations.release_spec.scalars import ColumnName, Positive, Share, Text

PART = "part"
"""The dimension over which the array of a measure has several numbers for each cell."""
MECHANISM = "bounded_sums"
OF_SUM = 0.3
"""Largest margin of a useful count or sum, in parts of it."""
OF_BOUNDS = 0.5
"""Largest margin of any other useful number, in parts of the width of its bounds."""

SIZES = {"pure": "scale", "zcdp": "sigma"}
"""What the size of noise is called by definition."""
QualityRules = Literal["sums", "means", "rates"]
Answer = Literal["sum", "average", "quantile", "rate", "distinct"]
"""What a query can compute from the numbers of an array."""


class Weight(Part):
    """A fixed number of each record that its value is multiplied by, such as a survey weight."""

    column: ColumnName = Field(description="The column that holds it; it is rounded to a whole number.")
    end: Positive = Field(
        alias="to", description="The largest weight; larger ones count as this, and less than 0 as 0."
    )


@dataclass(frozen=True)
class Numbers:
    """Numbers of a measure's array at some nodes.

    Attributes
    ----------
    parts
        (nodes, cells, numbers of each), in steps.
    bottom, span
        (cells,) or (1,): the smallest value of each cell, and how far the largest lies above it.
    whole
        (nodes, cells) what a rate is over, where it is not over its own records.
    spread, spread_whole
        Variances of ``parts`` and ``whole``, where they are known.
    """

    parts: Floats
    bottom: Floats
    span: Floats
    whole: Floats | None = None
    spread: Floats = field(default_factory=lambda: np.zeros(1))
    spread_whole: Floats = field(default_factory=lambda: np.zeros(1))


@dataclass(frozen=True)
class Noise:
    """What is known of the noise in the numbers of a cell before it is drawn.

    Attributes
    ----------
    variance
        Variance of each, in steps, after tables and levels were made to agree.
    single
        Scale (discrete Laplace) or σ (Gaussian) where the number is a single measurement, by its name in
        :func:`~tabularium.mechanisms.inference.margins_of_error.half_widths.margins`.
    rate
        For a choice, how fast it becomes unlikely with each record that it misses by.
    over
        Variance of what a rate is over; 0 where it is public.
    """

    variance: float
    single: dict[str, float]
    rate: float = math.inf
    over: float = 0.0

    def smaller(self, times: float) -> Noise:
        """Return noise whose standard deviations are so many times smaller."""
        return replace(
            self,
            variance=self.variance / times**2,
            single={name: size / times for name, size in self.single.items()},
            rate=self.rate * times,
            over=self.over / times**2,
        )


def noise_scale(definition: Definition, loss: Fraction, largest: float) -> float:
    """Return the scale (discrete Laplace) or σ (Gaussian) of noise that costs ``loss``.

    ``largest``: the most by which one record changes what is measured.
    """
    return (
        float(largest / float(loss)) if definition == "pure" else largest * math.sqrt(1 / (2 * float(loss)))
    )


Problem = tuple[tuple[str, ...], str, str]
"""The key of a measure at fault, what is wrong with it, and how it is corrected."""


class Measure(Part, ABC):
    """A number of every cell besides its count."""

    weight: Weight | None = Field(
        default=None,
        description="A survey weight, `{column: PWGTP, to: 400}`: how often each value counts, rounded to a "
        "whole number from 0 to `to`; null is 0.",
    )
    share: Share | None = Field(
        default=None,
        description="Its part of the table's budget; the count has the rest. All measures of a table have "
        "one or none; default: as much as the count.",
    )
    title: Text | None = Field(default=None, description="Its title in what is published; default: its name.")
    unit: Text | None = Field(default=None, description="The unit of its numbers, such as `dollars`.")

    general: ClassVar[tuple[str, ...]] = ("weight", "share", "title", "unit")
    """Keys that are written after those of the kind."""
    keys: ClassVar[tuple[str, ...]]
    """The keys under which a measure of this kind is written; it has one of them."""
    written_with: ClassVar[str | None] = None
    """What else is written where several kinds have the same keys."""
    linear: ClassVar[bool] = False
    """The number is the array's, in steps: it is rounded, and has a margin, like a count."""
    adds_up: ClassVar[bool] = True
    """Numbers of cells make that of all of them together, and are made to agree with other tables.

    Where they do not, each level is counted and measured by itself, and nothing adds numbers of cells up.
    """
    plannable: ClassVar[bool] = False
    """The margin follows from the variance, and where values lie says little: a budget can be planned."""
    by_value: ClassVar[bool] = False
    """Records are counted at each value on the grid, not added up."""
    powers: ClassVar[int] = 1
    """The highest power of values that is added up."""
    margin_method: ClassVar[str | None] = None
    """How its margin is found, by the names of the certificate; None: as for a count."""
    quality_rules: ClassVar[QualityRules] = "means"
    """Under which heading of the spec the limits for its quality stand."""
    answers: ClassVar[tuple[Answer, ...]]
    """What a query can compute of it, first what most ask for."""
    query_shown: ClassVar[Answer | None]
    """Which of these is what is published; None where no query computes that."""
    margin_note: ClassVar[str | None] = None
    """How a margin that is expected of it is to be read."""

    @model_serializer(mode="wrap")
    def _its_own_first(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        general = {key: written.pop(key) for key in self.general if key in written}
        return written | general

    @classmethod
    def reads(cls, written: Mapping[str, object]) -> bool:
        """Return whether what stands in the file is a measure of this kind, well written or not."""
        return any(key in written for key in cls.keys)

    @property
    def kind(self) -> str:
        """What is published: the key under which it is written."""
        return next(key for key in self.keys if getattr(self, key) is not None)

    @property
    def of(self) -> str:
        """The column that holds the values, or the test of a rate."""
        return str(getattr(self, self.kind))

    @property
    def test(self) -> str | None:
        """The test that records pass, where it is a measure of these."""
        return None

    @property
    def identifier(self) -> str | None:
        """The column whose different values are counted; they are compared as text, and never published."""
        return None

    @property
    def denominator(self) -> str | None:
        """The table, invariant or figures that it is a part of, where these are not its own records."""
        return None

    @property
    def rank(self) -> Fraction | None:
        """Of a quantile: the part of all values up to it."""
        return None

    @property
    def level_of(self) -> str | None:
        """The kind of middle that its published numbers give: what bounds are proposed from."""
        return None

    @property
    def in_words(self) -> str:
        """What is published of the column, in words."""
        return self.kind

    @property
    def columns(self) -> list[str]:
        """The columns of the source that are read as numbers for it."""
        of = [self.of] if self.test is None and self.identifier is None else []
        return [*of, *([self.weight.column] if self.weight else [])]

    # The grid: values between bounds, by group, in whole steps.

    @property
    @abstractmethod
    def grid(self) -> Fraction:
        """The step between neighbouring values."""

    @property
    def by(self) -> str | None:
        """The dimension by whose values bounds differ."""
        return None

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups with their own bounds, in the order of the cells; one without a name for no groups."""
        return ("",)

    @property
    @abstractmethod
    def bottoms(self) -> tuple[int, ...]:
        """The smallest value of each group."""

    @property
    @abstractmethod
    def tops(self) -> tuple[int, ...]:
        """The largest value of each group."""

    @property
    def spans(self) -> tuple[float, ...]:
        """How far the largest published value of each group lies above the smallest."""
        return tuple(top - bottom for bottom, top in zip(self.bottoms, self.tops, strict=True))

    @property
    def bottom(self) -> int:
        """The smallest value of all groups."""
        return min(self.bottoms)

    @property
    def top(self) -> int:
        """The largest value of all groups."""
        return max(self.tops)

    @property
    def smallest(self) -> float:
        """The smallest number that can be published."""
        return float(self.bottom)

    @property
    def lows(self) -> tuple[int, ...]:
        """The smallest value of each group in steps."""
        return tuple(int(bottom / self.grid) for bottom in self.bottoms)

    @property
    def widths(self) -> tuple[int, ...]:
        """T of each group: the largest value less the smallest, in steps."""
        both = zip(self.bottoms, self.tops, strict=True)
        return tuple(int((top - bottom) / self.grid) for bottom, top in both)

    @property
    def low(self) -> int:
        """The smallest value of all groups in steps."""
        return min(self.lows)

    @property
    def width(self) -> int:
        """The largest T of a group."""
        return max(self.widths)

    @property
    def heaviest(self) -> int:
        """The largest weight of a record."""
        return 1 if self.weight is None else self.weight.end

    def of_group(self, index: int) -> Self:
        """Return the measure with the bounds of one group for all."""
        return self

    def in_order(self, codes: Sequence[str]) -> Self:
        """Return the measure with its groups in the order of the cells."""
        return self

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with its fields, although each reads well by itself."""
        yield from ()

    # The array: what a record adds to it, and what protects that.

    @property
    def parts(self) -> int:
        """How many numbers its array has for each cell when it is counted."""
        return 1

    @property
    def codes(self) -> tuple[str, ...]:
        """What the numbers of one cell are called as they are released; nothing where there is one."""
        return ()

    @property
    def levels(self) -> int:
        """How often a record is counted in the numbers of a cell."""
        return 1

    @abstractmethod
    def change(self, low: int, width: int) -> int:
        """Return the most by which a record of weight 1 changes one level of the numbers of a group, in L1.

        ``low``, ``width``: the smallest value of the group and T, in steps.
        """

    @abstractmethod
    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        """Add records, or sums of them, to the flat array, in place.

        Parameters
        ----------
        array
            Flat: the parts of each cell side by side.
        cells
            Cell of each entry.
        powers
            For each entry the weight, then weight times value, in steps above the smallest, times its square
            and so on up to :attr:`powers`. Where records are counted :attr:`by_value`, weight and value.
        low, width
            For each entry the smallest value and T of its group, in steps.
        """

    @property
    def part_domain(self) -> CategoryDomain | None:
        """What the numbers of one cell are, as they are released; None where there is one."""
        return CategoryDomain(PART, self.codes, self.codes) if self.codes else None

    @property
    def sensitivities(self) -> tuple[int, ...]:
        """The most by which a record changes a level of the numbers of its group, for each group."""
        both = zip(self.lows, self.widths, strict=True)
        return tuple(self.heaviest * self.change(low, width) for low, width in both)

    @property
    def largest(self) -> int:
        """The most by which one record changes the numbers of its array on one level, in L1."""
        return max(self.sensitivities)

    @property
    def sensitivity(self) -> int:
        """The most by which one record changes the array in L1; in L2 less by the root of the levels."""
        return self.largest * self.levels

    @property
    def signed(self) -> bool:
        """Whether numbers of its array may be negative, and stay so."""
        return False

    @property
    def mechanism(self) -> tuple[str, dict[str, int | str]]:
        """What its array is measured with, and the parameters."""
        return MECHANISM, {"largest": self.largest, "levels": self.levels}

    @property
    def counts_alike(self) -> tuple[object, ...]:
        """What two measures have in common whose arrays count the same, but for the tests of rates."""
        column = None if self.test is not None else self.of
        return type(self), column, self.by, self.groups, self.bottoms, self.tops, self.grid, self.weight

    @property
    def reads_shared_array(self) -> bool:
        """Whether measures that count the same are read off one array."""
        return False

    @property
    def margin_part(self) -> Fraction:
        """The part of its loss that pays for noisy numbers; the rest pays for a choice."""
        return Fraction(1)

    @property
    def noise_unit(self) -> Fraction:
        """What one step of its noise is in the unit of its column."""
        return self.grid

    def noise_terms(self, loss: Fraction, definition: Definition) -> tuple[Fraction, float]:
        """Return the part of a loss that decides the scale of its noise, and how often a record counts."""
        return loss, self.folds(definition)

    def folds(self, definition: Definition) -> float:
        """Return how often a record counts, as the noise of a definition adds its levels up."""
        # Under pure differential privacy each level has its part of ε, under zCDP of ρ.
        return self.levels if definition == "pure" else math.sqrt(self.levels)

    def cell_noise(self, variance: float, loss: Fraction, definition: Definition, group: int) -> Noise:
        """Return what is known of the noise of a cell of the group at ``place``, at this loss."""
        if not self.linear or not loss:
            return Noise(variance, {})
        largest = self.of_group(group).largest
        if not self.adds_up:  # levels and tables say nothing of each other
            variance = 1 / float(NoiseCurve(definition, float(largest)).precision(np.array([float(loss)]))[0])
        return Noise(variance, {SIZES[definition]: noise_scale(definition, loss, largest)})

    # What is published of the numbers of a cell.

    @abstractmethod
    def estimate(self, numbers: Numbers) -> Floats:
        """Return what is published, (nodes, cells), in the unit of its column; NaN where there is nothing."""

    def compared(self, numbers: Numbers) -> tuple[Floats, Floats] | None:
        """Return what must differ from zero for a number to be shown, and its variance; None if nothing."""
        return None

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        """Return how far the interval of each number reaches from where it was published, (nodes, cells)."""
        raise NotImplementedError

    def limits(self, numbers: Numbers) -> tuple[Floats, Floats] | None:
        """Return the smallest and largest number that can be published of each cell; None without bounds."""
        return None

    def total(self, roots: Numbers) -> float:
        """Return the number of all records, of the numbers of the roots, one node; NaN if not known."""
        if not self.adds_up:
            return math.nan
        summed = roots.parts.sum(axis=1, keepdims=True)
        total = None if roots.whole is None else roots.whole.sum(keepdims=True)
        one = Numbers(summed, roots.bottom[:1], roots.span[:1], total)
        return float(self.estimate(one).sum())

    # What is expected of a cell before there are any numbers.

    def expected_half(self, records: float, noise: Noise, level: float) -> float:
        """Return the half-width in a cell of so many records, all of the largest weight."""
        raise NotImplementedError

    def expected_comparison(self, records: float, noise: Noise) -> tuple[float, float] | None:
        """Return what :meth:`compared` would be in a cell of so many records."""
        return None

    def planned_half(self, variance: float, level: float, at: float, value: float | None) -> float:
        """Return the half-width that a variance gives in a cell of ``at`` records with this value."""
        raise NotImplementedError

    def planned_variance(self, half: float, level: float, at: float, value: float | None) -> float:
        """Return the largest variance that gives no more than a half-width."""
        raise NotImplementedError

    def largest_useful(self, records: float) -> float:
        """Return the margin beyond which the number of a cell of so many records is of little use."""
        return OF_BOUNDS * (self.top - self.bottom)

    # Words.

    @property
    def shown_unit(self) -> str | None:
        """What its numbers are in."""
        return self.unit

    @property
    @abstractmethod
    def decimals(self) -> int:
        """Digits behind the point of what is published."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What its column of a table means, in a sentence."""

    @property
    def part_of(self) -> str:
        """What a percentage in a rule for its quality is taken of."""
        return "`to` less `from`"

    @property
    def about_query(self) -> str:
        """What a query says of its numbers."""
        raise NotImplementedError

    @property
    def query_values(self) -> tuple[list[float], float]:
        """Values that the numbers of a cell stand for, and the unit that a number is in."""
        return [1.0], float(self.grid)

    @property
    def weighted(self) -> str:
        """How the description says that there is a weight."""
        return "" if self.weight is None else f", weighted by {self.weight.column}"

    @property
    def weighed(self) -> str:
        """How a query says that there is a weight."""
        if self.weight is None:
            return ""
        return f", each as often as {self.weight.column} says, at most {self.heaviest} times"

    @property
    def declared_method(self) -> dict[str, str | None]:
        """What a certificate says of how it is measured, where kinds differ in it."""
        return {}

    @property
    def declared(self) -> dict[str, Any]:
        """What a certificate says of it, before anything is measured."""
        return {
            "kind": self.kind,
            "of": self.of,
            **self.declared_method,
            "from": str(self.bottom),
            "to": str(self.top),
            **({} if self.by is None else {"by": self.by, "groups": self._declared_groups}),
            "step": str(self.grid),
            "weight": None if self.weight is None else self.weight.column,
            "largest_weight": str(self.heaviest),
            "largest_change_by_one_record": str(self.sensitivity),
        }

    @property
    def _declared_groups(self) -> list[dict[str, str]]:
        groups = zip(self.groups, self.bottoms, self.tops, self.sensitivities, strict=True)
        return [
            {
                "group": code,
                "from": str(bottom),
                "to": str(top),
                "largest_change_by_one_record": str(most),
            }
            for code, bottom, top, most in groups
        ]


class AddsOne(Measure, ABC):
    """A measure to which a record adds 0 or 1."""

    @property
    def grid(self) -> Fraction:
        return Fraction(1)

    @property
    def bottoms(self) -> tuple[int, ...]:
        return (0,)

    @property
    def tops(self) -> tuple[int, ...]:
        return (1,)
