"""Estimates between post-processing stages: one file per table in the workspace.

Below the release stage nothing has seen the data. The files lie in the workspace because they are large,
not because they are confidential.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference import Estimate
from tasks.layout import Layout
from tasks.run import Run

LINEAR = "consistent"


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
        Level -> (noisy values in the layout of counting, variance of each).

    Returns
    -------
    Estimate
        (nodes, cells) values and (nodes, 1) variances, infinite where nothing was measured. A leaf that
        stands above the deepest level is measured with several levels: inverse-variance mean.
    """
    values = np.zeros((layout.nodes, layout.cells))
    precision = np.zeros((layout.nodes, 1))
    for level, (noisy, variance) in parts.items():
        nodes = layout.cuts[level]
        fresh = np.asarray(noisy, float).reshape(len(nodes), layout.cells)
        weight = 1 / float(variance)
        before = precision[nodes]
        values[nodes] = np.where(
            before > 0, (values[nodes] * before + fresh * weight) / (before + weight), fresh
        )
        precision[nodes] = before + weight
    with np.errstate(divide="ignore"):
        return Estimate(values, 1 / precision)


def read(handle: EstimatesHandle, table: str) -> Estimate:
    """Read the estimates of one table."""
    with np.load(handle.files[table], allow_pickle=False) as file:
        return Estimate(file["values"], file["variances"])


def read_linear(run: Run, table: str) -> Estimate:
    """Read the estimates of one table as they were before anything but linear steps touched them."""
    return read(EstimatesHandle({table: str(run.folder(LINEAR) / f"{table}.npz")}), table)


def save(run: Run, folder: str, table: str, estimate: Estimate) -> str:
    """Write the estimates of one table into the workspace; return the file."""
    path: Path = run.folder(folder) / f"{table}.npz"
    np.savez(path, values=estimate.values, variances=estimate.variances)
    return str(path)
