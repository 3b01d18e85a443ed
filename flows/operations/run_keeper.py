"""Runs whose process died, and runs whose officer has decided: found by the watcher, several times a minute.

A process that is killed says nothing more; without this its run would be Running for ever and keep a place
of the pool. Prefect's own remedy is an automation that waits in vain for heartbeats. But it hears of a
run's states by events, which may come late or get lost while its database is busy, and would take a run that
waits for an officer for a dead one. This asks for the state itself. The server refuses to mark a run that
has ended, so that nothing which comes late does harm.

::

    Running ──no heartbeat──▶ Crashed ──a pause──▶ Restarting ──▶ Pending ──▶ Running, from the beginning
    Pending ──no start──────▶ Crashed                (the same run: its parameters and its period stay)
    Cancelling ──no end─────▶ Cancelled
                             Crashed ──too often──▶ Failed

Starting again is safe, and so is doing it to a run that was only slow: the ledger lets one process work on a
release and knows what is paid and drawn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tabularium.flows.operations.names_in_prefect import TAG
from tabularium.flows.operations.prefect_api import runs_of
from tabularium.flows.operations.waiting import Pauses, resume_decided
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.stage import sanitised

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

#: How long a run may say nothing before it counts as dead: three heartbeats.
SILENCE = timedelta(seconds=90)
#: What such a run says.
SILENT = "no sign of life: its process or its worker died"
#: Before a run starts again, however it died, also one that dies before it is Running: in all some two hours.
AFTER_CRASHES = Pauses(8, 600, most=19)
#: Begins what a run says that is not started again.
GIVEN_UP = "given up: its process died"
_AGAIN = "started again after its process died"
_LATELY = timedelta(hours=12)
_EVERY_SECONDS = 15.0


def watch_stale_runs(home: Home, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Look again and again until ``stop`` is set; while the server does not answer, that is said once."""
    import httpx
    from prefect.client.orchestration import get_client

    said, since = "", time.monotonic()
    while not stop.is_set():
        try:
            with get_client(sync_client=True) as client:
                # A server that was away has heard no heartbeats.
                if time.monotonic() - since > SILENCE.total_seconds():
                    mark_silent(client)
                start_again(client)
                resume_decided(client, home)
            line = ""
        except Exception as error:  # the next look goes on
            line = sanitised(error, "runs that wait or died").line()
            since = time.monotonic() if isinstance(error, httpx.TransportError) else since
        if line != said:
            say(line or "runs that wait or died: looked for again")
        said = line
        stop.wait(_EVERY_SECONDS)


def mark_silent(client: SyncPrefectClient) -> int:
    """Mark runs that say nothing any more, or were taken and did not begin; return how many."""
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled, Crashed

    before = datetime.now(UTC) - SILENCE
    marked = 0
    for run in runs_in(client, StateType.RUNNING, StateType.PENDING, StateType.CANCELLING):
        if run.state is None or run.state.timestamp > before or _heard(client, run, before):
            continue
        now = client.read_flow_run(run.id).state
        if now is None or now.id != run.state.id:  # it has gone on since it was listed
            continue
        becomes = Cancelled if run.state.is_cancelling() else Crashed
        client.set_flow_run_state(run.id, becomes(message=SILENT))
        marked += 1
    return marked


def start_again(client: SyncPrefectClient, *, at_once: bool = False) -> int:
    """Have runs go on that crashed; return how many. One that did so too often, or long ago, has failed.

    Parameters
    ----------
    at_once
        Without a pause: for when an installation stops or starts, and all its runs with it.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.states import Failed, Scheduled

    now = datetime.now(UTC)
    started = 0
    for run in runs_in(client, StateType.CRASHED):
        states = client.read_flow_run_states(run.id)
        crashes = sorted(state.timestamp for state in states if state.is_crashed())
        pause = AFTER_CRASHES.after(len(crashes) - 1)
        _end_tasks(client, run)
        if pause is None or now - crashes[-1] > _LATELY:
            failed: State[Any] = Failed(
                message=f"{GIVEN_UP} {len(crashes)} times; read why in its log or the worker's"
            )
            client.set_flow_run_state(run.id, failed, force=True)
        elif at_once or now - crashes[-1] >= timedelta(seconds=pause):
            client.set_flow_run_state(run.id, Scheduled(name="Restarting", message=_AGAIN))
            started += 1
    return started


def _end_tasks(client: SyncPrefectClient, run: FlowRun) -> None:
    """Mark the tasks that were at work in a run when its process died: no process will say how they ended."""
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    at_work = filters.TaskRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])
    for task in client.read_task_runs(
        flow_run_filter=filters.FlowRunFilter(id=filters.FlowRunFilterId(any_=[run.id])),
        task_run_filter=filters.TaskRunFilter(state=filters.TaskRunFilterState(type=at_work)),
    ):
        client.set_task_run_state(task.id, Crashed(message=SILENT), force=True)


def _heard(client: SyncPrefectClient, run: FlowRun, since: datetime) -> bool:
    """Whether a run sent a heartbeat since."""
    from prefect.events import filters
    from prefect.types import DateTime

    occurred = filters.EventOccurredFilter(
        since=DateTime.fromtimestamp(since.timestamp(), UTC),
        until=DateTime.now(UTC) + timedelta(days=1),  # by the clock of the run's machine
    )
    wanted = filters.EventFilter(
        occurred=occurred,
        event=filters.EventNameFilter(name=["prefect.flow-run.heartbeat"]),
        resource=filters.EventResourceFilter(id=[f"prefect.flow-run.{run.id}"]),
    )
    return bool(client.read_events(wanted, limit=1).events)


def runs_in(client: SyncPrefectClient, *states: Any) -> list[FlowRun]:
    """Return all runs of our deployments in states of these types."""
    from prefect.client.schemas import filters

    wanted = filters.FlowRunFilter(
        state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=list(states))),
        tags=filters.FlowRunFilterTags(all_=[TAG]),
    )
    return [run for run in runs_of(client, flow_run_filter=wanted) if run.deployment_id is not None]
