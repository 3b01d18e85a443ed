"""Consistency: every table's levels are made to agree by weighted least squares."""

from __future__ import annotations

from mechanisms.inference import Hierarchy, consistency
from tasks.estimates import LINEAR, EstimatesHandle, measured_tree, save
from tasks.layout import Layout
from tasks.release import MeasuredHandle, finished
from tasks.run import Run
from tasks.stage import stage


def make_consistent(run: Run, handle: MeasuredHandle) -> EstimatesHandle:
    """Weighted least squares along each table's hierarchy (mechanisms.inference.consistency)."""
    releases = finished(run, handle)
    wanted = run.loaded.spec.postprocessing.consistency
    files = {}
    for table in run.loaded.spec.tables:
        layout = Layout.of(run.loaded, table)
        parts = {
            level: (release.values, release.variances)
            for (name, level), release in releases.items()
            if name == table.name
        }
        estimate = measured_tree(layout, parts)
        if wanted:
            estimate = consistency(Hierarchy(layout.parents), estimate.values, estimate.variances)
        files[table.name] = save(run, LINEAR, table.name, estimate)
    return EstimatesHandle(files)


make_consistent_stage = stage("consistency")(make_consistent)
