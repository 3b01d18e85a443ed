"""Tables of part of the records joined to tables of all records, where cells decide which part.

A universe can be joined to a larger one if each of its tests is a union of cells of one table there, its
*holder*. Then each test is one more coding of the column that it is about, of two cells and coarser than all
others: inside, and outside. A table of the universe is laid out along these codings as a table of all records
would be. Its own cells are those inside of every test; what is outside is unknown to it, and follows from the
holder. So what agrees are marginals, as between any two tables of the same records.

A column that the holder does not have is an axis of the universe alone. Outside of the universe it says
nothing: what is there stands at its first place, and the other places are empty by that convention.

Inference sees all places. Those that are no cell are known to be 0, with variance 0, in every step, and are
left out again of what comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.derivation import MOST_PLACES, Chain, laid_out, source_column
from tabularium.validations.domains.domains import CategoryDomain, Domain
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.universes.impossible_cells import lies_in
from tabularium.validations.universes.universe import Universe


@dataclass(frozen=True, eq=False)
class CellEmbedding:
    """The embedding of a table's cells among all places.

    Attributes
    ----------
    flat
        The axes of the places and their sizes.
    at
        (cells,) the place of each cell, -1 for one that is no place and holds nothing; None where places are
        cells, in the same order.
    free
        (places,) which places are unknown to the table, though they may hold something; None for none.
    """

    flat: dict[str, int]
    at: NDArray[np.int64] | None
    free: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, domains: Sequence[Domain], chains: Sequence[Chain]) -> CellEmbedding:
        """Embed the cells of crossed columns along the axes of their chains."""
        levels_by_name = {name: (chain, level) for chain in chains for level, name in enumerate(chain.names)}
        flat: dict[str, int] = {}
        at = np.zeros(1, np.int64)
        for domain in domains:
            if domain.name not in levels_by_name:
                flat[domain.name] = domain.size
                index, size = np.arange(domain.size), domain.size
            else:
                chain, level = levels_by_name[domain.name]
                sizes = chain.sizes[: level + 1]
                flat |= dict(zip(chain.axes, sizes, strict=False))
                index, size = np.ravel_multi_index(tuple(chain.places[level].T), sizes), prod(sizes)
            at = (at[:, None] * size + index).ravel()
        same = len(at) == prod(flat.values()) and bool((np.diff(at) == 1).all())
        return cls(flat, None if same else at)

    def values(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (nodes, places) of (nodes, cells), 0 where there is no cell."""
        if self.at is None:
            return cells
        places, some = np.zeros((len(cells), prod(self.flat.values()))), self.at >= 0
        places[:, self.at[some]] = cells[:, some]
        return places

    def estimate(self, given: Estimate) -> Estimate:
        """Return an estimate of all places: exact where there is no cell, unmeasured where it is unknown."""
        if self.at is None:
            return given
        variances = given.variances
        apart = self.free is not None or len(self.at) < prod(self.flat.values())
        if apart or variances.shape[1] > 1:
            variances = self.values(np.broadcast_to(variances, given.values.shape))
        if self.free is not None:
            variances[:, self.free] = np.inf
        return Estimate(self.values(given.values), variances)

    def cells(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (nodes, cells) of (nodes, places); one column for all places stays one."""
        if self.at is None:
            return places
        if places.shape[1] == 1 < (size := prod(self.flat.values())):
            if self.free is None:
                return places
            places = np.broadcast_to(places, (len(places), size))
        return np.where(self.at >= 0, places[:, self.at], 0)

    def back(self, made: Estimate) -> Estimate:
        """Return the estimate of the cells only."""
        return Estimate(self.cells(made.values), self.cells(made.variances))


def codes_at(
    group: Mapping[str, int], chains: Sequence[Chain], domains: Mapping[str, Domain]
) -> dict[str, str]:
    """Return column -> code for a place along some axes, each named by its column or in a chain."""
    codes: dict[str, str] = {}
    chained = {axis for chain in chains for axis in chain.axes}
    for chain in chains:
        key = tuple(group[axis] for axis in chain.axes if axis in group)
        if key:
            codes[chain.names[len(key) - 1]] = chain.code(key)
    return codes | {name: domains[name].codes[index] for name, index in group.items() if name not in chained}


Bools = NDArray[np.bool_]
ALONE = " where "
"""Marks an axis of only one universe."""


@dataclass(frozen=True, eq=False)
class JoinedUniverse:
    """The tables of a universe that is joined to a larger one.

    Attributes
    ----------
    holder
        The table whose cells decide it.
    tests
        Column of the holder -> which of its cells are inside.
    """

    where: str
    holder: str
    tests: dict[str, Bools]
    layouts: dict[str, Layout]


@dataclass(eq=False)
class Tested:
    """A column with the tests of it, the larger first: each lies inside or outside of those before it."""

    codings: list[Domain]
    parents: list[NDArray[np.int64]]
    tests: list[tuple[str, Bools]] = field(default_factory=list)

    def takes(self, name: str, mask: Bools) -> bool:
        """Add a test of the coarsest coding if it fits the others; return whether it does."""
        if any(np.array_equal(mask, other) for _, other in self.tests):
            return True
        kinds = self._kinds(len(self.tests))
        if len(np.unique(kinds[mask])) != 1:
            return False
        self.tests.append((name, mask))
        return prod(self.chain().sizes) <= MOST_PLACES * self.codings[-1].size

    def _kinds(self, number: int) -> NDArray[np.int64]:
        """Return (cells,) a number for each combination of the first tests that occurs."""
        held = np.array([mask for _, mask in self.tests[:number]], np.int64)
        kinds: NDArray[np.int64] = np.zeros(self.codings[0].size, np.int64)
        for row in held:
            kinds = np.unique(2 * kinds + row, return_inverse=True)[1].ravel().astype(np.int64)
        return kinds

    def chain(self) -> Chain:
        """Return the codings of the column as one chain, with those made by tests first."""
        kinds = [self._kinds(number + 1) for number in range(len(self.tests))]
        made: list[Domain] = []
        parents = []
        for (name, mask), kind, after in zip(self.tests, kinds, [*kinds[1:], None], strict=True):
            first = np.unique(kind, return_index=True)[1]
            codes = tuple("inside" if mask[cell] else "outside" for cell in first)
            made.append(CategoryDomain(name, codes, codes))
            if after is None:
                parents.append(kind)
            else:
                parents.append(kind[np.unique(after, return_index=True)[1]])
        return laid_out([*made, *self.codings], [*parents, *self.parents])


def joined(
    loaded: Loaded,
    outer: Universe | None,
    layouts: Mapping[str, Layout],
    chains: Sequence[Chain],
    inner: Iterable[tuple[str, Universe, dict[str, Layout]]],
) -> tuple[list[JoinedUniverse], list[Chain]]:
    """Return the universes that can be joined to a larger one, and the chains of codings with their tests.

    Parameters
    ----------
    outer
        The larger universe; None for all records.
    chains
        The nested codings among their columns.
    inner
        Of each universe its text, its tests and its tables; the larger ones first.
    """
    tested: dict[str, Tested] = {}
    parts = []
    for where, universe, layouts_inside in inner:
        decision = _decided(loaded, outer, universe, where, layouts, chains, layouts_inside)
        if decision is None:
            continue
        holder, tests = decision
        after = {name: Tested(list(t.codings), list(t.parents), list(t.tests)) for name, t in tested.items()}
        fits = True
        coarse: dict[str, Bools] = {}
        for name, mask in tests.items():
            chain = next((chain for chain in chains if name in chain.names), None)
            codings = [loaded.domains[name]] if chain is None else list(chain.domains)
            top = codings[0].name
            if top not in after:
                pairs = zip(codings[1:], codings, strict=False)
                parents = [lies_in(a.name, b.name, loaded.spec.columns, loaded.domains) for a, b in pairs]
                after[top] = Tested(codings, [parent for parent in parents if parent is not None])
            up = lies_in(name, top, loaded.spec.columns, loaded.domains)
            assert up is not None  # noqa: S101 - they are of one chain
            shrunk = np.zeros(codings[0].size, bool)
            shrunk[up[mask]] = True
            fits = fits and np.array_equal(shrunk[up], mask)
            fits = fits and (top not in coarse or np.array_equal(coarse[top], shrunk))
            coarse[top] = shrunk
            fits = fits and after[top].takes(f"{name} where {where}", shrunk)
        if fits:
            tested = after
            parts.append(JoinedUniverse(where, holder, coarse, layouts_inside))
    made = [chain for chain in chains if chain.names[0] not in tested]
    return parts, [*made, *(tested_domain.chain() for tested_domain in tested.values())]


def _decided(
    loaded: Loaded,
    outer: Universe | None,
    universe: Universe,
    where: str,
    layouts: Mapping[str, Layout],
    chains: Sequence[Chain],
    nested: Mapping[str, Layout],
) -> tuple[str, dict[str, Bools]] | None:
    """Return a table whose cells decide a universe, and the mask of inside cells of its columns."""
    tests = _narrower(loaded, outer, universe)
    if not tests:
        return None
    best: tuple[int, str, dict[str, Bools]] | None = None
    for name, layout in layouts.items():
        flat = [domain.name for domain in layout.others if loaded.domains.get(domain.name) is domain]
        masks: dict[str, Bools] = {}
        for column, mask in tests.items():
            for flat_layout in flat:
                lift = lies_in(flat_layout, column, loaded.spec.columns, loaded.domains)
                if lift is not None and column not in (n for n in masks):
                    masks[flat_layout] = (
                        masks[flat_layout] & mask[lift] if flat_layout in masks else mask[lift]
                    )
                    break
            else:
                break
        else:
            shown = [_shared(loaded, chains, layout, inside) for inside in nested.values()]
            if all(mask is not None for mask in shown):
                number = sum(len(mask) for mask in shown if mask is not None)
                if best is None or number > best[0]:
                    best = number, name, masks
    return None if best is None else (best[1], best[2])


def _narrower(loaded: Loaded, outer: Universe | None, universe: Universe) -> dict[str, Bools] | None:
    """Return the tests that narrow a universe to a smaller one; None where that is no part of it."""
    above, nulls_above = ({}, {}) if outer is None else (outer.columns, outer.nulls)
    alternatives = frozenset() if outer is None else outer.key[1]  # type: ignore[index]
    if universe.key[1] != alternatives:  # type: ignore[index]
        return None
    if any(n not in universe.columns or (universe.columns[n] & ~mask).any() for n, mask in above.items()):
        return None
    for name, mask in universe.columns.items():
        domain, passes = loaded.domains[name], universe.nulls.get(name, False)
        there = name not in above or nulls_above.get(name, False)  # nulls are in the larger universe
        if passes and not there:
            return None
        # A table counts nulls as `other`, with what else is there: both pass, or neither.
        counted = there and domain.nulls == "other" and domain.other is not None
        if counted and bool(mask[domain.codes.index(domain.other or "")]) != passes:
            return None
    return {n: m for n, m in universe.columns.items() if n not in above or (m != above[n]).any()}


def _shared(loaded: Loaded, chains: Sequence[Chain], holder: Layout, table: Layout) -> list[str] | None:
    """Return the columns of a table that its holder has too; None where it cannot be joined."""
    if table.along is not None and (holder.along is not table.along or holder.nodes < table.nodes):
        return None
    crossed = {domain.name for domain in table.others}
    if any(len(crossed.intersection(chain.names)) > 1 for chain in chains):
        return None  # a cell of two codings of one column has no one place in a chain
    shown = []
    sources = {source_column(n, loaded.spec.columns[n]) for n in _columns(loaded, holder)}
    for domain in table.others:
        if _real(loaded, chains, holder, domain):
            shown.append(domain.name)
        elif domain.name in loaded.domains and (
            any(domain.name in chain.names for chain in chains)
            or source_column(domain.name, loaded.spec.columns[domain.name]) in sources
        ):
            return None
    return shown


def _columns(loaded: Loaded, layout: Layout) -> list[str]:
    along = [] if layout.along is None else [layout.along.name]
    return [*along, *(other.name for other in layout.others if other.name in loaded.domains)]


def _real(loaded: Loaded, chains: Sequence[Chain], holder: Layout, domain: Domain) -> bool:
    """Whether the holder has a column, or a finer coding of it in a chain."""
    names = {other.name for other in holder.others}
    for chain in chains:
        if domain.name in chain.names:
            return bool(names.intersection(chain.names[chain.names.index(domain.name) :]))
    return domain.name in names


def spread_of(
    loaded: Loaded, part: JoinedUniverse, holder: Layout, layout: Layout, chains: Sequence[Chain]
) -> CellEmbedding:
    """Embed the cells of a table of a universe among those of all records."""
    flat: dict[str, int] = {}
    left = dict(part.tests)
    every = _Axes(np.zeros(1, np.int64), *(np.array([value]) for value in (True, True, True, False)))
    for domain in layout.others:
        chain = next((chain for chain in chains if domain.name in chain.names), None)
        if chain is None:
            real = _real(loaded, chains, holder, domain)
            flat[domain.name if real else f"{domain.name}{ALONE}{part.where}"] = domain.size
            every = every.times(_Axes.plain(domain.size, own=real))
        else:
            top = next((name for name in left if name in chain.names), None)
            mask = None if top is None else left.pop(top)
            level = chain.names.index(domain.name)
            flat |= dict(zip(chain.axes, chain.sizes[: level + 1], strict=False))
            every = every.times(_Axes.of(chain, level, top, mask))
    for top, mask in left.items():
        chain = next(chain for chain in chains if top in chain.names)
        level = _level(chain, top, mask)
        flat |= dict(zip(chain.axes, chain.sizes[: level + 1], strict=False))
        every = every.times(_Axes.of(chain, level, top, mask).of_those_inside())
    free = every.real & ~every.inside & ~every.elsewhere
    return CellEmbedding(flat, np.where(every.shown, every.at, -1), free)


@dataclass(frozen=True, eq=False)
class _Axes:
    """Cells along some axes, and their places.

    Attributes
    ----------
    at, shown
        (cells,) the place of each cell, and whether it is inside of the universe.
    inside, real, elsewhere
        (places,) whether a place is inside; whether records can be there; whether a column that says nothing
        outside of the universe would have another place there.
    """

    at: NDArray[np.int64]
    shown: Bools
    inside: Bools
    real: Bools
    elsewhere: Bools

    @classmethod
    def plain(cls, size: int, *, own: bool) -> _Axes:
        """Return the cells of a column without a test; ``own``: the holder has it as well."""
        every = np.ones(size, bool)
        return cls(np.arange(size), every, every, every, np.full(size, False) if own else np.arange(size) > 0)

    @classmethod
    def of(cls, chain: Chain, level: int, top: str | None, mask: Bools | None) -> _Axes:
        """Return the cells of a coding in a chain, narrowed by a test of its coding ``top``."""
        sizes, places = chain.sizes[: level + 1], chain.places[level]
        at = np.ravel_multi_index(tuple(places.T), sizes)
        real = np.zeros(prod(sizes), bool)
        real[at] = True
        inside = np.ones(prod(sizes), bool)
        if top is not None and mask is not None:
            depth = _level(chain, top, mask) + 1
            chosen = chain.places[chain.names.index(top)][np.flatnonzero(mask)[0], :depth]
            every = np.array(np.unravel_index(np.arange(prod(sizes)), sizes)).T
            inside = (every[:, :depth] == chosen).all(axis=1)
        return cls(at, inside[at], inside, real, np.zeros(prod(sizes), bool))

    def of_those_inside(self) -> _Axes:
        """Return it with one cell for everything inside."""
        return _Axes(self.at[self.shown], self.shown[self.shown], self.inside, self.real, self.elsewhere)

    def times(self, other: _Axes) -> _Axes:
        """Cross the cells with those along further axes."""
        return _Axes(
            (self.at[:, None] * len(other.real) + other.at).ravel(),
            (self.shown[:, None] & other.shown).ravel(),
            (self.inside[:, None] & other.inside).ravel(),
            (self.real[:, None] & other.real).ravel(),
            (self.elsewhere[:, None] | other.elsewhere).ravel(),
        )


def _level(chain: Chain, top: str, mask: Bools) -> int:
    """Return the level of a chain that decides a test of its coding ``top``."""
    places = chain.places[chain.names.index(top)]
    for level in range(places.shape[1]):
        same = (places[:, : level + 1] == places[np.flatnonzero(mask)[0], : level + 1]).all(axis=1)
        if np.array_equal(same, mask):
            return level
    raise AssertionError("a test that was taken is a coding of its chain")
