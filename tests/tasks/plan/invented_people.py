"""People who do not exist, and the tables and arrays of measures that a spec has of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Hierarchy
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.derivation import parents_of, source_column
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import PART, Measure
from tabularium.validations.universes.universe import universe_of

Chosen = dict[str, NDArray[np.int64]]
"""Column -> (people,) cell."""


def invented(made: Loaded, people: int, seed: int) -> tuple[Chosen, NDArray[np.float64]]:
    """Return the cells of people, and values of mean one that fall off exponentially.

    Columns go together by chance alone, but for nested codings of one column.
    """
    draw, columns = generator(seed), made.spec.columns
    chosen: Chosen = {}
    finest: dict[str | None, str] = {}
    for name, domain in sorted(made.domains.items(), key=lambda each: -each[1].size):
        source = source_column(name, columns[name])
        if source in finest:
            within = parents_of(finest[source], name, columns, made.domains)
            assert within is not None
            chosen[name] = within[chosen[finest[source]]]
        else:
            chosen[name] = draw.choice(domain.size, people, p=draw.dirichlet(np.full(domain.size, 3.0)))
            finest[source] = name
    return chosen, draw.exponential(1.0, people)


def array_of(
    made: Loaded, layout: Layout, chosen: Chosen, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a table of people, or the array of a measure whose bounds are five times the mean apart."""
    here = np.ones(len(values), bool)
    if layout.table.where is not None:
        for column, mask in universe_of(layout.table.where, made.domains).columns.items():
            here &= mask[chosen[column]]
    along, others = layout.along, layout.others
    nodes = np.zeros(len(values), np.int64) if along is None else along.leaves[chosen[along.name]]
    table = np.zeros((1 if along is None else len(along.parents), layout.cells))
    for part, adds in _added(layout.table.measured, values):
        own = {**chosen, PART: part}
        cells = np.zeros(len(values), np.int64)
        for domain in others:
            cells = cells * domain.size + own[domain.name]
        np.add.at(table, (nodes[here], cells[here]), adds[here])
    if along is not None:
        for block in Hierarchy(along.parents).up(layout.cells):
            table[block.parents] += block.total(table[block.children])
    return table[: layout.nodes]


def _added(
    measure: Measure | None, values: NDArray[np.float64]
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return what each person adds to an array: at which parts, and how much."""
    first, one = np.zeros(len(values), np.int64), np.ones(len(values))
    if measure is None:
        return [(first, one)]
    steps = np.minimum(np.rint(values * measure.width / 5), measure.width)
    if measure.kind == "sum":
        return [(first, steps + measure.low)]
    if measure.kind == "mean":
        return [(first, steps), (first + 1, measure.width - steps)]
    return [(steps.astype(np.int64), one)]
