"""Tables of a release that share totals, and the post-processing of all of them at once.

Tables of one universe that name the same column count the same records along it, so they agree on every
margin that they share, at least on the grand total; a public invariant is one more table, whose numbers are
exact. Arrays of measures agree with those of their universe that add up the same, and never with counts. What
has nobody to agree with takes the shorter way along its hierarchy: the answer is the same. Tables of
different universes agree where one is a union of cells of a table of the other
(:mod:`tabularium.tasks.postprocess.nested_universes`); others count different records, and are not made to
agree.

Nothing here reads or writes: stages and simulations hand in estimates and get estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import (
    Estimate,
    Hierarchy,
    Rounded,
    TableSet,
    TableShape,
    Violation,
    consistency,
    joint_consistency,
    joint_nonnegativity,
    joint_rounding,
    nonnegativity,
)
from tabularium.mechanisms.inference.estimate import into
from tabularium.mechanisms.inference.joint.joint_consistency import PROBES
from tabularium.mechanisms.inference.joint.joint_rounding import violations
from tabularium.mechanisms.inference.joint.projection_schedule import CERTAIN
from tabularium.mechanisms.inference.joint.shared_marginals import View
from tabularium.mechanisms.inference.rounding import round_into
from tabularium.tasks.postprocess.nested_universes import ALONE, CellEmbedding, codes_at, joined, spread_of
from tabularium.tasks.postprocess.table_layout import Layout, known_on_tree
from tabularium.tasks.runtime.workspace import ArrayStore
from tabularium.validations.derivation import Chain, chains_of
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.suites.published_tables import differing
from tabularium.validations.universes.universe import Universe, adds_alike, key_of, universe_of

Estimates = dict[str, Estimate]

LEAVES = " (leaves)"
"""Marks the leaves of a hierarchy that a table takes as categories."""
_KINDS = {
    "hierarchy": "table {} does not add up",
    "marginal": "{} differ",
    "cell": "table {} is more than 1 from its unrounded number",
    "exact": "{} is not what is known",
}

SLACK = 1e-7
"""Difference of two tables, relative to the largest number they share, that is rounding of doubles."""


@dataclass(frozen=True, eq=False)
class StepResult:
    """Estimates of all tables after one step.

    Attributes
    ----------
    estimates
        Table name -> estimate; invariants are left out.
    notes
        How the step went, as plain JSON values; empty for a single table.
    """

    estimates: Estimates
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ReconciledGroup:
    """Tables or arrays of one universe that count the same records, with their shared margins.

    Attributes
    ----------
    layouts
        Table name -> how it lies in memory.
    known
        Invariant name -> its numbers, of variance 0.
    apart
        Columns that are a hierarchy in one table and leaves in another: there the two are not made to agree.
    chains
        Nested codings of one column, on whose coarser one tables with either agree.
    spreads
        Of each table and invariant, where its cells lie among the places that inference sees.
    holders
        Table of a smaller universe -> the table by whose cells that is decided.
    """

    overlap: TableSet
    layouts: dict[str, Layout]
    known: Estimates
    apart: tuple[str, ...]
    chains: tuple[Chain, ...]
    spreads: dict[str, CellEmbedding]
    holders: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        tables: Sequence[Table],
        invariants: Sequence[KnownMarginal],
        smaller: Sequence[tuple[str, Universe, Sequence[Table]]] = (),
        outer: Universe | None = None,
    ) -> ReconciledGroup:
        """Return the group of tables of a spec and the invariants of their universe.

        Parameters
        ----------
        smaller
            Universes that may be joined, those of more records first: text, tests and tables.
        outer
            The universe of ``tables``; None for all records.
        """
        layouts = {table.name: Layout.of(loaded, table) for table in tables}
        trees = {layout.along.name for layout in layouts.values() if layout.along is not None}
        trees |= {known.along for known in invariants if known.along is not None}
        apart: dict[str, None] = {}

        def flat(sizes: dict[str, int]) -> dict[str, int]:
            apart.update(dict.fromkeys(name for name in sizes if name in trees))
            return {f"{name}{LEAVES}" if name in trees else name: size for name, size in sizes.items()}

        crossed = {name: layout.others for name, layout in layouts.items()}
        crossed |= {known.name: tuple(loaded.domains[name] for name in known.flat) for known in invariants}
        chains = chains_of(
            loaded.spec.columns,
            loaded.domains,
            [[other.name for other in others if _may_nest(loaded, other)] for others in crossed.values()],
        )
        inner = [(w, u, {t.name: Layout.of(loaded, t) for t in some}) for w, u, some in smaller]
        parts, chains = joined(loaded, outer, layouts, chains, inner)
        spreads = {name: CellEmbedding.of(others, chains) for name, others in crossed.items()}
        holders = {}
        for part in parts:
            for name, layout in part.layouts.items():
                spreads[name] = spread_of(loaded, part, layouts[part.holder], layout, chains)
                holders[name] = part.holder
        layouts |= {name: layout for part in parts for name, layout in part.layouts.items()}
        frames = {
            name: TableShape(
                flat(spreads[name].flat),
                None if layout.along is None else layout.along.name,
                Hierarchy(layout.parents),
            )
            for name, layout in layouts.items()
        }
        numbers = {}
        for known in invariants:
            spread = spreads[known.name]
            frames[known.name], numbers[known.name] = _exact(loaded, known, flat(spread.flat), spread)
        return cls(TableSet(frames), layouts, numbers, tuple(apart), tuple(chains), spreads, holders)

    @property
    def adds_up(self) -> bool:
        """Whether it sums a measure, and does not count."""
        return any(layout.table.measured is not None for layout in self.layouts.values())

    @property
    def signed(self) -> bool:
        """Whether its numbers may be less than zero, so that non-negativity leaves them as they are."""
        return any(layout.signed for layout in self.layouts.values())

    @property
    def additive(self) -> bool:
        """Whether the numbers of cells add up; else they agree with no other table."""
        return all(layout.adds_up for layout in self.layouts.values())

    @property
    def alone(self) -> bool:
        """Whether there is one table, and nothing that it must agree with."""
        return len(self.overlap.tables) == 1

    @property
    def _certain(self) -> float:
        """Variances of sums by group differ by any factor, and no invariant settles one."""
        return CERTAIN if self.known else 0.0

    def consistent(
        self, measured: Mapping[str, Estimate], *, variances: bool = True, arrays: ArrayStore | None = None
    ) -> StepResult:
        """Make hierarchies add up and shared margins agree, by weighted least squares.

        Without ``variances`` those of several tables are rough: good for what comes next, not for margins.
        A table that has nothing to agree with goes through the steps some families at a time, and what comes
        of it into ``arrays``, if there is some.
        """
        if not self.additive:
            return StepResult(dict(measured))
        if self.alone:
            ((name, estimate),) = measured.items()
            out = None if arrays is None else arrays.of(name, estimate.values.shape)
            tree = self._tree(name)
            return StepResult({name: consistency(tree, estimate.values, estimate.variances, out=out)})
        every = self._places(measured)
        joint = joint_consistency(
            self.overlap,
            {name: estimate.values for name, estimate in every.items()},
            {name: estimate.variances for name, estimate in every.items()},
            probes=PROBES if variances else 0,
        )
        return StepResult(self._tables(joint.estimates), joint.diagnostics())

    def nonnegative(
        self, estimates: Mapping[str, Estimate], *, arrays: ArrayStore | None = None
    ) -> StepResult:
        """Make numbers non-negative, except sums of values that may be less; shared totals still agree."""
        if self.signed:
            return StepResult(dict(estimates))
        if not self.additive:
            return StepResult(
                {name: _cut_at_zero(estimate, name, arrays) for name, estimate in estimates.items()}
            )
        if self.alone:
            ((name, estimate),) = estimates.items()
            tree = self._tree(name)
            fair = with_fair_roots(
                tree, estimate, None if arrays is None else arrays.of(name, estimate.values.shape)
            )
            return StepResult({name: nonnegativity(tree, fair, out=fair.values)})
        joint = joint_nonnegativity(self.overlap, self._known_places(estimates), certain=self._certain)
        return StepResult(self._tables(joint.estimates), joint.diagnostics())

    def whole(self, estimates: Mapping[str, Estimate], *, arrays: ArrayStore | None = None) -> StepResult:
        """Round every number; shared totals still agree, except for violations that the notes name."""
        if not self.additive:  # as they were drawn
            return StepResult(dict(estimates))
        if self.alone:
            ((name, estimate),) = estimates.items()
            shape = estimate.values.shape
            rounded = np.empty(shape) if arrays is None else arrays.of(name, shape)
            round_into(rounded, self._tree(name), estimate)
            return StepResult({name: Estimate(rounded, estimate.variances)})
        known = self._known_places(estimates)
        joint = joint_rounding(self.overlap, known, certain=self._certain)
        made = {
            name: Estimate(self.spreads[name].cells(joint.tables[name].astype(float)), estimate.variances)
            for name, estimate in estimates.items()
        }
        if self.holders:
            # What was rounded at places that a table does not know is not published, and violates nothing.
            shown = {name: known.values.astype(np.int64) for name, known in self._known_places(made).items()}
            exact = {n: np.broadcast_to(e.variances == 0, e.values.shape) for n, e in known.items()}
            before = {name: known_estimate.values for name, known_estimate in known.items()}
            joint = Rounded(shown, violations(self.overlap, shown, before, exact))
        named = [self.in_words(violation) for violation in joint.violations]
        return StepResult(made, {**joint.diagnostics(), "named": named})

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants, their shared numbers in the first, and where they differ.

        Whole numbers are compared exactly, others within the rounding of doubles.
        """
        exact = np.zeros((1, 1))
        given = {name: Estimate(np.asarray(cells, np.float64), exact) for name, cells in tables.items()}
        every = {name: known.values for name, known in self._known_places(given).items()}
        for one, other in combinations((name for name in self.overlap.tables if name in every), 2):
            views = self.overlap.views(one, other)
            shown = views[0].gather(every[one]), views[1].gather(every[other])
            largest = max(float(np.abs(difference).max()) for difference in shown)
            yield one, other, views[0], differing(*shown, SLACK * max(1.0, largest))

    def in_words(self, violation: Violation) -> str:
        """Return a violation with the codes of its cell."""
        codes = self.codes(violation.group)
        if violation.node is not None:
            trees = {layout.along.name: layout.along for layout in self.layouts.values() if layout.along}
            names = (self.overlap.tables[name].along for name in violation.tables)
            along = next(trees[name] for name in names if name)
            codes = {along.name: along.node_codes[violation.node], **codes}
        cell = ", ".join(f"{name} {code}" for name, code in codes.items()) or "total"
        return f"{_KINDS[violation.kind].format(' and '.join(violation.tables))} at {cell}: {violation.by:+g}"

    def codes(self, group: Mapping[str, int]) -> dict[str, str]:
        """Return column -> code for a place along some axes of the overlap."""
        flat = {domain.name: domain for layout in self.layouts.values() for domain in layout.others}
        chained = {axis for chain in self.chains for axis in chain.axes}
        codes = {
            name if name in chained else name.removesuffix(LEAVES).partition(ALONE)[0]: at
            for name, at in group.items()
        }
        return codes_at(codes, self.chains, flat)

    def _places(self, estimates: Mapping[str, Estimate]) -> Estimates:
        """Return the estimates of tables, and the numbers of invariants, at all places."""
        return {
            name: self.spreads[name].estimate(estimate) for name, estimate in estimates.items()
        } | self.known

    def _known_places(self, estimates: Mapping[str, Estimate]) -> Estimates:
        """Return the same for tables that agree, in which all places are known.

        What a table of a smaller universe does not know is its holder's; without that it is left out.
        """
        every = self._places(estimates)
        for name, holder in self.holders.items():
            free = self.spreads[name].free
            if name not in every or free is None:
                continue
            if holder not in every:
                del every[name]
                continue
            one, other = self.overlap.tables[name], self.overlap.tables[holder]
            marginal = one.marginal.meet(other.marginal)
            rows = None if marginal.along is None else np.arange(one.tree.nodes)
            ours, theirs = View(one, marginal, rows), View(other, marginal, rows)
            groups = ours.groups[free]
            mine, given = every[name], every[holder]
            values, variances = mine.values, np.broadcast_to(mine.variances, mine.values.shape).copy()
            values[:, free] = theirs.gather(given.values)[:, groups]
            spread = np.broadcast_to(given.variances, given.values.shape)
            variances[:, free] = theirs.gather(spread)[:, groups]
            every[name] = Estimate(values, variances)
        return every

    def _tree(self, name: str) -> Hierarchy:
        return self.overlap.tables[name].tree

    def _tables(self, estimates: Mapping[str, Estimate]) -> Estimates:
        return {name: self.spreads[name].back(estimates[name]) for name in self.layouts}


def _may_nest(loaded: Loaded, domain: Domain) -> bool:
    """Whether a domain belongs to a column crossed as categories, and not to the parts of a measure."""
    return loaded.domains.get(domain.name) is domain and not isinstance(domain, HierarchyDomain)


def _exact(
    loaded: Loaded, known: KnownMarginal, sizes: dict[str, int], spread: CellEmbedding
) -> tuple[TableShape, Estimate]:
    """Return an invariant as a table: its level, and the sums above it."""
    tree, values = known_on_tree(loaded, known)
    frame = TableShape(sizes) if known.along is None else TableShape(sizes, known.along, tree)
    return frame, Estimate(spread.values(values), np.zeros((tree.nodes, 1)))


def _cut_at_zero(estimate: Estimate, name: str, arrays: ArrayStore | None) -> Estimate:
    """Return estimates with negative cells set to zero."""
    out = None if arrays is None else arrays.of(name, estimate.values.shape)
    values: NDArray[np.float64] = np.maximum(estimate.values, 0.0, out=out)
    return Estimate(values, estimate.variances)


def with_fair_roots(tree: Hierarchy, estimate: Estimate, out: NDArray[np.float64] | None = None) -> Estimate:
    """Return a copy with non-negative cells of every root and the same sum (or zero).

    Below the roots a family keeps its parent's value. A root has no parent: cutting its cells off at zero
    one by one would add the negative noise of every empty cell to the total. So the cells of a root are a
    family too, under their own sum.
    """
    roots, cells = tree.roots, estimate.values.shape[1]
    values = into(out, estimate.values)
    if cells == 1:
        return Estimate(values, estimate.variances)
    count = len(roots)
    families = Hierarchy(np.concatenate((np.full(count, -1), np.repeat(np.arange(count), cells))))
    before = estimate.values[roots]
    spread = np.broadcast_to(estimate.variances[roots], before.shape)
    joint = Estimate(
        np.concatenate((before.sum(axis=1), before.ravel()))[:, None],
        np.concatenate((spread.sum(axis=1), spread.ravel()))[:, None],
    )
    values[roots] = nonnegativity(families, joint).values[count:, 0].reshape(before.shape)
    return Estimate(values, estimate.variances)


@dataclass(frozen=True, eq=False)
class Agreement:
    """The tables of a release and the arrays of their measures, in groups that count the same records.

    Attributes
    ----------
    groups
        The tables of each universe with those of the universes joined to it, and the arrays that sum the same
        values; the counts of all records come first, with the invariants.
    layouts
        Name of each table and array -> how it lies in memory, in the order of the spec.
    """

    groups: tuple[ReconciledGroup, ...]
    layouts: dict[str, Layout]

    @classmethod
    def of(cls, loaded: Loaded) -> Agreement:
        """Return the agreement of a spec: the tables and arrays that count the same records, in groups."""
        alike_tables: dict[object, dict[object, list[Table]]] = {None: {None: []}}
        for array in loaded.spec.arrays:
            adds: object = array.measured and adds_alike(array.measured, loaded.domains)
            if array.measured is not None and not array.measured.adds_up:
                adds = array.name
            of_universe = alike_tables.setdefault(adds, {})
            of_universe.setdefault(key_of(array, loaded.domains), []).append(array)
        groups = []
        for added, universes in alike_tables.items():
            left = [some for some in universes.values() if some]
            left.sort(key=lambda some: _part_of_all(loaded, some[0]), reverse=True)  # the larger ones first
            while left:
                tables, *smaller = left
                known = loaded.known if added is None and tables[0].where is None else ()
                made = ReconciledGroup.of(
                    loaded,
                    tables,
                    known,
                    [(some[0].where or "", _universe(loaded, some[0]), some) for some in smaller],
                    None if tables[0].where is None else _universe(loaded, tables[0]),
                )
                groups.append(made)
                left = [some for some in smaller if some[0].name not in made.layouts]
        every = {name: layout for group in groups for name, layout in group.layouts.items()}
        return cls(tuple(groups), {array.name: every[array.name] for array in loaded.spec.arrays})

    @property
    def overlap(self) -> TableSet:
        """The overlap of the tables of all records, with which invariants are compared."""
        return self.groups[0].overlap

    @property
    def known(self) -> Estimates:
        """Invariant name -> its numbers, of variance 0."""
        return self.groups[0].known

    @property
    def apart(self) -> tuple[str, ...]:
        """Columns that are a hierarchy in one table and leaves in another of the same universe."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.apart))

    @property
    def alone(self) -> bool:
        """Whether there is no table that must agree with anything."""
        return all(group.alone for group in self.groups)

    def holding(self, table: str) -> ReconciledGroup:
        """Return the tables that count the same as this one."""
        return next(group for group in self.groups if table in group.spreads)

    def consistent(
        self, measured: Mapping[str, Estimate], *, variances: bool = True, arrays: ArrayStore | None = None
    ) -> StepResult:
        """Make hierarchies add up and shared margins agree; see :meth:`ReconciledGroup.consistent`."""
        return self._by_group(
            measured,
            lambda group, of_group: group.consistent(of_group, variances=variances, arrays=arrays),
        )

    def nonnegative(
        self, estimates: Mapping[str, Estimate], *, arrays: ArrayStore | None = None
    ) -> StepResult:
        """Make every number zero or more; see :meth:`ReconciledGroup.nonnegative`."""
        return self._by_group(estimates, lambda group, of_group: group.nonnegative(of_group, arrays=arrays))

    def whole(self, estimates: Mapping[str, Estimate], *, arrays: ArrayStore | None = None) -> StepResult:
        """Round every number; see :meth:`ReconciledGroup.whole`."""
        return self._by_group(estimates, lambda group, of_group: group.whole(of_group, arrays=arrays))

    def _by_group(
        self, estimates: Mapping[str, Estimate], step: Callable[[ReconciledGroup, Estimates], StepResult]
    ) -> StepResult:
        """Apply one step group by group; a group may be missing, as nothing else depends on it."""
        groups = [group for group in self.groups if group.layouts.keys() <= estimates.keys()]
        made = [step(group, {name: estimates[name] for name in group.layouts}) for group in groups]
        every = {name: estimate for agreed in made for name, estimate in agreed.estimates.items()}
        notes = merge_notes([one.notes for group, one in zip(groups, made, strict=True) if not group.adds_up])
        noted = {
            ", ".join(group.layouts): {key: note for key, note in one.notes.items() if key != "named"}
            for group, one in zip(groups, made, strict=True)
            if group.adds_up and one.notes
        }
        named = [line for one in made for line in one.notes.get("named", ())]
        if noted:
            notes |= {"measures": noted} | (
                {"named": named} if any("named" in one.notes for one in made) else {}
            )
        return StepResult({name: every[name] for name in self.layouts if name in every}, notes)

    def differences(self, tables: Mapping[str, NDArray[Any]]) -> int:
        """Count the shared numbers, over all pairs of tables and invariants, on which two of them differ."""
        return sum(int(wrong.sum()) for _, _, _, wrong in self.compared(tables))

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants of a universe; see :meth:`ReconciledGroup.compared`."""
        for group in self.groups:
            yield from group.compared({name: tables[name] for name in group.layouts if name in tables})


def _universe(loaded: Loaded, table: Table) -> Universe:
    return universe_of(table.where or "", loaded.domains)


def _part_of_all(loaded: Loaded, table: Table) -> float:
    """Return the part of all cells in a table's universe; 2 for all records, which come first."""
    masks = () if table.where is None else _universe(loaded, table).columns.values()
    return math.prod(float(mask.mean()) for mask in masks) if table.where is not None else 2.0


def merge_notes(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the notes of several universes on one step: the worst of each kind, and all names."""
    notes = [note for note in notes if note]
    if len(notes) <= 1:
        return dict(notes[0]) if notes else {}
    made: dict[str, Any] = {}
    for key in dict.fromkeys(key for note in notes for key in note):
        parts = [note[key] for note in notes if key in note]
        if isinstance(parts[0], list):
            made[key] = [item for part in parts for item in part]
        elif isinstance(parts[0], dict):
            made[key] = {
                kind: sum(part.get(kind, 0) for part in parts)
                for kind in sorted({k for part in parts for k in part})
            }
        elif key == "families_at_once":
            made[key] = sum(parts)
        elif key == "variances":
            made[key] = "estimated" if "estimated" in parts else "exact"
        elif isinstance(parts[0], str):
            made[key] = ", ".join(dict.fromkeys(parts))
        else:
            made[key] = max(parts)
    return made
