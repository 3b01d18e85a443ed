"""Consistency: levels are made to add up, and tables to agree, by weighted least squares.

The weight of a level is one over its variance; where the mechanism merges or drops what it measured, one over
its mean squared error per cell, estimated or measured (:mod:`tasks.margins.error_model`).
"""

from __future__ import annotations

import math

import numpy as np

from mechanisms.errors import MechanismError
from mechanisms.inference import Estimate
from tasks.margins.error_model import level_error, margin_base
from tasks.measure import MeasuredHandle, finished
from tasks.postprocess.agreement import Agreement
from tasks.postprocess.estimate_files import BASE, LINEAR, EstimatesHandle, measured_tree, save, save_all
from tasks.runtime.progress import note
from tasks.runtime.run import Run
from tasks.runtime.stage import stage

_ODDS = 14.0  # e^-14: about one in a million


def make_consistent(run: Run, handle: MeasuredHandle) -> EstimatesHandle:
    """Weighted least squares along hierarchies and across tables (:mod:`tasks.postprocess.agreement`)."""
    found = finished(run, handle)
    agreement = Agreement.of(run.loaded)
    estimates, plain = {}, []
    for table, layout in agreement.layouts.items():
        parts = {
            level: (part.release.values, level_error(part))
            for (name, level), part in found.items()
            if name == table
        }
        estimates[table] = measured_tree(
            layout, {level: (values, error.variance) for level, (values, error) in parts.items()}
        )
        if any(error.method != "exact" for _, error in parts.values()):
            save(run, BASE, table, margin_base(layout, parts))
        else:
            plain.append(table)
    if not run.loaded.spec.postprocessing.consistency:
        return save_all(run, LINEAR, estimates)
    agreed = agreement.consistent(estimates)
    for table in plain if agreement.known else ():
        if _surprising(estimates[table], agreed.estimates[table]):
            note(f"table {table} was measured far from what the invariants say: is one of them wrong?")
    return save_all(run, LINEAR, agreed.estimates, agreed.notes)


def rehearse_agreement(run: Run) -> None:
    """Take empty tables and the spec's invariants through all steps, before anything is charged.

    Raises
    ------
    MechanismError
        The invariants contradict each other, or leave no tables without negative numbers.
    """
    agreement, wanted = Agreement.of(run.loaded), run.loaded.spec.postprocessing
    if not agreement.known:
        return
    empty = {}
    for name, layout in agreement.layouts.items():
        zeros = {level: (np.zeros(layout.shape(level)), 1.0) for level in layout.cuts}
        empty[name] = measured_tree(layout, zeros)
    try:
        agreed = agreement.consistent(empty, variances=False)
        if wanted.nonnegativity:
            agreed = agreement.nonnegative(agreed.estimates)
        if wanted.rounding:
            agreement.whole(agreed.estimates)
    except MechanismError as error:
        failure = MechanismError(error.what, where="invariants", mend=f"{error.mend}; nothing was charged")
    else:
        return
    raise failure


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


make_consistent_stage = stage("consistency")(make_consistent)
