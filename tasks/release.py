"""The one door: the only stage that opens true counts and a secure channel together.

The crash order is the ledger's (:mod:`ledger.drawing`): ``drawing`` commits before the first random bit,
noise is drawn under a fresh key, the measurements become a durable file, ``measured`` commits with the
file's digest. Later stages read only that file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledger.drawing import measure_once
from mechanisms import build, restore
from mechanisms.channel import SecureChannel
from mechanisms.errors import InputError
from mechanisms.mechanism import Mechanism
from mechanisms.release import Measured, Release
from tasks.books import ChargeHandle, drawn, open_books, open_store
from tasks.count import CountsHandle
from tasks.run import Run
from tasks.stage import stage

Drawn = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class Job:
    """One array of true counts and what measuring it may cost."""

    table: str
    level: str
    epsilon: Fraction
    mechanism: Mechanism
    counts: NDArray[np.int64]

    @property
    def purpose(self) -> str:
        """Its name in the transcript."""
        return f"{self.table}/{self.level}" if self.level else self.table


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
        known = books.charge(charge.release_id)
        if counts is None and (known is None or not drawn(run, known)):
            raise InputError("there are no counts to release", where="release", mend="run the whole flow")
        stored = measure_once(books, open_store(run), charge.release_id, _drawing(run, counts))
    return MeasuredHandle(charge.release_id, stored.fence, stored.digest)


def _drawing(run: Run, counts: CountsHandle | None) -> Callable[[], Drawn]:
    """Return the function that draws; all that can fail without noise is done before it is called."""
    jobs = [] if counts is None else list(_jobs(run, counts))
    budget = run.loaded.spec.privacy.record_budget

    def draw() -> Drawn:
        channel = SecureChannel(budget)
        arrays: dict[str, NDArray[Any]] = {}
        parts = []
        for job in jobs:
            measured = job.mechanism.measure(job.counts, channel.grant(job.epsilon, job.purpose))
            names = {key: f"{job.purpose}/{key}" for key in measured.arrays}
            arrays |= {names[key]: array for key, array in measured.arrays.items()}
            parts.append(
                {"table": job.table, "level": job.level, "arrays": names, "measured": measured.document()}
            )
        return {"parts": parts}, arrays

    return draw


def _jobs(run: Run, counts: CountsHandle) -> Iterator[Job]:
    """Yield what is to be measured, table by table and level by level, each with its part of the budget."""
    spec = run.loaded.spec
    for table in spec.tables:
        mechanism = build(table.mechanism, **table.parameters)
        for level, share in (table.levels or {"": Fraction(1)}).items():
            yield Job(
                table.name,
                level,
                spec.privacy.record_budget * table.share * share,
                mechanism,
                np.load(counts.tables[table.name][level].path, allow_pickle=False),
            )


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
