"""A product's deployment: how Prefect knows what to run, when, and with which parameters.

Making it again changes what differs and nothing else: a deployment has one name, and a work pool that is
there is left as it is. Runs of what arrives are made by the watcher (:mod:`tabularium.flows.arrival`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tabularium.flows.operations.names_in_prefect import (
    ENTRYPOINT,
    FLOW,
    JOB_VARIABLES,
    WORK_POOL,
    WORK_POOL_TYPE,
    deployment_tags,
)
from tabularium.flows.operations.periods import fires_at, zone
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient


@dataclass(frozen=True)
class Wanted:
    """What a deployment is to be.

    Attributes
    ----------
    parameters
        Of the flow, as every run of it gets them.
    cron, timezone
        When it runs by itself; never where ``cron`` is None.
    pool, queue
        From where its runs are taken: Tabularium's own pool, or one that somebody has made.
    tags
        Of the deployment and its runs, beside Tabularium's own.
    """

    product: str
    description: str
    parameters: dict[str, Any] = field(default_factory=dict)
    cron: str | None = None
    timezone: str = "UTC"
    pool: str = WORK_POOL
    queue: str | None = None
    tags: tuple[str, ...] = ()


def deploy(client: SyncPrefectClient, wanted: Wanted) -> UUID:
    """Make or update work pool, deployment and schedule; return the deployment's id.

    Raises
    ------
    InputError
        If there is no such pool, or no such queue in it.
    """
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule

    from tabularium.flows.release import release

    if wanted.pool == WORK_POOL:
        make_work_pool(client)
    _see_that_it_is_there(client, wanted.pool, wanted.queue)
    schedules = []
    if wanted.cron is not None:
        schedule = CronSchedule(cron=wanted.cron, timezone=wanted.timezone)
        schedules.append(DeploymentScheduleCreate(schedule=schedule, slug=wanted.product))
    return client.create_deployment(
        flow_id=client.create_flow_from_name(FLOW),
        name=wanted.product,
        description=wanted.description,
        tags=[*deployment_tags(wanted.product), *wanted.tags],
        work_pool_name=wanted.pool,
        work_queue_name=wanted.queue,
        job_variables=JOB_VARIABLES,
        entrypoint=ENTRYPOINT,
        parameters=wanted.parameters,
        parameter_openapi_schema=release.parameters.model_dump_for_openapi(),
        enforce_parameter_schema=True,
        schedules=schedules,
    )


def _see_that_it_is_there(client: SyncPrefectClient, pool: str, queue: str | None) -> None:
    from prefect.exceptions import ObjectNotFound

    try:
        found = client.read_work_pool(pool)
    except ObjectNotFound:
        raise InputError(
            "the server has no work pool of this name",
            where=f"--pool {pool}",
            hint=f"make it: prefect work-pool create {pool} --type process",
        ) from None
    if found.is_managed_pool or found.is_push_pool:
        raise InputError(
            "its runs start on machines of a provider's, where the home and the data are not",
            where=f"--pool {pool}",
            hint="name a pool whose workers you start where the data are",
        )
    if queue is None:
        return
    try:
        client.read_work_queue_by_name(queue, pool)
    except ObjectNotFound:
        raise InputError(
            f"work pool {pool} has no queue of this name",
            where=f"--queue {queue}",
            hint=f"make it: prefect work-queue create {queue} --pool {pool}",
        ) from None


def remove(client: SyncPrefectClient, product: str) -> bool:
    """Take a product's deployment away; return whether there was anything to take.

    Its runs that wait are cancelled: no worker could run them without it. What runs goes on to its end.
    """
    from prefect.exceptions import ObjectNotFound

    try:
        found = client.read_deployment_by_name(f"{FLOW}/{product}")
    except ObjectNotFound:
        return False
    _cancel_waiting(client, found.id)
    client.delete_deployment(found.id)
    return True


def _cancel_waiting(client: SyncPrefectClient, deployment: UUID) -> None:
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled

    # One that crashed would be started again.
    states = [StateType.SCHEDULED, StateType.PENDING, StateType.PAUSED, StateType.CRASHED]
    wanted = filters.FlowRunFilter(
        state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=states)),
        deployment_id=filters.FlowRunFilterDeploymentId(any_=[deployment]),
    )
    while runs := client.read_flow_runs(flow_run_filter=wanted):
        for run in runs:
            client.set_flow_run_state(run.id, Cancelled(message="its deployment was removed"), force=True)


def next_time(cron: str, timezone: str, now: datetime) -> datetime:
    """Return when a schedule fires next.

    Raises
    ------
    InputError
        If it is no schedule, or one that never fires, or the time zone is unknown.
    """
    # The one by which Prefect's server reads a schedule; it has no types.
    library: Any = import_module("prefect._vendor.croniter")
    place = zone(timezone)
    if not library.croniter.is_valid(cron) or len(cron.split()) != _CRON_FIELDS:
        raise InputError(
            "is no cron schedule", where="--cron", hint='write minute, hour, day, month, weekday: "0 6 1 * *"'
        )
    try:
        # By the clock on the wall, as the server: 6 o'clock stays 6 o'clock when clocks change.
        found: datetime = library.croniter(cron, now.astimezone(place).replace(tzinfo=None)).get_next(
            datetime
        )
    except library.CroniterBadDateError:
        raise InputError("never fires", where="--cron", hint="name a day that its month has") from None
    return fires_at(found, place)


_CRON_FIELDS = 5


def make_work_pool(client: SyncPrefectClient, runs: int | None = None) -> None:
    """Make the pool from which workers take runs; one that is there is left as it is.

    Parameters
    ----------
    runs
        How many of its runs may be at work at once, also of a pool that is there; as it is where None.
    """
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
    from prefect.workers.process import ProcessWorker

    try:
        client.read_work_pool(WORK_POOL)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        wanted = WorkPoolCreate(name=WORK_POOL, type=WORK_POOL_TYPE, base_job_template=template)
        with contextlib.suppress(ObjectAlreadyExists):  # a worker that just started was first
            client.create_work_pool(wanted)
    if runs is not None:
        client.update_work_pool(WORK_POOL, WorkPoolUpdate(concurrency_limit=runs))
