"""``tabularium deploy`` on a real server: what it makes, what a run of it publishes, and what Prefect is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tabularium.flows.operations.deployments.deployment import remove
from tests.flows.operations.installations import Up
from tests.flows.operations.products import open_account
from tests.flows.release.scene import write_scene
from tests.sizes import full

ROOT = Path(__file__).parents[3]
NAME = "tabularium-release/deployed"
pytestmark = pytest.mark.xdist_group("operations")


PAGE = "https://statistics.example/deployed"


def product_of(installation: Up, folder: Path) -> Path:
    """Write a product with a file for each of two periods, both the same; return its spec."""
    spec, _ = write_scene(folder)
    open_account(installation.home)
    spec.write_text(
        spec.read_text()
        .replace("product: small", "product: deployed")
        .replace("people.csv", '"people-{period}.csv"')
        + f"about: {{url: {PAGE}}}\n"
    )
    for period in ("2026-Q4", "2027-Q1"):
        (folder / f"people-{period}.csv").write_bytes((folder / "people.csv").read_bytes())
    return spec


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A webhook on this machine, and the messages it gets."""
    heard: list[dict[str, str]] = []

    class Listening(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Listening) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", heard
        server.shutdown()


def ended(client: Any, run_id: Any, seconds: float = 120) -> Any:
    """Wait for a run's last state."""
    end = time.monotonic() + seconds
    while not (run := client.read_flow_run(run_id)).state.is_final():
        assert time.monotonic() < end, run.state
        time.sleep(0.3)
    return run


def test_a_deployment_publishes_the_period_of_its_schedule_and_shows_what_it_did(
    installation: Up, tmp_path: Path
) -> None:
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
    from prefect.states import Scheduled

    spec = product_of(installation, tmp_path)
    words = ["deploy", str(spec), "--cron", "0 6 1 */3 *", "--timezone", "Europe/Berlin", "--json"]
    words += ["--period", "{scheduled:%Y-Q%q}", "--warn-below", "99.9%"]
    with (
        installation.client() as client
    ):  # on a server that `tabularium up` does not run, nobody made it before
        client.delete_deployment(client.read_deployment_by_name("verify-ledger/upkeep").id)
    tells = (installation.run_cli if full() else installation.call, installation.call)
    told = [json.loads(tell(*words).stdout) for tell in tells]
    assert told[0] == told[1], "doing it again changes nothing"
    with webhook() as (address, heard), installation.client() as client:
        installation.call("notify", str(ROOT / "deploy" / "automations.yaml"), "--to", address)
        again = installation.call("notify", str(ROOT / "deploy" / "automations.yaml")).stdout
        assert "Messages go where they went." in again
        made = client.read_deployment_by_name(NAME)
        assert str(made.id) == told[0]["id"]
        assert client.read_deployment_by_name("verify-ledger/upkeep").schedules
        assert made.job_variables["env"] == {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        assert (made.work_pool_name, made.entrypoint) == ("tabularium", "tabularium.flows.release.release")
        assert made.global_concurrency_limit is None
        assert [each.schedule.cron for each in made.schedules] == ["0 6 1 */3 *"]
        # Half past midnight of 1 October in Berlin is still September in Greenwich.
        run = client.create_flow_run_from_deployment(
            made.id, state=Scheduled(scheduled_time=datetime(2026, 9, 30, 22, 30, tzinfo=UTC))
        )
        run = ended(client, run.id)
        assert run.state.is_completed(), run.state
        assert {"tabularium", "product:deployed", "period:2026-Q4"} <= set(run.tags)
        folder = next((tmp_path / "releases" / "deployed" / "2026-Q4").glob("*[0-9a-f]/"))
        of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        shown = {each.key: each for each in client.read_artifacts(artifact_filter=of_run)}
        markdown = shown["release-deployed"].data
        assert str(folder) in markdown
        assert "This release cost ε = 1 of account `people`." in markdown
        assert PAGE in shown["page-deployed"].data
        rows = json.loads(shown["tables-deployed"].data)
        assert [(row["table"], row["level"], row["cells"]) for row in rows] == [
            ("area_age_sex", "nation", 6),
            ("area_age_sex", "province", 12),
            ("area_age_sex", "place", 18),
            ("age_sex", "", 6),
        ]
        assert (shown["progress-deployed"].data, shown["progress-deployed"].description) == (100, "published")
        subjects = {"Published: deployed, 2026-Q4", "Budget of account people is low"}
        if full():
            # The next period's file is the same: nobody replaced it, and nothing is spent.
            again = ended(
                client, client.create_flow_run_from_deployment(made.id, parameters={"period": "2027-Q1"}).id
            )
            assert again.state.is_failed()
            assert again.state.message.startswith("refused: data rules")
            subjects.add("Not published: deployed, 2027-Q1")
        end = time.monotonic() + 60
        while not subjects <= {each["subject"] for each in heard} and time.monotonic() < end:
            time.sleep(0.3)
        assert subjects <= {each["subject"] for each in heard}
        for automation in client.read_automations():
            if automation.name.startswith("tabularium: tell"):
                client.delete_automation(automation.id)
        said = installation.call("deploy", str(spec)).stdout
        assert "No longer on a schedule (was 0 6 1 */3 *, Europe/Berlin)" in said
        waits = client.create_flow_run_from_deployment(
            made.id, state=Scheduled(scheduled_time=datetime.now(UTC) + timedelta(days=1))
        )
        installation.call("deploy", "deployed", "--remove")
        assert client.read_flow_run(waits.id).state.is_cancelled()
        assert not remove(client, "deployed"), "nothing is left to remove"


def test_the_account_and_the_spec_are_checked_first(installation: Up, tmp_path: Path) -> None:
    from prefect.exceptions import ObjectNotFound

    spec, _ = write_scene(tmp_path, rows=5)
    spec.write_text(spec.read_text().replace("dataset: people", "dataset: nobodys"))
    spec.write_text(spec.read_text().replace("product: small", "product: unpaid"))
    done = installation.call("deploy", str(spec), check=False)
    assert done.exit_code == 1
    assert "no such account" in done.stderr
    with installation.client() as client, pytest.raises(ObjectNotFound):
        client.read_deployment_by_name("tabularium-release/unpaid")


def test_a_pool_of_ones_own_with_its_queue_and_workers(installation: Up, tmp_path: Path) -> None:
    """An agency's pool: its own worker runs what is deployed there, and `doctor` looks after it too."""
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.settings import get_current_settings
    from prefect.workers.process import ProcessWorker

    spec = product_of(installation, tmp_path)
    spec.write_text(spec.read_text().replace("product: deployed", "product: pooled"))
    words = ("deploy", str(spec), "--cron", "0 6 1 */3 *", "--period", "{scheduled:%Y-Q%q}", "--json")
    where = ("--pool", "agency", "--queue", "statistics", "--tag", "health")
    assert "prefect work-pool create agency" in installation.call(*words, *where, check=False).stderr
    with installation.client() as client:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name="agency", type="process", base_job_template=template))
        assert "prefect work-queue create statistics --pool agency" in (
            installation.call(*words, *where, check=False).stderr
        )
        client.create_work_queue("statistics", work_pool_name="agency")
        told = json.loads(installation.call(*words, *where).stdout)
        assert (told["work_pool"], told["work_queue"]) == ("agency", "statistics")
        assert told["forecast"]["ten_years"]["periods"] == 40
        made = client.read_deployment_by_name("tabularium-release/pooled")
        assert (made.work_pool_name, made.work_queue_name) == ("agency", "statistics")
        assert {"tabularium", "product:pooled", "health"} <= set(made.tags)
        run = client.create_flow_run_from_deployment(made.id, parameters={"period": "2026-Q4"})
        assert "prefect worker start --pool agency" in installation.call("doctor", check=False).stdout
        worker = subprocess.run(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", "agency", "--run-once"],
            cwd=tmp_path,
            env={**os.environ, **get_current_settings().to_environment_variables(exclude_unset=True)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert worker.returncode == 0, worker.stderr[-2000:]
        assert ended(client, run.id).state.is_completed()
        assert "health" in client.read_flow_run(run.id).tags
    assert "No longer in work pool agency" in installation.call("deploy", str(spec)).stdout
    installation.call("deploy", "pooled", "--remove")
