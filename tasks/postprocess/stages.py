"""The stages of post-processing: consistency, non-negativity and rounding of what was measured.

Consistency makes levels add up, and tables agree, by weighted least squares. The weight of a level is one
over its variance; where the mechanism merges or drops what it measured, one over its mean squared error per
cell, estimated or measured (:mod:`tasks.margins.error_model`). Non-negativity and rounding keep what agrees.
"""

from __future__ import annotations

import math

import numpy as np

from mechanisms.inference import Estimate
from tasks.ledger_stages import MeasuredHandle
from tasks.margins.error_model import level_error, margin_base
from tasks.measure import finished
from tasks.postprocess.estimate_files import EstimatesHandle, measured_tree, write
from tasks.postprocess.postprocessing import CONSISTENCY, NONNEGATIVITY, ROUNDING, PostProcessor
from tasks.runtime.progress import note
from tasks.runtime.run import Run
from tasks.runtime.stage import stage

MEASURED = "measured"
BASE = "margin base"

_ODDS = 14.0  # e^-14: about one in a million


@stage(CONSISTENCY)
def make_consistent(run: Run, measured: MeasuredHandle) -> tuple[EstimatesHandle, EstimatesHandle]:
    """Bring the measurements onto their trees, and make them agree if the spec wants it.

    Returns
    -------
    The estimates, and the numbers that margins of error are about, with their mean squared errors. Those are
    the estimates themselves; for measurements whose errors are not independent noise, the measurements.
    """
    found = finished(run, measured)
    post = PostProcessor.of(run.loaded)
    estimates, base = {}, {}
    for table, layout in post.agreement.layouts.items():
        parts = {
            level: (part.release.values, level_error(part))
            for (name, level), part in found.items()
            if name == table
        }
        estimates[table] = measured_tree(
            layout, {level: (values, error.variance) for level, (values, error) in parts.items()}
        )
        if any(error.method != "exact" for _, error in parts.values()):
            base[table] = margin_base(layout, parts)
    if CONSISTENCY not in post.steps:
        handle = write(run, MEASURED, estimates)
    else:
        agreed = post.apply(CONSISTENCY, estimates)
        for table in estimates.keys() - base.keys() if post.agreement.known else ():
            if _surprising(estimates[table], agreed.estimates[table]):
                note(f"table {table} was measured far from what the invariants say: is one of them wrong?")
        handle = write(run, CONSISTENCY, agreed.estimates, notes=agreed.notes)
    own = {block.table: block for block in write(run, BASE, base).blocks}
    return handle, EstimatesHandle(tuple(own.get(block.table, block) for block in handle.blocks))


@stage(NONNEGATIVITY)
def make_nonnegative(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Project family by family onto what counts can be, keeping sums."""
    return _step(run, NONNEGATIVITY, handle)


@stage(ROUNDING)
def make_whole(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Round to whole numbers that still add up along every hierarchy, and agree where that is possible."""
    return _step(run, ROUNDING, handle)


def _step(run: Run, step: str, handle: EstimatesHandle) -> EstimatesHandle:
    post = PostProcessor.of(run.loaded)
    if step not in post.steps:
        return handle
    agreed = post.apply(step, handle.read_all())
    return write(run, step, agreed.estimates, notes=agreed.notes, after=handle)


def _surprising(measured: Estimate, agreed: Estimate) -> bool:
    """Return whether a measurement lies further from its estimate than noise explains; sees no true value.

    A discrete Laplace error beyond t standard deviations has a probability of at most about exp(-√2 t), a
    Gaussian one less, and an error of least squares is no larger than that of the measurement. So of n
    measurements one lies beyond (ln n + 14)/√2 about once in a million releases.
    """
    spread = np.broadcast_to(measured.variances, measured.values.shape)
    known = np.isfinite(spread) & (spread > 0)
    distance = np.abs(measured.values[known] - agreed.values[known]) / np.sqrt(spread[known])
    return bool(distance.max(initial=0.0) > (math.log(max(distance.size, 1)) + _ODDS) / math.sqrt(2))
