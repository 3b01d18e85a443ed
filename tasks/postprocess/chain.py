"""The post-processing of a release as one function: from measured estimates to what is published.

The stages do the same step by step and keep what each step made. Margins by simulation need it whole, again
and again, and in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mechanisms.inference import Estimate
from tasks.postprocess.agreement import Agreement
from tasks.runtime.run import Run

Chain = Callable[[Mapping[str, Estimate]], dict[str, Estimate]]


def chain_of(run: Run) -> Chain:
    """Return what the spec has done to its tables.

    Returns
    -------
    A function from the measured trees of all tables of the spec
    (:func:`tasks.postprocess.estimate_files.measured_tree`), by name, to their finished estimates; it always
    gives the same for the same.
    """
    wanted = run.loaded.spec.postprocessing
    agreement = Agreement.of(run.loaded)

    def finish(measured: Mapping[str, Estimate]) -> dict[str, Estimate]:
        estimates = dict(measured)
        if wanted.consistency:
            estimates = agreement.consistent(estimates, variances=False).estimates
        if wanted.nonnegativity:
            estimates = agreement.nonnegative(estimates).estimates
        if wanted.rounding:
            estimates = agreement.whole(estimates).estimates
        return estimates

    return finish
