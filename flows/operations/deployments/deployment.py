"""A product's deployment: how Prefect knows what to run, when, and with which parameters.

Making it again changes what differs and nothing else: a deployment has one name, and a work pool that is
there is left as it is. Runs of what arrives are made by the watcher (:mod:`tabularium.flows.arrival`).
"""

from __future__ import annotations

import contextlib
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from tabularium.flows.operations.names_in_prefect import (
    ENTRYPOINT,
    FLOW,
    JOB_VARIABLES,
    WORK_POOL,
    WORK_POOL_TYPE,
    deployment_tags,
)
from tabularium.flows.operations.periods import fires_at, is_template, resolve, skipped_times, zone
from tabularium.flows.operations.waiting import approval_message
from tabularium.ledger import NotApproved
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import inbox_of
from tabularium.tasks.dry_run import dry_run_spec
from tabularium.tasks.ledger_stages import check_account
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Request, load, opened
from tabularium.validations.release_spec.load import Loaded

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
        Tags of the deployment and its runs, besides Tabularium's own.
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
        work_pool = client.read_work_pool(pool)
    except ObjectNotFound:
        raise InputError(
            "the server has no work pool of this name",
            where=f"--pool {pool}",
            hint=f"make it: prefect work-pool create {pool} --type process",
        ) from None
    if work_pool.is_managed_pool or work_pool.is_push_pool:
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
        deployment = client.read_deployment_by_name(f"{FLOW}/{product}")
    except ObjectNotFound:
        return False
    _cancel_waiting(client, deployment.id)
    client.delete_deployment(deployment.id)
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
    # Prefect's server reads schedules with it; it has no types.
    library: Any = import_module("prefect._vendor.croniter")
    timezone_of_times = zone(timezone)
    if not library.croniter.is_valid(cron) or len(cron.split()) != _CRON_FIELDS:
        raise InputError(
            "is no cron schedule", where="--cron", hint='write minute, hour, day, month, weekday: "0 6 1 * *"'
        )
    try:
        # By the clock on the wall, as the server: 6 o'clock stays 6 o'clock when clocks change.
        wall_time: datetime = library.croniter(
            cron, now.astimezone(timezone_of_times).replace(tzinfo=None)
        ).get_next(datetime)
    except library.CroniterBadDateError:
        raise InputError("never fires", where="--cron", hint="name a day that its month has") from None
    return fires_at(wall_time, timezone_of_times)


_CRON_FIELDS = 5


def make_work_pool(client: SyncPrefectClient, runs: int | None = None) -> None:
    """Make the pool from which workers take runs; one that is there is left as it is.

    ``runs``: how many of its runs may be at work at once, also of a pool that is there; as it is where None.
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


# What is looked at before a product is deployed: its spec, its account, its schedule; no data is opened.


@dataclass(frozen=True)
class Timing:
    """When a deployment runs next, and for which period.

    Attributes
    ----------
    following
        When its schedule fires next; None without one.
    period
        The period of a run at that time, or now; None if it is the spec's own.
    """

    following: datetime | None
    period: str | None


def timing(cron: str | None, timezone: str, period: str | None) -> Timing:
    """Try a schedule and the template of its period; a time that clocks skip within a year is noted.

    Raises
    ------
    InputError
        If the schedule, the time zone or the template is not what it should be.
    """
    timezone_of_times = zone(timezone)
    now = datetime.now(timezone_of_times)
    following = None if cron is None else next_time(cron, timezone, now)
    for skipped in islice(skipped_times(cron, timezone_of_times, now), 1) if cron is not None else ():
        at = fires_at(skipped, timezone_of_times)
        note(
            f"on {skipped:%Y-%m-%d} clocks in {timezone} skip {skipped:%H:%M}: that run starts at "
            f"{at:%H:%M on %Y-%m-%d}, and its period is made from the time in the schedule"
        )
    if period is None or not is_template(period):
        return Timing(following, period)
    return Timing(following, resolve(period, following or now, timezone, cron))


def checked(request: Request) -> Loaded:
    """Read a spec and see that its account would take a charge for it; what an officer has to do is noted.

    Raises
    ------
    TabulariumError
        If a run would be refused, whatever its data are.
    """
    loaded = load(request)
    with opened(request, loaded, to_publish=False) as run:
        dry_run_spec(run)
        try:
            check_account(run)
        except NotApproved as error:
            note(f"a run will wait: {approval_message(error, request)}")
    return loaded


def description(loaded: Loaded) -> str:
    """Return what a deployment is, for who finds it in the UI."""
    spec = loaded.spec
    tables = ", ".join(f"`{table.name}`" for table in spec.tables)
    unit = "ρ" if spec.privacy.definition == "zcdp" else "ε"
    return (
        f"Publishes **{spec.product}** ({tables}) for one period a run, at {unit} = {spec.privacy.budget} of "
        f"account `{spec.dataset}`.\n\nSafe to run again: a release is published and paid for once."
    )


def utc(when: datetime) -> str:
    """Return a time as programs read it."""
    return when.astimezone(UTC).isoformat(timespec="seconds")


# What starts a product's deployment, and where, so that a command can say what it took away.


@dataclass(frozen=True)
class Triggers:
    """A schedule, as people write it, the address of an inbox, and a work pool; any of them may be None."""

    schedule: str | None
    inbox: str | None
    pool: str | None = None

    def lost(self, now: Triggers) -> list[str]:
        """Return a line for each that is there no longer; another schedule is no loss."""
        lines = []
        if self.schedule is not None and now.schedule is None:
            lines.append(f"No longer on a schedule (was {self.schedule})")
        if self.inbox not in (None, now.inbox):
            lines.append(f"No longer watches {self.inbox}")
        if self.pool not in (None, now.pool):
            lines.append(f"No longer in work pool {self.pool}, but in {now.pool}")
        return lines


def triggers_of(client: SyncPrefectClient, home: Home, product: str) -> Triggers:
    """Return what starts a product's deployment; of one that is not there, nothing."""
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.exceptions import ObjectNotFound

    kept, pool = [], None
    with suppress(ObjectNotFound):
        deployment = client.read_deployment_by_name(f"{FLOW}/{product}")
        kept, pool = [schedule.schedule for schedule in deployment.schedules], deployment.work_pool_name
    times = [
        f"{schedule.cron}, {schedule.timezone}" for schedule in kept if isinstance(schedule, CronSchedule)
    ]
    inbox = inbox_of(home, product)
    return Triggers("; ".join(times) or None, None if inbox is None else inbox.address, pool)
