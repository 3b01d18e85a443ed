"""The one door: the only stage that opens true counts and a secure channel together.

The crash order is the ledger's (:mod:`ledger.drawing`): ``drawing`` commits before the first random bit,
noise is drawn under a fresh key, the measurements become a durable file, ``measured`` commits with the
file's digest. Later stages read only that file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledger.drawing import measure_once
from mechanisms import build, restore
from mechanisms.channel import SecureChannel
from mechanisms.errors import InputError
from mechanisms.release import Measured, Release
from tasks.books import ChargeHandle, open_books, open_store
from tasks.count import CountsHandle
from tasks.run import Run
from tasks.stage import stage

Drawn = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class MeasuredHandle:
    """The durable measurement of a release: which attempt, and the digest that the ledger holds."""

    release_id: str
    fence: int
    digest: str


def measure_tables(run: Run, charge: ChargeHandle, counts: CountsHandle | None) -> MeasuredHandle:
    """Draw the noise of every table and level once, or find that it has been drawn.

    Raises
    ------
    InputError
        If noise must be drawn and there are no counts to draw it on.
    """
    with open_books(run) as books:
        stored = measure_once(books, open_store(run), charge.release_id, _drawing(run, counts))
    return MeasuredHandle(charge.release_id, stored.fence, stored.digest)


def _drawing(run: Run, counts: CountsHandle | None) -> Callable[[], Drawn]:
    """Return the function that draws, with everything that can fail for want of input done beforehand."""
    spec = run.loaded.spec
    jobs = []
    if counts is not None:
        for table in spec.tables:
            mechanism = build(table.mechanism, **table.parameters)
            for level, share in (table.levels or {"": 1}).items():
                true = np.load(counts.tables[table.name][level].path, mmap_mode="r", allow_pickle=False)
                jobs.append((table, level, spec.privacy.record_budget * table.share * share, mechanism, true))

    def draw() -> Drawn:
        if not jobs:
            raise InputError("there are no counts to release", where="release", mend="run the whole flow")
        channel = SecureChannel(spec.privacy.record_budget)
        arrays: dict[str, NDArray[Any]] = {}
        parts: list[dict[str, Any]] = []
        for table, level, epsilon, mechanism, true in jobs:
            purpose = f"{table.name}/{level}" if level else table.name
            measured = mechanism.measure(np.asarray(true), channel.grant(epsilon, purpose))
            parts.append(_described(table.name, level, measured, arrays))
        return {"parts": parts}, arrays

    return draw


def _described(
    table: str, level: str, measured: Measured, arrays: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    keys = {}
    for key, array in measured.arrays.items():
        keys[key] = f"{table}/{level}/{key}"
        arrays[keys[key]] = array
    return {"table": table, "level": level, "arrays": keys, "measured": measured.document()}


def finished(run: Run, handle: MeasuredHandle) -> dict[tuple[str, str], Release]:
    """Read the measurement back and finish every part: (table, level) -> release. Sees no true value."""
    stored = open_store(run).read(handle.release_id, handle.fence, digest=handle.digest)
    releases = {}
    for part in stored.meta["parts"]:
        arrays = {key: stored.arrays[name] for key, name in part["arrays"].items()}
        measured = Measured.from_document(part["measured"], arrays)
        releases[part["table"], part["level"]] = restore(measured).finish(measured)
    return releases


measure = stage("release")(measure_tables)
