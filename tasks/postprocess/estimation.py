"""Estimates, margins of error and failed checks, computed from the measurements of a release.

::

    measured ─▶ consistency ─▶ non-negativity ─▶ rounding ─▶ margins ─▶ failed checks

Consistency makes levels add up, and tables agree, by weighted least squares. The weight of a level is one
over its variance; where the mechanism merges or drops what it measured, one over its mean squared error per
cell, estimated or measured (:mod:`tabularium.tasks.margins.error_model`). Non-negativity and rounding keep
what agrees.

The stages of a release take these steps one by one, and ``verify`` all at once (:func:`estimate`). A stage
takes the steps before its own too if this process has not taken them. Nothing here has seen a true value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import PublicationError, RuleFailed
from tabularium.mechanisms.inference import Estimate, consistency
from tabularium.mechanisms.inference.joint.shared_marginals import View
from tabularium.tasks.margins.error_model import margin_base
from tabularium.tasks.margins.known_levels import as_measured, known_levels
from tabularium.tasks.margins.margins import Margins, margins_of, of_known
from tabularium.tasks.measure import Parts, read_measurements
from tabularium.tasks.postprocess.agreement import Agreement, ReconciledGroup
from tabularium.tasks.postprocess.postprocessing import (
    CONSISTENCY,
    NONNEGATIVITY,
    ROUNDING,
    VERSION,
    PostProcessor,
)
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.runtime.workspace import ArrayStore
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.publication import PostProcessing
from tabularium.validations.suites.expectations import RuleResult
from tabularium.validations.suites.published_tables import (
    Codes,
    Fault,
    check_agreement,
    check_table,
    faults_in,
    table_faults,
)

if TYPE_CHECKING:
    from tabularium.tasks.ledger_stages import MeasuredHandle

INVARIANTS = "invariants"
MARGINS = "margins"
CHECKS = "checks"
STEPS = (INVARIANTS, CONSISTENCY, NONNEGATIVITY, ROUNDING, MARGINS, CHECKS)
"""What an estimation does, in this order; steps that the spec does not ask for change nothing."""

_MEASURED = "measured"  # names the folder of estimates that are not made consistent
_BASE = "margin base"


class Estimation:
    """The numbers of a release, step by step.

    Parameters
    ----------
    parts
        Table -> level -> what was measured.
    release_id
        Seeds what is simulated.
    version
        Of the post-processing by which margins are found.
    in_files
        Whether arrays lie in files of the run's workspace, mapped from there, so that a table may be larger
        than memory.

    Attributes
    ----------
    estimates, consistent
        Table -> estimate: after the last step that was taken, and after consistency.
    base
        The numbers that margins of error are about, with their mean squared errors: those that are
        consistent, or measurements whose errors are not independent noise.
    notes
        Step -> how it went, as plain JSON values.
    conflicts
        Invariant -> how it and the measurements go together.
    margins
        Table -> half-widths, and what the certificate says of them.
    failed
        Table -> checks that cells fail, as the certificate has them.
    """

    def __init__(
        self, run: Run, parts: Parts, release_id: str, *, version: int = VERSION, in_files: bool = False
    ) -> None:
        self.run, self.parts, self.release_id, self.version = run, parts, release_id, version
        self.post, self._in_files = run.post, in_files
        self.estimates: dict[str, Estimate] = {}
        self.consistent: dict[str, Estimate] = {}
        self.base: dict[str, Estimate] = {}
        self.notes: dict[str, dict[str, Any]] = {}
        self.conflicts: dict[str, Conflict] = {}
        self.margins: dict[str, Margins] = {}
        self.failed: dict[str, list[dict[str, Any]]] = {}
        self._taken = 0

    def up_to(self, step: str) -> Self:
        """Take the steps up to this one of ``STEPS`` that have not been taken, each of them once."""
        while self._taken <= STEPS.index(step):
            self._take(STEPS[self._taken])
            self._taken += 1
        return self

    def _take(self, step: str) -> None:
        if step == INVARIANTS:
            self._compare_with_invariants()
        elif step == CONSISTENCY:
            self._make_consistent()
        elif step == MARGINS:
            self._find_margins()
        elif step == CHECKS:
            self._check()
        elif step in self.post.steps:
            self._apply(step, self._arrays(step))

    def _compare_with_invariants(self) -> None:
        if CONSISTENCY in self.post.steps and self.post.agreement.known:
            self.conflicts = conflicts(self.post.agreement, _to_compare(self.post, self.parts))

    def _make_consistent(self) -> None:
        """Bring the measurements onto their trees, and make them agree if the spec wants it."""
        arrays = self._arrays(CONSISTENCY if CONSISTENCY in self.post.steps else _MEASURED)
        self.estimates, conflicts_found = on_their_trees(self.run.loaded, self.post, self.parts, arrays)
        if CONSISTENCY in self.post.steps:
            self._apply(CONSISTENCY, arrays)
        elif arrays is not None:
            self.estimates = arrays.keep(self.estimates)
        self.consistent = self.estimates
        kept = self._arrays(_BASE)
        self.base = {**self.consistent, **(conflicts_found if kept is None else kept.keep(conflicts_found))}

    def _find_margins(self) -> None:
        made = margins_of(
            *(self.run, self.release_id, self.parts, self.estimates, self.base),
            version=self.version,
            arrays=self._arrays("margins"),
        )
        self.margins = of_known(self.run, made, self.consistent, self.notes.get(CONSISTENCY, {}))

    def _check(self) -> None:
        """Find the cells that fail a check."""
        half = {name: margin.half for name, margin in self.margins.items()}
        self.failed = {name: [] for name in self.estimates}
        for cell in failed_cells(self.run, self.post.agreement, self.values, half):
            about = {"check": cell.check, "count": cell.count, "cells": list(cell.cells)}
            self.failed[cell.table].append(about)

    @property
    def values(self) -> dict[str, NDArray[np.float64]]:
        """Table -> (nodes, cells) estimates."""
        return {name: estimate.values for name, estimate in self.estimates.items()}

    @property
    def exceptions(self) -> list[str]:
        """Lines that name the sums which whole numbers could not meet."""
        return list(self.notes.get(ROUNDING, {}).get("named", []))

    def agreement(self) -> dict[str, Any]:
        """Return the agreement section of the certificate; empty for a single table."""
        steps = {
            step.replace("-", ""): {
                key: round(value, 9) if key == "largest_gap" else value  # left by errors in the last bits
                for key, value in about.items()
                if key != "named"
            }
            for step, about in self.notes.items()
        }
        made = {step: about for step, about in steps.items() if about}
        return {**made, "not_made_to_agree_on": list(self.post.agreement.apart)} if made else {}

    def _apply(self, step: str, arrays: ArrayStore | None) -> None:
        result = self.post.apply(step, self.estimates, arrays=arrays)
        self.notes[step] = result.notes
        self.estimates = result.estimates if arrays is None else arrays.keep(result.estimates)

    def _arrays(self, step: str) -> ArrayStore | None:
        return ArrayStore(self.run.folder(step.replace(" ", "-"))) if self._in_files else None


def estimation_of(run: Run, measured: MeasuredHandle) -> Estimation:
    """Return the estimation from the measurements of this run; its arrays are in the workspace."""

    def begin() -> Estimation:
        return Estimation(run, read_measurements(run, measured), measured.release_id, in_files=True)

    return run.once(("estimation", measured), begin)


def estimate(run: Run, parts: Parts, release_id: str, *, version: int = VERSION) -> Estimation:
    """Return the estimates, margins and failed checks of measurements, in memory."""
    return Estimation(run, parts, release_id, version=version).up_to(CHECKS)


def on_their_trees(
    loaded: Loaded, post: PostProcessor, parts: Parts, arrays: ArrayStore | None = None
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Bring the measurements of all tables onto their trees, drawn towards earlier releases where asked.

    Parameters
    ----------
    arrays
        Where to put those of tables that have nothing to agree with.

    Returns
    -------
    The estimates of all tables; and of those whose errors are not independent noise, the numbers that margins
    are about (:func:`tabularium.tasks.margins.error_model.margin_base`).
    """
    estimates, base = {}, {}
    for table, layout in post.agreement.layouts.items():
        known = known_levels(loaded, layout, parts[table]).levels
        alone = arrays is not None and post.agreement.holding(table).alone
        estimates[table] = measured_tree(
            layout,
            {level: (values, error.variance) for level, (values, error) in known.items()},
            arrays.of(table, (layout.nodes, layout.cells)) if arrays is not None and alone else None,
        )
        if any(error.method != "exact" for _, error in known.values()):
            base[table] = margin_base(layout, known)
    return estimates, base


def _to_compare(post: PostProcessor, parts: Parts) -> dict[str, Estimate]:
    """Return the measurements to compare with invariants: independent noise, drawn towards nothing."""
    comparable = {}
    for table, layout in post.agreement.layouts.items():
        known = as_measured(parts[table])
        if all(error.method == "exact" for _, error in known.values()):
            levels = {level: (values, error.variance) for level, (values, error) in known.items()}
            comparable[table] = measured_tree(layout, levels)
    return comparable


# The stages of a release, from consistency to the check of what is published.


@stage(CONSISTENCY)
def make_consistent(run: Run, measured: MeasuredHandle) -> None:
    """Bring the measurements onto their trees, and make them agree if the spec wants it.

    Raises
    ------
    PublicationError
        If the measurements contradict an invariant beyond chance, and the spec does not say to publish.
    """
    estimation = estimation_of(run, measured)
    _judge(run, estimation.up_to(INVARIANTS).conflicts)
    estimation.up_to(CONSISTENCY)


def _judge(run: Run, conflicts: Mapping[str, Conflict]) -> None:
    for invariant in run.loaded.spec.invariants if conflicts else ():
        about = conflicts[invariant.name]
        if not about.beyond_chance:
            continue
        contradicts = (
            f"the measurements contradict it beyond chance, at {about.beyond_chance:,} of {about.compared:,} "
            "numbers compared"
        )
        if invariant.on_conflict == "stop":
            raise PublicationError(
                contradicts,
                where=f"invariant {invariant.name}",
                hint="check that it counts the records of the source; correct or remove it, or write "
                "on_conflict: publish; each makes another release, which is paid for again",
            )
        note(f"invariant {invariant.name}: {contradicts}; it is published, and the certificate says so")


@stage(NONNEGATIVITY)
def make_nonnegative(run: Run, measured: MeasuredHandle) -> None:
    """Project families of nodes onto non-negative counts, keeping sums."""
    estimation_of(run, measured).up_to(NONNEGATIVITY)


@stage(ROUNDING)
def make_whole(run: Run, measured: MeasuredHandle) -> None:
    """Round to whole numbers that still add up along every hierarchy, and agree where that is possible."""
    estimation_of(run, measured).up_to(ROUNDING)


@stage("margins")
def find_margins(run: Run, measured: MeasuredHandle) -> None:
    """Find the margins of error of all tables."""
    estimation_of(run, measured).up_to(MARGINS)


@stage("check publication")
def check(run: Run, measured: MeasuredHandle) -> None:
    """Check that every table keeps the promises of post-processing, and that tables agree.

    What a spec promises is judged by Great Expectations from numbers of faults; the cells at fault are named,
    to the operator and in the certificate. All of it is computed from numbers that are published.

    Raises
    ------
    RuleFailed
        Naming the table and the rules; nothing has been published then.
    """
    estimation = estimation_of(run, measured).up_to(CHECKS)
    for table, checks in estimation.failed.items():
        for check in checks:
            note(f"table {table}: {check['count']:,} cells fail a check: {check['check']}")
    promised, agreement, values = run.loaded.spec.postprocessing, estimation.post.agreement, estimation.values
    folder = run.folder("publication")
    for name, numbers in values.items():
        layout = agreement.layouts[name]
        results = check_table(
            *(name, layout.parents, numbers),
            promised=promises_of(layout, promised),
            cells=layout.cells,
            results=folder / f"{name}.json",
        )
        _stop(results, f"table {name}", "the table")
    if promised.consistency and not agreement.alone:
        results = check_agreement(
            agreement.differences(values),
            named=_unmet(estimation.notes.get(ROUNDING, {})),
            results=folder / "agreement.json",
        )
        _stop(results, "tables", "the release")


def _unmet(about: Mapping[str, Any]) -> int:
    """Return the number of shared numbers that rounding could not make agree, of counts and of measures."""
    notes = [about, *about.get("measures", {}).values()]
    return sum(int(note.get("violations", {}).get("marginal", 0)) for note in notes)


def _stop(results: tuple[RuleResult, ...], where: str, who: str) -> None:
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise RuleFailed(
            f"{who} breaks {', '.join(failed)}",
            where=where,
            hint="report this: post-processing promises these rules",
        )


# Conflicts: whether the measurements contradict an invariant beyond chance. This is computed from noisy
# numbers only, so that it may be published.
#
# A table whose noise has a known variance shows a number of an invariant as a sum of its cells after weighted
# least squares along its own hierarchy, before any invariant has touched it. The variance σ² of that sum is
# exact: the cells that are added are of different columns or different roots, whose noise is independent.
#
# How far is too far. S = Σ w·Z over independent discrete Laplace or Gaussian errors Z of variances v, with
# Σ w²v = σ² and every |w| at most 1, satisfies E exp(sS) <= 1/(1 - b·s²σ²/2) for |s| <= 1, b = 2(cosh 1 - 1):
# a discrete Laplace variable has E exp(sZ) = 1/(1 - v(cosh s - 1)), a Gaussian one no more, and a product of
# such bounds is no more than the bound of the sum. Chernoff's bound at s = √2(1 - 1/u)/τ, τ² = b·max(σ², 2),
# gives
#
#     P(|S| >= u·τ/√2) <= (u + 1)·e^(1 - u)        for u >= 1.
#
# With n numbers compared, u is chosen so that this is ``FALSE_ALARM``/n: if all invariants are right, a
# release is called in conflict at most that often.


FALSE_ALARM = 1e-6
_LATTICE = 2 * (math.cosh(1) - 1)
_STEPS = 50


@dataclass(frozen=True)
class Conflict:
    """The comparison of an invariant with the measurements.

    Attributes
    ----------
    compared
        How many numbers of it were compared, in all tables that show it with noise of known variance.
    beyond_chance
        How many of those differ by more than noise explains.
    """

    compared: int = 0
    beyond_chance: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def conflicts(agreement: Agreement, measured: Mapping[str, Estimate]) -> dict[str, Conflict]:
    """Compare every invariant with every table that shows it.

    Parameters
    ----------
    measured
        Table -> what was measured of it, on its tree; only tables whose noise is independent and of exactly
        known variance.
    """
    measured = {
        name: measurement for name, measurement in measured.items() if name in agreement.overlap.tables
    }
    trees = {name: agreement.overlap.tables[name].tree for name in measured}
    fitted = {
        name: consistency(trees[name], measurement.values, measurement.variances)
        for name, measurement in measured.items()
    }
    spreads = agreement.groups[0].spreads
    fitted = {name: spreads[name].estimate(fit) for name, fit in fitted.items()}
    shown: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}
    for name, known in agreement.known.items():
        shown[name] = []
        marginal = agreement.overlap.tables[name].marginal
        for table, estimate in fitted.items():
            if not marginal.within(agreement.overlap.tables[table].marginal):
                continue
            ours, theirs = agreement.overlap.views(table, name, marginal)
            spread = ours.gather(np.broadcast_to(estimate.variances, estimate.values.shape))
            shown[name].append((ours.gather(estimate.values) - theirs.gather(known.values), spread))
    number = sum(int(np.isfinite(spread).sum()) for sums in shown.values() for _, spread in sums)
    limit = deviations(FALSE_ALARM / max(number, 1))
    judged = {}
    for name, pairs in shown.items():
        compared = beyond = 0
        for apart, spread in pairs:
            some = np.isfinite(spread)
            far = np.abs(apart[some]) >= limit * np.sqrt(_LATTICE * np.maximum(spread[some], 2))
            compared, beyond = compared + int(some.sum()), beyond + int(far.sum())
        judged[name] = Conflict(compared, beyond)
    return judged


def deviations(chance: float) -> float:
    """Return u/√2 with (u + 1)·e^(1 - u) <= ``chance``: see the comment above."""
    u = 1.0
    for _ in range(_STEPS):  # rises to the fixed point: its slope is 1/(u + 1)
        u = 1 - math.log(chance) + math.log(u + 1)
    return u * (1 + 1e-9) / math.sqrt(2)


# Cells that fail a check, by name: within tables, and between tables or invariants.


def failed_cells(
    run: Run,
    agreement: Agreement,
    published: Mapping[str, NDArray[Any]],
    margins: Mapping[str, NDArray[np.float64]],
) -> list[Fault]:
    """Return every cell that fails a check, check by check.

    Parameters
    ----------
    run, agreement
        The spec, and how its tables hang together.
    published
        Table -> (nodes, cells) finished numbers.
    margins
        Table -> half-widths, infinite where there are none.
    """
    promised = run.loaded.spec.postprocessing
    faults: list[Fault] = []
    for name, layout in agreement.layouts.items():
        if name not in published:
            continue
        # What is published of a mean, median or rate has its own margins, not one for each number behind it.
        some = margins.get(name, np.array(np.inf))
        promises = promises_of(layout, promised)
        wanted = promises.consistency and some.shape == published[name].shape
        faults += table_faults(
            name,
            layout.parents,
            published[name],
            cell_codes(layout),
            promised=promises,
            # Nodes that were not measured are not published then; and no margins at all are a wish.
            margins=some if wanted and np.isfinite(some).any() else None,
        )
    return faults + (_differences(run, agreement, published) if promised.consistency else [])


def cell_codes(layout: Layout) -> Codes:
    """Return a function that names the cells of a table."""
    sizes = tuple(domain.size for domain in layout.others)

    def codes(node: int, cell: int) -> dict[str, str]:
        named = {} if layout.along is None else {layout.along.name: layout.along.node_codes[node]}
        places = np.unravel_index(cell, sizes) if sizes else ()
        own_codes = {d.name: d.codes[int(code)] for d, code in zip(layout.others, places, strict=True)}
        return {name: {**named, **own_codes}[name] for name in layout.table.dimensions}

    return codes


def _differences(run: Run, agreement: Agreement, published: Mapping[str, NDArray[Any]]) -> list[Fault]:
    """Return the shared numbers on which two tables, or a table and an invariant, differ."""
    faults: list[Fault] = []
    for one, other, view, wrong in agreement.compared(published):
        if one in agreement.known:
            continue  # invariants come last, and have been compared with each other when the spec was read
        kind = "invariant" if other in agreement.known else "table"
        codes = _shared_codes(run, agreement.holding(one), view)
        faults += faults_in(one, f"differs from {kind} {other}", wrong, codes)
    return faults


def promises_of(layout: Layout, promised: PostProcessing) -> PostProcessing:
    """Return the promises for a table or array: numbers that may be negative stay so.

    Where numbers do not add up they agree with nothing; of choices, which are positions, nothing is promised.
    """
    measure = layout.table.measured
    if measure is not None and not measure.adds_up and not measure.linear:
        return promised.model_copy(update=dict.fromkeys(type(promised).model_fields, False))
    kept = {} if layout.adds_up else {"consistency": False}
    return promised.model_copy(update=kept | ({"nonnegativity": False} if layout.signed else {}))


def _shared_codes(run: Run, tables: ReconciledGroup, view: View) -> Codes:
    """Return a function that names the numbers of a margin that two tables share."""
    frames = tables.overlap.tables.values()
    axes = {name: size for frame in frames for name, size in frame.flat.items()}
    sizes = tuple(axes[name] for name in view.marginal.flat)

    def codes(row: int, group: int) -> dict[str, str]:
        named = {}
        if view.marginal.along is not None and view.rows is not None:
            along = run.loaded.domains[view.marginal.along]
            assert isinstance(along, HierarchyDomain)  # noqa: S101 - the key says so
            named[along.name] = along.node_codes[int(view.rows[row])]
        places = np.unravel_index(group, sizes) if sizes else ()
        return named | tables.codes({n: int(p) for n, p in zip(view.marginal.flat, places, strict=True)})

    return codes
