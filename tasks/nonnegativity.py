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
    roots, cells = tree.roots, estimate.values.shape[1]
    if cells == 1:
        return estimate
    count = len(roots)
    families = Hierarchy(np.concatenate((np.full(count, -1), np.repeat(np.arange(count), cells))))
    before = estimate.values[roots]
    spread = np.broadcast_to(estimate.variances[roots], before.shape)
    joint = Estimate(
        np.concatenate((before.sum(axis=1), before.ravel()))[:, None],
        np.concatenate((spread.sum(axis=1), spread.ravel()))[:, None],
    )
    values = estimate.values.copy()
    values[roots] = nonnegativity(families, joint).values[count:, 0].reshape(before.shape)
    return Estimate(values, estimate.variances)


make_nonnegative_stage = stage("non-negativity")(make_nonnegative)
