"""The watcher: a process that looks at every inbox of a home whenever something changes there.

Each inbox has a thread of its own, so that a large drop in one, or a store that does not answer, keeps no
other waiting. One more has runs go on whose process died. Folders tell of their changes where the system
can; it also polls, and object stores it only polls. It holds nothing in memory that it could
not find again, may be killed at any time, and several may run at once.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tabularium.flows.operations.names_in_prefect import TAG
from tabularium.flows.operations.prefect_api import connected, runs_of
from tabularium.flows.operations.waiting import Pauses, resume_decided
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.arrival.claims import Claims, State
from tabularium.tasks.arrival.inboxes import Inbox, inboxes
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.stage import sanitised

if TYPE_CHECKING:
    from prefect import State as RunState
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun


# Runs whose process died, and runs whose officer has decided: found by the watcher, several times a minute.
#
# A process that is killed says nothing more; without this its run would be Running for ever and keep a
# place of the pool. Prefect's own remedy is an automation that waits in vain for heartbeats. But it hears
# of a run's states by events, which may come late or get lost while its database is busy, and would take a
# run that waits for an officer for a dead one. This asks for the state itself. The server refuses to mark a
# run that has ended, so that nothing which comes late does harm.
#
# ::
#
#     Running ──no heartbeat──▶ Crashed ──a pause──▶ Restarting ──▶ Pending ──▶ Running, from the beginning
#     Pending ──no start──────▶ Crashed                (the same run: its parameters and its period stay)
#     Cancelling ──no end─────▶ Cancelled
#                              Crashed ──too often──▶ Failed
#
# Starting again is safe, and so is doing it to a run that was only slow: the ledger lets one process work
# on a release and knows what is paid and drawn.


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
    """Look again and again until ``stop`` is set; while the server does not answer, that is reported once."""
    import httpx
    from prefect.client.orchestration import get_client

    problem, since = "", time.monotonic()
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
        if line != problem:
            say(line or "runs that wait or died: looked for again")
        problem = line
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

    ``at_once``: without a pause: for when an installation stops or starts, and all its runs with it.
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
            failed: RunState[Any] = Failed(
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


_FOLDER_POLL_SECONDS = 5.0
_LEAST_PAUSE_SECONDS = 0.3
_REGISTRY_SECONDS = 1.0
_CLOCKS_DIFFER_SECONDS = 600.0  # of machines whose runs write down how drops ended
_ANNOUNCED: tuple[State, ...] = ("arrived", "quarantined", "refused", "failed", "published")


class Watch:
    """One inbox that is watched in a thread of its own until it is stopped."""

    def __init__(self, home: Home, inbox: Inbox, busy: set[str]) -> None:
        self.inbox = inbox
        self._busy = busy  # the products that drops wait for, of all that are watched
        self._home, self._stop = home, threading.Event()
        context = contextvars.copy_context()  # where Prefect keeps which API it speaks with
        self._thread = threading.Thread(target=context.run, args=(self._watch,), daemon=True)
        self._problem, self._since = "", time.time() - _CLOCKS_DIFFER_SECONDS
        self._drops: dict[str, State] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the look that is under way."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _watch(self) -> None:
        for _ in self._occasions():
            more = True
            while more:
                more = self._look()
                if self._stop.wait(_LEAST_PAUSE_SECONDS):
                    return

    def _look(self) -> bool:
        """Look once, and announce what is to be announced, whatever became of the look."""
        from tabularium.flows.arrival import announce
        from tabularium.tasks.arrival.look import look

        more, problem = False, ""
        steps: list[Callable[[Home, Inbox], object]] = [self._tell_of_drops, look]
        for step in (*steps, self._tell_of_drops, announce):
            try:
                more |= step(self._home, self.inbox) is True
            except Exception as error:  # the next look goes on; a text of a library's may quote data
                problem = problem or sanitised(error, f"inbox of {self.inbox.product}").line()
        if problem != self._problem:
            say(problem or f"inbox of {self.inbox.product}: well again")
        self._problem = problem
        return more

    def _tell_of_drops(self, home: Home, inbox: Inbox) -> None:
        """Write a line of each drop that arrived or ended since the last time."""
        now = time.time()
        with Claims.at(home) as claims:
            drops = {drop.id: drop.state for drop in claims.recent(inbox.product, self._since)}
        for drop, state in drops.items():
            if self._drops is not None and state in _ANNOUNCED and self._drops.get(drop) != state:
                say(f"inbox of {inbox.product}: drop {drop} {state}")
        self._drops, self._since = drops, now - _CLOCKS_DIFFER_SECONDS

    def _occasions(self) -> Iterator[None]:
        """Yield when it is time to look: now, after changes, and again and again."""
        yield
        while not self._stop.is_set():
            waits = "arrived" in (self._drops or {}).values()  # one that began may wait for days
            (self._busy.add if waits else self._busy.discard)(self.inbox.product)
            soon = self.inbox.is_folder or waits  # it runs when the one before it has ended
            # When many wait for a place in the pool, each is polled more rarely: one a second in all.
            pause = max(_FOLDER_POLL_SECONDS, len(self._busy) * waits)
            pause = min(self.inbox.poll, pause) if soon else self.inbox.poll
            if self.inbox.is_folder:
                with contextlib.suppress(OSError, RuntimeError):  # gone, or no more watches are to be had
                    yield from self._changes(pause)
            if not self._stop.wait(pause):
                yield

    def _changes(self, pause: float) -> Iterator[None]:
        from watchfiles import watch

        for _ in watch(
            self.inbox.address,
            stop_event=self._stop,
            step=50,
            debounce=500,
            rust_timeout=int(pause * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            yield


def say(line: str) -> None:
    """Write a line to the log of this process."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def keep_watching(home: Home, stop: threading.Event) -> None:
    """Watch the inboxes of a home, also those that are added meanwhile, until ``stop`` is set."""
    watches: dict[str, Watch] = {}
    busy: set[str] = set()
    while True:
        wanted = {} if stop.is_set() else {inbox.product: inbox for inbox in _registered(home, watches)}
        ending = [watch for product, watch in watches.items() if wanted.get(product) != watch.inbox]
        for watch in ending:
            watch.stop()
            busy.discard(watch.inbox.product)
            del watches[watch.inbox.product]
        for product, inbox in wanted.items():
            if product not in watches:
                watches[product] = Watch(home, inbox, busy)
                watches[product].start()
        if stop.is_set():
            for watch in ending:
                watch.join(_FOLDER_POLL_SECONDS)
            return
        stop.wait(_REGISTRY_SECONDS)


def _registered(home: Home, watches: dict[str, Watch]) -> list[Inbox]:
    with contextlib.suppress(TabulariumError):  # the next look at the list may find it whole
        return inboxes(home)
    return [watch.inbox for watch in watches.values()]


def watch_until_stopped(home: Home) -> None:
    """Watch until SIGTERM or Ctrl-C.

    Raises
    ------
    TabulariumError
        No Prefect API answers, or the home cannot be used.
    """
    os.umask(0o077)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with connected(home):
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(watch_stale_runs, home, stop, say), daemon=True).start()
        keep_watching(home, stop)
