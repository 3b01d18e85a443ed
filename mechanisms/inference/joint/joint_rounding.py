"""Whole numbers for several tables that add up and agree, with every remaining violation by name.

Numbers are rounded in the order of ``projection_schedule``, under the sums that are settled: one set of sums
by largest remainders (``rounding``); two sets are a transportation table, for which whole numbers exist and
are found by linear programming; with three they need not exist, and marginals are missed by as little as
found. A family that comes out badly is rounded again at once with its marginals, and the better result kept.
docs/explanation/inference.md says what is exact.

Exact whole values are kept; every other number moves by less than 1, or by 1 where it was whole, else it is
reported. No step vouches for the result: all equations are checked on the numbers that are returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from tabularium.mechanisms.arrays import LARGEST_WHOLE, Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import Estimate, refuse_node
from tabularium.mechanisms.inference.joint.joint_consistency import checked_estimates
from tabularium.mechanisms.inference.joint.projection_schedule import (
    CERTAIN,
    Step,
    WholeMarginalTables,
    failed_families,
    incidence,
    marginal_tables,
    marginal_variances,
    projection_schedule,
    stacked,
    step_for_children,
    tables_of,
    unstacked,
)
from tabularium.mechanisms.inference.joint.shared_marginals import TableSet, TableShape
from tabularium.mechanisms.inference.rounding import SNAP, STEPS, largest, rounding

if TYPE_CHECKING:
    from scipy import sparse

FAMILY = 5_000
"""Numbers of a family, with its marginals, up to which it is rounded again where it came out badly."""
REPEATED = 50_000
"""Numbers that are rounded again in all: about a millisecond each."""
AGREED = 1e-6
"""Difference, relative to the largest value, beyond which what came in does not add up."""


@dataclass(frozen=True, eq=False, slots=True)
class Rounded:
    """Whole numbers of several tables.

    ``tables``: Table name to (nodes, cells) int64. ``violations``: Everything that does not hold, empty when
    all tables add up, agree and stay within 1.
    """

    tables: dict[str, Integers]
    violations: tuple[Violation, ...]

    def diagnostics(self) -> dict[str, object]:
        """Return how many violations of each kind there are, and all by name, as JSON-able values."""
        kinds = [violation.kind for violation in self.violations]
        return {
            "violations": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
            "named": [str(violation) for violation in self.violations],
        }


def joint_rounding(
    table_set: TableSet, estimates: Mapping[str, Estimate], *, certain: float = CERTAIN
) -> Rounded:
    """Return whole numbers for all tables, and what they violate.

    ``estimates``: table name to the estimate that ``joint_consistency`` or ``joint_nonnegativity`` returned.
    A cell of variance 0 whose value is whole is kept. ``certain``: as of ``marginal_variances``.

    Raises
    ------
    MechanismError
        For estimates that are missing, not finite, too large for exact whole numbers (2^53), of the wrong
        shape, or that do not add up and agree.

    Notes
    -----
    A single table is left to ``rounding``. Numbers that are not negative stay so.

    Examples
    --------
    >>> from tabularium.mechanisms.inference.joint.shared_marginals import TableShape
    >>> tables = TableSet({"sexes": TableShape({"sex": 2}), "ages": TableShape({"age": 3})})
    >>> given = {"sexes": Estimate(np.array([[4.6, 5.4]]), np.ones((1, 1))),
    ...          "ages": Estimate(np.array([[3.4, 3.3, 3.3]]), np.ones((1, 1)))}
    >>> made = joint_rounding(tables, given)
    >>> {name: table.tolist() for name, table in made.tables.items()}, made.violations
    ({'sexes': [[5, 5]], 'ages': [[4, 3, 3]]}, ())
    """
    given = checked_estimates(table_set, estimates)
    values = {name: item.values for name, item in given.items()}
    exact = {name: np.broadcast_to(item.variances == 0, item.values.shape) for name, item in given.items()}
    _refuse_unsettled(table_set, values)
    if len(table_set.tables) == 1:
        ((name, frame),) = table_set.tables.items()
        tables = {name: rounding(frame.tree, given[name])}
    else:
        tables = tables_of(table_set, _Rounding(table_set, given, certain).run())
    return Rounded(tables, violations(table_set, tables, values, exact))


def _refuse_unsettled(table_set: TableSet, values: Mapping[str, Floats]) -> None:
    size = 1.0
    for name, table in values.items():
        refuse_node(
            np.abs(table) > LARGEST_WHOLE,
            f"of table {name} has a value beyond exact whole numbers",
            "rescale the counts",
        )
        size = max(size, float(np.abs(table).max()))
    worst = max(frame.tree.gap(values[name]) for name, frame in table_set.tables.items())
    if worst > AGREED * size or table_set.gap(values) > AGREED * size:
        raise MechanismError(
            "the tables do not add up or do not agree",
            where="inference",
            hint="run joint_consistency, and joint_nonnegativity if wanted, first",
        )


class _Rounding:
    """Numbers of all marginals on their way to whole ones."""

    def __init__(self, table_set: TableSet, estimates: Mapping[str, Estimate], certain: float) -> None:
        self._table_set = table_set
        self._marginals = marginal_tables(table_set, {name: item.values for name, item in estimates.items()})
        variances = {name: item.variances for name, item in estimates.items()}
        self._variances = marginal_variances(table_set, variances, certain)
        self._whole: WholeMarginalTables = {
            marginal: np.zeros(table.shape, dtype=np.int64) for marginal, table in self._marginals.items()
        }
        self._room = REPEATED

    def run(self) -> WholeMarginalTables:
        """Return whole numbers of every marginal."""
        for steps in projection_schedule(self._table_set):
            for step in steps:
                self._round(step)
            self._repeat_failed(steps)
        return self._whole

    def _round(self, step: Step) -> None:
        """Round the step's numbers under the sums that are settled."""
        values, pinned, result = self._start([step])
        if not step.conditions:
            step.put(result, self._whole)
            return
        free = np.flatnonzero(~pinned)
        labels, left, firm = [], [], []
        for condition in step.conditions:
            total = condition.sums(self._whole)
            held = np.flatnonzero((condition.labels >= 0) & pinned)
            taken = np.zeros(len(total), dtype=np.int64)
            np.add.at(taken, condition.labels[held], result[held])
            labels.append(condition.labels[free])
            left.append(total - taken)
            firm.append(np.full(len(total), condition.source == step.marginal))
        if len(labels) == 1:
            result[free] = _round_families(values[free], labels[0], left[0])
        else:
            system = incidence(labels, [len(total) for total in left])
            sums = Conditions(system, np.concatenate(left), np.concatenate(firm), len(labels))
            result[free] = round_to_sums(values[free], sums)
        step.put(result, self._whole)

    def _start(self, steps: Sequence[Step]) -> tuple[Floats, Bools, Integers]:
        """Return values, whole where they almost are, which of them may not move, and the nearest whole."""
        values = np.concatenate([step.take(self._marginals) for step in steps])
        exact = np.concatenate([step.take(self._variances) for step in steps]) == 0
        near = np.rint(values)
        values = np.where(np.abs(values - near) <= SNAP, near, values)
        return values, exact & (values == near), near.astype(np.int64)

    def _repeat_failed(self, steps: list[Step]) -> None:
        """Round families again, with their marginals, where these left their tables no good choice."""
        parents = failed_families(self._table_set, steps, self._failed_rows)
        if parents is None:
            self._round_at_once(steps)
            return
        for parent in parents:
            family = [step_for_children(self._table_set, step, np.array([parent])) for step in steps]
            self._round_at_once([step for step in family if step.rows.size])

    def _failed_rows(self, step: Step) -> Bools:
        """Say which rows miss a sum or hold a number further than 1 from its unrounded value."""
        numbers = step.take(self._whole)
        failed = np.abs(numbers - step.take(self._marginals)) > 1 + SNAP
        for condition in step.conditions:
            total = condition.sums(self._whole).copy()
            held = np.flatnonzero(condition.labels >= 0)
            np.subtract.at(total, condition.labels[held], numbers[held])
            failed[held] |= total[condition.labels[held]] != 0
        return np.asarray(failed.reshape(len(step.rows), -1).any(axis=1), dtype=bool)

    def _round_at_once(self, steps: list[Step]) -> None:
        """Round all numbers of these steps at once, if there is room; keep the better, the old or the new."""
        old = np.concatenate([step.take(self._whole) for step in steps])
        if old.size > min(FAMILY, self._room):
            return
        self._room -= old.size
        values, pinned, new = self._start(steps)
        system, sums, given = stacked(steps, self._whole)
        target = np.concatenate(sums)
        free = np.flatnonzero(~pinned)
        left = target - _times(system, np.where(pinned, new, 0))
        new[free] = round_to_sums(values[free], Conditions(system[:, free], left, np.concatenate(given), 3))

        def badness(numbers: Integers) -> tuple[int, int]:
            missed = int(np.abs(_times(system, numbers) - target).sum())
            return missed, int((np.abs(numbers - values) > 1 + SNAP).sum())

        if badness(new) < badness(old):
            unstacked(steps, new, self._whole)


def _times(system: sparse.csr_array, numbers: Integers) -> Integers:
    return np.asarray(np.rint(system @ numbers), dtype=np.int64)


def _round_families(values: Floats, labels: Indices, sums: Integers) -> Integers:
    """Round under one set of sums: largest remainders; families they cannot serve by the general way."""
    floors = np.floor(values)
    whole: Integers = np.rint(values).astype(np.int64)
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
        system = Conditions(incidence([place], [rest.size]), sums[rest], firm, 1)
        whole[chosen] = round_to_sums(values[chosen], system)
    return whole


FAR = 100.0
MISSED = 1e4
INTEGRAL = 1e-6
"""Distance from a whole number that is rounding."""
BATCH = 4000
"""Numbers per linear program: connected parts are put together up to this many."""
NODES = 500
"""Branch and bound nodes for a part whose fractional numbers by themselves cannot meet the sums."""
LARGE = 3000
"""Numbers of a part beyond which it is not searched as a whole."""


@dataclass(frozen=True, eq=False, slots=True)
class Conditions:
    """Conditions to be met by whole numbers.

    Attributes
    ----------
    system
        (conditions, numbers) with entries 1, or -1 for a sum that is itself sought.
    sums
        (conditions,) whole.
    firm
        (conditions,) which of them are to be missed last.
    sets
        How many sets of disjoint conditions these are.
    """

    system: sparse.csr_array
    sums: Integers
    firm: Bools
    sets: int


def round_to_sums(values: Floats, conditions: Conditions) -> Integers:
    """Return (numbers,) whole numbers near ``values`` that meet the conditions as far as possible.

    Numbers that are not negative stay so. Deterministic.
    """
    from scipy.sparse.csgraph import connected_components

    whole = np.rint(values).astype(np.int64)
    system = conditions.system
    turned = system.T.tocsr()
    held = np.flatnonzero(np.diff(turned.indptr))
    if not held.size:
        return whole
    count, part = connected_components(system @ turned, directed=False)
    home = part[turned.indices[turned.indptr[held]]]
    # Three sets: every part for itself, since branch and bound does not see that parts are separate.
    batch = _batches(np.bincount(home, minlength=count), 1 if conditions.sets > 2 else BATCH)
    columns, rows = held[np.argsort(batch[home], kind="stable")], np.argsort(batch[part], kind="stable")
    inner = system[rows][:, columns]
    ends = np.arange(int(batch.max()) + 2)
    column_ends = np.searchsorted(np.sort(batch[home]), ends)
    row_ends = np.searchsorted(np.sort(batch[part]), ends)
    for here in range(len(ends) - 1):
        across = slice(int(row_ends[here]), int(row_ends[here + 1]))
        along = slice(int(column_ends[here]), int(column_ends[here + 1]))
        chosen = rows[across]
        if along.stop > along.start:
            sums, firm = conditions.sums[chosen], conditions.firm[chosen]
            local = Conditions(inner[across, along], sums, firm, conditions.sets)
            whole[columns[along]] = _settle(values[columns[along]], local)
    return whole


def _batches(sizes: Indices, most: int) -> Indices:
    """Number parts of these sizes so that equal numbers add up to about ``most``."""
    before = np.cumsum(sizes) - sizes
    _, batch = np.unique(before // most if most > 1 else np.arange(len(sizes)), return_inverse=True)
    return np.asarray(batch.astype(np.intp))


def _settle(values: Floats, conditions: Conditions) -> Integers:
    floors = np.floor(values)
    base = floors.astype(np.int64)
    rest = values - floors
    left = (conditions.sums - conditions.system @ base).astype(float)
    fractional = np.flatnonzero(rest > 0)
    if fractional.size:
        moves = _Moves(
            fractional, np.ones(fractional.size), 1.0 - 2.0 * rest[fractional], np.ones(fractional.size)
        )
        result = base + moves.made(conditions, left)
        if (conditions.system @ result == conditions.sums).all():
            return result
    elif not left.any():
        return base
    return base + _all_moves(values).made(conditions, left)


@dataclass(frozen=True, eq=False, slots=True)
class _Moves:
    """Ways to change numbers: which number, how often at most, at what cost each, up (1) or down (-1)."""

    numbers: Indices
    most: Floats
    cost: Floats
    sign: Floats

    def made(self, conditions: Conditions, left: Floats) -> Integers:
        """Return the change of every number (numbers,) that brings the sums ``left`` nearest to zero."""
        from scipy import sparse

        size = conditions.system.shape[1]
        some = self.most > 0
        numbers, sign = self.numbers[some], self.sign[some]
        effect = conditions.system.tocsc()[:, numbers] * sign[None, :]
        one = sparse.eye_array(len(left), format="csc")
        missed = MISSED * np.where(conditions.firm, 10.0, 1.0)
        program = _Program(
            np.concatenate([self.cost[some], missed, missed]),
            sparse.hstack([effect, one, -one]).tocsc(),
            left,
            np.concatenate([self.most[some], np.full(2 * len(left), np.inf)]),
            numbers.size,
        )
        times = np.rint(program.solve()[: numbers.size] * sign)
        return np.bincount(numbers, times, size).astype(np.int64)


def _all_moves(values: Floats) -> _Moves:
    floors = np.floor(values)
    rest = values - floors
    room = np.where(values >= 0, floors, np.inf)
    inside, every = rest == 0, np.arange(values.size)
    ones, far = np.ones(values.size), np.full(values.size, FAR)
    # (most, cost, sign) of: to the ceiling, or one above a whole number; further up; one below a whole
    # number; further down.
    kinds = (
        (ones, np.where(inside, 1.0, 1.0 - 2.0 * rest), 1.0),
        (np.full(values.size, np.inf), far, 1.0),
        (np.where(inside, np.minimum(room, 1.0), 0.0), ones, -1.0),
        (np.where(inside, np.maximum(room - 1.0, 0.0), room), far, -1.0),
    )
    return _Moves(
        np.tile(every, len(kinds)),
        np.concatenate([most for most, _, _ in kinds]),
        np.concatenate([cost for _, cost, _ in kinds]),
        np.concatenate([sign * ones for _, _, sign in kinds]),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Program:
    """Minimise cost x with matrix x = sums, 0 <= x <= most, x whole.

    The columns after the first ``moves`` are units by which sums are missed.
    """

    cost: Floats
    matrix: sparse.csc_array
    sums: Floats
    most: Floats
    moves: int

    def solve(self) -> Floats:
        """Return whole x: the best, or with three sets of conditions a good one."""
        from scipy.optimize import linprog

        relaxed = linprog(
            self.cost,
            A_eq=self.matrix,
            b_eq=self.sums,
            bounds=np.column_stack([np.zeros_like(self.most), self.most]),
            method="highs-ds",
        )
        if relaxed.x is None:
            raise MechanismError(
                "the linear program of controlled rounding was not solved",
                where="inference",
                hint="leave rounding out for these tables",
            )
        near: Floats = np.rint(relaxed.x)
        fractional = np.abs(relaxed.x - near) > INTEGRAL
        if not fractional.any():
            return near
        moves = slice(0, self.moves)
        least, most = np.zeros_like(self.most), self.most.copy()
        least[moves] = np.where(fractional, 0.0, near)[moves]
        most[moves] = np.where(fractional, self.most, near)[moves]
        result = self._branch(least, most)
        missed = np.inf if result is None else float(self.cost @ result) - float(relaxed.fun)
        if missed > MISSED / 2 and self.moves <= LARGE:
            wider = self._branch(np.zeros_like(self.most), self.most)
            if wider is not None and (result is None or self.cost @ wider < self.cost @ result):
                result = wider
        # Nobody found whole numbers: the nearest ones will do, and what they miss is reported.
        return near if result is None else result

    def _branch(self, least: Floats, most: Floats) -> Floats | None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        whole = np.zeros_like(self.cost)
        whole[: self.moves] = 1
        result = milp(
            self.cost,
            integrality=whole,
            bounds=Bounds(least, most),
            constraints=LinearConstraint(self.matrix, self.sums, self.sums),
            options={"node_limit": NODES, "mip_rel_gap": 1e-6},
        )
        results: Floats | None = None if result.x is None else np.rint(result.x)
        return results


@dataclass(frozen=True, slots=True)
class Violation:
    """One equation, distance or exact value that the whole numbers miss.

    Attributes
    ----------
    kind
        ``hierarchy``: children miss their parent; ``marginal``: two tables differ on a shared marginal;
        ``cell``: a number is more than 1 from its unrounded value, or newly negative; ``exact``: an exact
        whole value was not kept.
    tables
        The table, or for a marginal the two tables.
    marginal
        Dimensions of the marginal, or of the table.
    node
        Node of the hierarchy (the parent for ``hierarchy``); None where the marginal has no hierarchy.
    group
        Category of every flat dimension of the marginal, by position.
    by
        First table less second; parent less children; whole number less unrounded value.
    """

    kind: Literal["hierarchy", "marginal", "cell", "exact"]
    tables: tuple[str, ...]
    marginal: str
    node: int | None
    group: Mapping[str, int]
    by: float

    def __str__(self) -> str:
        at = ([f"node {self.node}"] if self.node is not None else []) + [
            f"{name} {place}" for name, place in self.group.items()
        ]
        where = ", ".join(at) or "total"
        return f"{self.kind}: {' and '.join(self.tables)} on {self.marginal} ({where}): {self.by:+g}"


def violations(
    table_set: TableSet,
    tables: Mapping[str, Integers],
    values: Mapping[str, Floats],
    exact: Mapping[str, Bools],
) -> tuple[Violation, ...]:
    """Return everything that whole numbers miss, computed from nothing but these numbers.

    ``tables``, ``values``, ``exact``: by name (nodes, cells) whole numbers, unrounded ones, which are exact.
    """
    result: list[Violation] = []
    for name, frame in table_set.tables.items():
        result.extend(_families(name, frame, tables[name]))
        result.extend(_cells(name, frame, tables[name], values[name], exact[name]))
    for one, other in combinations(table_set.tables, 2):
        result.extend(_marginals(table_set, one, other, tables))
    return tuple(result)


def _families(name: str, frame: TableShape, table: Integers) -> Iterator[Violation]:
    for block in frame.tree.down(frame.cells):
        off = table[block.parents] - block.total(table[block.children])
        for row, cell in np.argwhere(off != 0):
            node, group = int(block.parents[row]), _group(cell, frame.flat)
            yield Violation("hierarchy", (name,), str(frame.marginal), node, group, float(off[row, cell]))


def _cells(
    name: str, frame: TableShape, table: Integers, values: Floats, exact: Bools
) -> Iterator[Violation]:
    near = np.rint(values)
    far = (np.abs(table - values) > 1 + SNAP) | ((table < 0) & (values > -SNAP))
    lost = exact & (np.abs(values - near) <= SNAP) & (table != near)
    kinds: tuple[tuple[Literal["cell", "exact"], Bools], ...] = (("cell", far), ("exact", lost))
    for kind, wrong in kinds:
        for row, cell in np.argwhere(wrong):
            node, by = int(row) if frame.along else None, float(table[row, cell] - values[row, cell])
            yield Violation(kind, (name,), str(frame.marginal), node, _group(cell, frame.flat), by)


def _marginals(
    table_set: TableSet, one: str, other: str, tables: Mapping[str, Integers]
) -> Iterator[Violation]:
    first, second = table_set.views(one, other)
    off = first.gather(tables[one]) - second.gather(tables[other])
    sizes = {name: table_set.tables[one].flat[name] for name in first.marginal.flat}
    for row, place in np.argwhere(off != 0):
        node = None if first.rows is None else int(first.rows[row])
        group, by = _group(place, sizes), float(off[row, place])
        yield Violation("marginal", (one, other), str(first.marginal), node, group, by)


def _group(place: int, sizes: Mapping[str, int]) -> dict[str, int]:
    places = np.unravel_index(place, tuple(sizes.values())) if sizes else ()
    return {name: int(at) for name, at in zip(sizes, places, strict=True)}
