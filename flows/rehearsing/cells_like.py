"""Cells of made-up records: evenly, or as many in each as published tables say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.release_spec.load import Loaded

Ints = NDArray[np.int64]


@dataclass
class Cells:
    """The cells of made-up records, column by column.

    Attributes
    ----------
    of
        Declared column -> (records,) the cell of each.
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
        tables = [each for each in release.spec.tables if set(each.dimensions) & set(self.loaded.domains)]
        for table in sorted(tables, key=lambda each: -len(each.dimensions)):
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
        shape = tuple(each.size for each in layout.others)
        axes = [(each.name, each.codes) for each in layout.others]
        if layout.along is not None:
            shape = (len(nodes), *shape)
            codes = tuple(layout.along.node_codes[node] for node in nodes)
            axes = [(layout.along.name, codes), *axes]
        counts = np.nan_to_num(numbers.counts[nodes], nan=0.0).clip(0).reshape(shape)
        published = {
            name: _published_cell(self.loaded.domains[name], codes) if name in self.loaded.domains else None
            for name, codes in axes
        }
        away = tuple(place for place, (name, _) in enumerate(axes) if not _finds(published[name]))
        counts = counts.sum(axis=away)
        axes = [each for place, each in enumerate(axes) if place not in away]
        fixed = [place for place, (name, _) in enumerate(axes) if name in self.of]
        free = [place for place in range(len(axes)) if place not in fixed]
        if not free:
            return
        for place in free:  # of what is no code of the spec nobody is drawn
            there = np.isin(np.arange(counts.shape[place]), _cells_of(published[axes[place][0]]))
            counts = counts * there.reshape([-1 if each == place else 1 for each in range(counts.ndim)])
        sizes = [counts.shape[place] for place in free]
        weights = counts.transpose(fixed + free).reshape(-1, int(np.prod(sizes)))
        row = np.zeros(self.rows, np.int64)
        known = np.ones(self.rows, bool)
        for place in fixed:
            name = axes[place][0]
            at = _cells_of(published[name])[self.of[name]]
            known &= at >= 0
            row = row * counts.shape[place] + at.clip(0)
        drawn = self._drawn_in(weights, row, known)
        for place, at in zip(free, np.unravel_index(drawn, sizes), strict=True):
            name = axes[place][0]
            self.of[name] = self._one_of(_cells_of(published[name]), at, known)

    def _drawn_in(self, weights: NDArray[np.float64], row: Ints, known: NDArray[np.bool_]) -> Ints:
        """Draw a column of each record's row by its weights; where there are none, evenly (known: False)."""
        ends = np.concatenate([[0.0], np.cumsum(weights.reshape(-1))])
        low, high = ends[row * weights.shape[1]], ends[(row + 1) * weights.shape[1]]
        known &= high > low
        found = np.searchsorted(ends, low + self.rng.random(self.rows) * (high - low), side="right") - 1
        column: Ints = np.clip(found - row * weights.shape[1], 0, weights.shape[1] - 1)
        return column

    def _one_of(self, published: Ints, at: Ints, known: NDArray[np.bool_]) -> Ints:
        """Return one of the cells that make up each record's published cell; any where none is known."""
        order = np.argsort(published, kind="stable")
        starts = np.searchsorted(published[order], at, side="left")
        many = np.searchsorted(published[order], at, side="right") - starts
        chosen = starts + (self.rng.random(self.rows) * many).astype(np.int64)
        found = order[chosen.clip(0, len(order) - 1)]
        anywhere = self.rng.integers(0, len(published), self.rows)
        return np.where(known & (many > 0), found, anywhere)


def _cells_of(published: Ints | None) -> Ints:
    assert published is not None  # noqa: S101 - what finds no code was summed away
    return published


def _finds(published: Ints | None) -> bool:
    return published is not None and bool((published >= 0).any())


def _published_cell(domain: Domain, codes: tuple[str, ...]) -> Ints:
    """Return, for each cell of a domain, the place of its code among published ones; -1 where there is none.

    Of a hierarchy the code of a leaf, or of what is above it.
    """
    place = {code: at for at, code in enumerate(codes)}
    if not isinstance(domain, HierarchyDomain):
        return np.array([place.get(code, -1) for code in domain.codes])
    found = np.full(len(domain.parents), -1)
    for node, parent in enumerate(domain.parents):  # parents stand before their children
        above = -1 if parent < 0 else found[parent]
        found[node] = place.get(domain.node_codes[node], above)
    return found[domain.leaves]
