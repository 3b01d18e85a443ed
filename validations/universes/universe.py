"""The universe of a table: the records that its ``where`` is true of.

A test is about declared columns and their public domains, in the language of queries
(:mod:`mechanisms.queries.grammar`), so that whoever reads a spec can ask the published tables the same. It
says of each column in which cells it holds; a record is judged by its own cells alone. Where a column is
null, no test of it holds, also where nulls are counted as ``other``: null is not a value.

Why sensitivity is unchanged. Bounding keeps at most c records of a unit, by the unit's own records; a
universe then drops some of the kept records, each by its own columns. Both go unit by unit, so that adding,
removing or replacing a unit still changes every table by that unit's at most c records
(docs/explanation/universes.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from mechanisms.queries.attributes import AnyAttribute
from mechanisms.queries.grammar import Either, Test, parse_tests
from mechanisms.queries.query_plan import bound
from validations.domains.domains import Domain
from validations.domains.encoding import coded_names
from validations.domains.query_attributes import attribute_of
from validations.spec.model import ReleaseSpec
from validations.spec.parts.table_parts import Histogram, Table

Mask = NDArray[np.bool_]
_LONGEST_RUNS = 16  # runs of codes that are compared; more are looked up in a list


@dataclass(frozen=True, eq=False)
class Universe:
    """Tests that all must hold.

    Attributes
    ----------
    columns
        Column -> (cells,) in which of its cells the tests of it hold.
    alternatives
        Of each, one must hold.
    """

    columns: dict[str, Mask]
    alternatives: tuple[tuple[Universe, ...], ...] = ()

    @property
    def key(self) -> object:
        """Something that is equal for two universes that test the same, in whatever order."""
        return (
            frozenset((name, mask.tobytes()) for name, mask in self.columns.items()),
            frozenset(frozenset(option.key for option in either) for either in self.alternatives),
        )

    @property
    def about(self) -> list[str]:
        """The columns that are tested, each once."""
        inner = [name for either in self.alternatives for option in either for name in option.about]
        return list(dict.fromkeys([*self.columns, *inner]))

    def masks(self, name: str) -> list[Mask]:
        """Return every test of one column."""
        own = [self.columns[name]] if name in self.columns else []
        return [
            *own,
            *(mask for either in self.alternatives for option in either for mask in option.masks(name)),
        ]

    def holds(self, records: Any, domains: Mapping[str, Domain]) -> Any:
        """Return the condition, never null, that a coded record is in the universe.

        Parameters
        ----------
        records
            Ibis table of kept records, with what :func:`validations.domains.encoding.coded` added.
        domains
            Of all declared columns.
        """
        names = coded_names(domains)
        tests = [
            _among(records[names[name].code], mask) & ~records[names[name].null]
            for name, mask in self.columns.items()
        ]
        tests += [
            ibis.or_(*(option.holds(records, domains) for option in either)) for either in self.alternatives
        ]
        return ibis.and_(*tests)


def universe_of(text: str, domains: Mapping[str, Domain]) -> Universe:
    """Return the universe that ``text`` describes.

    Raises
    ------
    InputError
        Saying what in the text is not understood or not known, and at which character.
    """
    return universe_of_tests(parse_tests(text), domains)


def universe_of_tests(tests: Sequence[Test], domains: Mapping[str, Domain]) -> Universe:
    """Return the universe in which all of some tests hold; see :func:`universe_of`."""
    return _every(tests, [attribute_of(domain) for domain in domains.values()])


def key_of(table: Table, domains: Mapping[str, Domain]) -> object:
    """Return what is equal for tables of one universe; None for a table of all records."""
    return None if table.where is None else universe_of(table.where, domains).key


def tested_columns(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> set[str]:
    """Return the columns that any universe of a spec tests."""
    wheres = [table.where for table in spec.tables if table.where is not None]
    return {name for where in wheres for name in universe_of(where, domains).about}


def counted_in(spec: ReleaseSpec, entry: Table | Histogram) -> str:
    """Say in words which records a table or a histogram counts."""
    where = entry.where if isinstance(entry, Table) else None
    return spec.privacy.bounding + ("" if where is None else f"; of these only records where {where}")


def in_plain_words(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> list[str]:
    """Return what `check` says of the universes of a spec, a line for each thing worth knowing."""
    said, keys = [], {key_of(table, domains) for table in spec.tables}
    for table in spec.tables:
        if table.where is None:
            continue
        universe = universe_of(table.where, domains)
        said.append(f"table {table.name} counts only records where {table.where}; a null passes no test")
        for name in universe.about:
            if _other_passes(universe, domains[name]):
                said.append(
                    f"table {table.name} leaves out the nulls of {name}, also where it counts its `other`"
                )
        for name in table.dimensions:
            mask = universe.columns.get(name)
            if mask is not None and not mask.all():
                left = f"{int(mask.sum())} of {mask.size} values of {name}"
                said.append(
                    f"table {table.name} counts nobody but in {left}: its other cells are noise alone"
                )
    if len(keys) > 1:
        said.append("tables of different universes are not made to agree with each other")
    return said


def _other_passes(universe: Universe, domain: Domain) -> bool:
    """Whether the cell that nulls go to passes a test, which the nulls themselves do not."""
    if domain.nulls != "other" or domain.other is None:
        return False
    place = domain.codes.index(domain.other)
    return any(mask[place] for mask in universe.masks(domain.name))


def _every(tests: Sequence[Test], attributes: Sequence[AnyAttribute]) -> Universe:
    columns: dict[str, Mask] = {}
    alternatives: list[tuple[Universe, ...]] = []
    for test in tests:
        found = [_every(option, attributes) for option in test.options] if isinstance(test, Either) else []
        if not isinstance(test, Either):
            place, mask = bound(test, attributes)
            name = attributes[place].name
        elif all(len(each.columns) == 1 and not each.alternatives for each in found) and (
            len({name for each in found for name in each.columns}) == 1
        ):
            # Several values of one column are one test of it.
            name = next(iter(found[0].columns))
            mask = np.logical_or.reduce([each.columns[name] for each in found])
        else:
            alternatives.append(tuple(found))
            continue
        columns[name] = columns[name] & mask if name in columns else mask
    return Universe(columns, tuple(alternatives))


def _among(code: Any, mask: Mask) -> Any:
    """Return whether a code, which is not null, is one of the chosen cells."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    runs = [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
    if not runs:
        return ibis.literal(value=False)
    if len(runs) > _LONGEST_RUNS:
        return code.isin([int(place) for place in np.flatnonzero(mask)])
    # From the first code to the one before the last edge: a run of one is compared with one.
    return ibis.or_(
        *(code == first if last == first + 1 else code.between(first, last - 1) for first, last in runs)
    )
