"""Whether a query asks for the records that a table of a universe counts.

It does if its own tests say so: of each column that the universe tests, the query tests at least as much, and
every alternative of the universe is one of the query. Nothing else makes one number stand for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.grammar import Test
from tabularium.validations.domains.domains import Domain
from tabularium.validations.spec.parts.table_parts import Table
from tabularium.validations.universes.universe import Universe, universe_of, universe_of_tests


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
        each = [(test, universe_of_tests((test,), domains)) for test in tests]
        asked = universe_of_tests(tests, domains)
    except InputError:
        return None  # of no declared column, which is said where the query is put to the tables
    plain = set(universe.about) - universe.about_nulls
    if not _implies(asked, universe) or any(_counts_nulls(asked, domains[name]) for name in plain):
        return None
    return tuple(test for test, own in each if not _always_holds(own, asked, universe, table))


def _implies(asked: Universe, universe: Universe) -> bool:
    within = all(
        name in asked.columns
        and not (asked.columns[name] & ~mask).any()
        and asked.nulls.get(name) == universe.nulls.get(name)
        for name, mask in universe.columns.items()
    )
    return within and _alternatives(universe) <= _alternatives(asked)


def _always_holds(own: Universe, asked: Universe, universe: Universe, table: Table) -> bool:
    """Whether a test is none of the columns of a table, and is passed by all records of its universe."""
    if set(own.about) <= set(table.dimensions) and not own.about_nulls:
        return False
    # All tests of the column together say what the universe says.
    same = all(
        name in universe.columns
        and (asked.columns[name] == universe.columns[name]).all()
        and asked.nulls.get(name) == universe.nulls.get(name)
        for name in own.columns
    )
    return same and _alternatives(own) <= _alternatives(universe)


def _alternatives(universe: Universe) -> set[object]:
    return {frozenset(option.key for option in either) for either in universe.alternatives}


def _counts_nulls(asked: Universe, domain: Domain) -> bool:
    """Whether a test takes the cell in which tables of all records count nulls."""
    if domain.nulls != "other" or domain.other is None:
        return False
    place = domain.codes.index(domain.other)
    return any(mask[place] for mask in asked.masks(domain.name))
