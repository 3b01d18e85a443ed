"""The universe of a table: the records that its ``where`` is true of.

A test is about declared columns and their public domains, in the language of queries
(:mod:`tabularium.mechanisms.queries.grammar`), so that a reader of the spec can ask the published tables the
same. It says of each column in which cells it holds; a record is judged only by its own cells. Where a
column is null, a test of its values neither holds nor fails, also where nulls are counted as ``other``: null
is not a value. ``and`` and ``or`` go by that (Kleene's three values, as in SQL), and ``is null`` and ``is not
null`` are always one or the other. A table counts the records for which all is true. A rate is of those where
its test is true or false (:meth:`Universe.truth`), and may ask of any column of the source whether it
is null.

Why sensitivity is unchanged. Bounding keeps at most c records of a unit, by the unit's own records; a
universe then drops some of the kept records, each by its own columns. Both go unit by unit, so that adding,
removing or replacing a unit still changes every table by that unit's at most c records
(docs/explanation/universes.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.attributes import AnyAttribute
from tabularium.mechanisms.queries.grammar import Either, Null, Test, Word, parse_tests, plain, query_error
from tabularium.mechanisms.queries.selection import bound, find
from tabularium.validations.domains.domains import Domain, attribute_of
from tabularium.validations.domains.encoding import CodedNames, coded_names, is_missing
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.tables import Histogram, Table

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

Mask = NDArray[np.bool_]
CELL_BY_CELL = ("identity", "cells", "gaussian", "bounded_sums")
"""Mechanisms that measure each number by itself, so that known zeros may be left out."""
_LONGEST_RUNS = 16  # runs of codes that are compared; more are looked up in a list


@dataclass(frozen=True, eq=False)
class Universe:
    """Tests that all must hold.

    Attributes
    ----------
    columns
        Column -> (cells,) in which of its cells the tests of it hold; one that is not declared has one cell.
    alternatives
        Of each, one must hold.
    nulls
        Column -> whether they hold of its nulls; of a column that is not here they neither hold nor fail.
    """

    columns: dict[str, Mask]
    alternatives: tuple[tuple[Universe, ...], ...] = ()
    nulls: dict[str, bool] = field(default_factory=dict)

    @property
    def key(self) -> object:
        """Something that is equal for two universes that test the same, in whatever order."""
        return (
            frozenset((name, mask.tobytes()) for name, mask in self.columns.items()),
            frozenset(frozenset(option.key for option in either) for either in self.alternatives),
            frozenset(self.nulls.items()),
        )

    @property
    def about(self) -> list[str]:
        """The columns that are tested, each once."""
        inner = [name for either in self.alternatives for option in either for name in option.about]
        return list(dict.fromkeys([*self.columns, *inner]))

    @property
    def about_nulls(self) -> set[str]:
        """The columns that are tested for nulls."""
        inner = (option.about_nulls for either in self.alternatives for option in either)
        return set(self.nulls).union(*inner)

    def masks(self, name: str) -> list[Mask]:
        """Return every test of one column, each with one more place at its end, for nulls."""
        masks = [np.append(self.columns[name], self.nulls.get(name, False))] if name in self.columns else []
        return [
            *masks,
            *(mask for either in self.alternatives for option in either for mask in option.masks(name)),
        ]

    def outside(self, domains: Mapping[str, Domain]) -> list[dict[str, Mask]]:
        """Return columns with those of their cells that hold nobody, as far as one test decides it."""
        names = []
        for name, mask in self.columns.items():
            empty = ~mask
            if self.nulls.get(name) and domains[name].other is not None:
                empty[domains[name].codes.index(domains[name].other or "")] = False  # nulls are counted there
            names.append({name: empty})
        return names

    def holds(self, records: Any, domains: Mapping[str, Domain]) -> Any:
        """Return the condition, never null, that a coded record is in the universe; see :meth:`truth`."""
        return self.truth(records, domains, {}).fill_null(False)

    def truth(self, records: Any, domains: Mapping[str, Domain], raw: Mapping[str, str]) -> Any:
        """Return whether the tests hold of a coded record; null where they neither hold nor fail.

        Parameters
        ----------
        records
            Ibis table of kept records, with what :func:`tabularium.validations.domains.encoding.coded` added.
        raw
            Column of the source -> its name in ``records``, for those that are not declared.
        """
        names = coded_names(domains)
        tests = []
        for name, mask in self.columns.items():
            known = name in domains
            null = _is_null(records, names[name], domains[name]) if known else is_missing(records[raw[name]])
            # In Kleene's logic as in SQL, what is neither true nor false is null.
            of_null = self.nulls.get(name)
            value = among(records[names[name].code], mask) if known else ibis.literal(bool(mask[0]))
            unknown = ibis.null("boolean") if of_null is None else ibis.literal(of_null)
            tests.append(ibis.ifelse(null, unknown, value))
        tests += [
            ibis.or_(*(option.truth(records, domains, raw) for option in either))
            for either in self.alternatives
        ]
        return ibis.and_(*tests)


def _is_null(records: Any, names: CodedNames, domain: Domain) -> Any:
    """Return whether a kept record is null in a column: it was, and no public fact gave it another value."""
    if domain.other is None:
        return records[names.null]
    return records[names.null] & (records[names.code] == domain.codes.index(domain.other))


def universe_of(text: str, domains: Mapping[str, Domain], *, undeclared: bool = False) -> Universe:
    """Return the universe that ``text`` describes.

    ``undeclared``: a name that is not declared may be tested for nulls: then it is a column of the source.

    Raises
    ------
    InputError
        Saying what in the text is not understood or not known, and at which character.
    """
    return universe_of_tests(parse_tests(text), domains, undeclared=undeclared)


def universe_of_tests(
    tests: Sequence[Test], domains: Mapping[str, Domain], *, undeclared: bool = False
) -> Universe:
    """Return the universe in which all of some tests hold; see :func:`universe_of`."""
    return _every(tests, [attribute_of(domain) for domain in domains.values()], domains, undeclared)


def test_of(text: str, domains: Mapping[str, Domain]) -> Universe:
    """Return the test of a rate; it may ask of any column of the source whether it is null."""
    return universe_of(text, domains, undeclared=True)


def adds_alike(measure: Measure, domains: Mapping[str, Domain]) -> object:
    """Return what is equal for measures whose arrays add up the same: they are made to agree."""
    return measure.counts_alike, measure.test and test_of(measure.test, domains).key


def key_of(table: Table, domains: Mapping[str, Domain]) -> object:
    """Return what is equal for tables of one universe; None for a table of all records."""
    return None if table.where is None else universe_of(table.where, domains).key


def tested_columns(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> set[str]:
    """Return the columns that any universe or rate of a spec tests."""
    universes = [universe_of(table.where, domains) for table in spec.tables if table.where is not None]
    measures = (measure for table in spec.tables for measure in table.measures.values())
    universes += [test_of(measure.test, domains) for measure in measures if measure.test is not None]
    return {name for universe in universes for name in universe.about}


def counted_in(spec: ReleaseSpec, entry: Table | Histogram) -> str:
    """Say in words which records a table or a histogram counts."""
    where = entry.where if isinstance(entry, Table) else None
    return spec.privacy.bounding + ("" if where is None else f"; of these only records where {where}")


def in_plain_words(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> list[str]:
    """Return what `check` says of the universes of a spec, a line for each thing worth knowing."""
    notes, keys = [], {key_of(table, domains) for table in spec.tables}
    for table in spec.tables:
        if table.where is None:
            continue
        universe = universe_of(table.where, domains)
        notes.append(f"table {table.name} counts only records where {table.where}; a null passes no test")
        for name in universe.about:
            if _other_passes(universe, domains[name]):
                notes.append(
                    f"table {table.name} leaves out the nulls of {name}, also where it counts its `other`"
                )
        for name in table.dimensions:
            mask = universe.columns.get(name)
            if mask is not None and universe.nulls.get(name):
                mask = mask | (np.array(domains[name].codes) == domains[name].other)
            if mask is not None and not mask.all():
                left = f"{int(mask.sum())} of {mask.size} values of {name}"
                rest = "zero" if table.mechanism in CELL_BY_CELL else "only noise"
                notes.append(f"table {table.name} counts nobody but in {left}: its other cells are {rest}")
    if len(keys) > 1:
        notes.append(
            "tables of different universes agree only where one is a union of cells of a table of the other"
        )
    return notes


def _other_passes(universe: Universe, domain: Domain) -> bool:
    """Whether the cell that nulls go to passes a test, which the nulls themselves do not."""
    if domain.nulls != "other" or domain.other is None:
        return False
    number = domain.codes.index(domain.other)
    return any(mask[number] for mask in universe.masks(domain.name))


def _every(
    tests: Sequence[Test],
    attributes: Sequence[AnyAttribute],
    domains: Mapping[str, Domain],
    undeclared: bool,
) -> Universe:
    columns: dict[str, Mask] = {}
    nulls: dict[str, bool | None] = {}
    alternatives: list[tuple[Universe, ...]] = []
    for test in tests:
        options = test.options if isinstance(test, Either) else ()
        universes = [_every(option, attributes, domains, undeclared) for option in options]
        of_null: bool | None = None
        if isinstance(test, Null):
            name, cells = _tested_for_nulls(test.name, attributes, domains, undeclared)
            mask, of_null = np.full(cells, test.negated), not test.negated
        elif not isinstance(test, Either):
            attribute_number, mask = bound(test, attributes)
            name = attributes[attribute_number].name
        elif all(len(universe.columns) == 1 and not universe.alternatives for universe in universes) and (
            len({name for universe in universes for name in universe.columns}) == 1
        ):
            # Several values of one column are one test of it.
            name = next(iter(universes[0].columns))
            mask = np.logical_or.reduce([universe.columns[name] for universe in universes])
            of_null = _any_of([universe.nulls.get(name) for universe in universes])
        else:
            alternatives.append(tuple(universes))
            continue
        if name in columns:
            mask, of_null = columns[name] & mask, _all_of([nulls[name], of_null])
        columns[name], nulls[name] = mask, of_null
    of_nulls = {name: value for name, value in nulls.items() if value is not None}
    return Universe(columns, tuple(alternatives), of_nulls)


def _tested_for_nulls(
    word: Word, attributes: Sequence[AnyAttribute], domains: Mapping[str, Domain], undeclared: bool
) -> tuple[str, int]:
    """Return the column that is tested for nulls, and its number of cells."""
    if undeclared and word.text.casefold() not in {attribute.name.casefold() for attribute in attributes}:
        return word.text, 1
    name, _ = find(word, attributes)
    domain = domains[attributes[name].name]
    if domain.nulls == "reject":
        what = f"{plain(domain.name)} is never null in what is counted: its nulls are rejected"
        raise query_error(word.at, what, "leave the test out, or write nulls: other under the column")
    return domain.name, domain.size


def _all_of(truths: Sequence[bool | None]) -> bool | None:
    """Return Kleene's `and`."""
    return False if False in truths else None if None in truths else True


def _any_of(truths: Sequence[bool | None]) -> bool | None:
    """Return Kleene's `or`."""
    return True if True in truths else None if None in truths else False


def among(code: Any, mask: Mask) -> Any:
    """Return whether a code, which is not null, is one of the chosen cells."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    runs = [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
    if not runs:
        return ibis.literal(value=False)
    if len(runs) > _LONGEST_RUNS:
        return code.isin([int(cell) for cell in np.flatnonzero(mask)])
    # From the first code to the one before the last edge: a run of one is compared with one.
    return ibis.or_(
        *(code == first if last == first + 1 else code.between(first, last - 1) for first, last in runs)
    )


_MOST = 10_000
"""Ways through alternatives that are tried; where none of them passed, one is taken to."""


def can_pass(universe: Universe) -> bool:
    """Whether some cells, one of each column or its null, pass all tests."""
    left = [_MOST]
    return _passes((universe,), {}, left)


def _passes(wanted: tuple[Universe, ...], masks_so_far: dict[str, Mask], left: list[int]) -> bool:
    """Whether cells among those found, where a column has any, pass all that is wanted."""
    left[0] -= 1
    if left[0] < 0:
        return True
    masks = dict(masks_so_far)
    for universe in wanted:
        for name in universe.columns:
            mask = np.append(universe.columns[name], universe.nulls.get(name, False))
            masks[name] = masks[name] & mask if name in masks else mask
    if not all(mask.any() for mask in masks.values()):
        return False
    choices = [either for universe in wanted for either in universe.alternatives]
    return _chosen(choices, masks, left)


def _chosen(choices: list[tuple[Universe, ...]], masks: dict[str, Mask], left: list[int]) -> bool:
    if not choices:
        return True
    first, *rest = choices
    later = Universe({}, tuple(rest))
    return any(_passes((option, later), masks, left) for option in first)


# A query asks for the records of a universe if its own tests say so: of each column that the universe
# tests, the query tests at least as much, and every alternative of the universe is one of the query.
# Nothing else makes one number stand for another.


def put_within(tests: Sequence[Test], table: Table, domains: Mapping[str, Domain]) -> tuple[Test, ...] | None:
    """Return the tests of a query as a table of a universe is asked them; None if it counts other records.

    Left out are tests that all its records pass, of columns that it does not cross, or of nulls.

    A null passes no test of a universe, while a table of all records may count it as ``other``. So a query
    that takes such a cell of a tested column asks for more than the universe holds.
    """
    if table.where is None:
        return tuple(tests)
    universe = universe_of(table.where, domains)
    try:
        tested = [(test, universe_of_tests((test,), domains)) for test in tests]
        asked = universe_of_tests(tests, domains)
    except InputError:
        return None  # of no declared column, which is reported where the query is put to the tables
    plain = set(universe.about) - universe.about_nulls
    if not _implies(asked, universe) or any(_counts_nulls(asked, domains[name]) for name in plain):
        return None
    return tuple(
        test for test, tested_universe in tested if not _always_holds(tested_universe, asked, universe, table)
    )


def _implies(asked: Universe, universe: Universe) -> bool:
    within = all(
        name in asked.columns
        and not (asked.columns[name] & ~mask).any()
        and asked.nulls.get(name) == universe.nulls.get(name)
        for name, mask in universe.columns.items()
    )
    return within and _alternatives(universe) <= _alternatives(asked)


def _always_holds(test: Universe, asked: Universe, universe: Universe, table: Table) -> bool:
    """Whether a test is none of the columns of a table, and is passed by all records of its universe."""
    if set(test.about) <= set(table.dimensions) and not test.about_nulls:
        return False
    # All tests of the column together say what the universe says.
    same = all(
        name in universe.columns
        and (asked.columns[name] == universe.columns[name]).all()
        and asked.nulls.get(name) == universe.nulls.get(name)
        for name in test.columns
    )
    return same and _alternatives(test) <= _alternatives(universe)


def _alternatives(universe: Universe) -> set[object]:
    return {frozenset(option.key for option in either) for either in universe.alternatives}


def _counts_nulls(asked: Universe, domain: Domain) -> bool:
    """Whether a test takes the cell in which tables of all records count nulls."""
    if domain.nulls != "other" or domain.other is None:
        return False
    number = domain.codes.index(domain.other)
    return any(mask[number] for mask in asked.masks(domain.name))
