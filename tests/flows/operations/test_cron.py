"""A deployment with a cron schedule fires by itself, on a server whose database is PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.flows.operations.installations import Up
from tests.flows.operations.products import open_account, runs_of, until
from tests.flows.release.scene import write_scene


@pytest.mark.audit
@pytest.mark.xdist_group("operations")
def test_a_schedule_fires_and_publishes_its_period(
    on_postgresql: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up = on_postgresql
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("product: small", "product: by-cron"))
    open_account(up.home)
    up.run_cli("deploy", str(spec), "--cron", "* * * * *", "--period", "{scheduled:%Y-%m-%dT%H%M}")
    with up.client() as client:
        made = client.read_deployment_by_name("tabularium-release/by-cron").id
        done: list[Any] = []

        def fired() -> bool:
            done[:] = [run for run in runs_of(client, made) if run.state.is_final()]
            return bool(done)

        until("the schedule fires and its run ends", fired, 180)
    up.run_cli("deploy", str(spec), "--remove")
    (run,) = done
    assert run.state.is_completed(), run.state
    assert "auto-scheduled" in run.tags
    assert run.expected_start_time.second == 0
    period = run.expected_start_time.strftime("%Y-%m-%dT%H%M")
    assert f"period:{period}" in run.tags
    (published,) = (tmp_path / "releases" / "by-cron").glob("[!.]*")
    assert published.name == period
    assert re.fullmatch("[0-9a-f]{32}", next(published.glob("*[0-9a-f]")).name)
    late = (run.start_time - run.expected_start_time).total_seconds()
    took = (run.end_time - run.start_time).total_seconds()
    with capsys.disabled():
        print(f"\nperiod {period}: scheduled to running {late:.1f} s, running to published {took:.1f} s")
