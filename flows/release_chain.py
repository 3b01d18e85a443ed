"""The way of a release: from microdata to published tables that are paid for once.

::

    ingest ─▶ look up in the ledger ─▶ dry run ─▶ validate microdata ─▶ count ─▶ tally ─▶ reserve budget
                 │              │                                                               │
       published │              └─ measured: the noise is drawn, the data stay closed           │
                 ▼                                                    ▼                         ▼
         check the folder                                          measure ◀────────────────────┘
                                                                      │
               rounding ◀── non-negativity ◀── consistency ◀──────────┘
                  │
                  ▼
               margins ─▶ check publication ─▶ publish ─▶ close the charge

Inside a Prefect flow every stage is a task of it; elsewhere the same stages are plain calls. Handles travel
between them, never data. Doing it again is safe: every stage is idempotent on its handle, and measuring on
the ledger's state.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.measurement.release_lock import hold
from tasks.check.check import check
from tasks.count.count import count
from tasks.dry_run import dry_run
from tasks.ingest.ingest import InputHandle, ingest
from tasks.ledger_stages import ChargeHandle, check_account, close, find_charge, look_up, open_ledger, reserve
from tasks.margins.margins import find_margins
from tasks.measure import measure
from tasks.postprocess.stages import make_consistent, make_nonnegative, make_whole
from tasks.publish.publish import publish
from tasks.publish.release_folder import CERTIFICATE, check_release, release_folder
from tasks.publish.verify_certificate import verify_certificate
from tasks.runtime.run import Request, Run, opened
from tasks.runtime.stage import leaving
from tasks.unit_tallies import check_tallies, tally
from tasks.validate import validate
from validations.spec.load import Loaded
from validations.suites.suite_process import suites_beside


@dataclass(frozen=True)
class Outcome:
    """What a run ended with.

    Attributes
    ----------
    status
        ``published`` or ``already published``.
    certificate
        Its SHA-256.
    """

    status: str
    release_id: str
    folder: str
    certificate: str


def release_tables(request: Request, loaded: Loaded | None = None) -> Outcome:
    """Publish what a spec asks for; doing it again changes and costs nothing.

    Parameters
    ----------
    loaded
        Its spec, where this process has read it already.

    Raises
    ------
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
            if find_charge(run).state != "published":
                return None
            return _already(run, look_up(run, ingest(run)))
    except Exception as error:
        failure = leaving(error, "run")
    raise failure


def _release(run: Run) -> Outcome:
    source = ingest(run)
    with open_ledger(run) as ledger, hold(ledger, run.release_id):
        charge = look_up(run, source)
        if charge.state == "published":
            return _already(run, charge)
        with suites_beside():
            return _publish(run, source, charge)


def _publish(run: Run, source: InputHandle, charge: ChargeHandle) -> Outcome:
    counts = None
    if not charge.drawn:
        check_tallies(run, charge, source)
        dry_run(run)
        validate(run, source)
        counts = count(run, source)
    tallied = tally(run, charge, source, counts)
    if not charge.drawn:
        reserve(run, charge, source)
    measured = measure(run, charge, counts)
    consistent, base = make_consistent(run, measured)
    nonnegative = make_nonnegative(run, consistent)
    whole = make_whole(run, nonnegative)
    margins = find_margins(run, measured, consistent, base, whole)
    checked = check(run, whole, margins)
    published = publish(run, measured, tallied, whole, margins, checked)
    if tallied is not None:
        close(run, tallied, published.certificate)
    close(run, measured, published.certificate)
    return Outcome("published", charge.release_id, published.folder, published.certificate)


def _already(run: Run, charge: ChargeHandle) -> Outcome:
    """Find the release that the ledger calls published, and see that it is still whole."""
    folder = release_folder(run, charge.release_id)
    with open_ledger(run) as ledger:
        entry = ledger.charge(charge.release_id)
    digest = check_release(folder, charge.release_id)
    verify_certificate(folder / CERTIFICATE, entry)
    return Outcome("already published", charge.release_id, str(folder), digest)
