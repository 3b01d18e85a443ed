"""Runs that wait instead of failing: for an officer, for the input, for a busy resource.

::

    what stopped it           what becomes of a deployment's flow run
    NotApproved               Suspended, until an officer has decided in the ledger
    AwaitingReview            Suspended, too
    InputMissing              AwaitingRetry, with long pauses
    PlaceClosed               AwaitingRetry, with long pauses, until the publication folder is repaired
    LockTimeout, StorageFailed AwaitingRetry, with growing pauses and a bounded number
    anything else             Failed, with one line

A run that waits has ended as a process: its workspace is gone, it holds no lock. It starts again
from its beginning, which costs nothing, for every stage is idempotent and only the ledger knows what is
approved. So Prefect's own Resume approves nothing: the run asks the ledger, and is suspended again. Where the
time is up (``TABULARIUM_PATIENCE_DAYS``, 30 unless set) the run has failed and nothing else has happened.

Only runs of a deployment wait. One that somebody called fails with its line, and can be called again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Never

from tabularium.flows.operations.names_in_prefect import FLOW
from tabularium.flows.operations.prefect_api import PAGE, configured_url, connected, runs_of
from tabularium.flows.operations.reporting.announcements import announce_suspended, telling
from tabularium.flows.operations.server_address import written_address
from tabularium.ledger import Ledger
from tabularium.ledger.records import EMPTY, Head
from tabularium.ledger.refusals import AwaitingReview, LockTimeout, NotApproved, StorageFailed
from tabularium.mechanisms.errors import InputMissing, PlaceClosed, TabulariumError
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

    from tabularium.tasks.runtime.run import Request
    from tabularium.validations.release_spec.load import Loaded

_FOR_A_PERSON: tuple[type[TabulariumError], ...] = (NotApproved, AwaitingReview)
_SUSPENDED, _AGAIN = "Suspended", "AwaitingRetry"
_MARK = "tabularium"  # begins the pause keys of runs that this module suspended
#: Entries of the ledger by which a run may go on, or ends.
_DECISIONS = frozenset(
    {"approval", "acceptance", "withheld", "terms", "attempts", "release_key", "revocation"}
)


@dataclass(frozen=True)
class Pauses:
    """How long a run waits before it tries again: each pause is twice the one before it.

    Attributes
    ----------
    first, longest
        Seconds.
    most
        How many pauses there may be; None for as many as there is time.
    """

    first: float
    longest: float
    most: int | None = None

    def after(self, tries: int) -> float | None:
        """Return how long to wait when so many pauses are over; None if there is to be no other."""
        if self.most is not None and tries >= self.most:
            return None
        return float(min(self.longest, self.first * 2 ** min(tries, 30)))


#: What passes by itself, most often soon: in all some four hours.
PASSING = Pauses(5, 3600, most=13)
#: What somebody delivers or repairs.
DELIVERED = Pauses(60, 3600)
#: A server that restarts: in all some ten minutes.
RESTARTING = Pauses(0.5, 15, most=45)
_PAUSES: dict[type[TabulariumError], Pauses] = {
    LockTimeout: PASSING,
    StorageFailed: PASSING,
    InputMissing: DELIVERED,
    PlaceClosed: DELIVERED,
}


def last_entry(home: Home) -> Head:
    """Return the head of a home's ledger; that of an empty one while there is none, or it is away."""
    with contextlib.suppress(TabulariumError), Ledger.connect(home.ledger_url, make=False) as ledger:
        return ledger.head()
    return EMPTY


def state_for(
    error: TabulariumError, request: Request | None, loaded: Loaded | None, seen: Head
) -> State[Any]:
    """Return the state of the flow run of this process after what stopped it: one that waits, or Failed.

    Parameters
    ----------
    request, loaded
        What it was to publish, as far as that is known.
    seen
        The last entry of the ledger before it began.
    """
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext
    from prefect.states import Failed

    context = FlowRunContext.get()
    run = context.flow_run if context is not None else None
    pauses = next((pauses for kind, pauses in _PAUSES.items() if isinstance(error, kind)), None)
    waits = pauses is not None or isinstance(error, _FOR_A_PERSON)
    if run is None or run.deployment_id is None or request is None or loaded is None or not waits:
        return Failed(message=error.line(), data=error)
    with get_client(sync_client=True) as client:
        history = sorted(client.read_flow_run_states(run.id), key=lambda state: state.timestamp)
    if pauses is not None:
        if isinstance(error, PlaceClosed) and all(state.message != error.line() for state in history):
            with telling():
                announce_suspended(loaded.spec.product, loaded.spec.period, error.line())
        return _trying_again(error, pauses, history)
    return _suspended(error, request, loaded.digest, history, seen)


def enter(state: State[Any], home: Home) -> Never:
    """Put the flow run of this process into a waiting state, and end the process.

    Raises
    ------
    prefect.exceptions.Pause
        As Prefect's own ``suspend_flow_run`` does: the engine ends on it, which is no failure.
    """
    from prefect.client.orchestration import get_client
    from prefect.exceptions import Pause
    from prefect.runtime import flow_run

    run = uuid.UUID(flow_run.id)
    with get_client(sync_client=True) as client:
        # A run that waits without a process is cancelled at once; with one, Prefect waits for it to end.
        client.request("PATCH", "/flow_runs/{id}", path_params={"id": run}, json={"infrastructure_pid": None})
        state = client.set_flow_run_state(run, state).state or state
        # An officer may have decided since it began to run, and have found none to resume.
        with contextlib.suppress(Exception):  # of the server too: the run waits by now, and the watcher looks
            for decided in _decided(home, [(run, state)]):
                client.resume_flow_run(decided)
    raise Pause(state=state)


def _spec_of(state: State[Any] | None) -> str:
    """Return the digest of the spec of a run that this module suspended; nothing for other runs."""
    words = ((state and state.state_details.pause_key) or "").split()
    return words[2] if words[:1] == [_MARK] and len(words) > 2 else ""


def _since(state: State[Any]) -> datetime:
    """Return when a run that this module suspended first waited for this, however often it was resumed."""
    words = (state.state_details.pause_key or "").split()
    return datetime.fromisoformat(words[4]) if len(words) > 5 else state.timestamp


def _seen_by(state: State[Any], ledger: Ledger) -> int:
    """Return the last entry that a run which this module suspended may have looked at.

    It is 0 where the ledger has no such entry: numbers go back when a backup is put in its place.
    """
    number, _, digest = (state.state_details.pause_key or "").split()[3].partition(":")
    seen = Head(int(number) if number.isdecimal() else 0, digest)
    return seen.seq if seen.seq and ledger.holds(seen) else 0


def _suspended(
    error: TabulariumError, request: Request, spec_digest: str, history: list[State[Any]], seen: Head
) -> State[Any]:
    """Return the state of a run that waits for an officer."""
    from prefect.states import Suspended
    from prefect.types._datetime import now

    mark = f"{_MARK} {type(error).__name__} {spec_digest} "
    # However often it is resumed meanwhile: the time counts from when it first waited for this.
    since = [state.timestamp for state in history if (state.state_details.pause_key or "").startswith(mark)]
    first = min(since, default=now("UTC"))
    desk = (
        f"tabularium desk --key FILE --home {shlex.quote(request.home)}"  # who reads it has another default
    )
    return Suspended(
        message=f"{approval_message(error, request)}; or open the desk: {desk}",
        pause_expiration_time=first + patience(),
        pause_key=f"{mark}{seen.seq}:{seen.hash} {first.isoformat()} {uuid.uuid4().hex}",
    )


def _trying_again(error: TabulariumError, pauses: Pauses, history: list[State[Any]]) -> State[Any]:
    """Return the state of a run that starts again after a pause, or has done so often enough."""
    from prefect.states import AwaitingRetry, Failed
    from prefect.types._datetime import now

    names = [state.name for state in history]
    # Since a person was here last.
    last = len(names) - names[::-1].index(_SUSPENDED) if _SUSPENDED in names else 0
    tries = [state.timestamp for state in history[last:] if state.name == _AGAIN]
    pause = pauses.after(len(tries))
    if pause is None or (tries and now("UTC") - tries[0] > patience()):
        return Failed(message=f"{error.line()}; given up after {len(tries) + 1} tries", data=error)
    return AwaitingRetry(message=error.line(), scheduled_time=now("UTC") + timedelta(seconds=pause))


def approval_message(error: TabulariumError, request: Request) -> str:
    """Return the line of a run that waits for an officer, with the command that lets it go on."""
    return for_officers(error, request).line()


def for_officers(error: TabulariumError, request: Request) -> TabulariumError:
    """Return what wants an approval with the whole command that gives it; any other error as it is."""
    if "ledger approve" not in error.hint:
        return error
    return type(error)(error.what, where=error.where, hint=f"let an officer run: {approving(request)}")


def approving(request: Request) -> str:
    """Return the command that approves the spec of a request."""
    words = ["tabularium", "ledger", "approve", request.spec]
    for option, value in (
        ("--period", request.period),
        ("--revises", request.revises),
        ("--measurements-of", request.measurements_of),
        ("--home", request.home),
    ):
        words += [option, value] if value is not None else []
    return f"{shlex.join(words)} --key FILE"


def patience() -> timedelta:
    """Return how long a run waits for a person or for its input."""
    return timedelta(days=float(os.environ.get("TABULARIUM_PATIENCE_DAYS") or 30))


def until_the_server_answers() -> None:
    """Wait while Prefect's server restarts, some ten minutes at most."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for tries in range(RESTARTING.most or 0):
            if client.api_healthcheck() is None:
                return
            time.sleep(RESTARTING.after(tries) or 0)


def resume_waiting(
    home: Home, *, release_id: str | None = None, spec_digests: Collection[str] | None = None
) -> list[str]:
    """Let suspended runs go on, now that an officer has decided; quiet where no Prefect API is known.

    A run that nothing was decided for asks the ledger and is suspended again.

    ``release_id``, ``spec_digests``: only those of this release or these specs; all of them where neither is
    given.

    Returns the digest of the spec of each run that goes on.

    Raises
    ------
    InputError
        If the server does not answer; the watcher has them go on later (:func:`resume_decided`).
    """
    if configured_url() is None and written_address(home) is None:
        return []
    if release_id is not None:
        with Ledger.connect(home.ledger_url) as ledger:
            charge = ledger.charge(release_id)
        spec_digests = None if charge is None else [charge.spec_digest]
    with connected(home):
        return _resume(spec_digests, approved=release_id is None and spec_digests is not None)


def _resume(digests: Collection[str] | None, *, approved: bool) -> list[str]:
    """Resume the runs of these specs; where these were approved, not those that wait for a review."""
    from prefect.client.orchestration import get_client

    resumed = []
    with get_client(sync_client=True) as client:
        for run in suspended_runs(client):
            of = _spec_of(run.state)
            if approved and not _waits_for_approval(run.state):
                continue
            if of and (digests is None or of in digests):
                client.resume_flow_run(run.id)
                resumed.append(of)
        if digests is not None and not set(digests) <= set(resumed):  # the watcher may have been first
            for run in _runs_named(client, "Resuming", "Pending", "Submitting", "Running"):
                waited = {_spec_of(state) for state in client.read_flow_run_states(run.id)}
                resumed += waited & set(digests)
    return resumed


def resume_decided(client: SyncPrefectClient, home: Home) -> int:
    """Let suspended runs go on about which officers have decided since; return how many do.

    The command that decides does so itself where it reaches the server; this finds what it could not tell.
    """
    runs = decided_runs(client, home)
    for run in runs:
        client.resume_flow_run(run.id)
    return len(runs)


def decided_runs(client: SyncPrefectClient, home: Home) -> list[FlowRun]:
    """Return the suspended runs about whose spec officers have decided since these looked at the ledger."""
    waiting = {run.id: run for run in suspended_runs(client)}
    decided = _decided(home, [(run.id, run.state) for run in waiting.values() if run.state is not None])
    return [waiting[run] for run in decided]


def _decided(home: Home, waiting: list[tuple[uuid.UUID, State[Any]]]) -> list[uuid.UUID]:
    ours = [(run, state) for run, state in waiting if _spec_of(state)]
    if not ours:
        return []
    with Ledger.connect(home.ledger_url, make=False) as ledger:
        seen = {run: _seen_by(state, ledger) for run, state in ours}
        decisions = _decisions(ledger, min(seen.values()))
    return [
        run
        for run, state in ours
        if any(seq > seen[run] and of in (None, _spec_of(state)) for seq, of in decisions)
    ]


def _decisions(ledger: Ledger, seen: int) -> list[tuple[int, str | None]]:
    """Return officers' decisions after that entry, each with the spec it is about; None for any."""
    number = PAGE
    while True:
        entries = ledger.last_entries(number)
        if len(entries) < number or entries[0].seq <= seen:
            break
        number *= 4
    decisions: list[tuple[int, str | None]] = []
    for entry in entries:
        if entry.seq <= seen or entry.body["kind"] not in _DECISIONS:
            continue
        digest = entry.body.get("spec_digest")
        if digest is None and "release" in entry.body:
            charge = ledger.charge(entry.body["release"])
            digest = None if charge is None else charge.spec_digest
        decisions.append((entry.seq, digest))
    return decisions


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits for an officer.

    Attributes
    ----------
    spec, revises, measurements_of
        What it was asked for.
    unapproved
        Whether it needs an approval of its spec, or further attempts; otherwise its draft is to be reviewed.
    since
        When it first waited for this (UTC).
    until
        When it fails unless somebody decides (UTC); None if it does not.
    """

    name: str
    product: str
    period: str
    spec: str
    revises: str | None
    measurements_of: str | None
    spec_digest: str
    unapproved: bool
    since: datetime
    until: datetime | None


def waiting_runs(client: SyncPrefectClient) -> list[WaitingRun]:
    """Return the runs that wait for an officer."""
    return [
        _waiting_run(run, run.state)
        for run in suspended_runs(client)
        if run.state is not None and _spec_of(run.state)
    ]


def _waiting_run(run: FlowRun, state: State[Any]) -> WaitingRun:
    about = dict(tag.split(":", 1) for tag in run.tags if ":" in tag)
    given = run.parameters
    return WaitingRun(
        run.name,
        about.get("product", run.name),
        about.get("period", ""),
        str(given.get("spec", "")),
        given.get("revises"),
        given.get("measurements_of"),
        _spec_of(state),
        _waits_for_approval(state),
        _since(state),
        state.state_details.pause_timeout,
    )


def _waits_for_approval(state: State[Any] | None) -> bool:
    """Whether a run that this module suspended waits for an approval or for attempts, not for a review."""
    return ((state and state.state_details.pause_key) or "").startswith(f"{_MARK} {NotApproved.__name__} ")


def suspended_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Return all suspended runs of the flow, however many."""
    return _runs_named(client, _SUSPENDED)


def _runs_named(client: SyncPrefectClient, *names: str) -> list[FlowRun]:
    """Return all runs of the flow whose state has one of these names."""
    from prefect.client.schemas import filters

    return runs_of(
        client,
        flow_filter=filters.FlowFilter(name=filters.FlowFilterName(any_=[FLOW])),
        flow_run_filter=filters.FlowRunFilter(
            state=filters.FlowRunFilterState(name=filters.FlowRunFilterStateName(any_=list(names)))
        ),
    )


class OneLine(logging.Filter):
    """Keeps Prefect's tracebacks of our errors out of the logs: the line stands in the run's state."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is to be written."""
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or not issubclass(kind, TabulariumError)


def one_line_for_each_failure() -> None:
    """Have the engine of this process log no traceback of an error that is one line by design."""
    for name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
        logger = logging.getLogger(name)
        if not any(isinstance(known, OneLine) for known in logger.filters):
            logger.addFilter(OneLine())
