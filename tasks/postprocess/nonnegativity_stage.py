"""Non-negativity: estimates become what counts can be, and still add up and agree."""

from __future__ import annotations

from tasks.postprocess.agreement import Agreement
from tasks.postprocess.estimate_files import NONNEGATIVE, EstimatesHandle, read_all, save_all
from tasks.runtime.run import Run
from tasks.runtime.stage import stage


def make_nonnegative(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Project family by family onto what counts can be, keeping sums (:mod:`tasks.postprocess.agreement`)."""
    if not run.loaded.spec.postprocessing.nonnegativity:
        return handle
    agreed = Agreement.of(run.loaded).nonnegative(read_all(handle))
    return save_all(run, NONNEGATIVE, agreed.estimates, agreed.notes)


make_nonnegative_stage = stage("non-negativity")(make_nonnegative)
