"""Measuring: the only stage that opens true counts and a secure channel together.

A mechanism that cannot tell its own error has it measured here as well: the sum of |true - released| over the
cells, through the same channel, with a stated share of the table's budget
(``tabularium.mechanisms.inference.margins_of_error.measured_error``).

The crash order is the ledger's (:mod:`tabularium.ledger.measurement.measure_once`): ``drawing`` commits
before the first random bit; table by table and level by level noise is drawn under a fresh key, with its own
share of the budget, and becomes a durable file; ``measured`` commits with the digest of the file that names
them all. Later stages read only those files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms import build, restore
from tabularium.mechanisms.accounting import Definition, Event, PrivacyLoss
from tabularium.mechanisms.channel import Channel, SecureChannel
from tabularium.mechanisms.errors import LedgerError, PublicationError, TabulariumError
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT, class_errors, total_error
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.tasks.count.count_files import CountsHandle, place_at, read_counts, read_sizes
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.diagnoses import keep_traceback
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import advanced, note, stopping
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.runtime.workspace import new_mapped
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.checks.table_checks import MECHANISM, level_shapes, slabs
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import CUT_UNITS, LEFT_OUT, Tally
from tabularium.validations.release_spec.tables import Histogram, Table

if TYPE_CHECKING:
    from tabularium.ledger import Charge
    from tabularium.ledger.measurement import measure_once as measuring
    from tabularium.tasks import ledger_stages
    from tabularium.tasks import published_heads as heads
    from tabularium.tasks.ledger_stages import ChargeHandle, MeasuredHandle
    from tabularium.tasks.publish import priors
else:  # a spec is tried without a ledger
    measuring = Later("tabularium.ledger.measurement.measure_once")
    ledger_stages = Later("tabularium.tasks.ledger_stages")
    heads = Later("tabularium.tasks.published_heads")
    priors = Later("tabularium.tasks.publish.priors")

Drawn = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class Job:
    """One array of true counts and the budget of its measurement for one record.

    Attributes
    ----------
    error_loss
        The part of it that measures how far the release lies from the truth; often nothing.
    rows
        First node of a slab of the level, and the one after its last; None for the whole level. Slabs have no
        cell in common, so that what is lost to one record is the loss of one slab.
    """

    table: str
    level: str
    loss: Fraction
    error_loss: Fraction
    mechanism: Mechanism
    read: Callable[[], NDArray[np.int64]]
    rows: tuple[int, int] | None = None

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The true counts, held from first use."""
        return self.read()

    def let_go(self) -> None:
        """Release the counts."""
        self.__dict__.pop("counts", None)

    @property
    def purpose(self) -> str:
        """Its name in the transcript."""
        return f"{self.table}/{self.level}" if self.level else self.table

    @property
    def part(self) -> str:
        """Its name in the store."""
        return self.purpose if self.rows is None else "{}/{}-{}".format(self.purpose, *self.rows)


@dataclass(frozen=True, eq=False)
class MeasuredError:
    """Noisy sums of |true - released| over the cells of one release, and the event that drew them.

    ``totals``: one for each class of released size
    (:func:`tabularium.mechanisms.inference.margins_of_error.measured_error.error_classes`), in parts.
    """

    totals: tuple[int, ...]
    event: Event


@dataclass(frozen=True, eq=False)
class Finished:
    """One measured table and level, as drawn and as finished by its mechanism."""

    measured: Measured
    release: Release
    error: MeasuredError | None

    def in_shape(self, layout: Layout | None, level: str) -> Finished:
        """Return it with the released numbers in the shape of their level, exact zeros included."""
        if layout is None or layout.possible(level) is None:
            return self
        replaced = replace(self.release, values=layout.in_shape(level, self.release.values))
        return replace(self, release=replaced)

    @property
    def transcript(self) -> tuple[Event, ...]:
        """All events of its draws."""
        return self.release.transcript + (() if self.error is None else (self.error.event,))


Parts = dict[str, dict[str, Finished]]
"""Table or histogram -> level -> what was measured."""


@stage("measure")
def measure(run: Run, charge: ChargeHandle, counts: CountsHandle | None) -> MeasuredHandle:
    """Draw the noise of every table and level once, or adopt what has been drawn.

    Raises
    ------
    LedgerError
        If the charge was made for another spec or amount than the one at hand, or an earlier release that
        its tables are drawn towards was withdrawn before anything was drawn.
    InputError
        If noise must be drawn and there are no counts, or not those that were counted.
    """
    with run.ledger as ledger:
        known = ledger.charge(charge.release_id)
        jobs = None if counts is None else list(_jobs(run, counts))
        _agree(run, known, jobs)
        for slabbed in {} if counts is None else counts.slabbed.values():
            slabbed.see_key()  # before an attempt is used up
        by_part = {job.part: job for job in jobs or ()}
        stored = measuring.measure_once(
            ledger,
            run.store,
            charge.release_id,
            None if jobs is None else _drawings(run, jobs),
            prepare=lambda part: by_part[part].counts,
            priors=priors.certificates(run.loaded),
            announce=lambda: heads.write_head_marker(
                run, charge.release_id, heads.stamped_head(run, ledger, charge.release_id)
            ),
            asked_to_stop=lambda: stopping.requested() is not None,
        )
    for slabbed in {} if counts is None else counts.slabbed.values():
        slabbed.discard()
    return ledger_stages.MeasuredHandle(charge.release_id, stored.fence, stored.digest, charge.release_id)


def _agree(run: Run, charge: Charge | None, jobs: list[Job] | None) -> None:
    """Check that the draws are those that were paid for: the spec may have been edited meanwhile."""
    loaded = run.loaded
    paid = charge is not None and (charge.spec_digest, charge.amount) == (
        loaded.digest,
        loaded.spec.main_amount,
    )
    privacy = loaded.spec.privacy
    losses = {job.purpose: job.loss for job in jobs or ()}  # of the slabs of a level, that of one
    record = PrivacyLoss(sum(losses.values(), Fraction(0)), privacy.definition)
    cost = record.for_unit(privacy.changed_records).amount
    if not paid or (charge is not None and jobs is not None and cost > charge.amount):
        raise LedgerError(
            "the charge was made for another spec or amount",
            where="release",
            hint="do not change the spec during a run, and run again",
        )


def _drawings(run: Run, jobs: list[Job]) -> dict[str, Callable[[], Drawn]]:
    """Return the function that draws each part, by its purpose."""
    # As the spec has them and not the counts: how many sizes a histogram has is confidential.
    shapes = {
        (table.name, level): shape
        for table in run.loaded.spec.arrays
        for level, shape in level_shapes(table, run.loaded.domains).items()
    }

    def cells(job: Job) -> int:
        shape = shapes.get((job.table, job.level), (0,))
        return prod(shape if job.rows is None else (job.rows[1] - job.rows[0], *shape[1:]))

    after = [*accumulate(cells(job) for job in jobs)]
    definition = run.loaded.spec.privacy.definition
    return {
        job.part: _drawing(job, definition, done, after[-1], run.installation)
        for job, done in zip(jobs, [0, *after], strict=False)
    }


def _drawing(job: Job, definition: Definition, done: int, of: int, home: Home) -> Callable[[], Drawn]:
    """Return the function that draws one part; what can fail without noise is done before its call.

    Its channel is its own and holds only its share: that a part was adopted changes no other one's draw.
    ``done`` is how many of the release's cells come before it.
    """

    def draw() -> Drawn:
        advanced(done, of)  # raises nothing: where drawing has begun an exception ends the release
        arrays: dict[str, NDArray[Any]] = {}
        try:
            noted = draw_job(job, SecureChannel(job.loss, definition=definition), arrays)
        except Exception as error:
            if not isinstance(error, TabulariumError):  # the ledger drops all of it but its kind
                _kept_for_its_author(error, home)
            raise
        job.let_go()
        return noted, arrays

    return draw


def _kept_for_its_author(error: Exception, home: Home) -> None:
    """Keep the traceback of a mechanism's error, whatever happens to it."""
    with suppress(Exception):
        file = keep_traceback(error, home)
        if file is not None:
            note(f"a mechanism raised {type(error).__name__}; its traceback stands in {file}")


def drawing_tallies(run: Run, counts: CountsHandle) -> dict[str, Callable[[], Drawn]]:
    """Return the functions that draw tallies, by purpose; see :mod:`tabularium.tasks.unit_tallies`."""
    spec = run.loaded.spec
    assert counts.units is not None  # noqa: S101 - they are counted where there are tallies
    units = read_counts(counts.units, run.installation.secret())

    def drawing(tally: Tally) -> Callable[[], Drawn]:
        loss = spec.privacy.record_budget * tally.share
        return lambda: draw_tally(spec, tally, units, SecureChannel(loss, definition=spec.privacy.definition))

    return {tally.purpose: drawing(tally) for tally in spec.tallies}


def draw_tally(spec: ReleaseSpec, tally: Tally, units: NDArray[np.int64], channel: Channel) -> Drawn:
    """Draw one tally with the full budget of the channel, for one record.

    ``units``: three numbers: of units, of those of them that are cut, and of the records that are left out.
    """
    draw = channel.laplace if channel.definition == "pure" else channel.gaussian
    at = {CUT_UNITS: 1, LEFT_OUT: 2}.get(tally.of, 0)
    noisy = draw(
        units[at : at + 1],
        channel.remaining,
        sensitivity=Fraction(tally.most, spec.privacy.changed_records),
        purpose=tally.purpose,
    )
    meta = {"event": channel.transcript[-1].as_dict(), "insecure": channel.insecure}
    return meta, {"number": noisy}


def draw_job(job: Job, channel: Channel, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Draw one measurement, add its arrays to ``arrays``, and return its notes."""
    measured = job.mechanism.measure(job.counts, channel.grant(job.loss - job.error_loss, job.purpose))
    names = {key: f"{job.purpose}/{key}" for key in measured.arrays}
    arrays |= {names[key]: array for key, array in measured.arrays.items()}
    part: dict[str, Any] = {
        "table": job.table,
        "level": job.level,
        "arrays": names,
        "measured": measured.document(),
    }
    if job.rows is not None:
        part["rows"] = list(job.rows)
    if job.error_loss:
        released = job.mechanism.finish(measured).values
        name = f"error of {job.purpose}"
        totals, event = measure_error(job.counts, released, channel.grant(job.error_loss, name))
        arrays[name] = totals
        part["error"] = {"array": name, "event": event.as_dict()}
    return part


def measure_error(
    counts: NDArray[np.int64], released: NDArray[Any], channel: Channel
) -> tuple[NDArray[np.int64], Event]:
    """Measure Σ|counts - released| in each class, with the full budget of the channel.

    One record changes one of the sums, by 1.

    ``released``: what was released of them, finished only from paid measurements.

    Returns them in parts of 1/256, shape (classes,), with noise; and the event that drew them.
    """
    totals = class_errors(counts, released, total_error)
    draw = channel.laplace if channel.definition == "pure" else channel.gaussian
    noisy = draw(totals, channel.remaining, sensitivity=UNIT, purpose="sum of absolute errors")
    return noisy, channel.transcript[-1]


def _jobs(run: Run, counts: CountsHandle) -> Iterator[Job]:
    """Yield the measurements, table by table and level by level, with their parts of the budget."""
    secret = run.installation.secret()
    for table, level, loss, mechanism in shares(run):
        if level not in counts.tables[table.name]:
            slabbed, positions = counts.slabbed[table.name], place_at(run.loaded, table, level)
            for rows in slabs(level_shapes(table, run.loaded.domains)[level]):
                read = partial(slabbed.at, positions, *rows)
                yield Job(table.name, level, loss, Fraction(0), mechanism, read, rows)
            continue
        true = read_counts(counts.tables[table.name][level], secret)
        possible = run.layouts[table.name].possible(level)
        if possible is not None:  # public: what nobody can be in is no part of what is measured
            true = true[possible]
        error_loss = loss * (table.margin_share or 0)
        yield Job(table.name, level, loss, error_loss, mechanism, partial(_same, true))
    for histogram, loss, mechanism in histogram_shares(run):
        sizes = read_sizes(counts.histograms[histogram.name], secret)
        yield Job(histogram.name, "", loss, Fraction(0), mechanism, partial(_same, sizes))


def _same(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return counts


def shares(run: Run) -> Iterator[tuple[Table, str, Fraction, Mechanism]]:
    """Yield every measurement of the spec with its loss for one record, and its mechanism."""
    losses = run.loaded.spec.losses
    for table in run.loaded.spec.arrays:
        mechanism = build(table.mechanism, **table.parameters)
        for level in table.levels or ("",):
            yield table, level, losses[table.name, level], mechanism


def histogram_shares(run: Run) -> Iterator[tuple[Histogram, Fraction, Mechanism]]:
    """Yield every histogram of the spec with its loss for one record, and its mechanism."""
    spec = run.loaded.spec
    for histogram in spec.histograms:
        mechanism = build(MECHANISM, **{**histogram.parameters, "form": "prevalences"})
        yield histogram, spec.losses[histogram.name, ""], mechanism


def read_measurements(run: Run, handle: MeasuredHandle) -> Parts:
    """Return a measurement, read back and finished, once per run. Sees no true value.

    Raises
    ------
    PublicationError
        If it was drawn with predictable noise.
    """
    return run.once(("measurements", handle), lambda: _read_measurements(run, handle))


def _read_measurements(run: Run, handle: MeasuredHandle) -> Parts:
    stored = run.store.read(handle.measurements_from, handle.fence, digest=handle.digest)
    parts: Parts = {}
    for meta, arrays in join_slabs(run, handle.digest, [(p.meta, p.arrays) for p in stored.parts.values()]):
        name, level = meta["table"], meta["level"]
        part = finish_part(meta, arrays).in_shape(run.layouts.get(name), level)
        parts.setdefault(name, {})[level] = part
    if any(part.measured.insecure for levels in parts.values() for part in levels.values()):
        raise PublicationError(
            "this measurement was drawn from a seeded stream and protects nobody",
            where=f"release {handle.release_id}",
            hint="draw it with the secure channel",
        )
    return parts


def finish_part(part: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Finished:
    """Finish one part of a stored measurement: its notes, and its arrays."""
    by_key = {key: arrays[name] for key, name in part["arrays"].items()}
    measured = Measured.from_document(part["measured"], by_key)
    noted = part.get("error")
    error = None
    if noted is not None:
        totals = tuple(int(total) for total in arrays[noted["array"]])
        error = MeasuredError(totals, Event.from_dict(noted["event"]))
    return Finished(measured, restore(measured).finish(measured), error)


# The slabs of a level, joined in the workspace for several stages. The joined file is named by the digest
# of the measurements, so that those of other measurements are not found.


Part = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""What was noted of a stored part, and its arrays."""


def join_slabs(run: Run, digest: str, parts: Sequence[Part]) -> list[Part]:
    """Return one stored part for each level: slabs are joined.

    ``digest``: of all measurements of the release.

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
        slabs[0] if "rows" not in slabs[0][0] else _joined(run.folder("joined"), digest, slabs, rows[level])
        for level, slabs in levels.items()
    ]


def _joined(folder: Path, digest: str, slabs: list[Part], nodes: int) -> Part:
    first = slabs[0][0]
    measured = [Measured.from_document(meta["measured"], {}) for meta, _ in slabs]
    rows = [(int(low), int(high)) for low, high in (meta["rows"] for meta, _ in slabs)]
    drawn = [event for slab in measured for event in slab.transcript]
    shape = (rows[-1][1], *drawn[0].shape[1:])
    (name,) = first["arrays"]
    consistent = all(replace(event, shape=shape) == replace(drawn[0], shape=shape) for event in drawn)
    if (
        not consistent
        or rows[-1][1] != nodes
        or [low for low, _ in rows] != [0, *(high for _, high in rows[:-1])]
        or [event.shape[0] for event in drawn] != [high - low for low, high in rows]
    ):
        raise PublicationError(
            "the slabs of a level do not fit together",
            where=f"table {first['table']}, level {first['level']}",
            hint="restore the measurements from the backup",
        )
    path = folder / f"{digest}-{first['table']}.{first['level']}.npy"
    if not path.exists():
        aside = path.with_name(f"{path.stem}.{os.getpid()}.npy")
        joined = new_mapped(aside, shape, np.int64)
        for (low, high), (meta, arrays) in zip(rows, slabs, strict=True):
            joined[low:high] = arrays[meta["arrays"][name]]
        aside.replace(path)
    array = np.asarray(np.load(path, mmap_mode="r"))
    insecure = any(part.insecure for part in measured)
    whole_event = replace(drawn[0], shape=shape).as_dict()
    document = {**first["measured"], "transcript": [whole_event], "insecure": insecure}
    return {**first, "measured": document, "arrays": {name: name}}, {name: array}
