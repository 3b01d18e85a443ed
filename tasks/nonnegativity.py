"""Non-negativity: estimates become what counts can be, and still add up."""

from __future__ import annotations

import numpy as np

from mechanisms.inference import Estimate, Hierarchy, nonnegativity
from tasks.estimates import EstimatesHandle, read, save
from tasks.layout import Layout
from tasks.run import Run
from tasks.stage import stage


def make_nonnegative(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Project family by family onto what counts can be, keeping sums (mechanisms.inference.nonnegativity)."""
    if not run.loaded.spec.postprocessing.nonnegativity:
        return handle
    files = {}
    for table in run.loaded.spec.tables:
        tree = Hierarchy(Layout.of(run.loaded, table).parents)
        estimate = nonnegativity(tree, with_fair_roots(tree, read(handle, table.name)))
        files[table.name] = save(run, "nonnegative", table.name, estimate)
    return EstimatesHandle(files)


def with_fair_roots(tree: Hierarchy, estimate: Estimate) -> Estimate:
    """Make the cells of every root non-negative while their sum stays what it was (or zero).

    Below the roots a family keeps its parent's value. A root has no parent: cutting its cells off at zero
    one by one would add the negative noise of every empty cell to the total. So the cells of a root are a
    family too, under their own sum.
    """
    values = estimate.values.copy()
    cells = values.shape[1]
    family = Hierarchy(np.concatenate(([-1], np.zeros(cells, np.int64))))
    for root in tree.roots:
        spread = np.broadcast_to(estimate.variances[root], (cells,))
        above = np.concatenate(([values[root].sum()], values[root]))
        joint = Estimate(above[:, None], np.concatenate(([spread.sum()], spread))[:, None])
        values[root] = nonnegativity(family, joint).values[1:, 0]
    return Estimate(values, estimate.variances)


make_nonnegative_stage = stage("non-negativity")(make_nonnegative)
