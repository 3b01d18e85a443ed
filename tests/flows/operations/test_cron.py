"""A deployment with a cron schedule fires by itself, on a server whose database is PostgreSQL."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.flows.operations.installations import running
from tests.flows.operations.products import open_account
from tests.flows.release.scene import write_scene
from tests.ledger.storage.postgres import Server


@pytest.mark.audit
@pytest.mark.xdist_group("operations")
def test_a_schedule_fires_and_publishes_its_period(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = server.url(server.new_database()).replace("+psycopg", "+asyncpg")
    spec, home = write_scene(tmp_path)
    open_account(home)
    with running(home.path, "--database", database) as up:
        up.run_cli("deploy", str(spec), "--cron", "* * * * *", "--period", "{scheduled:%Y-%m-%dT%H%M}")
        with up.client() as client:
            end = time.monotonic() + 180
            while not (done := [run for run in client.read_flow_runs() if run.state.is_final()]):
                assert time.monotonic() < end, "the schedule did not fire"
                time.sleep(0.5)
        up.run_cli("deploy", str(spec), "--remove")
    (run,) = done
    assert run.state.is_completed(), run.state
    assert "auto-scheduled" in run.tags
    assert run.expected_start_time.second == 0
    period = run.expected_start_time.strftime("%Y-%m-%dT%H%M")
    assert f"period:{period}" in run.tags
    (published,) = (tmp_path / "releases" / "small").glob("[!.]*")
    assert published.name == period
    assert re.fullmatch("[0-9a-f]{32}", next(published.iterdir()).name)
    late = (run.start_time - run.expected_start_time).total_seconds()
    took = (run.end_time - run.start_time).total_seconds()
    with capsys.disabled():
        print(f"\nscheduled to running {late:.1f} s, running to published {took:.1f} s")
