"""Upkeep as Prefect runs it, night by night; what is done stands in
:mod:`tabularium.tasks.custody.restore`.

Whatever fails, fails with one line, and an event ``tabularium.upkeep.failed`` that an automation can mail.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from prefect import flow
from prefect.states import Completed, Failed

from tabularium.flows.operations.names_in_prefect import of_inbox, of_product
from tabularium.flows.operations.prefect_limits import limit_prefect
from tabularium.flows.operations.reporting.announcements import emit
from tabularium.flows.operations.reporting.overdue import overdue
from tabularium.flows.operations.waiting import one_line_for_each_failure
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.custody.restore import drill_restore, sweep_workspaces, verify_and_export
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.stage import sanitised

limit_prefect()


@flow(name="verify-ledger", persist_result=False, log_prints=False)
def verify_ledger(home: str | None = None, export_to: str | None = None) -> str:
    """Walk the whole chain, and write its export to a second site.

    Parameters
    ----------
    home
        Home of the installation; default TABULARIUM_HOME or ``~/.tabularium``.
    export_to
        Folder for the exports; it must be there. Without one nothing is exported.
    """
    target = None if export_to is None else Path(export_to)
    return _reported("verify-ledger", lambda: verify_and_export(Home.found(home), target))


@flow(name="restore-drill", persist_result=False, log_prints=False)
def restore_drill(home: str | None = None, export_to: str | None = None) -> str:
    """Put the newest export into a scratch database, and see that it is the ledger.

    Parameters
    ----------
    home
        Home of the installation.
    export_to
        Where the exports are; without it one is made for the drill.
    """
    target = None if export_to is None else Path(export_to)
    return _reported("restore-drill", lambda: drill_restore(Home.found(home), target))


@flow(name="sweep-workspaces", persist_result=False, log_prints=False)
def sweep(home: str | None = None) -> str:
    """Remove the workspaces of runs that died.

    ``home``: home of the installation.
    """
    return _reported("sweep-workspaces", lambda: sweep_workspaces(Home.at(home)))


@flow(name="tell-overdue", persist_result=False, log_prints=False)
def tell_overdue(home: str | None = None) -> str:
    """Tell of releases that should have been published, and of data that should have arrived, each day.

    ``home``: home of the installation.
    """
    return _reported("tell-overdue", lambda: _tell_overdue(Home.at(home)))


def _tell_overdue(home: Home) -> str:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        missing = overdue(client, home, datetime.now(UTC))
    for release in missing:
        about = {"product": release.product, "period": release.period, "since": release.since.isoformat()}
        if release.inbox:
            emit("tabularium.data.overdue", of_inbox(release.product), **about)
        else:
            emit("tabularium.release.overdue", of_product(release.product), **about)
    return f"overdue: {'; '.join(release.line() for release in missing)}" if missing else "nothing is overdue"


def _reported(name: str, work: Callable[[], str]) -> str:
    """Do the work. Prefect takes a state instead of what a flow returns; its line is what the UI shows."""
    failure: TabulariumError
    one_line_for_each_failure()
    try:
        return cast("str", Completed(message=work()))
    except Exception as error:
        failure = sanitised(error, name)
    emit("tabularium.upkeep.failed", f"tabularium.upkeep.{name}", what=failure.line())
    return cast("str", Failed(message=failure.line()))
