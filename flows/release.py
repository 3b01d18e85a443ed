"""The main flow as Prefect runs it; what it does stands in :mod:`tabularium.flows.release_chain`.

A failing report to Prefect (tags, artifacts, events) ends no run: the ledger and the published folder
are what counts.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import cast

from prefect import flow
from prefect.logging import get_run_logger

from tabularium.flows.operations.periods import of_this_run
from tabularium.flows.operations.prefect_limits import limit_prefect
from tabularium.flows.operations.reporting.announcements import (
    announce_low_budget,
    announce_published,
    announce_refused,
    announce_suspended,
    tag_run,
    telling,
)
from tabularium.flows.operations.reporting.artifacts import progress_shown, show_release
from tabularium.flows.operations.waiting import (
    enter,
    last_entry,
    one_line_for_each_failure,
    state_for,
    until_the_server_answers,
)
from tabularium.flows.release_chain import release_tables
from tabularium.ledger.records import EMPTY, Head
from tabularium.mechanisms.errors import DataRefused, RunRefused, TabulariumError
from tabularium.tasks.arrival import drop_outcomes
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import stopping
from tabularium.tasks.runtime.run import Request, hand_back, handed_over, load
from tabularium.tasks.runtime.stage import public_error, sanitised
from tabularium.validations.release_spec.load import Loaded

limit_prefect()


@flow(name="tabularium-release", persist_result=False, log_prints=False)
def release(
    spec: str,
    source: str | None = None,
    period: str | int | None = None,
    home: str | None = None,
    revises: str | None = None,
    timezone: str = "UTC",
    same_input: bool = False,
    measurements_of: str | None = None,
    cron: str | None = None,
) -> dict[str, str | None]:
    """Publish what the spec at ``spec`` asks for; doing it again changes and costs nothing.

    Where it is not approved, or something that it needs is busy or missing, the run of a deployment waits
    (:mod:`tabularium.flows.operations.waiting`); what is refused fails with one line.

    Parameters
    ----------
    spec
        Path of the release spec (YAML).
    source, period
        Instead of the spec's own source or period. The period may be a template that is filled in from when
        the run was scheduled: see :mod:`tabularium.flows.operations.periods`.
    home
        Home of the installation; default TABULARIUM_HOME or ``~/.tabularium``.
    revises
        Why what was published before is published again.
    timezone
        The time zone of the days and months of a period.
    same_input
        Whether the input may be one that was released for another period of the product.
    measurements_of
        The earlier release from whose measurements a revision is made, without data and free.
    cron
        The schedule of the deployment, for times that clocks skip.

    Returns
    -------
    dict
        ``status``, ``release_id``, ``folder``, ``certificate`` and ``statement``: SHA-256 of each, and none
        of a statement where the release is unsigned.
    """
    stopping.listen_again()
    one_line_for_each_failure()
    request, loaded, seen = None, None, EMPTY
    try:
        when = of_this_run(period, timezone, cron)
        request = Request.of(
            *(spec, source, when, home, revises), same_input=same_input, measurements_of=measurements_of
        )
        seen = last_entry(Home(Path(request.home)))
        loaded = handed_over(request) or load(request)
        drop_outcomes.started(Home(Path(request.home)), request.source)
        product, of_period = loaded.spec.product, loaded.spec.period
        with telling():
            tag_run(product, of_period)
        with progress_shown(product):
            outcome = release_tables(request, loaded)
        drop_outcomes.finished(Home(Path(request.home)), request.source, "published")
    except Exception as error:  # the text of any other's may quote data
        failure = public_error(error, "run")
    else:
        until_the_server_answers()
        with telling():
            if outcome.status == "published":
                announce_published(product, of_period, outcome.release_id, outcome.folder)
                announce_low_budget(Home(Path(request.home)), loaded.spec.dataset)
            show_release(outcome, Home(Path(request.home)))
        return hand_back(request, asdict(outcome))
    if not isinstance(failure, TabulariumError):  # somebody asked this process to stop
        raise failure
    return _stopped(failure, request, loaded, seen)


def _stopped(
    failure: TabulariumError, request: Request | None, loaded: Loaded | None, seen: Head
) -> dict[str, str | None]:
    """Have the run wait, which ends its process, or return its failed state."""
    until_the_server_answers()
    state = state_for(failure, request, loaded, seen)
    about = ("", "") if loaded is None else (loaded.spec.product, loaded.spec.period)
    line = state.message or ""
    if state.is_paused():
        with telling():
            announce_suspended(*about, line)
    if request is not None and not state.is_failed():
        enter(state, Home(Path(request.home)))
    if request is not None:
        refused = isinstance(failure, DataRefused | RunRefused)
        try:
            ending: drop_outcomes.Ending = "refused" if refused else "failed"
            name = getattr(failure, "run", "")
            drop_outcomes.finished(Home(Path(request.home)), request.source, ending, run=name)
        except Exception as error:  # what the run failed by may keep this from being written down, too
            message = sanitised(error, "arrivals").line()
            get_run_logger().warning("how the run of the drop ended is not written down: %s", message)
    if loaded is not None:
        with telling():
            announce_refused(*about, line)
    # Prefect takes a state instead of what a run returns.
    return cast("dict[str, str | None]", state)
