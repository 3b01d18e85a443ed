"""Tables that count the same records, or parts that cells decide, and what post-processing does with them.

Nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from tabularium.mechanisms.inference.joint.shared_marginals import View
from tabularium.mechanisms.inference.rounding import round_into
from tabularium.tasks.postprocess.denominators import known_on_tree
from tabularium.tasks.postprocess.joined_universes import ALONE, joined, spread_of
from tabularium.tasks.postprocess.mapped_arrays import Room
from tabularium.tasks.postprocess.spread_cells import Spread, codes_at
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.derivation.nested_codings import Chain, chains_of
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.parts.table_parts import Table
from tabularium.validations.suites.published_table_rules import differing
from tabularium.validations.universes.universe import Universe

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
class Agreed:
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
class Together:
    """Tables or arrays of one universe that count the same, with their shared margins.

    Attributes
    ----------
    overlap
        Tables and invariants.
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
    spreads: dict[str, Spread]
    holders: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        tables: Sequence[Table],
        invariants: Sequence[KnownMarginal],
        smaller: Sequence[tuple[str, Universe, Sequence[Table]]] = (),
        outer: Universe | None = None,
    ) -> Together:
        """Work out what some tables of a spec and the invariants of their universe share.

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
            [[each.name for each in others if _may_nest(loaded, each)] for others in crossed.values()],
        )
        inner = [(w, u, {t.name: Layout.of(loaded, t) for t in some}) for w, u, some in smaller]
        parts, chains = joined(loaded, outer, layouts, chains, inner)
        spreads = {name: Spread.of(others, chains) for name, others in crossed.items()}
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
        """Whether it adds up a measure, and does not count."""
        return any(layout.table.measured is not None for layout in self.layouts.values())

    @property
    def signed(self) -> bool:
        """Whether its numbers may be less than zero, so that non-negativity leaves them as they are."""
        return any(layout.signed for layout in self.layouts.values())

    @property
    def additive(self) -> bool:
        """Whether numbers of cells make those of several; else they agree with nothing, and stand alone."""
        return all(layout.adds_up for layout in self.layouts.values())

    @property
    def alone(self) -> bool:
        """Whether there is one table, and nothing that it must agree with."""
        return len(self.overlap.tables) == 1

    def consistent(
        self, measured: Mapping[str, Estimate], *, variances: bool = True, room: Room | None = None
    ) -> Agreed:
        """Make hierarchies add up and shared margins agree, by weighted least squares.

        Without ``variances`` those of several tables are rough: good for what comes next, not for margins.
        A table that has nothing to agree with goes through the steps some families at a time, and what comes
        of it into ``room``, if there is some.
        """
        if not self.additive:
            return Agreed(dict(measured))
        if self.alone:
            ((name, estimate),) = measured.items()
            out = None if room is None else room.of(name, estimate.values.shape)
            tree = self._tree(name)
            return Agreed({name: consistency(tree, estimate.values, estimate.variances, out=out)})
        every = self._places(measured)
        joint = joint_consistency(
            self.overlap,
            {name: estimate.values for name, estimate in every.items()},
            {name: estimate.variances for name, estimate in every.items()},
            probes=PROBES if variances else 0,
        )
        return Agreed(self._tables(joint.estimates), joint.diagnostics())

    def nonnegative(self, estimates: Mapping[str, Estimate], *, room: Room | None = None) -> Agreed:
        """Make every number zero or more, but sums of what may be less; what agreed still does."""
        if self.signed:
            return Agreed(dict(estimates))
        if not self.additive:
            return Agreed({name: _cut_at_zero(each, name, room) for name, each in estimates.items()})
        if self.alone:
            ((name, estimate),) = estimates.items()
            tree = self._tree(name)
            fair = with_fair_roots(
                tree, estimate, None if room is None else room.of(name, estimate.values.shape)
            )
            return Agreed({name: nonnegativity(tree, fair, out=fair.values)})
        joint = joint_nonnegativity(self.overlap, self._known_places(estimates))
        return Agreed(self._tables(joint.estimates), joint.diagnostics())

    def whole(self, estimates: Mapping[str, Estimate], *, room: Room | None = None) -> Agreed:
        """Make every number whole; what agreed still does, but for violations that the notes name."""
        if not self.additive:  # as they were drawn
            return Agreed(dict(estimates))
        if self.alone:
            ((name, estimate),) = estimates.items()
            shape = estimate.values.shape
            whole = np.empty(shape) if room is None else room.of(name, shape)
            round_into(whole, self._tree(name), estimate)
            return Agreed({name: Estimate(whole, estimate.variances)})
        known = self._known_places(estimates)
        joint = joint_rounding(self.overlap, known)
        made = {
            name: Estimate(self.spreads[name].cells(joint.tables[name].astype(float)), estimate.variances)
            for name, estimate in estimates.items()
        }
        if self.holders:
            # What was rounded at places that a table does not know is not published, and violates nothing.
            shown = {name: each.values.astype(np.int64) for name, each in self._known_places(made).items()}
            exact = {n: np.broadcast_to(e.variances == 0, e.values.shape) for n, e in known.items()}
            before = {name: each.values for name, each in known.items()}
            joint = Rounded(shown, violations(self.overlap, shown, before, exact))
        named = [self.in_words(violation) for violation in joint.violations]
        return Agreed(made, {**joint.diagnostics(), "named": named})

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants, how the first shows what both have, and where they differ.

        Whole numbers are compared exactly, others within the rounding of doubles.
        """
        exact = np.zeros((1, 1))
        given = {name: Estimate(np.asarray(cells, np.float64), exact) for name, cells in tables.items()}
        every = {name: each.values for name, each in self._known_places(given).items()}
        for one, other in combinations((name for name in self.overlap.tables if name in every), 2):
            views = self.overlap.views(one, other)
            shown = views[0].gather(every[one]), views[1].gather(every[other])
            largest = max(float(np.abs(each).max()) for each in shown)
            yield one, other, views[0], differing(*shown, SLACK * max(1.0, largest))

    def in_words(self, violation: Violation) -> str:
        """Return a violation with the codes of its cell."""
        codes = self.codes(violation.group)
        if violation.node is not None:
            trees = {each.along.name: each.along for each in self.layouts.values() if each.along}
            names = (self.overlap.tables[each].along for each in violation.tables)
            along = next(trees[name] for name in names if name)
            codes = {along.name: along.node_codes[violation.node], **codes}
        cell = ", ".join(f"{name} {code}" for name, code in codes.items()) or "total"
        return f"{_KINDS[violation.kind].format(' and '.join(violation.tables))} at {cell}: {violation.by:+g}"

    def codes(self, group: Mapping[str, int]) -> dict[str, str]:
        """Return column -> code for a place along some axes of the overlap."""
        flat = {domain.name: domain for layout in self.layouts.values() for domain in layout.others}
        chained = {axis for chain in self.chains for axis in chain.axes}
        own = {
            name if name in chained else name.removesuffix(LEAVES).partition(ALONE)[0]: at
            for name, at in group.items()
        }
        return codes_at(own, self.chains, flat)

    def _places(self, estimates: Mapping[str, Estimate]) -> Estimates:
        """Return the estimates of tables, and the numbers of invariants, at all places."""
        return {name: self.spreads[name].estimate(each) for name, each in estimates.items()} | self.known

    def _known_places(self, estimates: Mapping[str, Estimate]) -> Estimates:
        """Return the same of tables that agree, in which all places are known.

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
            own, given = every[name], every[holder]
            values, variances = own.values, np.broadcast_to(own.variances, own.values.shape).copy()
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
    """Whether a domain is of a column that is crossed as categories, and not of the parts of a measure."""
    return loaded.domains.get(domain.name) is domain and not isinstance(domain, HierarchyDomain)


def _exact(
    loaded: Loaded, known: KnownMarginal, sizes: dict[str, int], spread: Spread
) -> tuple[TableShape, Estimate]:
    """Return an invariant as a table of its own: its level, and the sums above it."""
    tree, values = known_on_tree(loaded, known)
    frame = TableShape(sizes) if known.along is None else TableShape(sizes, known.along, tree)
    return frame, Estimate(spread.values(values), np.zeros((tree.nodes, 1)))


def _cut_at_zero(estimate: Estimate, name: str, room: Room | None) -> Estimate:
    """Return estimates, cell by cell, without what is below zero."""
    out = None if room is None else room.of(name, estimate.values.shape)
    values: NDArray[np.float64] = np.maximum(estimate.values, 0.0, out=out)
    return Estimate(values, estimate.variances)


def with_fair_roots(tree: Hierarchy, estimate: Estimate, out: NDArray[np.float64] | None = None) -> Estimate:
    """Make the cells of every root non-negative while their sum stays what it was (or zero), in a copy.

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
