"""The chain of stages of a release, from microdata to published tables.

::

    look up in the ledger ─┬─ published ─────────── its folder is there ─▶ check it, and its input
                           │                        its folder is lost ──▶ rebuild it
                           ├─ a draft ───────────── its folder is lost ──▶ rebuild it first
                           │                        an officer accepts ──▶ publish the draft
                           └─ new, or unfinished ─▶ dry run
                                                       │
          of an earlier release's measurements ┌───────┴────────┐ of an input
                                               ▼                ▼
                          take the stored measurements      read the input ─▶ count ─▶ tally ─▶ reserve budget
                                               │                │ measured: the noise is drawn      │
                                               │                ▼                                   │
                                               │             measure  ◀─────────────────────────────┘
                                               ▼                │
          consistency ─▶ non-negativity ─▶ rounding ─▶ margins ─▶ check publication   (to rebuild, too)
                                                                │
                                                                ▼
                 to be reviewed: lay out the draft ◀──────── publish ─▶ close the charge

*Read the input* is ingesting it, comparing it with the one that is bound, and validating it. Prefect
sees one task: as several, the one that failed would reveal whether the data are the same as before.

Inside a Prefect flow every stage is a task of it; elsewhere the same stages are plain calls. Handles travel
between them, never data. What is to be reviewed ends its run as a draft, its workspace gone: a later run, or
the same one resumed, reads no input and publishes the bytes that were accepted. Doing it again is safe: every
stage is idempotent on its handle, and measuring on the ledger's state.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tabularium.ledger.measurement.release_lock import GLANCE, hold
from tabularium.mechanisms.errors import InputError, LedgerError
from tabularium.tasks.count.count import count
from tabularium.tasks.dry_run import dry_run
from tabularium.tasks.ingest.ingest import InputHandle, ingest
from tabularium.tasks.ledger_stages import (
    ChargeHandle,
    MeasuredHandle,
    check_account,
    close,
    find_charge,
    look_up,
    require_own_input,
    reserve,
)
from tabularium.tasks.measure import measure
from tabularium.tasks.postprocess.estimation import (
    check,
    find_margins,
    make_consistent,
    make_nonnegative,
    make_whole,
)
from tabularium.tasks.publish.documents import keep_documents
from tabularium.tasks.publish.draft_folder import (
    DraftLocation,
    publish_draft,
    register_draft,
    remove_draft,
    require_accepted,
)
from tabularium.tasks.publish.period_index import renew_index
from tabularium.tasks.publish.publish import PublishedHandle, is_lost, publish, rebuild
from tabularium.tasks.publish.release_folder import (
    check_release,
    check_statement,
    published_in,
    release_folder,
)
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.remake import take_measurements
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Request, Run, opened
from tabularium.tasks.runtime.stage import public_error, stage
from tabularium.tasks.unit_tallies import afford_tallies, check_tallies, tally
from tabularium.tasks.validate import validate
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.suites.expectations import suites_apart


@dataclass(frozen=True)
class Outcome:
    """What a run ended with.

    Attributes
    ----------
    status
        ``published`` or ``already published``.
    certificate, statement
        SHA-256 of each; of an unsigned release there is no statement.
    """

    status: str
    release_id: str
    folder: str
    certificate: str
    statement: str | None = None


def release_tables(request: Request, loaded: Loaded | None = None) -> Outcome:
    """Publish what a spec asks for; doing it again changes and costs nothing.

    ``loaded``: its spec, where this process has read it already.

    Raises
    ------
    AwaitingReview
        If the release is laid out as a draft, and no officer has accepted it yet.
    TabulariumError
        Whatever went wrong, in one line without data; inside a flow, of data that were refused only that.
        The workspace is gone by then.
    """
    try:
        with opened(request, loaded) as run:
            check_account(run)
            return _release(run)
    except Exception as error:
        failure = public_error(error, "run")
    raise failure


def find_published(request: Request, loaded: Loaded) -> Outcome | None:
    """Return the release if it is published already; refuse what would be refused, before anything starts.

    Raises
    ------
    TabulariumError
        As ``release_tables``.
    """
    try:
        with opened(request, loaded, to_publish=False) as run:
            check_account(run)
            charge = find_charge(run)
            if is_lost(run, charge):
                return None
            if charge.drafted:
                _require_accepted(run)
            if charge.state != "published":
                return None
            return _already(run, charge)
    except Exception as error:
        failure = public_error(error, "run")
    raise failure


def rebuild_lost(request: Request, loaded: Loaded, folder: Path) -> None:
    """Rebuild the lost folder of a published release where it was published. No data are opened.

    Raises
    ------
    InputError
        The spec publishes elsewhere today, or what was kept of the release does not suffice.
    TabulariumError
        As ``release_tables``; of one that was withdrawn, after its folder was made.
    """
    try:
        with opened(request, loaded, to_publish=False) as run:
            check_account(run)
            with hold(run.ledger, run.release_id):
                charge = look_up(run)
                today = Path(os.path.realpath(release_folder(run, charge.release_id)))
                if today != Path(os.path.realpath(folder)):
                    raise InputError(
                        f"the spec publishes into {today.parents[2]} today, and this was published elsewhere",
                        where=str(folder),
                        hint="give the spec of then, in the folder in which it lay",
                    )
                if not is_lost(run, charge):
                    raise InputError(
                        "is there by now, or its certificate is not kept at home",
                        where=str(folder),
                        hint="see tabularium doctor --account-for",
                    )
                _rebuild(run, charge)
                _offer(run, charge)
                return
    except Exception as error:
        failure = public_error(error, "run")
    raise failure


def _release(run: Run) -> Outcome:
    with hold(run.ledger, run.release_id, wait=GLANCE):
        charge = look_up(run)
        match charge.state, charge.drafted, is_lost(run, charge):
            case "published", _, False:
                return _already(run, charge)
            case "published", _, True:
                _require_gone(run, charge)
                rebuilt = _rebuild(run, charge)
                _offer(run, charge)
                return _outcome("already published", charge, rebuilt)
            case _, True, lost:
                if lost:
                    _rebuild(run, charge)
                return _reviewed(run, charge)
            case _:
                with suites_apart():
                    return _publish(run, charge)


@stage("read the input", composite=True)
def read_input(run: Run, charge: ChargeHandle) -> InputHandle:
    """Ingest the input, see that it is the charge's own, and judge it by the rules if it is to be counted."""
    source = ingest(run)
    require_own_input(run, charge, source)
    if not charge.drawn:
        check_tallies(run, charge, source)
        validate(run, source)
    return source


STAGES = (
    *(look_up, dry_run, read_input, count, tally, reserve, measure),
    *(make_consistent, make_nonnegative, make_whole, find_margins, check, publish, close),
)
"""The stages of a release that is made from its input, in their order."""


def _publish(run: Run, charge: ChargeHandle) -> Outcome:
    """Publish a release, or lay out its draft: what is new, and what an earlier run left unfinished."""
    spec = run.loaded.spec
    if not charge.drawn:
        dry_run(run)
    if spec.measurements_of is None:
        measured, tallied = _measure(run, charge)
        to_close = tallied
    else:
        measured, tallied = take_measurements(run)
        to_close = None
    _estimate(run, measured)
    published = publish(run, measured, tallied)
    if spec.publication.review is not None:
        keep_documents(run, charge.release_id, published.folder)
        register_draft(run, measured, to_close, published.certificate)
        return _reviewed(run, charge)
    if to_close is not None:
        close(run, to_close, published.certificate)
    keep_documents(run, charge.release_id, published.folder)
    close(run, measured, published.certificate, published.statement, published.signed_by)
    _offer(run, charge)
    return _outcome("published", charge, published)


def _measure(run: Run, charge: ChargeHandle) -> tuple[MeasuredHandle, MeasuredHandle | None]:
    """Return the measurement of the input, and its tallies."""
    if not charge.drawn:
        afford_tallies(run, charge)
    source = read_input(run, charge)
    counts = None if charge.drawn else count(run, source)
    tallied = tally(run, charge, source, counts)
    if not charge.drawn:
        reserve(run, charge, source)
    return measure(run, charge, counts), tallied


def _estimate(run: Run, measured: MeasuredHandle) -> None:
    """Take the measurements through all stages to what is published."""
    make_consistent(run, measured)
    make_nonnegative(run, measured)
    make_whole(run, measured)
    find_margins(run, measured)
    check(run, measured)


def _outcome(status: str, charge: ChargeHandle, published: PublishedHandle) -> Outcome:
    return Outcome(status, charge.release_id, published.folder, published.certificate, published.statement)


def _reviewed(run: Run, charge: ChargeHandle) -> Outcome:
    """Publish the draft if an officer has accepted it, else raise ``AwaitingReview``."""
    _require_accepted(run)
    certificate = publish_draft(run)
    folder = DraftLocation.of(run.installation, charge.release_id).release
    entry = run.ledger.charge(charge.release_id)
    published = PublishedHandle(folder, certificate, None if entry is None else entry.statement)
    return _outcome("published", charge, published)


def _require_accepted(run: Run) -> None:
    """Raise ``AwaitingReview`` if no officer has accepted the draft."""
    require_accepted(run.installation, run.ledger, run.release_id)


def _rebuild(run: Run, charge: ChargeHandle) -> PublishedHandle:
    """Rebuild the lost folder of a release or of its draft from what is stored; no input is needed."""
    remade = run.loaded.spec.measurements_of is not None
    measured = take_measurements(run)[0] if remade else measure(run, charge, None)
    _estimate(run, measured)
    rebuilt = rebuild(run, measured)
    what = "draft" if charge.drafted else "published folder"
    note(f"the {what} was gone; it was made again, byte for byte")
    return rebuilt


def _require_gone(run: Run, charge: ChargeHandle) -> None:
    """Refuse a second copy of a release that lies where it was published: a withdrawal would reach one."""
    base = published_in(run.installation, charge.release_id)
    there = None if base is None else base / Path(*release_folder(run, charge.release_id).parts[-3:])
    if there is not None and there.is_dir():
        raise InputError(
            f"this release lies in {base}, where it was published",
            where="publication.folder",
            hint="name that folder again, or move all that is published in it to the new one",
        )


def _offer(run: Run, charge: ChargeHandle) -> None:
    """Note next to a published release which one of its period is current; refuse one that was withdrawn."""
    renew_index(run.ledger, release_folder(run, charge.release_id).parent)
    withdrawn = run.ledger.withdrawal(charge.release_id)
    if withdrawn is not None:
        raise LedgerError(
            f"this release was withdrawn on {withdrawn.at[:10]}: {withdrawn.reason}",
            where=f"release {charge.release_id}",
            hint="publish a revision (--revises REASON), which is a new charge",
        )


def _already(run: Run, charge: ChargeHandle) -> Outcome:
    """Find the release that the ledger calls published, and see that it is still whole and of this input.

    What was reviewed was published only from its draft, what was remade from the measurements of an earlier
    one, and the input may be gone.
    """
    _offer(run, charge)
    spec = run.loaded.spec
    if spec.publication.review is None and spec.measurements_of is None:
        read_input(run, charge)
    folder = release_folder(run, charge.release_id)
    entry = run.ledger.charge(charge.release_id)
    digest = check_release(folder, charge.release_id)
    statement = None if entry is None else entry.statement
    check_statement(folder, statement)
    verify_certificate(folder / CERTIFICATE, entry)
    keep_documents(run, charge.release_id, folder)
    remove_draft(run.installation, charge.release_id)
    return _outcome("already published", charge, PublishedHandle(str(folder), digest, statement))
