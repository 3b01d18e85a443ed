"""What is computed from the measurements of a release: estimates, margins of error, and failed checks.

::

    measured ─▶ consistency ─▶ non-negativity ─▶ rounding ─▶ margins ─▶ failed checks

Consistency makes levels add up, and tables agree, by weighted least squares. The weight of a level is one
over its variance; where the mechanism merges or drops what it measured, one over its mean squared error per
cell, estimated or measured (:mod:`tabularium.tasks.margins.error_model`). Non-negativity and rounding keep
what agrees.

The stages of a release take these steps one by one, and ``verify`` all at once (:func:`estimate`). Nothing
here has seen a true value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.margins.error_model import margin_base
from tabularium.tasks.margins.known_levels import as_measured, known_levels
from tabularium.tasks.margins.margins import Margins, margins_of, of_known
from tabularium.tasks.measure import Parts, read_measurements
from tabularium.tasks.postprocess.conflicts import Conflict, conflicts
from tabularium.tasks.postprocess.failed_cells import failed_cells
from tabularium.tasks.postprocess.mapped_arrays import ArrayStore
from tabularium.tasks.postprocess.postprocessing import (
    CONSISTENCY,
    NONNEGATIVITY,
    ROUNDING,
    VERSION,
    PostProcessor,
)
from tabularium.tasks.postprocess.table_layout import measured_tree
from tabularium.tasks.runtime.run import Run
from tabularium.validations.release_spec.load import Loaded

if TYPE_CHECKING:
    from tabularium.tasks.ledger_stages import MeasuredHandle

_MEASURED = "measured"  # names the folder of estimates that are not made consistent
_BASE = "margin base"


class Estimation:
    """The numbers that measurements give, step by step.

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

    def compare_with_invariants(self) -> None:
        """Find how far the measurements contradict what is publicly known."""
        if CONSISTENCY in self.post.steps and self.post.agreement.known:
            self.conflicts = conflicts(self.post.agreement, _to_compare(self.post, self.parts))

    def make_consistent(self) -> None:
        """Bring the measurements onto their trees, and make them agree if the spec wants it."""
        arrays = self._arrays(CONSISTENCY if CONSISTENCY in self.post.steps else _MEASURED)
        self.estimates, own = on_their_trees(self.run.loaded, self.post, self.parts, arrays)
        if CONSISTENCY in self.post.steps:
            self._apply(CONSISTENCY, arrays)
        elif arrays is not None:
            self.estimates = arrays.keep(self.estimates)
        self.consistent = self.estimates
        kept = self._arrays(_BASE)
        self.base = {**self.consistent, **(own if kept is None else kept.keep(own))}

    def take(self, step: str) -> None:
        """Take all tables through non-negativity or rounding, if the spec wants it."""
        if step in self.post.steps:
            self._apply(step, self._arrays(step))

    def find_margins(self) -> None:
        """Find the margins of error of all tables."""
        made = margins_of(
            *(self.run, self.release_id, self.parts, self.estimates, self.base),
            version=self.version,
            arrays=self._arrays("margins"),
        )
        self.margins = of_known(self.run, made, self.consistent, self.notes.get(CONSISTENCY, {}))

    def check(self) -> None:
        """Find the cells that are not what the spec promises."""
        half = {name: each.half for name, each in self.margins.items()}
        self.failed = {name: [] for name in self.estimates}
        for found in failed_cells(self.run, self.post.agreement, self.values, half):
            about = {"check": found.check, "count": found.count, "cells": list(found.cells)}
            self.failed[found.table].append(about)

    @property
    def values(self) -> dict[str, NDArray[np.float64]]:
        """Table -> (nodes, cells) estimates."""
        return {name: estimate.values for name, estimate in self.estimates.items()}

    @property
    def exceptions(self) -> list[str]:
        """Lines that name the sums which whole numbers could not meet."""
        return list(self.notes.get(ROUNDING, {}).get("named", []))

    def agreement(self) -> dict[str, Any]:
        """Return what the certificate says of how tables were made to agree; nothing for a single one."""
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
    """Return what is computed from a measurement in this run; its arrays lie in the workspace."""

    def begin() -> Estimation:
        return Estimation(run, read_measurements(run, measured), measured.release_id, in_files=True)

    return run.once(("estimation", measured), begin)


def estimate(run: Run, parts: Parts, release_id: str, *, version: int = VERSION) -> Estimation:
    """Return the estimates, margins and failed checks that measurements give, in memory."""
    found = Estimation(run, parts, release_id, version=version)
    found.compare_with_invariants()
    found.make_consistent()
    found.take(NONNEGATIVITY)
    found.take(ROUNDING)
    found.find_margins()
    found.check()
    return found


def on_their_trees(
    loaded: Loaded, post: PostProcessor, parts: Parts, arrays: ArrayStore | None = None
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Bring the measurements of all tables onto their trees, drawn towards earlier releases where they are.

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
    """Return the measurements with which invariants are compared: independent noise, and drawn to nothing."""
    found = {}
    for table, layout in post.agreement.layouts.items():
        known = as_measured(parts[table])
        if all(error.method == "exact" for _, error in known.values()):
            levels = {level: (values, error.variance) for level, (values, error) in known.items()}
            found[table] = measured_tree(layout, levels)
    return found
