"""Several codings of one column of the source that lie in one another: single years in groups of five.

Two codings are *nested* if every cell of the finer one lies in one cell of the coarser one, for every value
that neither of them rejects. Then a table with the finer one also counts the coarser one's cells, and the two
can be made to agree.

A chain of nested codings c1 (coarsest), c2, ... is laid out as a product: axis 1 is the cells of c1, axis 2
the place of a cell of c2 among those in its cell of c1, and so on. The i-th coding has the first i axes, so
that what two tables share is a marginal like any other. Where groups are not equally large some places are
no cell of the coding: there are no records there, exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.derivation.derived_columns import source_column
from tabularium.validations.derivation.derived_parts import Derivation
from tabularium.validations.domains.domains import CategoryDomain, Domain, NumberDomain

MOST_PLACES = 4
"""Places of a chain for each cell of its finest coding; codings that need more are left apart."""

Cells = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chain:
    """Nested codings, the coarsest first.

    Attributes
    ----------
    domains
        The codings.
    places
        Of the i-th coding, (cells, i + 1): where each of its cells lies along the first i + 1 axes.
    sizes
        Of the axes.
    """

    domains: tuple[Domain, ...]
    places: tuple[Cells, ...]
    sizes: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(domain.name for domain in self.domains)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes: that of the coarsest column, then of each column in the one before."""
        return (self.names[0], *(f"{b} in {a}" for a, b in zip(self.names, self.names[1:], strict=False)))

    def code(self, place: tuple[int, ...]) -> str:
        """Return the code of the cell at a place along the first axes; empty where there is none."""
        level = len(place) - 1
        found = np.flatnonzero((self.places[level] == np.array(place)).all(axis=1))
        return self.domains[level].codes[int(found[0])] if len(found) else ""


def chains_of(
    columns: Mapping[str, Derivation], domains: Mapping[str, Domain], tables: Collection[Iterable[str]]
) -> list[Chain]:
    """Return the chains of nested codings among the columns of some tables.

    Parameters
    ----------
    tables
        The columns of each table that are crossed as categories. A chain has at most one in each.
    """
    sources: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        source = source_column(name, columns[name])
        if source is not None:
            sources.setdefault(source, []).append(name)
    found = []
    for names in sources.values():
        finest_first = sorted(names, key=lambda name: -domains[name].size)
        chain, parents = [finest_first[0]], []
        for name in finest_first[1:]:
            parent = parents_of(chain[-1], name, columns, domains)
            if parent is not None:
                chain.append(name)
                parents.append(parent)
        if len(chain) > 1 and all(len(set(chain).intersection(table)) <= 1 for table in tables):
            made = laid_out([domains[name] for name in reversed(chain)], parents[::-1])
            if prod(made.sizes) <= MOST_PLACES * made.domains[-1].size:
                found.append(made)
    return found


def coding_notes(
    columns: Mapping[str, Derivation], domains: Mapping[str, Domain], tables: Collection[Iterable[str]]
) -> list[str]:
    """Return what `check` says of several codings of one column, a line for each such column."""
    chained = {name for chain in chains_of(columns, domains, tables) for name in chain.names}
    sources: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        source = source_column(name, columns[name])
        if source is not None:
            sources.setdefault(source, []).append(name)
    said = []
    for source, names in sources.items():
        apart = [name for name in names if name not in chained]
        if len(names) > 1 and apart:
            crossed = any(len(set(names).intersection(table)) > 1 for table in tables)
            why = "are crossed in one table" if crossed else "are not nested"
            said.append(f"tables do not agree on {', '.join(apart)}, codings of {source} that {why}")
        elif len(names) > 1:
            said.append(f"{', '.join(names)} are nested codings of {source}: tables agree on the coarser one")
    return said


def parents_of(
    fine: str, coarse: str, columns: Mapping[str, Derivation], domains: Mapping[str, Domain]
) -> Cells | None:
    """Return the cell of a coarser coding in which each cell of a finer one lies; None if not nested."""
    one, other = domains[fine], domains[coarse]
    if columns[fine].date != columns[coarse].date:
        return None
    if isinstance(one, NumberDomain) and isinstance(other, NumberDomain):
        same = (one.nulls, one.invalid, one.other is None) == (
            other.nulls,
            other.invalid,
            other.other is None,
        )
        alike = (one.digits is None, one.floor) == (other.digits is None, other.floor)
        digits = max(one.digits or 0, other.digits or 0)
        finer, coarser = (
            each.edges if each.digits is None else each.edges_at(digits) for each in (one, other)
        )
        ends = (finer[0], finer[-1]) == (coarser[0], coarser[-1])
        if (
            not (same and alike and ends and set(coarser) <= set(finer))
            or columns[fine].map != columns[coarse].map
        ):
            return None
        parent = np.searchsorted(np.array(coarser), np.array(finer[:-1]), "right") - 1
        return np.append(parent, [other.bins] * (one.other is not None)).astype(np.int64)
    if isinstance(one, CategoryDomain) and isinstance(other, CategoryDomain):
        return _parents_of_codes(one, other, columns[fine].map, columns[coarse].map)
    return None


def _parents_of_codes(
    one: CategoryDomain,
    other: CategoryDomain,
    one_map: Mapping[str, str] | None,
    other_map: Mapping[str, str] | None,
) -> Cells | None:
    fine, coarse = _cells(one, one_map), _cells(other, other_map)
    elsewhere = (_other(one, one.invalid), _other(other, other.invalid))
    pairs = {(fine.get(value, elsewhere[0]), coarse.get(value, elsewhere[1])) for value in {*fine, *coarse}}
    pairs |= {elsewhere, (_other(one, one.nulls), _other(other, other.nulls))}
    lies_in = {a: b for a, b in pairs if a is not None and b is not None}
    unclear = len(lies_in) < len({(a, b) for a, b in pairs if a is not None and b is not None})
    if unclear or len(lies_in) < one.size:
        return None
    return np.array([lies_in[cell] for cell in range(one.size)], np.int64)


def _cells(domain: CategoryDomain, recodes: Mapping[str, str] | None) -> dict[str, int]:
    """Return value of the source -> cell."""
    place = {code: cell for cell, code in enumerate(domain.codes)}
    return place if recodes is None else {value: place[code] for value, code in recodes.items()}


def _other(domain: CategoryDomain, treatment: str) -> int | None:
    """Return the cell where nulls or invalid values go; None where they are rejected."""
    return domain.codes.index(domain.other) if treatment == "other" and domain.other is not None else None


def laid_out(domains: list[Domain], parents: list[Cells]) -> Chain:
    """Return codings, the coarsest first, as a chain.

    Parameters
    ----------
    parents
        Of each coding but the first, (cells,) the cell of the one before in which each of its cells lies.
    """
    places = [np.arange(domains[0].size)[:, None]]
    sizes = [domains[0].size]
    for parent in parents:
        order = np.argsort(parent, kind="stable")
        starts = np.searchsorted(parent[order], parent[order])
        rank = np.empty(len(parent), np.int64)
        rank[order] = np.arange(len(parent)) - starts
        places.append(np.column_stack((places[-1][parent], rank)))
        sizes.append(int(rank.max()) + 1)
    return Chain(tuple(domains), tuple(places), tuple(sizes))
