"""Whether the Prefect part of an installation is well: server, work pool, worker, deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flows.operations.names_in_prefect import FLOW, WORK_POOL
from flows.operations.prefect_api import configured_url, connected
from tasks.custody.home_health import Look
from tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


def looks_at_prefect(home: Home) -> Iterator[Look]:
    """Go through what the Prefect API of this installation says; without one there is one finding."""
    with connected(home, needed=configured_url() is not None) as url:
        if url is None:
            yield Look(
                "server",
                "warn",
                "no Prefect API answers; releases run by hand alone",
                f"tabularium up{home.option}",
            )
            return
        from prefect import __version__
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            there = client.api_version()
            if there.split(".")[:2] == __version__.split(".")[:2]:
                yield Look("server", "ok", f"Prefect {there} at {url}")
            else:
                yield Look(
                    "server",
                    "warn",
                    f"Prefect {there} at {url}, and {__version__} here",
                    "install the same version on both",
                )
            yield from _pool(client, home)
            yield from _deployments(client)
            yield from _runs(client)


def _pool(client: SyncPrefectClient, home: Home) -> Iterator[Look]:
    from prefect.exceptions import ObjectNotFound

    try:
        pool = client.read_work_pool(WORK_POOL)
    except ObjectNotFound:
        yield Look("pool", "fail", f"there is no work pool {WORK_POOL}", f"tabularium up{home.option}")
        return
    if pool.is_paused:
        yield Look("pool", "fail", "is paused", f"prefect work-pool resume {WORK_POOL}")
    else:
        yield Look("pool", "ok", f"{pool.name}, of type {pool.type}")
    workers = client.request(
        "POST",
        "/work_pools/{work_pool_name}/workers/filter",
        path_params={"work_pool_name": WORK_POOL},
        json={},
    )
    online = [each for each in workers.json() if each.get("status") == "ONLINE"]
    if online:
        yield Look("worker", "ok", f"{len(online)} online")
    else:
        yield Look(
            "worker", "fail", "none is online, so that nothing is started", f"tabularium up{home.option}"
        )


def _deployments(client: SyncPrefectClient) -> Iterator[Look]:
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName

    found = client.read_deployments(flow_filter=FlowFilter(name=FlowFilterName(any_=[FLOW])))
    paused = sorted(each.name for each in found if each.paused)
    if paused:
        yield Look("deployments", "warn", f"paused: {', '.join(paused)}", "resume them in the UI")
    else:
        yield Look("deployments", "ok", ", ".join(sorted(each.name for each in found)) or "none yet")


def _runs(client: SyncPrefectClient) -> Iterator[Look]:
    from flows.operations.told.runs_seen import DAYS, ended_badly, waiting_for_officers

    waiting = waiting_for_officers(client)
    if waiting:
        yield Look(
            "runs", "warn", f"waiting for an officer: {'; '.join(waiting)}", "see what each says in the UI"
        )
    bad = ", ".join(f"{number} {name.lower()}" for name, number in ended_badly(client).items() if number)
    if bad:
        yield Look("runs", "warn", f"in the last {DAYS} days {bad}", "see what each says in the UI")
    elif not waiting:
        yield Look("runs", "ok", f"none waits; none failed in the last {DAYS} days")
