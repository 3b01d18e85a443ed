"""The arrays by which the measures of a table are measured: which each is read off, and what pays for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TypeVar

from tabularium.validations.release_spec.kinds import Part
from tabularium.validations.release_spec.measures.measure import PART, Measure
from tabularium.validations.release_spec.tables import PER_REGION, PLAIN

T = TypeVar("T", bound=Part)


def array_name(table: str, owner: str) -> str:
    """Return the name of the array that a measure has of its own; no table has a ``-`` in its own."""
    return f"{table}-{owner}"


def array_of(measures: Mapping[str, Measure], table: str, name: str) -> str:
    """Return the name of the array that a measure is read off."""
    return array_name(table, owner_of(measures, name))


def owner_of(measures: Mapping[str, Measure], name: str) -> str:
    """Return the measure whose array it is: of quantiles by one tree the first, of all others their own."""
    measure = measures[name]
    if not measure.reads_shared_array:
        return name
    return next(each for each, other in measures.items() if other.counts_alike == measure.counts_alike)


def owners(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """Return the measures that have an array of their own, which pays for others that are read off it."""
    return {name: measure for name, measure in measures.items() if owner_of(measures, name) == name}


def counts_of(table: T) -> T:
    """Return the counts of a filled-in table with what measures them: in each region its own mechanism."""
    per: str | None = table.per  # type: ignore[attr-defined]
    mechanism: str = table.mechanism  # type: ignore[attr-defined]
    if per is None or mechanism in (*PLAIN, PER_REGION):
        return table
    parameters = {
        "mechanism": mechanism,
        "parameters_of_each": dict(table.parameters),  # type: ignore[attr-defined]
        "axis": axis_of(table, per),
    }
    return table.model_copy(update={"mechanism": PER_REGION, "parameters": parameters})


def axis_of(table: Part, name: str) -> int:
    """Return the axis of a dimension in the shape in which a filled-in table is counted."""
    along: str | None = table.along  # type: ignore[attr-defined]
    if name == along:
        return 0
    others = [each for each in table.dimensions if each != along]  # type: ignore[attr-defined]
    return others.index(name) + (along is not None)  # the nodes of the hierarchy come first


def split(table: T) -> Iterator[T]:
    """Yield what is measured of a filled-in table: its counts, then the array of each measure.

    Each with its part of the table's share.
    """
    measures: dict[str, Measure] = table.measures  # type: ignore[attr-defined]
    if not measures:
        yield counts_of(table)
        return
    whole: Fraction = table.share  # type: ignore[attr-defined]
    own = owners(measures)
    shares = {name: measure.share or Fraction(0) for name, measure in own.items()}
    yield counts_of(table).model_copy(update={"share": whole * (1 - sum(shares.values()))})
    for name, measure in own.items():
        mechanism, parameters = measure.mechanism
        dimensions: tuple[str, ...] = table.dimensions  # type: ignore[attr-defined]
        yield table.model_copy(
            update={
                "name": array_of(measures, table.name, name),  # type: ignore[attr-defined]
                "dimensions": (*dimensions, *([PART] if measure.part_domain else [])),
                "share": whole * shares[name],
                "mechanism": mechanism,
                "parameters": parameters | _of_groups(table, measure),
                "per": None,
                "margin_share": None,
                "measures": {n: each for n, each in measures.items() if owner_of(measures, n) == name},
                "measured": measure,
            }
        )


def _of_groups(table: T, measure: Measure) -> dict[str, object]:
    """Return the parameters of the mechanism that say how the noise differs by groups."""
    if measure.by is None:
        return {}
    return {"by_group": list(measure.sensitivities), "axis": axis_of(table, measure.by)}


def in_order(measure: Measure, codes: Mapping[str, tuple[str, ...]]) -> Measure:
    """Return a measure whose groups stand in the order of the cells: column -> its codes."""
    return measure if measure.by is None or measure.by not in codes else measure.in_order(codes[measure.by])


def with_shares(measures: dict[str, Measure]) -> dict[str, Measure]:
    """Return measures with their shares of the table's budget: where none has one, as much as the count.

    A quantile that is read off the array of another one has none.
    """
    own = owners(measures)
    equal = Fraction(1, 1 + len(own))
    return {
        name: measure.model_copy(update={"share": equal})
        if measure.share is None and name in own
        else measure
        for name, measure in measures.items()
    }
