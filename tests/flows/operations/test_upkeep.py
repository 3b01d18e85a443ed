"""Upkeep is deployed once however often it is asked for, and a real worker does it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tabularium.flows.operations.deployments.prepare import NAME, UPKEEP, ensure
from tabularium.flows.operations.reporting.overdue import ended_badly
from tests.flows.operations.installations import Up
from tests.flows.operations.products import open_account, state, until
from tests.ledger.storage.postgres import Server

pytestmark = pytest.mark.xdist_group("operations")


def test_it_is_there_since_up_and_where_exports_go_is_remembered(installation: Up, tmp_path: Path) -> None:
    with installation.client() as client:
        names = [f"{each.flow}/{NAME}" for each in UPKEEP]
        before = {name: client.read_deployment_by_name(name) for name in names}
        assert [found.schedules[0].schedule.cron for found in before.values()] == [u.cron for u in UPKEEP]
        for export_to in (tmp_path, None):
            assert ensure(installation.home, export_to) == names
        for each, name in zip(UPKEEP, names, strict=True):
            after = client.read_deployment_by_name(name)
            assert after.id == before[name].id and len(after.schedules) == 1
            assert after.parameters.get("export_to") == (str(tmp_path) if each.exports else None)


def night(client: Any, export_to: Path) -> str:
    """Have a worker verify the ledger now; return the message of the run's last state."""
    deployment = client.read_deployment_by_name(f"verify-ledger/{NAME}").id
    run = client.create_flow_run_from_deployment(deployment, parameters={"export_to": str(export_to)}).id
    until("the night is over", lambda: state(client, run) in ("Completed", "Failed"), 120)
    return str(client.read_flow_run(run).state.message)


@pytest.mark.audit
def test_a_night_leaves_an_export(installation: Up, tmp_path: Path) -> None:
    open_account(installation.home)
    with installation.client() as client:
        assert "entries are in order; exported to" in night(client, tmp_path)
    assert len(list(tmp_path.glob("ledger-*.txt"))) == 1


def test_a_night_that_fails_is_one_line_and_an_event(installation: Up, tmp_path: Path) -> None:
    open_account(installation.home)
    asked = {"filter": {"event": {"name": ["tabularium.upkeep.failed"]}}}
    with installation.client() as client:
        said = night(client, tmp_path / "missing")
        assert "this folder for exports is not there; mount it" in said and "\n" not in said
        until(
            "the event arrives",
            lambda: client.request("POST", "/events/filter", json=asked).json()["events"],
            30,
        )


def test_the_doctor_sees_the_whole_installation(installation: Up) -> None:
    open_account(installation.home)
    said = installation.run_cli("doctor").stdout
    for thing in (
        "versions",
        "home",
        "ledger",
        "server",
        "page",
        "pool",
        "worker",
        "deployments",
        "disk",
        "clock",
    ):
        assert f"ok   {thing}" in said, said
    assert "fail " not in said
    assert " runs " in said


def test_the_doctor_says_which_runs_failed_and_why_and_which_are_late(
    installation: Up, tmp_path: Path
) -> None:
    with installation.client() as client:
        from prefect.states import Failed, Scheduled

        from tabularium.flows.release import release

        parameters = {"spec": "x.yaml"}
        product = ["product:mills", "period:2026"]
        bad = Failed(message="the spec is gone\nand more")
        client.create_flow_run(release, parameters=parameters, tags=product, state=bad)
        then = datetime.now(UTC) - timedelta(minutes=12.2)
        late = client.create_flow_run(
            release, parameters=parameters, tags=product, state=Scheduled(scheduled_time=then)
        )
        said = installation.run_cli("doctor").stdout
        client.delete_flow_run(late.id)
        failed = ended_badly(client)["Failed"]
    # Of which one is the last: other tests on this server have runs that fail.
    assert "mills, period 2026: the spec is gone" in failed
    assert f"failed in the last 7 days, the last one {failed[0]}; see" in said
    assert "should have begun, the first 12 minutes ago" in said
    assert "worker        1 online" in said


@pytest.mark.audit
def test_the_doctor_says_that_the_servers_database_is_away(on_postgresql: Up, server: Server) -> None:
    with server.away(on_postgresql.database):
        began = time.monotonic()
        done = on_postgresql.run_cli("doctor", check=False)
    assert "answers, and cannot say more (5" in done.stdout
    assert "see that its database is up" in done.stdout
    assert time.monotonic() - began < 30
