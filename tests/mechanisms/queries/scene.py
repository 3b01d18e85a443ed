"""Attributes, hierarchies and small tables that queries are asked of."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import laplace_variance
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    Measurement,
    NoisyTable,
    QueryTable,
    TreeAttribute,
    ask,
)
from tabularium.mechanisms.queries.sources import LinearTable, MeasuredLevel, table_of

# --- a table of people, and one of eight areas ---------------------------------------------------------

AGE = Attribute.bins("age", [0, 5, 20, 65, 100])
SEX = Attribute.categories("sex", ["F", "M"], ["female", "male"])
SIZE = Attribute.categories("size", ["1", "2", "3", "more"])
CODES = ("N", "A", "B", "C", "A1", "A2", "B1", "B2")
LABELS = ("Nation", "Alpha", "Beta", "Gamma", "Alpha one", "Alpha two", "Twin", "Twin")
PARENTS = np.array([-1, 0, 0, 0, 1, 1, 2, 2])
DEPTH = np.array([0, 1, 1, 1, 2, 2, 2, 2])
AREA = TreeAttribute(
    "area", CODES, LABELS, PARENTS, DEPTH, ("nation", "province", "place"), frozenset({"A11"})
)


def flat(values: Any, *attributes: Attribute, scale: float = 10.0) -> QueryTable:
    axes = Axes(None, attributes)
    cells = np.asarray(values).reshape(1, *axes.shape)
    return QueryTable(
        "people",
        axes,
        NoisyTable(axes, (Measurement(np.array([0]), cells, laplace_variance(scale), scale),)),
    )


PEOPLE = flat([[30, 31], [52, 48], [200, 210], [20, 12]], AGE, SEX)
# Leaves in order: C, A1, A2, B1, B2, each with a count of its own, so that sums name their leaves.
PLACES = np.array([1, 10, 100, 1000, 10000])


def leaves(*attributes: Attribute) -> QueryTable:
    axes = Axes(AREA, attributes)
    cells = np.broadcast_to(PLACES.reshape(-1, *[1] * len(attributes)), (5, *axes.shape))
    return QueryTable("areas", axes, NoisyTable(axes, (Measurement(AREA.leaves, cells, 1.0),)))


def values(text: str, *tables: QueryTable) -> list[float | None]:
    return [row.value for row in ask(text, tables).rows]


# --- a larger hierarchy, its cuts, and tables of which sums were measured ------------------------------

REGION_CODES = ("N", "A", "B", "C", "A1", "A2", "A3", "B1", "B2")
REGION = TreeAttribute(
    "area",
    *(REGION_CODES, REGION_CODES),
    np.array([-1, 0, 0, 0, 1, 1, 1, 2, 2]),
    np.array([0, 1, 1, 1, 2, 2, 2, 2, 2]),
    ("nation", "province", "place"),
)
CUTS = {"nation": np.array([0]), "province": np.array([1, 2, 3]), "place": np.array([3, 4, 5, 6, 7, 8])}
FLAT = Axes(
    None,
    (
        Attribute.bins("age", [0, 5, 18, 20, 30, 45, 65, 100]),
        Attribute.categories("sex", ["F", "M"]),
        Attribute.categories("size", ["1", "2", "3", "4"]),
    ),
)
TREE = Axes(REGION, FLAT.others[:2])


@cache
def counts_of(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return generator(4).poisson(generator(5).choice([0.5, 8, 40], shape))


def level(
    name: str, given: dict[str, Any], counts: NDArray[np.int64], nodes: Any, seed: int, budget: str = "1"
) -> MeasuredLevel:
    measured = build(name, **given).measure(counts, SeededChannel(Fraction(budget), seed=seed))
    found = build(name, **given).linear_measurements(measured)
    assert found is not None
    return MeasuredLevel(np.asarray(nodes), found)


def flat_sums(name: str, given: dict[str, Any], seed: int = 1, budget: str = "1") -> LinearTable:
    table = table_of(FLAT, [level(name, given, counts_of((7, 2, 4)), [0], seed, budget)], None, FLAT.shape)
    assert isinstance(table, LinearTable)
    return table
