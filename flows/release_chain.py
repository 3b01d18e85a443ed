"""The way of a release: from microdata to published tables that are paid for once.

::

    look up in the ledger ─▶ dry run ─▶ read the input ─▶ count ─▶ tally ─▶ reserve budget
                                            │    │                                │
                                  published │    └─ measured: the noise is        │
                                            ▼       drawn, nothing is counted     ▼
                                    check the folder         └──────────────▶  measure
                                                                      │
               rounding ◀── non-negativity ◀── consistency ◀──────────┘
                  │
                  ▼
               margins ─▶ check publication ─▶ publish ─▶ close the charge
                                                  │
               to be reviewed: lay out the draft ─┘ ... an officer accepts ... publish the draft

A revision that is made from an earlier release's measurements takes these instead, and reads no input.

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

from tabularium.ledger.measurement.release_lock import hold
from tabularium.mechanisms.errors import InputError, LedgerError
from tabularium.tasks.check.check import check
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
    open_ledger,
    require_own_input,
    reserve,
)
from tabularium.tasks.margins.margins import find_margins
from tabularium.tasks.measure import measure
from tabularium.tasks.postprocess.stages import make_consistent, make_nonnegative, make_whole
from tabularium.tasks.publish.draft_folder import (
    DraftLocation,
    publish_draft,
    register_draft,
    remove_draft,
    require_accepted,
)
from tabularium.tasks.publish.kept_documents import keep_documents
from tabularium.tasks.publish.period_index import renew_index
from tabularium.tasks.publish.publish import PublishedHandle, publish
from tabularium.tasks.publish.rebuild import is_lost, rebuild
from tabularium.tasks.publish.release_folder import check_release, check_statement, release_folder
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.remake import take_measurements
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Request, Run, opened
from tabularium.tasks.runtime.stage import leaving, stage
from tabularium.tasks.unit_tallies import afford_tallies, check_tallies, tally
from tabularium.tasks.validate import validate
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.spec.load import Loaded
from tabularium.validations.suites.expectations import suites_beside


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

    Parameters
    ----------
    loaded
        Its spec, where this process has read it already.

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
        failure = leaving(error, "run")
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
                _see_accepted(run)
            if charge.state != "published":
                return None
            return _already(run, charge)
    except Exception as error:
        failure = leaving(error, "run")
    raise failure


def rebuild_lost(request: Request, loaded: Loaded, place: Path) -> None:
    """Make the lost folder of a published release anew, where it was published. No data are opened.

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
            with open_ledger(run) as ledger, hold(ledger, run.release_id):
                charge = look_up(run)
                today = Path(os.path.realpath(release_folder(run, charge.release_id)))
                if today != Path(os.path.realpath(place)):
                    raise InputError(
                        f"the spec publishes into {today.parents[2]} today, and this was published elsewhere",
                        where=str(place),
                        hint="give the spec of then, in the folder in which it lay",
                    )
                if not is_lost(run, charge):
                    raise InputError(
                        "lies there by now, or its certificate is not kept at home",
                        where=str(place),
                        hint="see tabularium doctor --account-for",
                    )
                _rebuild(run, charge)
                _offer(run, charge)
                return
    except Exception as error:
        failure = leaving(error, "run")
    raise failure


def _release(run: Run) -> Outcome:
    with open_ledger(run) as ledger, hold(ledger, run.release_id):
        charge = look_up(run)
        if is_lost(run, charge):
            rebuilt = _rebuild(run, charge)
            if not charge.drafted:
                _offer(run, charge)
                return _outcome("already published", charge, rebuilt)
        elif charge.state == "published":
            return _already(run, charge)
        if charge.drafted:
            return _reviewed(run, charge)
        with suites_beside():
            return _publish(run, charge)


@stage("read the input", of_stages=True)
def read_input(run: Run, charge: ChargeHandle) -> InputHandle:
    """Ingest the input, see that it is the charge's own, and judge it by the rules if it is to be counted."""
    source = ingest(run)
    require_own_input(run, charge, source)
    if not charge.drawn:
        check_tallies(run, charge, source)
        validate(run, source)
    return source


def _publish(run: Run, charge: ChargeHandle) -> Outcome:
    if not charge.drawn:
        dry_run(run)
    measured, tallied, theirs = _measured(run, charge)
    consistent, base = make_consistent(run, measured)
    nonnegative = make_nonnegative(run, consistent)
    whole = make_whole(run, nonnegative)
    margins = find_margins(run, measured, consistent, base, whole)
    checked = check(run, whole, margins)
    published = publish(run, measured, tallied or theirs, whole, margins, checked)
    if run.loaded.spec.publication.review is not None:
        keep_documents(run, charge.release_id, published.folder)
        register_draft(run, measured, tallied, published.certificate)
        return _reviewed(run, charge)
    if tallied is not None:
        close(run, tallied, published.certificate)
    keep_documents(run, charge.release_id, published.folder)
    close(run, measured, published.certificate, published.statement, published.signed_by)
    _offer(run, charge)
    return _outcome("published", charge, published)


def _measured(
    run: Run, charge: ChargeHandle
) -> tuple[MeasuredHandle, MeasuredHandle | None, MeasuredHandle | None]:
    """Return the measurement, and the tallies: the release's own, or those of the one it is made from."""
    if run.loaded.spec.measurements_of is not None:
        measured, theirs = take_measurements(run)
        return measured, None, theirs
    if not charge.drawn:
        afford_tallies(run, charge)
    source = read_input(run, charge)
    counts = None if charge.drawn else count(run, source)
    tallied = tally(run, charge, source, counts)
    if not charge.drawn:
        reserve(run, charge, source)
    return measure(run, charge, counts), tallied, None


def _outcome(status: str, charge: ChargeHandle, found: PublishedHandle) -> Outcome:
    return Outcome(status, charge.release_id, found.folder, found.certificate, found.statement)


def _reviewed(run: Run, charge: ChargeHandle) -> Outcome:
    """Publish the draft if an officer has accepted it, else raise ``AwaitingReview``."""
    _see_accepted(run)
    certificate = publish_draft(run)
    folder = DraftLocation.of(run.installation, charge.release_id).release
    with open_ledger(run) as ledger:
        entry = ledger.charge(charge.release_id)
    found = PublishedHandle(folder, certificate, None if entry is None else entry.statement)
    return _outcome("published", charge, found)


def _see_accepted(run: Run) -> None:
    """Raise ``AwaitingReview`` if no officer has accepted the draft."""
    with open_ledger(run) as ledger:
        require_accepted(run.installation, ledger, run.release_id)


def _rebuild(run: Run, charge: ChargeHandle) -> PublishedHandle:
    """Make the lost folder of a release or of its draft anew from what is stored; no input is needed."""
    own = run.loaded.spec.measurements_of is None
    measured = measure(run, charge, None) if own else take_measurements(run)[0]
    consistent, base = make_consistent(run, measured)
    whole = make_whole(run, make_nonnegative(run, consistent))
    margins = find_margins(run, measured, consistent, base, whole)
    rebuilt = rebuild(run, measured, whole, margins, check(run, whole, margins))
    what = "draft" if charge.drafted else "published folder"
    note(f"the {what} was gone; it was made anew, every byte as it was")
    return rebuilt


def _offer(run: Run, charge: ChargeHandle) -> None:
    """Say beside a published release which one of its period is current; refuse one that was withdrawn."""
    with open_ledger(run) as ledger:
        renew_index(ledger, release_folder(run, charge.release_id).parent)
        withdrawn = ledger.withdrawal(charge.release_id)
    if withdrawn is not None:
        raise LedgerError(
            f"this release was withdrawn on {withdrawn.at[:10]}: {withdrawn.reason}",
            where=f"release {charge.release_id}",
            hint="publish a revision (--revises REASON), which is a new charge",
        )


def _already(run: Run, charge: ChargeHandle) -> Outcome:
    """Find the release that the ledger calls published, and see that it is still whole and of this input.

    What was reviewed was published from its draft alone, what was remade from the measurements of an earlier
    one, and the input may be gone.
    """
    _offer(run, charge)
    spec = run.loaded.spec
    if spec.publication.review is None and spec.measurements_of is None:
        read_input(run, charge)
    folder = release_folder(run, charge.release_id)
    with open_ledger(run) as ledger:
        entry = ledger.charge(charge.release_id)
    digest = check_release(folder, charge.release_id)
    statement = None if entry is None else entry.statement
    check_statement(folder, statement)
    verify_certificate(folder / CERTIFICATE, entry)
    keep_documents(run, charge.release_id, folder)
    remove_draft(run.installation, charge.release_id)
    return _outcome("already published", charge, PublishedHandle(str(folder), digest, statement))
