"""How many records a cell will have: from the size that a spec states, or from a published release.

A *typical* cell has the records of its table divided by the cells of its level that somebody can be in; by
the counts of a release, the median of those that hold something. A *small* one has a tenth of that, and no
less than one record. Neither is ever taken from the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.tasks.plan.public_counts import table_like
from tabularium.tasks.postprocess.denominators import known_on_tree
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.spec.columns import HierarchyColumn
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.measures.measure import Measure
from tabularium.validations.spec.tables import Table

SMALL = 0.1
"""Records of a small cell, in parts of those of a typical one."""


def small_of(typical: float) -> float:
    """Return how many records a small cell has."""
    return min(typical, max(1.0, SMALL * typical))


@dataclass(frozen=True)
class CellSizes:
    """The typical cells of all tables.

    Attributes
    ----------
    loaded
        The spec with all levels that it publishes.
    cells
        Table -> level -> cells that somebody can be in.
    typical
        Table -> level -> records; nothing of tables whose size nobody stated.
    released
        Tables of which it is by the counts of a release.
    """

    loaded: Loaded
    cells: Mapping[str, Mapping[str, int]]
    typical: Mapping[str, Mapping[str, float]]
    released: frozenset[str]

    @classmethod
    def of(cls, model: PlannedModel, like: Released | None = None) -> CellSizes:
        """Work them out; where a release has a table, by its counts.

        Raises
        ------
        InputError
            The release has none of the tables.
        """
        spec = model.loaded.spec
        cells = {table.name: model.loaded.measured_cells(table) for table in spec.tables}
        typical: dict[str, dict[str, float]] = {}
        for name, levels in cells.items():
            size = size_of(model.loaded, next(each for each in spec.tables if each.name == name))
            if size is not None:
                typical[name] = {level: size / max(1, number) for level, number in levels.items()}
        released = {} if like is None else _by_release(model, like)
        return cls(model.loaded, cells, typical | released, frozenset(released))

    def over(self, table: Table, level: str, measure: Measure) -> float | None:
        """Return what a rate is over in a typical cell; of public numbers the median of the level."""
        for known in (*self.loaded.known, *self.loaded.figures):
            if known.name == measure.denominator:
                return _median(_at_level(self.loaded, known, level))
        other = next(each for each in self.loaded.spec.tables if each.name == measure.denominator)
        return self.typical.get(other.name, {}).get(level if other.along == table.along else "")


def size_of(loaded: Loaded, table: Table) -> float | None:
    """Return how many records a table will count: as it is stated, or as an invariant of all records adds."""
    if table.size is not None:
        return float(table.size)
    if table.where is not None:
        return None  # a part of them, and nobody knows which
    if loaded.spec.size is not None:
        return float(loaded.spec.size)
    return next((float(known.values.sum()) for known in loaded.known), None)


def _by_release(model: PlannedModel, like: Released) -> dict[str, dict[str, float]]:
    found, refused = {}, []
    for table in model.loaded.spec.tables:
        layout = model.agreement.layouts[table.name]
        try:
            counts = table_like(model, table.name, like)
        except InputError as error:
            refused.append(error)
            continue
        found[table.name] = {level: _median(counts[nodes]) for level, nodes in layout.cuts.items()}
    if not found:
        raise refused[0]
    return found


def _at_level(loaded: Loaded, known: KnownMarginal, level: str) -> Floats:
    tree, values = known_on_tree(loaded, known)
    column = None if known.along is None else loaded.spec.columns[known.along]
    names = column.levels if isinstance(column, HierarchyColumn) else ()
    found: Floats = values[tree.depth == names.index(level)] if level in names else values
    return found


def _median(counts: Floats) -> float:
    some = counts[counts > 0]
    return float(np.median(some)) if some.size else 0.0
