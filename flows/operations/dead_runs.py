"""Runs whose process died: found by their silence, marked Crashed, and started again by the server itself.

::

    Running ──no heartbeat──▶ Crashed ──▶ Restarting ──▶ Pending ──▶ Running, from the beginning
    Pending ──no start──────▶ Crashed         (the same run: its parameters and its period stay)
    Cancelling ──no end─────▶ Cancelled

A process that is killed says nothing more; without this its run would be Running for ever and keep the
place of its deployment. Starting again is safe, and so is doing it to a run that was only slow: the ledger
lets one process work on a release and knows what is paid and drawn. The server refuses to mark a run that has
ended, so that a heartbeat which arrives after the end does no harm.

A run that has begun twenty times is not started again.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from flows.operations.deployments.automations import set_automation
from flows.operations.names_in_prefect import TAG, automation_name

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

#: How often a run may begin and still be started again after a crash.
MOST_BEGINNINGS = 20
_SILENCE = timedelta(seconds=90)  # three heartbeats, as often as Prefect allows
_START = timedelta(seconds=90)  # a process imports for some ten seconds before it is Running
_LATELY = timedelta(hours=12)
_SILENT = "no sign of life: its process or its worker died"
_AGAIN = "started again after its process died"
# What a run says when nothing more is to be heard of it, or not for a while. Running is none of it: it
# comes about together with the first heartbeat, in either order.
_ENDS = ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")
_RESTS = (
    *("Suspended", "Paused", "Scheduled", "Late", "AwaitingRetry", "AwaitingConcurrencySlot", "Restarting"),
    "Pending",
)


def ensure(client: SyncPrefectClient, *, silence: timedelta = _SILENCE) -> None:
    """Make the automations that find dead runs and start them again; what is there already stays as it is.

    Parameters
    ----------
    silence
        How long a run may say nothing before it counts as dead.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, Posture

    def becomes(state: StateType, message: str, name: str | None = None) -> ChangeFlowRunState:
        return ChangeFlowRunState(state=state, name=name, message=message, force=False)

    silent: dict[str, Any] = {"posture": Posture.Proactive, "threshold": 1}
    for automation in (
        AutomationCore(
            name=automation_name("a run falls silent"),
            description="Marks a run as crashed whose process has sent no heartbeat for a while.",
            trigger=_of_our_runs(
                after=_events("Running", "Retrying", "heartbeat"),
                expect=_events("heartbeat", *_ENDS, *_RESTS),
                within=silence,
                **silent,
            ),
            actions=[becomes(StateType.CRASHED, _SILENT)],
        ),
        AutomationCore(
            name=automation_name("a run does not begin"),
            description="Marks a run as crashed that a worker took and did not begin.",
            trigger=_of_our_runs(
                after=_events("Pending"),
                expect=_events("Running", "Retrying", "heartbeat", *_ENDS, *_RESTS[:-1]),
                within=_START,
                **silent,
            ),
            actions=[becomes(StateType.CRASHED, _SILENT)],
        ),
        AutomationCore(
            name=automation_name("a cancelled run does not end"),
            description="Marks a run as cancelled whose process or worker died before it could.",
            trigger=_of_our_runs(
                after=_events("Cancelling"), expect=_events(*_ENDS[:-1]), within=silence, **silent
            ),
            actions=[becomes(StateType.CANCELLED, _SILENT)],
        ),
        AutomationCore(
            name=automation_name("start again after a crash"),
            description=f"Starts a crashed run again, unless it has begun {MOST_BEGINNINGS} times.",
            trigger=_of_our_runs(
                resource={"prefect.run-count": [str(count) for count in range(1, MOST_BEGINNINGS)]},
                expect=_events("Crashed"),
                posture=Posture.Reactive,
                threshold=1,
            ),
            actions=[becomes(StateType.SCHEDULED, _AGAIN, "Restarting")],
        ),
        AutomationCore(
            name=automation_name("start again what never began"),
            description="Starts a run again whose worker died before it began.",
            trigger=_of_our_runs(
                resource={"prefect.run-count": "0", "prefect.state-message": _SILENT},
                expect=_events("Crashed"),
                posture=Posture.Reactive,
                threshold=1,
            ),
            actions=[becomes(StateType.SCHEDULED, _AGAIN, "Restarting")],
        ),
    ):
        set_automation(client, automation)


def start_again(client: SyncPrefectClient) -> int:
    """Have runs go on that crashed lately and that nobody has started again; return how many.

    That is for when an installation stops, and with it the server that would do so, and for when it starts.
    """
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterEndTime,
        FlowRunFilterState,
        FlowRunFilterStateType,
        FlowRunFilterTags,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.states import Scheduled
    from prefect.types import DateTime

    crashed = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CRASHED])),
            tags=FlowRunFilterTags(all_=[TAG]),
            end_time=FlowRunFilterEndTime(after_=DateTime.now(UTC) - _LATELY),
        )
    )
    ours = [run for run in crashed if run.deployment_id is not None and run.run_count < MOST_BEGINNINGS]
    for run in ours:
        client.set_flow_run_state(run.id, Scheduled(name="Restarting", message=_AGAIN))
    return len(ours)


def _of_our_runs(resource: dict[str, Any] | None = None, **trigger: Any) -> Any:
    from prefect.events.schemas.automations import EventTrigger

    return EventTrigger(
        match={"prefect.resource.id": "prefect.flow-run.*", **(resource or {})},
        match_related={"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"},
        for_each={"prefect.resource.id"},
        **trigger,
    )


def _events(*names: str) -> set[str]:
    return {f"prefect.flow-run.{name}" for name in names}
