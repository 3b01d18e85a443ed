"""Estimates between post-processing stages: one file per table in the workspace.

Below the release stage nothing has seen the data. The files lie in the workspace because they are large,
not because they are confidential.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference import Estimate
from tasks.postprocess.table_layout import Layout
from tasks.runtime.run import Run

LINEAR = "consistent"
NONNEGATIVE = "nonnegative"
WHOLE = "whole"
BASE = "margins"
_NOTES = "notes.json"


@dataclass(frozen=True)
class EstimatesHandle:
    """Where a stage left its estimates: table name -> file."""

    files: dict[str, str]


def measured_tree(layout: Layout, parts: dict[str, tuple[NDArray[Any], Any]]) -> Estimate:
    """Bring the measured levels of one table onto its tree.

    Parameters
    ----------
    layout
        The table.
    parts
        Level -> (noisy values in the layout of counting, variance of all or of each).

    Returns
    -------
    Estimate
        (nodes, cells) values and (nodes, 1) variances, (nodes, cells) where they differ from cell to cell,
        infinite where nothing was measured. A leaf that stands above the deepest level is measured with
        several levels: inverse-variance mean.
    """
    values = np.zeros((layout.nodes, layout.cells))
    each = any(np.ndim(variance) for _, variance in parts.values())
    precision = np.zeros((layout.nodes, layout.cells if each else 1))
    for level, (noisy, variance) in parts.items():
        nodes = layout.cuts[level]
        fresh = np.asarray(noisy, float).reshape(len(nodes), layout.cells)
        weight = 1 / _as_rows(variance, fresh)
        before = precision[nodes]
        values[nodes] = np.where(
            before > 0, (values[nodes] * before + fresh * weight) / (before + weight), fresh
        )
        precision[nodes] = before + weight
    with np.errstate(divide="ignore"):
        return Estimate(values, 1 / precision)


def _as_rows(variance: Any, fresh: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one variance, or one for each cell, so that it goes with the rows of a level."""
    spread = np.asarray(variance, float)
    return spread.reshape(fresh.shape) if spread.ndim else spread


def read(handle: EstimatesHandle, table: str) -> Estimate:
    """Read the estimates of one table."""
    with np.load(handle.files[table], allow_pickle=False) as file:
        return Estimate(file["values"], file["variances"])


def read_base(run: Run, table: str) -> Estimate:
    """Read the numbers that the margins of a table are about, with their variances.

    Those are the estimates as they were before anything but linear steps touched them; for measurements
    whose errors are not independent noise, the measurements themselves (:mod:`tasks.margins.error_model`).
    """
    own = run.folder(BASE) / f"{table}.npz"
    return read(EstimatesHandle({table: str(own if own.exists() else run.folder(LINEAR) / own.name)}), table)


def read_all(handle: EstimatesHandle) -> dict[str, Estimate]:
    """Read the estimates of all tables."""
    return {table: read(handle, table) for table in handle.files}


def save_all(
    run: Run, folder: str, estimates: dict[str, Estimate], notes: dict[str, Any] | None = None
) -> EstimatesHandle:
    """Write the estimates of all tables into the workspace, and how the step that made them went."""
    handle = EstimatesHandle({table: save(run, folder, table, each) for table, each in estimates.items()})
    (run.folder(folder) / _NOTES).write_text(json.dumps(notes or {}), encoding="utf-8")
    return handle


def read_notes(run: Run, folder: str) -> dict[str, Any]:
    """Return how the step that wrote into this folder went; empty if there was no such step."""
    path = run.folder(folder) / _NOTES
    notes: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return notes


def save(run: Run, folder: str, table: str, estimate: Estimate) -> str:
    """Write the estimates of one table into the workspace; return the file."""
    path: Path = run.folder(folder) / f"{table}.npz"
    np.savez(path, values=estimate.values, variances=estimate.variances)
    return str(path)
