"""What was made of many regions, kept in the workspace: three stages want it, and it may take minutes.

It is post-processing of what was drawn, computed from the measurements whose digest the ledger holds, and
lies beside what other stages make of them. Files bear the name of that digest: others are not found.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from tabularium.mechanisms import restore
from tabularium.mechanisms.measured import Measured, Release
from tabularium.tasks.runtime.run import Run
from tabularium.validations.spec.parts.table_parts import PER_REGION


def finish(run: Run, measured: Measured, digest: str, place: int) -> Release:
    """Return what a mechanism makes of its measurements; of regions, as it was made before if it was.

    Parameters
    ----------
    digest, place
        Of all measurements of the release, and which of them this is.
    """
    if measured.mechanism != PER_REGION:
        return restore(measured).finish(measured)
    path = run.folder("regions") / f"{digest}-{place}.npz"
    if not path.exists():
        _write(path, restore(measured).finish(measured))
    with np.load(path) as kept:
        variances = kept["variances"]
        return measured.release(
            kept["values"],
            variances if variances.ndim else None if np.isnan(variances) else float(variances),
            **json.loads(str(kept["diagnostics"])),
        )


def _write(path: Path, release: Release) -> None:
    """Write a release aside, then rename it: a file is whole or not there."""
    aside = path.with_name(f"{path.stem}.{os.getpid()}.npz")
    np.savez(
        aside,
        values=release.values,
        variances=np.asarray(np.nan if release.variances is None else release.variances),
        diagnostics=np.array(json.dumps(release.diagnostics)),
    )
    aside.replace(path)
