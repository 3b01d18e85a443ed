"""How the tables of a release hang together, and what post-processing does with all of them at once.

Tables of one universe that name the same column count the same records along it, so they agree on every
margin that they share, at least on the grand total; a public invariant is one more table, whose numbers are
exact. Arrays of measures agree with those of their universe that add up the same, and never with counts. What
has nobody to agree with takes the shorter way along its hierarchy: the answer is the same. Tables of
different universes count different records, and are not made to agree.

Nothing here reads or writes: stages and simulations hand in estimates and get estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference import (
    Estimate,
    Frame,
    Hierarchy,
    Overlap,
    Violation,
    consistency,
    joint_consistency,
    joint_nonnegativity,
    joint_rounding,
    nonnegativity,
    rounding,
)
from mechanisms.inference.joint.joint_consistency import PROBES
from mechanisms.inference.joint.shared_marginals import View
from tasks.postprocess.denominators import known_on_tree
from tasks.postprocess.notes_on_steps import in_one
from tasks.postprocess.spread_cells import Spread, codes_at
from tasks.postprocess.table_layout import Layout
from validations.derivation.nested_codings import Chain, chains_of
from validations.domains.domains import Domain, HierarchyDomain
from validations.domains.known_marginals import KnownMarginal
from validations.spec.load import Loaded
from validations.spec.parts.table_parts import Table
from validations.suites.published_table_rules import differing
from validations.universes.universe import adds_alike, key_of

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
    """

    overlap: Overlap
    layouts: dict[str, Layout]
    known: Estimates
    apart: tuple[str, ...]
    chains: tuple[Chain, ...]
    spreads: dict[str, Spread]

    @classmethod
    def of(cls, loaded: Loaded, tables: Sequence[Table], invariants: Sequence[KnownMarginal]) -> Together:
        """Work out what some tables of a spec and the invariants of their universe share."""
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
        spreads = {name: Spread.of(others, chains) for name, others in crossed.items()}
        frames = {
            name: Frame(
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
        return cls(Overlap(frames), layouts, numbers, tuple(apart), tuple(chains), spreads)

    @property
    def adds_up(self) -> bool:
        """Whether it adds up a measure, and does not count."""
        return any(layout.table.measured is not None for layout in self.layouts.values())

    @property
    def chosen(self) -> bool:
        """Whether it is what was chosen in each cell, which neither adds up nor agrees with anything."""
        return any(layout.chosen for layout in self.layouts.values())

    @property
    def alone(self) -> bool:
        """Whether there is one table, and nothing that it must agree with."""
        return len(self.overlap.frames) == 1

    def consistent(self, measured: Mapping[str, Estimate], *, variances: bool = True) -> Agreed:
        """Make hierarchies add up and shared margins agree, by weighted least squares.

        Without ``variances`` those of several tables are rough: good for what comes next, not for margins.
        """
        if self.chosen:
            return Agreed(dict(measured))
        if self.alone:
            return Agreed(
                {name: consistency(self._tree(name), e.values, e.variances) for name, e in measured.items()}
            )
        every = self._places(measured)
        joint = joint_consistency(
            self.overlap,
            {name: estimate.values for name, estimate in every.items()},
            {name: estimate.variances for name, estimate in every.items()},
            probes=PROBES if variances else 0,
        )
        return Agreed(self._tables(joint.estimates), joint.diagnostics())

    def nonnegative(self, estimates: Mapping[str, Estimate]) -> Agreed:
        """Make every number zero or more, but sums of what may be less; what agreed still does."""
        if any(layout.signed for layout in self.layouts.values()):
            return Agreed(dict(estimates))
        if self.alone:
            ((name, estimate),) = estimates.items()
            tree = self._tree(name)
            return Agreed({name: nonnegativity(tree, with_fair_roots(tree, estimate))})
        joint = joint_nonnegativity(self.overlap, self._places(estimates))
        return Agreed(self._tables(joint.estimates), joint.diagnostics())

    def whole(self, estimates: Mapping[str, Estimate]) -> Agreed:
        """Make every number whole; what agreed still does, but for violations that the notes name."""
        if self.chosen:
            return Agreed(dict(estimates))
        if self.alone:
            ((name, estimate),) = estimates.items()
            whole = rounding(self._tree(name), estimate).astype(float)
            return Agreed({name: Estimate(whole, estimate.variances)})
        joint = joint_rounding(self.overlap, self._places(estimates))
        made = {
            name: Estimate(self.spreads[name].cells(joint.tables[name].astype(float)), estimate.variances)
            for name, estimate in estimates.items()
        }
        named = [self.in_words(violation) for violation in joint.violations]
        return Agreed(made, {**joint.diagnostics(), "named": named})

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants, how the first shows what both have, and where they differ.

        Whole numbers are compared exactly, others within the rounding of doubles.
        """
        every = {name: self.spreads[name].values(cells) for name, cells in tables.items()}
        every |= {name: each.values for name, each in self.known.items()}
        for one, other in combinations((name for name in self.overlap.frames if name in every), 2):
            views = self.overlap.views(one, other)
            shown = views[0].gather(every[one]), views[1].gather(every[other])
            largest = max(float(np.abs(each).max()) for each in shown)
            yield one, other, views[0], differing(*shown, SLACK * max(1.0, largest))

    def in_words(self, violation: Violation) -> str:
        """Return a violation with the codes of its cell."""
        codes = self.codes(violation.group)
        if violation.node is not None:
            trees = {each.along.name: each.along for each in self.layouts.values() if each.along}
            names = (self.overlap.frames[each].along for each in violation.tables)
            along = next(trees[name] for name in names if name)
            codes = {along.name: along.node_codes[violation.node], **codes}
        cell = ", ".join(f"{name} {code}" for name, code in codes.items()) or "total"
        return f"{_KINDS[violation.kind].format(' and '.join(violation.tables))} at {cell}: {violation.by:+g}"

    def codes(self, group: Mapping[str, int]) -> dict[str, str]:
        """Return column -> code for a place along some axes of the overlap."""
        flat = {domain.name: domain for layout in self.layouts.values() for domain in layout.others}
        return codes_at({name.removesuffix(LEAVES): at for name, at in group.items()}, self.chains, flat)

    def _places(self, estimates: Mapping[str, Estimate]) -> Estimates:
        """Return the estimates of tables, and the numbers of invariants, at all places."""
        return {name: self.spreads[name].estimate(each) for name, each in estimates.items()} | self.known

    def _tree(self, name: str) -> Hierarchy:
        return self.overlap.frames[name].tree

    def _tables(self, estimates: Mapping[str, Estimate]) -> Estimates:
        return {name: self.spreads[name].back(estimates[name]) for name in self.layouts}


@dataclass(frozen=True, eq=False)
class Agreement:
    """The tables of a release and the arrays of their measures, in groups of those that count the same.

    Attributes
    ----------
    groups
        The tables of each universe, and the arrays in it that add up the same; the counts of all records come
        first, with the invariants.
    layouts
        Name of each table and array -> how it lies in memory, in the order of the spec.
    """

    groups: tuple[Together, ...]
    layouts: dict[str, Layout]

    @classmethod
    def of(cls, loaded: Loaded) -> Agreement:
        """Work out which tables and arrays of a spec count the same, and what those share."""
        counts = (None, None)  # of all records
        alike: dict[object, list[Table]] = {counts: []}
        for array in loaded.spec.arrays:
            adds: object = array.measured and adds_alike(array.measured, loaded.domains)
            if array.measured is not None and array.measured.form == "choice":
                adds = array.name
            alike.setdefault((key_of(array, loaded.domains), adds), []).append(array)
        groups = [
            Together.of(loaded, tables, loaded.known if key == counts else ())
            for key, tables in alike.items()
            if tables
        ]
        every = {name: layout for group in groups for name, layout in group.layouts.items()}
        return cls(tuple(groups), {array.name: every[array.name] for array in loaded.spec.arrays})

    @property
    def overlap(self) -> Overlap:
        """Of the tables that share records with the invariants, which are those of all records."""
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

    def holding(self, table: str) -> Together:
        """Return the tables that count the same as this one."""
        return next(group for group in self.groups if table in group.spreads)

    def consistent(self, measured: Mapping[str, Estimate], *, variances: bool = True) -> Agreed:
        """Make hierarchies add up and shared margins agree; see :meth:`Together.consistent`."""
        return self._each(measured, lambda group, own: group.consistent(own, variances=variances))

    def nonnegative(self, estimates: Mapping[str, Estimate]) -> Agreed:
        """Make every number zero or more; see :meth:`Together.nonnegative`."""
        return self._each(estimates, Together.nonnegative)

    def whole(self, estimates: Mapping[str, Estimate]) -> Agreed:
        """Make every number whole; see :meth:`Together.whole`."""
        return self._each(estimates, Together.whole)

    def _each(
        self, estimates: Mapping[str, Estimate], step: Callable[[Together, Estimates], Agreed]
    ) -> Agreed:
        """Take group by group through one step; one may be left out, as nothing else depends on it."""
        groups = [group for group in self.groups if group.layouts.keys() <= estimates.keys()]
        made = [step(group, {name: estimates[name] for name in group.layouts}) for group in groups]
        every = {name: estimate for agreed in made for name, estimate in agreed.estimates.items()}
        notes = in_one([one.notes for group, one in zip(groups, made, strict=True) if not group.adds_up])
        told = {
            ", ".join(group.layouts): {key: said for key, said in one.notes.items() if key != "named"}
            for group, one in zip(groups, made, strict=True)
            if group.adds_up and one.notes
        }
        named = [line for one in made for line in one.notes.get("named", ())]
        if told:
            notes |= {"measures": told} | (
                {"named": named} if any("named" in one.notes for one in made) else {}
            )
        return Agreed({name: every[name] for name in self.layouts if name in every}, notes)

    def differences(self, tables: Mapping[str, NDArray[Any]]) -> int:
        """Count the shared numbers, over all pairs of tables and invariants, on which two of them differ."""
        return sum(int(wrong.sum()) for _, _, _, wrong in self.compared(tables))

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants of a universe; see :meth:`Together.compared`."""
        for group in self.groups:
            yield from group.compared({name: tables[name] for name in group.layouts if name in tables})


def _may_nest(loaded: Loaded, domain: Domain) -> bool:
    """Whether a domain is of a column that is crossed as categories, and not of the parts of a measure."""
    return loaded.domains.get(domain.name) is domain and not isinstance(domain, HierarchyDomain)


def _exact(
    loaded: Loaded, known: KnownMarginal, sizes: dict[str, int], spread: Spread
) -> tuple[Frame, Estimate]:
    """Return an invariant as a table of its own: its level, and the sums above it."""
    tree, values = known_on_tree(loaded, known)
    frame = Frame(sizes) if known.along is None else Frame(sizes, known.along, tree)
    return frame, Estimate(spread.values(values), np.zeros((tree.nodes, 1)))


def with_fair_roots(tree: Hierarchy, estimate: Estimate) -> Estimate:
    """Make the cells of every root non-negative while their sum stays what it was (or zero).

    Below the roots a family keeps its parent's value. A root has no parent: cutting its cells off at zero
    one by one would add the negative noise of every empty cell to the total. So the cells of a root are a
    family too, under their own sum.
    """
    roots, cells = tree.roots, estimate.values.shape[1]
    if cells == 1:
        return estimate
    count = len(roots)
    families = Hierarchy(np.concatenate((np.full(count, -1), np.repeat(np.arange(count), cells))))
    before = estimate.values[roots]
    spread = np.broadcast_to(estimate.variances[roots], before.shape)
    joint = Estimate(
        np.concatenate((before.sum(axis=1), before.ravel()))[:, None],
        np.concatenate((spread.sum(axis=1), spread.ravel()))[:, None],
    )
    values = estimate.values.copy()
    values[roots] = nonnegativity(families, joint).values[count:, 0].reshape(before.shape)
    return Estimate(values, estimate.variances)
