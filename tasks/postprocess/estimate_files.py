"""Estimates between post-processing stages: two files of the workspace for each table.

They are mapped when they are read, so that a table may be larger than memory: which arrays lie on disk and
which in memory is settled here and in :mod:`tabularium.tasks.postprocess.mapped_arrays` alone.

Below the measuring stage nothing has seen the data. The files lie in the workspace because they are large,
not because they are confidential.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.noise_distributions import NOTHING
from tabularium.tasks.postprocess.mapped_arrays import Room
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import Run


@dataclass(frozen=True)
class EstimatesHandle:
    """What a stage left: its tables, and how it and the stages before it went.

    Attributes
    ----------
    paths
        Table -> its files in the workspace, without their ending.
    notes
        Step -> file of plain JSON values.
    """

    paths: dict[str, str]
    notes: dict[str, str] = field(default_factory=dict)

    def read(self, table: str) -> Estimate:
        """Return the estimates of a table, mapped from disk."""
        return Estimate(*(np.load(f"{self.paths[table]}.{part}.npy", mmap_mode="r") for part in _PARTS))

    def read_all(self) -> dict[str, Estimate]:
        """Return the estimates of all tables, for steps that must see them together."""
        return {table: self.read(table) for table in self.paths}

    def note(self, step: str) -> dict[str, Any]:
        """Return how a step went; empty if there was no such step."""
        if step not in self.notes:
            return {}
        said: dict[str, Any] = json.loads(Path(self.notes[step]).read_text(encoding="utf-8"))
        return said


_PARTS = ("values", "variances")


def write(
    run: Run,
    step: str,
    estimates: Mapping[str, Estimate],
    *,
    notes: dict[str, Any] | None = None,
    after: EstimatesHandle | None = None,
    room: Room | None = None,
) -> EstimatesHandle:
    """Write what a step made of all tables into the workspace.

    Parameters
    ----------
    step
        Names the folder.
    estimates
        Table -> its estimates.
    notes
        How the step went, as plain JSON values.
    after
        What the step began with; its notes are handed on.
    room
        Where some of the values lie already.
    """
    folder = _folder_of(run, step)
    paths = {table: _write_table(folder / table, table, each, room) for table, each in estimates.items()}
    path = folder / "notes.json"
    path.write_text(json.dumps(notes or {}), encoding="utf-8")
    before = {} if after is None else after.notes
    return EstimatesHandle(paths, {**before, step: str(path)})


def _folder_of(run: Run, step: str) -> Path:
    return run.folder(step.replace(" ", "-"))


def room_of(run: Run, step: str) -> Room:
    """Return where a step puts the values of tables that are too large for memory."""
    return Room(_folder_of(run, step), ".values.npy")


def _write_table(path: Path, table: str, estimate: Estimate, room: Room | None) -> str:
    if room is None or not room.holds(table, estimate.values):
        Path(f"{path}.values.npy").unlink(missing_ok=True)  # it may be mapped, and is not to be cut short
        np.save(f"{path}.values.npy", estimate.values)
    np.save(f"{path}.variances.npy", estimate.variances)
    return str(path)


def measured_tree(
    layout: Layout,
    parts: dict[str, tuple[NDArray[Any], Any]],
    out: NDArray[np.float64] | None = None,
) -> Estimate:
    """Bring the measured levels of one table onto its tree.

    Parameters
    ----------
    layout
        The table.
    parts
        Level -> (noisy values in the layout of counting, variance of all or of each).
    out
        (nodes, cells) zeros for the values.

    Returns
    -------
    Estimate
        (nodes, cells) values and (nodes, 1) variances, (nodes, cells) where they differ from cell to cell,
        infinite where nothing was measured. A leaf that stands above the deepest level is measured with
        several levels: inverse-variance mean. Where nobody can be both are 0, whatever was given.
    """
    values = np.zeros((layout.nodes, layout.cells)) if out is None else out
    each = any(np.ndim(variance) for _, variance in parts.values())
    precision = np.zeros((layout.nodes, layout.cells if each else 1))
    for level, (noisy, variance) in parts.items():
        cut = layout.cuts[level]
        given = np.asarray(noisy).reshape(len(cut), layout.cells)
        # Of a huge budget the variance may be zero to the computer: it is a measurement all the same.
        weights = 1 / np.maximum(_as_rows(variance, given), NOTHING)
        for rows in strips(*given.shape):
            nodes, fresh = cut[rows], given[rows].astype(float)
            weight, before = weights[rows] if weights.ndim else weights, precision[nodes]
            if not layout.adds_up:  # each number is one measurement: the better one stands
                weight = np.where(weight > before, weight, 0.0)
                before = np.where(weight > 0, 0.0, before)
            values[nodes] = np.where(
                before > 0, (values[nodes] * before + fresh * weight) / (before + weight), fresh
            )
            precision[nodes] = before + weight
    with np.errstate(divide="ignore"):
        variances = 1 / precision
    if layout.impossible is not None:
        values[layout.impossible] = 0.0
        variances = np.where(layout.impossible, 0.0, variances)
    return Estimate(values, variances)


def _as_rows(variance: Any, given: NDArray[Any]) -> NDArray[np.float64]:
    """Return one variance, or one for each cell, so that it goes with the rows of a level."""
    spread = np.asarray(variance, float)
    return spread.reshape(given.shape) if spread.ndim else spread
