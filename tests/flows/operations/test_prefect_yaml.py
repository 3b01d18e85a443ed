"""The commands that stand in ``deploy/prefect.yaml``, on a server that is new, and a run of what they deploy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tabularium.flows.operations.prefect_api import own_server, settings_of
from tests.flows.operations.installations import worker
from tests.flows.operations.products import history, state, until
from tests.flows.release.scene import states, write_scene

ROOT = Path(__file__).parents[3]


@pytest.mark.audit
def test_the_commands_work_as_printed_and_twice(tmp_path: Path) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    text = (ROOT / "deploy" / "prefect.yaml").read_text()
    *commands, works = re.findall(r"^#   ((?:prefect|python) .*)$", text, re.M)
    assert len(commands) == 2 and "operations.worker" in works
    works = works.replace('"$(hostname)"', "here")
    (told,) = yaml.safe_load(text)["deployments"]
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    with own_server() as server:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **server.environment(), "PATH": path}
        for command in commands * 2:
            done = subprocess.run(
                command.split(),
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        with settings_of(server.url, server.sign_in), get_client(sync_client=True) as client:
            made = client.read_deployment_by_name("tabularium-release/acs-persons")
            assert (made.entrypoint, made.work_pool_name) == (
                "tabularium.flows.release.release",
                "tabularium",
            )
            assert made.parameters["period"] == "{scheduled:%Y}"
            (planned,), (schedule,) = made.schedules, told["schedules"]
            assert (planned.schedule.cron, planned.schedule.timezone) == ("0 6 1 2 *", schedule["timezone"])
            assert planned.active is schedule["active"] is False
            # What the schedule will do one day, with people that are here: the period comes from when it is due.
            spec, home = write_scene(tmp_path)
            due = Scheduled(scheduled_time=datetime(2026, 2, 1, 5, tzinfo=UTC))
            parameters = {"spec": str(spec), "home": str(home.path)}
            run = client.create_flow_run_from_deployment(made.id, parameters=parameters, state=due).id
            with worker(works.split(), environment, ROOT, tmp_path / "worker.log"):
                until(
                    "it is published",
                    lambda: state(client, run) in {"Completed", "Failed"},
                    150,
                    lambda: history(client, run),
                )
            assert state(client, run) == "Completed", history(client, run)
            assert "period:2026" in client.read_flow_run(run).tags
            assert states(home) == ["published"]
            assert len(list((tmp_path / "releases").glob("small/2026/*[0-9a-f]"))) == 1
