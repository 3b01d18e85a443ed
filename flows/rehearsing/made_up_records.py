"""Records made up from the declared domains of a spec, as its source and private look-ups would hold them.

::

    published tables ─▶ cells of every declared column ─▶ values of the source's columns ─▶ source, look-ups
       (or evenly)

Nothing confidential is read: domains, code lists, public look-ups and published tables are public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.ingest.source_columns import needed_columns
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.derivation import source_column
from tabularium.validations.domains.domains import Domain, HierarchyDomain, NumberDomain
from tabularium.validations.release_spec.columns import DatePart
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.privacy import UniqueRule

# Cells of made-up records: evenly, or as many in each as published tables say.


Ints = NDArray[np.int64]


@dataclass
class Cells:
    """The cells of made-up records, column by column.

    ``of``: declared column -> (records,) the cell of each.
    """

    loaded: Loaded
    rows: int
    rng: np.random.Generator
    of: dict[str, Ints]

    def draw_like(self, release: Released) -> None:
        """Draw columns together as the tables of a release have them, those with the most columns first.

        A column that two tables share is drawn once; the second gives the rest of its columns for what was
        drawn. A cell that was published as less than nothing counts as empty.

        Raises
        ------
        InputError
            It has no table with a column and codes of the spec.
        """
        tables = [
            candidate
            for candidate in release.spec.tables
            if set(candidate.dimensions) & set(self.loaded.domains)
        ]
        for table in sorted(tables, key=lambda table: -len(table.dimensions)):
            self._draw_table(release, table.name)
        if not self.of:
            raise InputError(
                "has no table with a column and codes of this spec",
                where="like",
                hint="name another release, or leave it out: cells are then drawn evenly",
            )

    def draw_evenly(self) -> None:
        """Draw the columns that are left."""
        for name, domain in self.loaded.domains.items():
            if name not in self.of:
                self.of[name] = self.rng.integers(0, domain.size, self.rows)

    def _draw_table(self, release: Released, table: str) -> None:
        numbers = release.table(table)
        layout = numbers.layout
        nodes = layout.cuts[layout.finest]
        shape = tuple(other.size for other in layout.others)
        axes = [(other.name, other.codes) for other in layout.others]
        if layout.along is not None:
            shape = (len(nodes), *shape)
            codes = tuple(layout.along.node_codes[node] for node in nodes)
            axes = [(layout.along.name, codes), *axes]
        counts = np.nan_to_num(numbers.counts[nodes], nan=0.0).clip(0).reshape(shape)
        published = {
            name: _published_cell(self.loaded.domains[name], codes) if name in self.loaded.domains else None
            for name, codes in axes
        }
        away = tuple(index for index, (name, _) in enumerate(axes) if not _finds(published[name]))
        counts = counts.sum(axis=away)
        axes = [axis for index, axis in enumerate(axes) if index not in away]
        fixed = [index for index, (name, _) in enumerate(axes) if name in self.of]
        free = [index for index in range(len(axes)) if index not in fixed]
        if not free:
            return
        for index in free:  # of what is no code of the spec nobody is drawn
            there = np.isin(np.arange(counts.shape[index]), _cells_of(published[axes[index][0]]))
            counts = counts * there.reshape([-1 if axis == index else 1 for axis in range(counts.ndim)])
        sizes = [counts.shape[index] for index in free]
        weights = counts.transpose(fixed + free).reshape(-1, int(np.prod(sizes)))
        row = np.zeros(self.rows, np.int64)
        known = np.ones(self.rows, bool)
        for index in fixed:
            name = axes[index][0]
            at = _cells_of(published[name])[self.of[name]]
            known &= at >= 0
            row = row * counts.shape[index] + at.clip(0)
        drawn = self._drawn_in(weights, row, known)
        for index, at in zip(free, np.unravel_index(drawn, sizes), strict=True):
            name = axes[index][0]
            self.of[name] = self._one_of(_cells_of(published[name]), at, known)

    def _drawn_in(self, weights: NDArray[np.float64], row: Ints, known: NDArray[np.bool_]) -> Ints:
        """Draw a column of each record's row by its weights; where there are none, evenly (known: False)."""
        ends = np.concatenate([[0.0], np.cumsum(weights.reshape(-1))])
        low, high = ends[row * weights.shape[1]], ends[(row + 1) * weights.shape[1]]
        known &= high > low
        cells = np.searchsorted(ends, low + self.rng.random(self.rows) * (high - low), side="right") - 1
        column: Ints = np.clip(cells - row * weights.shape[1], 0, weights.shape[1] - 1)
        return column

    def _one_of(self, published: Ints, at: Ints, known: NDArray[np.bool_]) -> Ints:
        """Return one of the cells that make up each record's published cell; any where none is known."""
        order = np.argsort(published, kind="stable")
        starts = np.searchsorted(published[order], at, side="left")
        many = np.searchsorted(published[order], at, side="right") - starts
        chosen = starts + (self.rng.random(self.rows) * many).astype(np.int64)
        nodes = order[chosen.clip(0, len(order) - 1)]
        anywhere = self.rng.integers(0, len(published), self.rows)
        return np.where(known & (many > 0), nodes, anywhere)


def _cells_of(published: Ints | None) -> Ints:
    assert published is not None  # noqa: S101 - what finds no code was summed away
    return published


def _finds(published: Ints | None) -> bool:
    return published is not None and bool((published >= 0).any())


def _published_cell(domain: Domain, codes: tuple[str, ...]) -> Ints:
    """Return, for each cell of a domain, the place of its code among published ones; -1 where there is none.

    For a hierarchy, the code of a leaf or of an ancestor.
    """
    index = {code: at for at, code in enumerate(codes)}
    if not isinstance(domain, HierarchyDomain):
        return np.array([index.get(code, -1) for code in domain.codes])
    cells = np.full(len(domain.parents), -1)
    for node, parent in enumerate(domain.parents):  # parents stand before their children
        above = -1 if parent < 0 else cells[parent]
        cells[node] = index.get(domain.node_codes[node], above)
    return cells[domain.leaves]


_YEAR = 2024  # of dates whose year no column asks for
_MOST_ALIKE = 5  # records with one value of a column whose sizes are counted
_PLACES = 3  # values of a unit that are looked up among its own rows
_NULLS = 0.1  # part of a column: only whether it is null is asked


@dataclass
class MadeUpRecords:
    """The made-up records of a spec: each column is drawn once, when it is asked for.

    Attributes
    ----------
    keys
        Public look-up -> the values of its key.
    like
        A release whose tables the records are to be like; evenly over all cells without one.
    """

    loaded: Loaded
    rows: int
    seed: int
    keys: Mapping[str, pa.Array] = field(default_factory=dict)
    like: Released | None = None
    _values: dict[str, pa.Array] = field(default_factory=dict)

    def source(self) -> pa.Table:
        """Return the records as the source would hold them.

        Raises
        ------
        InputError
            ``like`` has no table with a column of the spec.
        """
        return pa.table({name: self._value(name) for name in needed_columns(self.loaded)})

    def look_up(self, name: str) -> pa.Table:
        """Return a look-up of the privacy unit: a row for each value of a unit that is looked up."""
        look, unit = self.loaded.spec.lookups[name], self.loaded.spec.privacy.unit.column
        of: dict[str, pa.Array] = {}
        if look.unit is not None and unit is not None:
            of[look.unit] = self._value(unit)
        if look.key is not None:
            of[look.key] = self._value(look.looked_up or look.key)
        for column in needed_columns(self.loaded, name):
            of.setdefault(column, self._value(f"{name}.{column}"))
        keys = [name for name in (look.unit, look.key) if name is not None]
        row = pa.array(np.arange(self.rows))
        firsts = pa.table({**of, "": row}).group_by(keys).aggregate([("", "min")])["_min"]
        return pa.table(of).take(firsts.sort())

    def _value(self, name: str) -> pa.Array:
        """Return a column of the source, or ``LOOKUP.COLUMN`` as each record finds it."""
        if name not in self._values:
            self._values[name] = pa.array(self._drawn(name))
        return self._values[name]

    @cached_property
    def _rng(self) -> np.random.Generator:
        return generator(self.seed)

    @cached_property
    def _cells(self) -> dict[str, Ints]:
        cells = Cells(self.loaded, self.rows, self._rng, {})
        if self.like is not None:
            cells.draw_like(self.like)
        cells.draw_evenly()
        return cells.of

    @cached_property
    def _declared(self) -> dict[str, list[str]]:
        """Column of the source -> the declared columns that are read from it."""
        result: dict[str, list[str]] = {}
        for name in self.loaded.domains:
            needed = source_column(name, self.loaded.spec.columns[name])
            if needed is not None:
                result.setdefault(needed, []).append(name)
        return result

    @cached_property
    def _measured(self) -> dict[str, tuple[Measure, bool]]:
        """Column -> a measure of it, and whether it is the weight."""
        result: dict[str, tuple[Measure, bool]] = {}
        for table in self.loaded.spec.tables:
            for measure in table.measures.values():
                if measure.of in measure.columns:
                    result.setdefault(measure.of, (measure, False))
                if measure.weight is not None:
                    result.setdefault(measure.weight.column, (measure, True))
        return result

    def _drawn(self, name: str) -> Any:
        spec = self.loaded.spec
        if name == spec.privacy.unit.column:
            return self._groups(spec.privacy.max_contributions)
        if name in self._declared:
            return self._of_declared(self._declared[name])
        public = {lookup.looked_up: key for key, lookup in spec.lookups.items() if lookup.public is not None}
        if name in public and len(self.keys[public[name]]):
            keys = self.keys[public[name]]
            return keys.take(pa.array(self._rng.integers(0, len(keys), self.rows)))
        if name in spec.identifiers:
            return self._groups(_MOST_ALIKE)
        return self._numbers(*self._measured[name]) if name in self._measured else self._named(name)

    def _named(self, name: str) -> Any:
        """Return values of a column that is looked up, is to be unique, or may be null, and nothing else."""
        spec = self.loaded.spec
        if name in {lookup.looked_up for lookup in spec.lookups.values()}:
            return self._rng.integers(1, _PLACES + 1, self.rows)
        if any(name in rule.columns for rule in spec.rules if isinstance(rule, UniqueRule)):
            return np.arange(self.rows)
        return pa.array(np.ones(self.rows, np.int64), mask=self._rng.random(self.rows) < _NULLS)

    def _groups(self, most: int) -> Ints:
        """Return numbers, each in 1 to ``most`` records."""
        sizes = self._rng.integers(1, most + 1, self.rows)
        return np.repeat(np.arange(self.rows), sizes)[: self.rows]

    def _numbers(self, measure: Measure, weight: bool) -> Any:
        if weight:
            return self._rng.integers(1, measure.heaviest + 1, self.rows)
        steps = self._rng.integers(measure.low, measure.low + measure.width + 1, self.rows)
        if measure.grid.denominator == 1:
            return steps * measure.grid.numerator
        return steps * measure.grid.numerator / measure.grid.denominator

    def _of_declared(self, names: list[str]) -> Any:
        columns, domains = self.loaded.spec.columns, self.loaded.domains
        dates = {name: part for name in names if (part := columns[name].date) is not None}
        if dates:
            return self._dates(dates)
        first = names[0]
        if (recodes := columns[first].map) is not None:
            return self._recoded(recodes, domains[first], self._cells[first])
        return self._of_cells(domains[first], self._cells[first])

    def _of_cells(self, domain: Domain, cells: Ints) -> Any:
        if not isinstance(domain, NumberDomain):
            null = domain.other if domain.nulls == "other" else None
            codes = pa.array([None if code == null else code for code in domain.codes], pa.string())
            return codes.take(pa.array(cells))
        steps, inside = self._steps(domain, cells), cells < domain.bins
        numbers: NDArray[Any] = steps if domain.digits is None else steps / domain.per_one
        if inside.all():
            return numbers
        if domain.nulls == "other":
            return pa.array(numbers, mask=~inside)
        return np.where(inside, numbers, numbers.max() + 1)

    def _steps(self, domain: NumberDomain, cells: Ints) -> Ints:
        """Return a number in the bin of each cell, in steps; of the extra cell, the last one of all."""
        edges = np.array(domain.edges)
        bins = cells.clip(0, domain.bins - 1)
        low, past = edges[bins], edges[bins + 1]
        if domain.digits is not None:  # only even steps are numbers of so many digits
            low, past = (low + 1) // 2, (past + 1) // 2
        days = self._rng.integers(low, np.maximum(past, low + 1))
        if domain.digits is not None:
            days = days * 2
        steps: Ints = np.where(cells < domain.bins, days, edges[-1] - 1)
        return steps

    def _recoded(self, recodes: Mapping[str, str], domain: Domain, cells: Ints) -> pa.Array:
        """Return a value of the source for each cell; where none gives it, any."""
        gives = np.array([_cell_of(domain, code) for code in recodes.values()])
        picks = self._rng.integers(0, len(gives), self.rows)
        for cell in range(domain.size):
            values, here = np.flatnonzero(gives == cell), np.flatnonzero(cells == cell)
            if len(values):
                picks[here] = values[self._rng.integers(0, len(values), len(here))]
        return pa.array(list(recodes)).take(pa.array(picks))

    def _dates(self, parts: Mapping[str, DatePart]) -> pa.Array:
        """Return dates whose parts are in the cells of the columns that ask for them, as far as any are."""
        of = {part.part: self._integers(name) for name, part in parts.items()}
        draw, year = self._rng.integers, of.get("iso_year", of.get("year", np.full(self.rows, _YEAR)))
        if "iso_week" in of or "iso_year" in of:
            week = of.get("iso_week", draw(1, 53, self.rows)).clip(1, 52)
            fourth = _day(year, np.int64(1), np.int64(4))  # of January: always in week 1
            monday = fourth - (fourth.astype(np.int64) + 3) % 7
            days = monday + 7 * (week - 1) + draw(0, 7, self.rows)
        else:
            month = draw(1, 13, self.rows)
            if "quarter" in of:
                month = 3 * (of["quarter"] - 1) + draw(1, 4, self.rows)
            month, day = of.get("month", month), draw(1, 29, self.rows)
            if "age" in of:
                at = next(date.fromisoformat(part.at or "") for part in parts.values() if part.part == "age")
                later = (month > at.month) | ((month == at.month) & (day > at.day))
                year = at.year - of["age"] - later
            days = _day(year, month, day)
        if any(part.zone is not None for part in parts.values()):
            # An hour at which it is the same day nearly everywhere.
            return pa.array(np.char.add(np.datetime_as_string(days), "T11:00:00Z"))
        return pa.array(days)

    def _integers(self, name: str) -> Ints:
        """Return whole numbers that are in the cells of a column."""
        domain, cells = self.loaded.domains[name], self._cells[name]
        if isinstance(domain, NumberDomain):
            return self._steps(domain, cells) // domain.per_one
        numbers = np.array([int(code) if code.isdecimal() else 1 for code in domain.codes])
        return numbers[cells]


def _cell_of(domain: Domain, code: str) -> int:
    """Return the cell of a code, or of a whole number; -1 of what has none."""
    if not isinstance(domain, NumberDomain):
        return domain.codes.index(code) if code in domain.codes else -1
    if not code.lstrip("-").isdecimal():
        return -1
    step = domain.step(int(code))
    inside = domain.edges[0] <= step < domain.edges[-1]
    return int(np.searchsorted(domain.edges, step, side="right")) - 1 if inside else -1


def _day(year: Ints, month: Any, day: Any) -> NDArray[np.datetime64]:
    """Return dates, those beyond the calendar's years at its ends."""
    months = 12 * (np.clip(year, 1, 9999) - 1970) + np.clip(month, 1, 12) - 1
    dates: NDArray[np.datetime64] = months.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    return dates
