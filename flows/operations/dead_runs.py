"""Runs whose process died, marked by the server itself as soon as they fall silent.

A process that is killed says nothing more; without this its run would be Running for ever and keep the
place of its deployment. The server refuses to mark a run that has ended, so that a heartbeat which arrives
after the end does no harm. Who starts them again, and finds what an event that was lost left unmarked, is
:mod:`flows.operations.run_keeper`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from flows.operations.deployments.automations import set_automation
from flows.operations.names_in_prefect import TAG, automation_name

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

#: How long a run may say nothing before it counts as dead: three heartbeats.
SILENCE = timedelta(seconds=90)
#: What such a run says.
SILENT = "no sign of life: its process or its worker died"
_START = timedelta(seconds=90)  # a process imports for some ten seconds before it is Running
# What a run says when nothing more is to be heard of it, or not for a while. Running is none of it: it
# comes about together with the first heartbeat, in either order.
_ENDS = ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")
_RESTS = (
    *("Suspended", "Paused", "Scheduled", "Late", "AwaitingRetry", "AwaitingConcurrencySlot", "Restarting"),
    "Pending",
)


def ensure(client: SyncPrefectClient, *, silence: timedelta | None = None) -> None:
    """Make the automations that mark dead runs; what is there already stays as it is.

    Parameters
    ----------
    silence
        How long a run may say nothing before it counts as dead; ``SILENCE`` unless given.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, Posture

    def becomes(state: StateType) -> ChangeFlowRunState:
        return ChangeFlowRunState(state=state, name=None, message=SILENT, force=False)

    silence = silence or SILENCE
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
            actions=[becomes(StateType.CRASHED)],
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
            actions=[becomes(StateType.CRASHED)],
        ),
        AutomationCore(
            name=automation_name("a cancelled run does not end"),
            description="Marks a run as cancelled whose process or worker died before it could.",
            trigger=_of_our_runs(
                after=_events("Cancelling"), expect=_events(*_ENDS[:-1]), within=silence, **silent
            ),
            actions=[becomes(StateType.CANCELLED)],
        ),
    ):
        set_automation(client, automation)


def _of_our_runs(**trigger: Any) -> Any:
    from prefect.events.schemas.automations import EventTrigger

    return EventTrigger(
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related={"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"},
        for_each={"prefect.resource.id"},
        **trigger,
    )


def _events(*names: str) -> set[str]:
    return {f"prefect.flow-run.{name}" for name in names}
