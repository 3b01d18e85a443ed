"""A release as the report reads it: its levels, sizes of counts, and names of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.certificate import Certificate

MOST_TABLES = 24
"""Tables that are told of at length; a page of more would be too large to read."""

_FIRSTS = [low for low, _ in SIZES[1:]]


@dataclass(frozen=True)
class Level:
    """The nodes of one level of a table, which lie together: the layout is breadth-first.

    Attributes
    ----------
    name
        Of the level; empty where a table has no hierarchy.
    nodes
        Where they lie.
    """

    name: str
    nodes: slice


def opened(folder: Path, told: Certificate) -> Released:
    """Read what lies beside a certificate; the certificate itself need not lie there yet.

    Raises
    ------
    PublicationError
        Its spec or a code list cannot be read.
    """
    return Released.read(folder, told, "")


def levels_of(layout: Layout, present: NDArray[np.bool_]) -> list[Level]:
    """Return the levels of a table that are published, the root first.

    ``present``: (nodes,) which nodes are published.
    """
    if layout.along is None:
        return [Level("", slice(0, 1))]
    depth = layout.along.depth[: layout.nodes]
    ends = np.searchsorted(depth, np.arange(int(depth.max()) + 2))
    spans = [slice(int(first), int(last)) for first, last in pairwise(ends)]
    return [Level(layout.along.levels[each], span) for each, span in enumerate(spans) if present[span].any()]


def size_class(counts: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return the class in ``SIZES`` of every count, -1 where it was left blank."""
    whole, found = np.rint(counts), np.zeros(len(counts), np.int8)
    for first in _FIRSTS:
        found += whole >= first
    found[np.isnan(counts)] = -1
    return found


def names_of(layout: Layout, node: int, cell: int) -> Iterator[tuple[str, str, str]]:
    """Yield dimension, code and label of a cell, in the order of the spec."""
    sizes = [domain.size for domain in layout.others]
    places = (
        dict(zip((d.name for d in layout.others), np.unravel_index(cell, sizes), strict=True))
        if sizes
        else {}
    )
    for name in layout.table.dimensions:
        if layout.along is not None and name == layout.table.along:
            yield name, layout.along.node_codes[node], layout.along.node_labels[node]
        else:
            domain = next(each for each in layout.others if each.name == name)
            at = int(places[name])
            yield name, domain.codes[at], domain.labels[at]


def in_words(layout: Layout, node: int, cell: int) -> str:
    """Return the labels of a cell as one line."""
    return ", ".join(label for _, _, label in names_of(layout, node, cell))
