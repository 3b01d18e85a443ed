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

from ledger import Charge
from ledger.drawing import measure_once
from mechanisms import build, restore
from mechanisms.channel import SecureChannel, SeededChannel
from mechanisms.errors import LedgerError, PublicationError
from mechanisms.mechanism import Mechanism
from mechanisms.release import Measured, Release
from tasks.books import ChargeHandle, open_books, open_store
from tasks.count import CountsHandle, read_counts
from tasks.layout import Layout
from tasks.run import Run
from tasks.stage import stage
from validations.spec import Table

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
    LedgerError
        If the charge was made for another spec or amount than the one at hand.
    InputError
        If noise must be drawn and there are no counts, or not those that were counted.
    """
    with open_books(run) as books:
        known = books.charge(charge.release_id)
        jobs = None if counts is None else list(_jobs(run, counts))
        _agree(run, known, jobs)
        draw = None if jobs is None else _drawing(run, jobs)
        stored = measure_once(books, open_store(run), charge.release_id, draw)
    return MeasuredHandle(charge.release_id, stored.fence, stored.digest)


def _agree(run: Run, charge: Charge | None, jobs: list[Job] | None) -> None:
    """See that what is about to be drawn is what was paid for: the spec may have been edited meanwhile."""
    loaded = run.loaded
    paid = charge is not None and (charge.spec_digest, charge.amount) == (
        loaded.digest,
        loaded.spec.privacy.budget,
    )
    cost = sum((job.epsilon for job in jobs or ()), Fraction(0)) * loaded.spec.privacy.changed_records
    if not paid or (charge is not None and jobs is not None and cost > charge.amount):
        raise LedgerError(
            "the charge was made for another spec or amount",
            where="release",
            mend="leave the spec alone during a run, and run again",
        )


def _drawing(run: Run, jobs: list[Job]) -> Callable[[], Drawn]:
    """Return the function that draws; all that can fail without noise is done before it is called."""
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
    secret = run.installation.secret()
    for table, level, epsilon, mechanism in shares(run):
        true = read_counts(counts.tables[table.name][level], secret)
        yield Job(table.name, level, epsilon, mechanism, true)


def shares(run: Run) -> Iterator[tuple[Table, str, Fraction, Mechanism]]:
    """Yield every measurement of the spec with its ε for one record, and the mechanism that makes it."""
    spec = run.loaded.spec
    for table in spec.tables:
        mechanism = build(table.mechanism, **table.parameters)
        for level, share in (table.levels or {"": Fraction(1)}).items():
            yield table, level, spec.privacy.record_budget * table.share * share, mechanism


def rehearse(run: Run) -> None:
    """Run every mechanism on empty tables of the declared shapes, with seeded noise that is thrown away.

    Whatever a mechanism refuses for reasons that are public (shape, parameters, a noise scale beyond its
    reach) it refuses here, before anything is charged, and not after the draw began, when the charge
    could only be abandoned.
    """
    for table, level, epsilon, mechanism in shares(run):
        empty = np.zeros(Layout.of(run.loaded, table).shape(level), np.int64)
        mechanism.release(empty, SeededChannel(epsilon, seed=0))


def finished(run: Run, handle: MeasuredHandle) -> dict[tuple[str, str], Release]:
    """Read the measurement back and finish every part: (table, level) -> release. Sees no true value.

    Raises
    ------
    PublicationError
        If it was drawn with predictable noise.
    """
    stored = open_store(run).read(handle.release_id, handle.fence, digest=handle.digest)
    releases = {}
    for part in stored.meta["parts"]:
        arrays = {key: stored.arrays[name] for key, name in part["arrays"].items()}
        measured = Measured.from_document(part["measured"], arrays)
        if measured.insecure:
            raise PublicationError(
                "this measurement was drawn from a seeded stream and protects nobody",
                where=f"release {handle.release_id}",
                mend="draw it with the secure channel",
            )
        releases[part["table"], part["level"]] = restore(measured).finish(measured)
    return releases


measure = stage("release")(measure_tables)
