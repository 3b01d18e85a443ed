"""Whole numbers for several tables that add up and agree, with every remaining violation by name.

Totals before parts, as in non-negativity: ``walk`` goes from the grand total over the shared margins to the
tables, and down every hierarchy. At each step the numbers are rounded under the sums that are settled:

- one set of sums: the largest remainders, family by family, as for one table (``rounding``);
- two sets (children add up to their parents, and cells to a shared margin): a transportation table, for
  which whole numbers that meet all sums exist and are found (``controlled``);
- three and more: whole numbers need not exist. Parents are kept, margins are missed by as little as found.

Where a family misses a sum, or a number has to move further than 1, because its margins were rounded without
it in view, margins and tables of this family are rounded again, all at once, and the better result is kept.

A value within 1e-6 of a whole number takes it first. Values that are known exactly and whole are kept. Every
other number is raised or lowered by less than 1, or by 1 where it was whole and a sum asks for it; where that
is not enough, it moves further and is reported.

Nothing of this is believed: in the end all equations, distances and exact values are computed from the
whole numbers that are returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mechanisms.errors import MechanismError
from mechanisms.inference.estimate import Estimate, refuse_node
from mechanisms.inference.joint.controlled_rounding import Sums, controlled
from mechanisms.inference.joint.joint_consistency import checked_estimates
from mechanisms.inference.joint.nonnegative_projection import incidence
from mechanisms.inference.joint.settling_order import (
    Margins,
    Step,
    WholeMargins,
    below,
    joined,
    margins_of,
    parted,
    tables_of,
    walk,
    weights_of,
)
from mechanisms.inference.joint.shared_marginals import Overlap
from mechanisms.inference.joint.violations import Violation, violations
from mechanisms.inference.rounding import SNAP, STEPS, largest, rounding

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Whole = NDArray[np.intp]

FAMILY = 5_000
"""Numbers of a family, with its margins, up to which it is rounded again where it came out badly."""
MENDED = 50_000
"""Numbers that are rounded again in all: about a millisecond each."""
AGREED = 1e-6
"""Difference, relative to the largest value, beyond which what came in does not add up."""


@dataclass(frozen=True, eq=False, slots=True)
class Rounded:
    """Whole numbers of several tables.

    Attributes
    ----------
    tables
        Table name to (nodes, cells) int64.
    violations
        Everything that does not hold, empty when all tables add up, agree and stay within 1.
    """

    tables: dict[str, Ints]
    violations: tuple[Violation, ...]

    def diagnostics(self) -> dict[str, object]:
        """Return how many violations of which kind there are, and all by name, as JSON-able values."""
        kinds = [violation.kind for violation in self.violations]
        return {
            "violations": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
            "named": [str(violation) for violation in self.violations],
        }


def joint_rounding(overlap: Overlap, estimates: Mapping[str, Estimate]) -> Rounded:
    """Return whole numbers for all tables, and what they violate.

    Parameters
    ----------
    overlap
        The tables' shapes.
    estimates
        Table name to the estimate that ``joint_consistency`` or ``joint_nonnegativity`` returned. A cell of
        variance 0 whose value is whole is kept.

    Raises
    ------
    MechanismError
        For estimates that are missing, not finite, too large for exact whole numbers (2^53), of the wrong
        shape, or that do not add up and agree.

    Notes
    -----
    One table alone is left to ``rounding``. Numbers that are not negative stay so.

    Examples
    --------
    >>> import numpy as np
    >>> from mechanisms.inference.joint.shared_marginals import Frame
    >>> tables = Overlap({"sexes": Frame({"sex": 2}), "ages": Frame({"age": 3})})
    >>> given = {"sexes": Estimate(np.array([[4.6, 5.4]]), np.ones((1, 1))),
    ...          "ages": Estimate(np.array([[3.4, 3.3, 3.3]]), np.ones((1, 1)))}
    >>> made = joint_rounding(tables, given)
    >>> {name: table.tolist() for name, table in made.tables.items()}, made.violations
    ({'sexes': [[5, 5]], 'ages': [[4, 3, 3]]}, ())
    """
    given = checked_estimates(overlap, estimates)
    values = {name: each.values for name, each in given.items()}
    exact = {name: np.broadcast_to(each.variances == 0, each.values.shape) for name, each in given.items()}
    _refuse_unsettled(overlap, values)
    if len(overlap.frames) == 1:
        ((name, frame),) = overlap.frames.items()
        tables = {name: rounding(frame.tree, given[name])}
    else:
        margins = margins_of(overlap, values)
        weights = weights_of(overlap, {name: each.variances for name, each in given.items()})
        whole: WholeMargins = {key: np.zeros(table.shape, dtype=np.int64) for key, table in margins.items()}
        room = MENDED
        for steps in walk(overlap):
            for step in steps:
                _round(step, margins, weights, whole)
            room -= _mend(overlap, steps, margins, weights, whole, room)
        tables = tables_of(overlap, whole)
    return Rounded(tables, violations(overlap, tables, values, exact))


def _refuse_unsettled(overlap: Overlap, values: Mapping[str, Floats]) -> None:
    size = 1.0
    for name, table in values.items():
        refuse_node(
            np.abs(table) > 2.0**53,
            f"of table {name} has a value beyond exact whole numbers",
            "rescale the counts",
        )
        size = max(size, float(np.abs(table).max()))
    worst = max(frame.tree.gap(values[name]) for name, frame in overlap.frames.items())
    if worst > AGREED * size or overlap.gap(values) > AGREED * size:
        raise MechanismError(
            "the tables do not add up or do not agree",
            where="inference",
            mend="run joint_consistency, and joint_nonnegativity if wanted, first",
        )


def _round(step: Step, margins: Margins, weights: Margins, whole: WholeMargins) -> None:
    """Round the step's numbers under what is settled, into ``whole``."""
    shape = whole[step.key][step.rows].shape
    values = margins[step.key][step.rows].ravel()
    near, values = np.rint(values), _snapped(values)
    if not step.conditions:
        whole[step.key][step.rows] = near.astype(np.int64).reshape(shape)
        return
    pinned = (weights[step.key][step.rows].ravel() == 0) & (values == near)
    result = near.astype(np.int64)
    free = np.flatnonzero(~pinned)
    labels, left, firm = [], [], []
    for condition in step.conditions:
        total = condition.sums(whole)
        held = np.flatnonzero((condition.labels >= 0) & pinned)
        taken = np.zeros(len(total), dtype=np.int64)
        np.add.at(taken, condition.labels[held], result[held])
        labels.append(condition.labels[free])
        left.append(total - taken)
        firm.append(np.full(len(total), condition.source == step.key))
    if len(labels) == 1:
        result[free] = _round_families(values[free], labels[0], left[0])
    else:
        system = incidence(labels, [len(total) for total in left])
        sums = Sums(system, np.concatenate(left), np.concatenate(firm), len(labels))
        result[free] = controlled(values[free], sums)
    whole[step.key][step.rows] = result.reshape(shape)


def _mend(
    overlap: Overlap,
    steps: list[Step],
    margins: Margins,
    weights: Margins,
    whole: WholeMargins,
    room: int,
) -> int:
    """Round a family again, together with its margins, where these left its tables no good choice.

    Returns how many numbers were rounded again, at most ``room``.
    """
    stuck, used = [], 0
    for step in steps:
        rows = step.rows[_wrong_rows(step, margins, whole)]
        if rows.size and step.key.along is not None and step.conditions[0].source == step.key:
            stuck.append(overlap.shapes[step.key].tree.parents[rows])
        elif rows.size:
            return _again(steps, margins, weights, whole, room)
    for parent in np.unique(np.concatenate(stuck)) if stuck else ():
        family = [below(overlap, step, np.array([parent])) for step in steps]
        held = [step for step in family if step.rows.size]
        used += _again(held, margins, weights, whole, room - used)
    return used


def _again(steps: list[Step], margins: Margins, weights: Margins, whole: WholeMargins, room: int) -> int:
    """Round all numbers of these steps at once; keep what is better, the old or the new ones."""
    old = np.concatenate([whole[step.key][step.rows].ravel() for step in steps])
    if old.size > min(FAMILY, room):
        return 0
    values, spread = (
        np.concatenate([each[step.key][step.rows].ravel() for step in steps]) for each in (margins, weights)
    )
    values = _snapped(values)
    system, sums, given = joined(steps, whole)
    pinned = (spread == 0) & (values == np.rint(values))
    new = np.rint(values).astype(np.int64)
    free = np.flatnonzero(~pinned)
    left = np.concatenate(sums) - _times(system, np.where(pinned, new, 0))
    new[free] = controlled(values[free], Sums(system[:, free], left, np.concatenate(given), 3))
    target = np.concatenate(sums)

    def badness(numbers: Ints) -> tuple[int, int]:
        missed = int(np.abs(_times(system, numbers) - target).sum())
        return missed, int((np.abs(numbers - values) > 1 + SNAP).sum())

    if badness(new) < badness(old):
        parted(steps, new, whole)
    return old.size


def _wrong_rows(step: Step, margins: Margins, whole: WholeMargins) -> Bools:
    """Say which rows of a step miss a sum or hold a number further than 1 from its unrounded value."""
    numbers, values = whole[step.key][step.rows], margins[step.key][step.rows]
    wrong = np.abs(numbers - values) > 1 + SNAP
    for condition in step.conditions:
        total = condition.sums(whole).copy()
        held = np.flatnonzero(condition.labels >= 0)
        np.subtract.at(total, condition.labels[held], numbers.ravel()[held])
        wrong.ravel()[held] |= total[condition.labels[held]] != 0
    return np.asarray(wrong.any(axis=1), dtype=bool)


def _snapped(values: Floats) -> Floats:
    near = np.rint(values)
    return np.where(np.abs(values - near) <= SNAP, near, values)


def _times(system: sparse.csr_array, numbers: Ints) -> Ints:
    return np.asarray(np.rint(system @ numbers), dtype=np.int64)


def _round_families(values: Floats, labels: Whole, sums: Ints) -> Ints:
    """Round under one set of sums: largest remainders; families they cannot serve by the general way."""
    floors = np.floor(values)
    whole: Ints = np.rint(values).astype(np.int64)
    held = np.flatnonzero(labels >= 0)
    if not held.size:
        return whole
    order = held[np.argsort(labels[held], kind="stable")]
    whole[order] = floors[order].astype(np.int64)
    sizes = np.bincount(labels[order], minlength=len(sums))
    steps = np.rint((values - floors)[order] * STEPS).astype(np.int64)
    taken, able = np.zeros(len(sums), dtype=np.int64), np.zeros(len(sums), dtype=np.int64)
    np.add.at(taken, labels[order], whole[order])
    np.add.at(able, labels[order], steps > 0)
    missing = sums - taken
    served = (missing >= 0) & (missing <= able)
    number = np.where(served, missing, 0)
    used = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[used]
    whole[order[largest(steps, starts, sizes[used], number[used])]] += 1
    rest = np.flatnonzero(~served & used)
    if rest.size:
        chosen = order[np.isin(labels[order], rest)]
        place = np.searchsorted(rest, labels[chosen])
        firm = np.ones(rest.size, dtype=bool)
        system = Sums(incidence([place], [rest.size]), sums[rest], firm, 1)
        whole[chosen] = controlled(values[chosen], system)
    return whole
