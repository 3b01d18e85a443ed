"""Rounding: whole numbers that still add up along every hierarchy."""

from __future__ import annotations

from mechanisms.inference import Estimate, Hierarchy, rounding
from tasks.estimates import EstimatesHandle, read, save
from tasks.layout import Layout
from tasks.run import Run
from tasks.stage import stage


def make_whole(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Round to whole numbers that still add up (mechanisms.inference.rounding)."""
    if not run.loaded.spec.postprocessing.rounding:
        return handle
    files = {}
    for table in run.loaded.spec.tables:
        tree = Hierarchy(Layout.of(run.loaded, table).parents)
        estimate = read(handle, table.name)
        whole = Estimate(rounding(tree, estimate).astype(float), estimate.variances)
        files[table.name] = save(run, "whole", table.name, whole)
    return EstimatesHandle(files)


make_whole_stage = stage("rounding")(make_whole)
