"""The main flow: from microdata to a published, paid-for, repeatable release.

::

    ingest ─▶ enquire at the ledger ─▶ validate microdata ─▶ count ─▶ reserve budget ─▶ release
                 │        │                                                                │
       published │        └─ measured: the noise is drawn, the data stay closed ───────────┤
                 ▼                                                                         ▼
         check the folder                        rounding ◀─ non-negativity ◀─ consistency
                                                    │
                                                    ▼
                               validate publication ─▶ margins ─▶ publish ─▶ close the charge

One flow, many tasks. Handles travel between tasks, never data. Retries and re-runs are safe: every stage
is idempotent on its handle and the release stage on the ledger's state.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from prefect import flow

from ledger.measurement.release_lock import hold
from mechanisms.errors import PublicationError, TabulariumError
from tasks.charge import ChargeHandle, check_account, close, enquire, open_books, release_id, reserve
from tasks.check.check_publication import judge
from tasks.count import CountsHandle
from tasks.margins.margins import make_margins_stage
from tasks.measure import measure, rehearse
from tasks.postprocess.nonnegativity_stage import make_nonnegative_stage
from tasks.postprocess.rounding_stage import make_whole_stage
from tasks.postprocess.stages import make_consistent_stage, rehearse_agreement
from tasks.publish.publish import check_folder, publish
from tasks.publish.release_folder import check_release, release_folder
from tasks.runtime.home import Home
from tasks.runtime.progress import note, stopping
from tasks.runtime.run import Run
from tasks.runtime.stage import sanitised
from tasks.runtime.stages import count, ingest, validate
from tasks.runtime.workspace import Workspace

Call = Callable[..., Any]


@dataclass(frozen=True)
class Outcome:
    """What a run ended with."""

    status: str  # "published" or "already published"
    release_id: str
    folder: str
    certificate: str


@flow(name="tabularium-release", persist_result=False, log_prints=False)
def release(
    spec: str, source: str | None = None, period: str | None = None, home: str | None = None
) -> dict[str, str]:
    """Publish what the spec at ``spec`` asks for; doing it again changes and costs nothing.

    Parameters
    ----------
    spec
        Path of the release spec (YAML).
    source, period
        Instead of the spec's own source or period.
    home
        Home of the installation; default TABULARIUM_HOME or ``~/.tabularium``.

    Returns
    -------
    dict
        ``status``, ``release_id``, ``folder`` and ``certificate`` (its SHA-256).
    """
    stopping.listen_again()
    return asdict(run_chain(lambda stage, *names: stage(*names), spec, source, period, home))


def run_chain(call: Call, spec: str, source: str | None, period: str | None, home: str | None) -> Outcome:
    """Run the stages through ``call(stage, *handles)``: as Prefect tasks, or plainly without an engine.

    Raises
    ------
    TabulariumError
        Whatever went wrong, in one line without data. The workspace is gone by then.
    """
    try:
        return _run_chain(call, spec, source, period, home)
    except Exception as error:
        failure = sanitised(error, "run")
    raise failure


def _run_chain(call: Call, spec: str, source: str | None, period: str | None, home: str | None) -> Outcome:
    forbid_core_files()
    before = os.umask(0o077)
    try:
        return _in_workspace(call, spec, source, period, home)
    finally:
        os.umask(before)


def forbid_core_files() -> None:
    """Have a crash of this process leave no image of its memory, which holds microdata."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _in_workspace(call: Call, spec: str, source: str | None, period: str | None, home: str | None) -> Outcome:
    installation = Home.at(home)
    workspace = Workspace.create(installation)
    run = Run(os.path.abspath(spec), source, period, str(installation.path), str(workspace.path))  # noqa: PTH100
    keep = False
    try:
        keep = run.loaded.spec.workspace.keep
        with workspace.temporary_files_inside():
            check_account(run)
            return _from_input(call, run)
    finally:
        if keep:
            workspace.keep()
            note(f"the secure workspace is kept and holds microdata: {workspace.path}")
        elif not workspace.remove():
            note(f"the secure workspace could not be removed; the next run tries again: {workspace.path}")


def _from_input(call: Call, run: Run) -> Outcome:
    handle = call(ingest, run)
    name = release_id(run.loaded.spec, run.loaded.digest, handle.digest)
    with open_books(run) as books, hold(books, name):
        charge: ChargeHandle = call(enquire, run, handle)
        if charge.state == "published":
            return _already(run, charge)
        counts: CountsHandle | None = None
        if not charge.measured:
            check_folder(run)
            rehearse(run)
            rehearse_agreement(run)
            call(validate, run, handle)
            counts = call(count, run, handle)
        call(reserve, run, charge)
        return _from_measurement(call, run, charge, counts)


def _from_measurement(call: Call, run: Run, charge: ChargeHandle, counts: CountsHandle | None) -> Outcome:
    measured = call(measure, run, charge, counts)
    estimates = call(make_consistent_stage, run, measured)
    estimates = call(make_nonnegative_stage, run, estimates)
    estimates = call(make_whole_stage, run, estimates)
    estimates = call(judge, run, estimates)
    call(make_margins_stage, run, measured, estimates)
    published = call(publish, run, measured, estimates)
    call(close, run, measured.release_id, measured.fence, published.certificate)
    return Outcome("published", measured.release_id, published.folder, published.certificate)


def _already(run: Run, charge: ChargeHandle) -> Outcome:
    """Find the release that the ledger calls published, and see that it is still whole."""
    folder = release_folder(run, charge.release_id)
    with open_books(run) as books:
        entry = books.charge(charge.release_id)
    try:
        digest = check_release(folder, charge.release_id)
    except TabulariumError as error:
        failure = error
    else:
        if entry is not None and digest == entry.publication_digest:
            return Outcome("already published", charge.release_id, str(folder), digest)
        failure = PublicationError(
            "the certificate differs from the one the ledger knows",
            where=str(folder),
            mend="restore the folder from a copy",
        )
    raise failure
