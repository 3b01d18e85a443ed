"""How tables are counted: the axes of their arrays, and the levels above the finest that is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.count.count_files import Counts
from tabularium.validations.domains.domains import (
    Domain,
    HierarchyDomain,
    cut,
    depth_of,
    leaf_positions,
    positions,
)
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.tables import Table


@dataclass(frozen=True, eq=False)
class Axis:
    """How a table is counted: its dimensions in the order of the array, and its finest level.

    ``place`` takes a leaf's cell code to its node in the finest level, and is None where they are the same.
    ``parts`` is how many numbers each cell has: of the array of a measure there may be several.
    """

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    finest: str
    place: Counts | None
    parts: int = 1

    @property
    def numbers(self) -> int:
        """How many numbers its array has."""
        return math.prod(self.shape) * self.parts


def axis_of(domains: Mapping[str, Domain], table: Table) -> Axis:
    """Return how a table is counted."""
    parts = 1 if table.measured is None else table.measured.parts
    # The last dimension of an array with several numbers for each cell is no column: one may have its name.
    crossed = table.dimensions if parts == 1 else table.dimensions[:-1]
    others = tuple(name for name in crossed if name != table.along)
    inner = tuple(domains[name].size for name in others)
    if table.along is None:
        return Axis(others, inner, "", None, parts)
    domain = _hierarchy(domains, table.along)
    finest = max(table.levels, key=lambda level: depth_of(domain, level))
    place = leaf_positions(domain, finest)
    shape = (len(cut(domain, finest)), *inner)
    same = np.array_equal(place, np.arange(shape[0]))
    return Axis((table.along, *others), shape, finest, None if same else place, parts)


def _hierarchy(domains: Mapping[str, Domain], name: str) -> HierarchyDomain:
    domain = domains[name]
    if not isinstance(domain, HierarchyDomain):
        raise InputError("is not a hierarchy", where=f"columns.{name}", hint="correct `along` in the tables")
    return domain


def at_finest(numbers: Counts, axis: Axis) -> Counts:
    """Move cell numbers over the leaves to cell numbers over the finest measured level."""
    if axis.place is None:
        return numbers
    inner = math.prod(axis.shape[1:])
    leaf, rest = np.divmod(numbers, inner)
    moved: Counts = axis.place[leaf] * inner + rest
    return moved


def groups_of(cells: Counts, axis: Axis, by: str | None) -> Counts | None:
    """Return the place of each cell along the dimension by which bounds differ; None where they do not."""
    if by is None:
        return None
    place = axis.dimensions.index(by)
    found: Counts = cells // math.prod(axis.shape[place + 1 :]) % axis.shape[place]
    return found


def counted_levels(loaded: Loaded, table: Table, counts: Counts) -> Iterator[tuple[str, Counts]]:
    """Yield every measured level of a table, the upper ones by summing the finest."""
    axis = axis_of(loaded.domains, table)
    finest = counts.reshape(*axis.shape, *([axis.parts] if axis.parts > 1 else []))
    if table.along is None:
        yield "", finest
        return
    domain = _hierarchy(loaded.domains, table.along)
    nodes = cut(domain, axis.finest)
    for level in table.levels:
        if level == axis.finest:
            yield level, finest
        else:
            yield level, _summed(finest, positions(domain, nodes, level), len(cut(domain, level)))


def place_at(loaded: Loaded, table: Table, level: str) -> Counts:
    """Return where in a level each node of the finest measured level lies."""
    domain = _hierarchy(loaded.domains, table.along or "")
    return positions(domain, cut(domain, axis_of(loaded.domains, table).finest), level)


def _summed(counts: Counts, place: Counts, nodes: int) -> Counts:
    """Sum the rows of ``counts`` that have the same place."""
    from scipy import sparse

    wide = counts.reshape(len(counts), -1)
    ones = np.ones(len(place), np.int64)
    membership = sparse.csr_array((ones, (place, np.arange(len(place)))), shape=(nodes, len(place)))
    summed: Counts = membership @ wide
    return summed.reshape(nodes, *counts.shape[1:])
