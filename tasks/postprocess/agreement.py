"""How the tables of a release hang together, and what post-processing does with all of them at once.

Tables that name the same column count the same records along it, so they agree on every margin that they
share, at least on the grand total; a public invariant is one more table, whose numbers are exact. Arrays of
measures agree with those of other tables that add up the same, and never with counts. A release
of one table without invariants takes the shorter way along its hierarchy: the answer is the same.

Nothing here reads or writes: stages and simulations hand in estimates and get estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from tasks.postprocess.table_layout import Layout
from validations.domains.domains import HierarchyDomain
from validations.domains.known_marginals import KnownMarginal
from validations.domains.levels import nodes_to
from validations.spec.load import Loaded
from validations.spec.model import Table
from validations.suites.published_table_rules import differing

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
class Agreement:
    """The tables of a release with their shared margins.

    Attributes
    ----------
    overlap
        Tables and invariants.
    own
        Table name -> how it lies in memory.
    known
        Invariant name -> its numbers, of variance 0.
    apart
        Columns that are a hierarchy in one table and leaves in another: there the two are not made to agree.
    beside
        The arrays of measures, those together that add up the same.
    """

    overlap: Overlap
    own: dict[str, Layout]
    known: Estimates
    apart: tuple[str, ...]
    beside: tuple[Agreement, ...] = ()

    @classmethod
    def of(cls, loaded: Loaded) -> Agreement:
        """Work out what the tables of a spec share."""
        alike: dict[object, list[Table]] = {}
        for array in loaded.spec.arrays:
            alike.setdefault(array.measured and array.measured.counts_alike, []).append(array)
        counts = cls._among(loaded, alike.pop(None), loaded.known)
        return replace(counts, beside=tuple(cls._among(loaded, each, ()) for each in alike.values()))

    @classmethod
    def _among(cls, loaded: Loaded, tables: list[Table], invariants: Sequence[KnownMarginal]) -> Agreement:
        layouts = {table.name: Layout.of(loaded, table) for table in tables}
        trees = {layout.along.name for layout in layouts.values() if layout.along is not None}
        trees |= {known.along for known in invariants if known.along is not None}
        apart: dict[str, None] = {}

        def flat(sizes: dict[str, int]) -> dict[str, int]:
            apart.update(dict.fromkeys(name for name in sizes if name in trees))
            return {f"{name}{LEAVES}" if name in trees else name: size for name, size in sizes.items()}

        frames = {
            name: Frame(
                flat({domain.name: domain.size for domain in layout.others}),
                None if layout.along is None else layout.along.name,
                Hierarchy(layout.parents),
            )
            for name, layout in layouts.items()
        }
        numbers = {}
        for known in invariants:
            sizes = flat({name: loaded.domains[name].size for name in known.flat})
            frames[known.name], numbers[known.name] = _exact(loaded, known, sizes)
        return cls(Overlap(frames), layouts, numbers, tuple(apart))

    @property
    def layouts(self) -> dict[str, Layout]:
        """Name of each table, and of the array of each measure -> how it lies in memory."""
        return {name: layout for one in (self, *self.beside) for name, layout in one.own.items()}

    @property
    def alone(self) -> bool:
        """Whether there is one table, and nothing that it must agree with."""
        return len(self.overlap.frames) == 1

    def consistent(self, measured: Mapping[str, Estimate], *, variances: bool = True) -> Agreed:
        """Make hierarchies add up and shared margins agree, by weighted least squares.

        Without ``variances`` those of several tables are rough: good for what comes next, not for margins.
        """
        return self._each(measured, lambda one, own: one._consistent(own, variances=variances))

    def nonnegative(self, estimates: Mapping[str, Estimate]) -> Agreed:
        """Make every number zero or more, but sums of what may be less; what agreed still does."""
        return self._each(estimates, Agreement._nonnegative)

    def whole(self, estimates: Mapping[str, Estimate]) -> Agreed:
        """Make every number whole; what agreed still does, but for violations that the notes name."""
        return self._each(estimates, Agreement._whole)

    def _each(
        self, estimates: Mapping[str, Estimate], step: Callable[[Agreement, Estimates], Agreed]
    ) -> Agreed:
        """Take counts, and then those arrays together that add up the same, through one step.

        Arrays may be left out, all of a group: nothing else depends on them.
        """
        groups = [self, *(each for each in self.beside if each.own.keys() <= estimates.keys())]
        done = [step(one, {name: estimates[name] for name in one.own}) for one in groups]
        notes, named = dict(done[0].notes), [line for each in done for line in each.notes.get("named", ())]
        told = {
            ", ".join(one.own): {key: said for key, said in each.notes.items() if key != "named"}
            for one, each in zip(groups[1:], done[1:], strict=True)
            if each.notes
        }
        if told:
            notes |= {"measures": told} | ({"named": named} if named or "named" in notes else {})
        return Agreed({name: each for part in done for name, each in part.estimates.items()}, notes)

    def _consistent(self, measured: Estimates, *, variances: bool) -> Agreed:
        if self.alone:
            return Agreed(
                {name: consistency(self._tree(name), e.values, e.variances) for name, e in measured.items()}
            )
        every = {**measured, **self.known}
        joint = joint_consistency(
            self.overlap,
            {name: estimate.values for name, estimate in every.items()},
            {name: estimate.variances for name, estimate in every.items()},
            probes=PROBES if variances else 0,
        )
        return Agreed(self._tables(joint.estimates), joint.diagnostics())

    def _nonnegative(self, estimates: Estimates) -> Agreed:
        if any(layout.signed for layout in self.own.values()):
            return Agreed(estimates)
        if self.alone:
            ((name, estimate),) = estimates.items()
            tree = self._tree(name)
            return Agreed({name: nonnegativity(tree, with_fair_roots(tree, estimate))})
        joint = joint_nonnegativity(self.overlap, {**estimates, **self.known})
        return Agreed(self._tables(joint.estimates), joint.diagnostics())

    def _whole(self, estimates: Estimates) -> Agreed:
        if self.alone:
            ((name, estimate),) = estimates.items()
            whole = rounding(self._tree(name), estimate).astype(float)
            return Agreed({name: Estimate(whole, estimate.variances)})
        joint = joint_rounding(self.overlap, {**estimates, **self.known})
        made = {
            name: Estimate(joint.tables[name].astype(float), estimate.variances)
            for name, estimate in estimates.items()
        }
        named = [self.in_words(violation) for violation in joint.violations]
        return Agreed(made, {**joint.diagnostics(), "named": named})

    def differences(self, tables: Mapping[str, NDArray[Any]]) -> int:
        """Count the shared numbers, over all pairs of tables and invariants, on which two of them differ."""
        return sum(int(wrong.sum()) for _, _, _, wrong in self.compared(tables))

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants, how the first shows what both have, and where they differ.

        Whole numbers are compared exactly, others within the rounding of doubles.
        """
        every = {**tables, **{name: each.values for name, each in self.known.items()}}
        for one, other in combinations((name for name in self.overlap.frames if name in every), 2):
            views = self.overlap.views(one, other)
            shown = views[0].gather(every[one]), views[1].gather(every[other])
            largest = max(float(np.abs(each).max()) for each in shown)
            yield one, other, views[0], differing(*shown, SLACK * max(1.0, largest))
        for each in self.beside:
            yield from each.compared(tables)

    def in_words(self, violation: Violation) -> str:
        """Return a violation with the codes of its cell."""
        flat = {domain.name: domain for layout in self.own.values() for domain in layout.others}
        codes = {
            name: flat[name.removesuffix(LEAVES)].codes[place] for name, place in violation.group.items()
        }
        if violation.node is not None:
            trees = {each.along.name: each.along for each in self.own.values() if each.along}
            names = (self.overlap.frames[each].along for each in violation.tables)
            along = next(trees[name] for name in names if name)
            codes = {along.name: along.node_codes[violation.node], **codes}
        cell = ", ".join(f"{name} {code}" for name, code in codes.items()) or "total"
        return f"{_KINDS[violation.kind].format(' and '.join(violation.tables))} at {cell}: {violation.by:+g}"

    def _tree(self, name: str) -> Hierarchy:
        return self.overlap.frames[name].tree

    def _tables(self, estimates: Mapping[str, Estimate]) -> Estimates:
        return {name: estimates[name] for name in self.own}


def _exact(loaded: Loaded, known: KnownMarginal, sizes: dict[str, int]) -> tuple[Frame, Estimate]:
    """Return an invariant as a table of its own: its level, and the sums above it."""
    if known.along is None:
        return Frame(sizes), Estimate(known.values.astype(float), np.zeros((1, 1)))
    domain = loaded.domains[known.along]
    assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
    assert known.level is not None and known.nodes is not None  # noqa: S101 - they go with along
    tree = Hierarchy(domain.parents[: nodes_to(domain, known.level)])
    values = np.zeros((tree.nodes, known.values.shape[1]))
    values[known.nodes] = known.values
    for block in tree.up(values.shape[1]):
        values[block.parents] = block.total(values[block.children])
    return Frame(sizes, known.along, tree), Estimate(values, np.zeros((tree.nodes, 1)))


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
