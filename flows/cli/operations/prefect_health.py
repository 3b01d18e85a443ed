"""Health of the Prefect part of an installation: server, work pool, worker, deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tabularium.flows.operations.names_in_prefect import WORK_POOL
from tabularium.flows.operations.prefect_api import configured_url, connected, deployments_of_products
from tabularium.flows.operations.server_address import answers, written_address
from tabularium.tasks.custody.home_health import HealthCheck
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


def prefect_checks(home: Home) -> Iterator[HealthCheck]:
    """Go through what the Prefect API of this installation says; without one there is one finding."""
    with connected(home, needed=configured_url() is not None) as url:
        if url is None:
            yield HealthCheck(
                "server",
                "warn",
                "no Prefect API answers; releases run only by hand",
                f"tabularium up{home.option}",
            )
            return
        from httpx import HTTPError
        from prefect.client.orchestration import get_client
        from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

        try:  # a minute of tries, as usual, would be no answer either
            with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}), get_client(sync_client=True) as client:
                yield _server(client, url)
                yield from _page(home, url)
                for name in dict.fromkeys([WORK_POOL, *_pools_of_deployments(client)]):
                    yield from _pool(client, home, name)
                yield from _deployments(client)
                yield from _overdue(client, home)
                yield from _runs(client, home)
        except HTTPError as error:
            status = getattr(getattr(error, "response", None), "status_code", type(error).__name__)
            hint = f"see that its database is up; read {home.path / 'server' / 'logs' / 'server.log'}"
            yield HealthCheck(
                "server", "fail", f"Prefect at {url} answers, and cannot say more ({status})", hint
            )


def _server(client: SyncPrefectClient, url: str) -> HealthCheck:
    from prefect import __version__

    there = client.api_version()
    if there.split(".")[:2] == __version__.split(".")[:2]:
        return HealthCheck("server", "ok", f"Prefect {there} at {url}")
    message = f"Prefect {there} at {url}, and {__version__} here"
    return HealthCheck("server", "warn", message, "install the same version on both")


def _page(home: Home, url: str) -> Iterator[HealthCheck]:
    """See that the installation's own server shows its page; who runs another one looks after that."""
    if url == written_address(home):
        page = url.removesuffix("/api")
        if answers(f"{page}/"):
            yield HealthCheck("page", "ok", page)
        else:
            log = home.path / "server" / "logs" / "server.log"
            yield HealthCheck("page", "fail", f"{page} shows nothing", f"read {log}")


def _pool(client: SyncPrefectClient, home: Home, name: str) -> Iterator[HealthCheck]:
    from prefect.exceptions import ObjectNotFound

    ours = name == WORK_POOL
    start = f"tabularium up{home.option}" if ours else f"prefect worker start --pool {name}"
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        yield HealthCheck("pool", "fail", f"there is no work pool {name}", start)
        return
    if pool.is_paused:
        yield HealthCheck("pool", "fail", f"{name} is paused", f"prefect work-pool resume {name}")
    else:
        yield HealthCheck("pool", "ok", f"{name}, of type {pool.type}")
    online = [worker for worker in client.read_workers_for_work_pool(name) if worker.status == "ONLINE"]
    of_pool = "" if ours else f" of {name}"
    if online:
        yield HealthCheck("worker", "ok", f"{len(online)} online{of_pool}")
    else:
        yield HealthCheck("worker", "fail", f"none{of_pool} is online, so that nothing is started", start)


def _pools_of_deployments(client: SyncPrefectClient) -> list[str]:
    return sorted(
        {
            deployment.work_pool_name
            for deployment in deployments_of_products(client)
            if deployment.work_pool_name
        }
    )


def _deployments(client: SyncPrefectClient) -> Iterator[HealthCheck]:
    deployments = deployments_of_products(client)
    paused = sorted(deployment.name for deployment in deployments if deployment.paused)
    if paused:
        yield HealthCheck("deployments", "warn", f"paused: {', '.join(paused)}", "resume them in the UI")
    else:
        yield HealthCheck(
            "deployments",
            "ok",
            ", ".join(sorted(deployment.name for deployment in deployments)) or "none yet",
        )


def _overdue(client: SyncPrefectClient, home: Home) -> Iterator[HealthCheck]:
    from datetime import UTC, datetime

    from tabularium.flows.operations.reporting.overdue import overdue

    missing = overdue(client, home, datetime.now(UTC))
    releases = [release for release in missing if not release.inbox]
    if releases:
        message = f"overdue: {'; '.join(release.line() for release in releases)}"
        yield HealthCheck("releases", "warn", message, "see what became of their runs in the UI")
    for late in missing:
        if late.inbox:
            hint = f"ask the sender of {late.inbox}, or deploy with another --due"
            yield HealthCheck("deliveries", "warn", f"no data have arrived: {late.line()}", hint)


def _runs(client: SyncPrefectClient, home: Home) -> Iterator[HealthCheck]:
    from tabularium.flows.operations.reporting.overdue import (
        DAYS,
        ended_badly,
        late,
        named,
        since_a_minute,
        trying_again,
        waiting_for_officers,
    )
    from tabularium.flows.operations.waiting import decided_runs

    checks = []
    decided = [run for run in decided_runs(client, home) if since_a_minute(run)]
    if decided:
        message = f"{len(decided)} wait though an officer has decided: {'; '.join(map(named, decided))}"
        checks.append((message, "the watcher lets them go on; see that it runs"))
    waiting = waiting_for_officers(client)
    if waiting:
        checks.append((f"waiting for an officer: {'; '.join(waiting)}", "see what each says in the UI"))
    retried = trying_again(client)
    if retried:
        checks.append(
            (f"trying again later: {'; '.join(retried)}", "each goes on by itself once that is fixed")
        )
    number, since = late(client)
    if number:
        minutes = since.total_seconds() / 60
        hint = "wait for those before it; see that a worker is online"
        checks.append((f"{number} should have begun, the first {minutes:.0f} minutes ago", hint))
    for name, runs in ended_badly(client).items():
        if runs:
            message = f"{len(runs)} {name.lower()} in the last {DAYS} days, the last one {runs[0]}"
            checks.append((message, "see what each says in the UI"))
    for message, hint in checks:
        yield HealthCheck("runs", "warn", message, hint)
    if not checks:
        yield HealthCheck("runs", "ok", f"none waits; none failed in the last {DAYS} days")
