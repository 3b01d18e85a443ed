"""Whether the Prefect part of an installation is well: server, work pool, worker, deployments."""

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
    said = f"Prefect {there} at {url}, and {__version__} here"
    return HealthCheck("server", "warn", said, "install the same version on both")


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

    own = name == WORK_POOL
    start = f"tabularium up{home.option}" if own else f"prefect worker start --pool {name}"
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        yield HealthCheck("pool", "fail", f"there is no work pool {name}", start)
        return
    if pool.is_paused:
        yield HealthCheck("pool", "fail", f"{name} is paused", f"prefect work-pool resume {name}")
    else:
        yield HealthCheck("pool", "ok", f"{name}, of type {pool.type}")
    online = [each for each in client.read_workers_for_work_pool(name) if each.status == "ONLINE"]
    of_pool = "" if own else f" of {name}"
    if online:
        yield HealthCheck("worker", "ok", f"{len(online)} online{of_pool}")
    else:
        yield HealthCheck("worker", "fail", f"none{of_pool} is online, so that nothing is started", start)


def _pools_of_deployments(client: SyncPrefectClient) -> list[str]:
    return sorted({each.work_pool_name for each in deployments_of_products(client) if each.work_pool_name})


def _deployments(client: SyncPrefectClient) -> Iterator[HealthCheck]:
    found = deployments_of_products(client)
    paused = sorted(each.name for each in found if each.paused)
    if paused:
        yield HealthCheck("deployments", "warn", f"paused: {', '.join(paused)}", "resume them in the UI")
    else:
        yield HealthCheck("deployments", "ok", ", ".join(sorted(each.name for each in found)) or "none yet")


def _overdue(client: SyncPrefectClient, home: Home) -> Iterator[HealthCheck]:
    from datetime import UTC, datetime

    from tabularium.flows.operations.reporting.overdue import overdue

    found = overdue(client, home, datetime.now(UTC))
    releases = [each for each in found if not each.inbox]
    if releases:
        said = f"overdue: {'; '.join(each.line() for each in releases)}"
        yield HealthCheck("releases", "warn", said, "see what became of their runs in the UI")
    for each in found:
        if each.inbox:
            hint = f"ask the sender of {each.inbox}, or deploy with another --due"
            yield HealthCheck("deliveries", "warn", f"no data have arrived: {each.line()}", hint)


def _runs(client: SyncPrefectClient, home: Home) -> Iterator[HealthCheck]:
    from tabularium.flows.operations.reporting import runs_seen
    from tabularium.flows.operations.waiting import decided_runs

    found = []
    decided = [run for run in decided_runs(client, home) if runs_seen.since_a_minute(run)]
    if decided:
        said = (
            f"{len(decided)} wait though an officer has decided: {'; '.join(map(runs_seen.named, decided))}"
        )
        found.append((said, "the watcher lets them go on; see that it runs"))
    waiting = runs_seen.waiting_for_officers(client)
    if waiting:
        found.append((f"waiting for an officer: {'; '.join(waiting)}", "see what each says in the UI"))
    retried = runs_seen.trying_again(client)
    if retried:
        found.append(
            (f"trying again later: {'; '.join(retried)}", "each goes on by itself once that is fixed")
        )
    number, since = runs_seen.late(client)
    if number:
        minutes = since.total_seconds() / 60
        hint = "wait for those before it; see that a worker is online"
        found.append((f"{number} should have begun, the first {minutes:.0f} minutes ago", hint))
    for name, runs in runs_seen.ended_badly(client).items():
        if runs:
            said = f"{len(runs)} {name.lower()} in the last {runs_seen.DAYS} days, the last one {runs[0]}"
            found.append((said, "see what each says in the UI"))
    for said, hint in found:
        yield HealthCheck("runs", "warn", said, hint)
    if not found:
        yield HealthCheck("runs", "ok", f"none waits; none failed in the last {runs_seen.DAYS} days")
