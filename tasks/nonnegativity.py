"""Non-negativity: estimates become what counts can be, and still add up."""

from __future__ import annotations

from mechanisms.inference import Hierarchy, nonnegativity
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
        files[table.name] = save(
            run, "nonnegative", table.name, nonnegativity(tree, read(handle, table.name))
        )
    return EstimatesHandle(files)


make_nonnegative_stage = stage("non-negativity")(make_nonnegative)
