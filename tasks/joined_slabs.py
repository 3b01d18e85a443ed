"""The slabs of a level that was measured in several, joined in the workspace: several stages want the whole.

They are what was drawn, and no more. The joined file bears the digest of the measurements: others are not
found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.measured import Measured
from tabularium.tasks.postprocess.mapped_arrays import new_mapped
from tabularium.tasks.runtime.run import Run
from tabularium.validations.release_spec.checks.table_checks import level_shapes

Part = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""What was noted of a stored part, and its arrays."""


def join_slabs(run: Run, digest: str, parts: Sequence[Part]) -> list[Part]:
    """Return stored parts with one for each level: those that were measured in slabs are joined.

    Parameters
    ----------
    digest
        Of all measurements of the release.

    Raises
    ------
    PublicationError
        If the slabs of a level do not fit together.
    """
    rows = {
        (table.name, level): shape[0] if shape else 1
        for table in run.loaded.spec.arrays
        for level, shape in level_shapes(table, run.loaded.domains).items()
    }
    levels: dict[tuple[str, str], list[Part]] = {}
    for meta, arrays in parts:
        levels.setdefault((meta["table"], meta["level"]), []).append((meta, arrays))
    return [
        found[0] if "rows" not in found[0][0] else _joined(run.folder("joined"), digest, found, rows[level])
        for level, found in levels.items()
    ]


def _joined(folder: Path, digest: str, slabs: list[Part], nodes: int) -> Part:
    first = slabs[0][0]
    measured = [Measured.from_document(meta["measured"], {}) for meta, _ in slabs]
    rows = [(int(low), int(high)) for low, high in (meta["rows"] for meta, _ in slabs)]
    drawn = [event for each in measured for event in each.transcript]
    shape = (rows[-1][1], *drawn[0].shape[1:])
    (name,) = first["arrays"]
    alike = all(replace(each, shape=shape) == replace(drawn[0], shape=shape) for each in drawn)
    if (
        not alike
        or rows[-1][1] != nodes
        or [low for low, _ in rows] != [0, *(high for _, high in rows[:-1])]
        or [each.shape[0] for each in drawn] != [high - low for low, high in rows]
    ):
        raise PublicationError(
            "the slabs of a level do not fit together",
            where=f"table {first['table']}, level {first['level']}",
            hint="restore the measurements from the backup",
        )
    path = folder / f"{digest}-{first['table']}.{first['level']}.npy"
    if not path.exists():
        aside = path.with_name(f"{path.stem}.{os.getpid()}.npy")
        whole = new_mapped(aside, shape, np.int64)
        for (low, high), (meta, arrays) in zip(rows, slabs, strict=True):
            whole[low:high] = arrays[meta["arrays"][name]]
        aside.replace(path)
    array = np.asarray(np.load(path, mmap_mode="r"))
    insecure = any(each.insecure for each in measured)
    whole_event = replace(drawn[0], shape=shape).as_dict()
    document = {**first["measured"], "transcript": [whole_event], "insecure": insecure}
    return {**first, "measured": document, "arrays": {name: name}}, {name: array}
