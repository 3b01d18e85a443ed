"""Rounding: whole numbers that still add up along every hierarchy, and agree where that is possible."""

from __future__ import annotations

from tasks.postprocess.agreement import Agreement
from tasks.postprocess.estimate_files import WHOLE, EstimatesHandle, read_all, save_all
from tasks.runtime.run import Run
from tasks.runtime.stage import stage


def make_whole(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Round to whole numbers that still add up (:mod:`tasks.postprocess.agreement`)."""
    if not run.loaded.spec.postprocessing.rounding:
        return handle
    agreed = Agreement.of(run.loaded).whole(read_all(handle))
    return save_all(run, WHOLE, agreed.estimates, agreed.notes)


make_whole_stage = stage("rounding")(make_whole)
