"""The commands that stand in ``deploy/prefect.yaml``, on a server that is new."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.operations.prefect_api import own_server

ROOT = Path(__file__).parents[3]


@pytest.mark.audit
def test_the_commands_work_as_printed_and_twice() -> None:
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    text = (ROOT / "deploy" / "prefect.yaml").read_text()
    commands = [line for line in re.findall(r"^#   (prefect .*)$", text, re.M) if "worker" not in line]
    assert len(commands) == 2
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    with own_server() as url:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for command in commands * 2:
            done = subprocess.run(
                command.split(),
                cwd=ROOT,
                env={**os.environ, "PREFECT_API_URL": url, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
            made = client.read_deployment_by_name("tabularium-release/acs-persons")
            assert (made.entrypoint, made.work_pool_name) == ("flows.release.release", "tabularium")
            assert made.parameters["period"] == "{scheduled:%Y}"
            (arrival,) = client.read_automations_by_name("tabularium: arrival of acs-persons")
            (action,) = arrival.actions
            assert action.parameters["source"] == "drop:{{ event.payload.drop }}"
