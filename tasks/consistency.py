"""Consistency: every table's levels are made to agree by weighted least squares.

The weight of a level is one over its variance; where the mechanism merges or drops what it measured, one over
its mean squared error per cell, estimated or measured (:mod:`tasks.accuracy`).
"""

from __future__ import annotations

from mechanisms.inference import Hierarchy, consistency
from tasks.accuracy import level_error, margin_base
from tasks.estimates import BASE, LINEAR, EstimatesHandle, measured_tree, save
from tasks.layout import Layout
from tasks.release import MeasuredHandle, finished
from tasks.run import Run
from tasks.stage import stage


def make_consistent(run: Run, handle: MeasuredHandle) -> EstimatesHandle:
    """Weighted least squares along each table's hierarchy (mechanisms.inference.consistency)."""
    found = finished(run, handle)
    wanted = run.loaded.spec.postprocessing.consistency
    files = {}
    for table in run.loaded.spec.tables:
        layout = Layout.of(run.loaded, table)
        parts = {
            level: (part.release.values, level_error(part))
            for (name, level), part in found.items()
            if name == table.name
        }
        estimate = measured_tree(layout, {level: (v, error.variance) for level, (v, error) in parts.items()})
        if wanted:
            estimate = consistency(Hierarchy(layout.parents), estimate.values, estimate.variances)
        files[table.name] = save(run, LINEAR, table.name, estimate)
        if any(error.method != "exact" for _, error in parts.values()):
            save(run, BASE, table.name, margin_base(layout, parts))
    return EstimatesHandle(files)


make_consistent_stage = stage("consistency")(make_consistent)
