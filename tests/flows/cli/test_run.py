"""``tabularium run``: in its own process, on a Prefect server that is there, or on one that it starts itself."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tabularium.flows.operations.prefect_api import OwnServer
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import InternalError
from tests.flows.release.scene import publish_with, write_scene
from tests.sizes import full

ROOT = Path(__file__).parents[3]
# One worker: Prefect makes its database once.
pytestmark = pytest.mark.xdist_group("engine")

COMMAND = """
import sys
from tabularium.flows.cli.app import app
try:
    app(sys.argv[1:], standalone_mode=False)
finally:
    heavy = [n for n in ("great_expectations", "prefect", "prefect.server.api.server") if n in sys.modules]
    print("imported:", *heavy, file=sys.stderr)
"""
UNREACHABLE = "http://127.0.0.1:9/api"


@pytest.fixture(scope="module")
def server(prefect_server: OwnServer) -> OwnServer:
    return prefect_server


def run(
    spec: Path, home: Path, *words: str, api: OwnServer | str | None = None
) -> tuple[dict[str, Any], str]:
    """Run the command; return what it said to programs, and to people."""
    environment = {**os.environ, "COLUMNS": "300"}
    if isinstance(api, OwnServer):
        environment |= api.environment()
    elif api is not None:
        environment["PREFECT_API_URL"] = api
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", str(spec), "--home", str(home), "--json", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return json.loads(done.stdout or "{}"), done.stderr


def ask(server: OwnServer, what: str) -> list[dict[str, Any]]:
    token = base64.b64encode(server.sign_in.encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    request = urllib.request.Request(f"{server.url}/{what}/filter", b"{}", headers)
    with urllib.request.urlopen(request) as answer:
        return list(json.load(answer))


def test_without_an_api_a_release_needs_no_prefect_and_a_published_one_neither_library(
    tmp_path: Path,
) -> None:
    spec, home = write_scene(tmp_path)
    first, said = run(spec, home.path)
    assert (first["status"], first["engine"]) == ("published", "process")
    assert "prefect" not in said
    again, said = run(spec, home.path)
    assert (again["status"], again["engine"]) == ("already published", "none")
    assert said.endswith("imported:\n")
    # Not even an API that does not answer is asked about what is published.
    again, said = run(spec, home.path, api=UNREACHABLE)
    assert again["folder"] == first["folder"]
    assert said.endswith("imported:\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(".env", f"PREFECT_API_URL={UNREACHABLE}\n", marks=pytest.mark.audit),
        pytest.param("prefect.toml", f'[api]\nurl = "{UNREACHABLE}"\n', marks=pytest.mark.audit),
        ("pyproject.toml", f'[tool.prefect.api]\nurl = "{UNREACHABLE}"\n'),
        (
            "profiles.toml",
            f'active = "here"\n[profiles.here]\nPREFECT_API_URL = "{UNREACHABLE}"\n',
        ),
    ],
)
def test_an_api_is_found_wherever_prefect_lets_it_be_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    asked = "from tabularium.flows.operations.prefect_api import configured_url; print(configured_url())"
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == UNREACHABLE


def test_with_an_api_the_release_is_a_flow_run_there(server: OwnServer, tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text() + "workspace: {keep: true}\n")
    before = {each["id"] for each in ask(server, "flow_runs")}
    outcome, said = run(spec, home.path, api=server)
    assert (outcome["status"], outcome["engine"]) == ("published", f"prefect {server.url}")
    assert said.endswith("imported: prefect\n")
    (flow_run,) = (each for each in ask(server, "flow_runs") if each["id"] not in before)
    assert flow_run["state_type"] == "COMPLETED"
    for _ in range(100):  # the server records tasks from events, a little later
        tasks = {each["name"].rpartition("-")[0] for each in ask(server, "task_runs")}
        if "close the charge" in tasks:
            break
        time.sleep(0.1)
    assert tasks - {"read the input"} == set(outcome["stages"]) - {"ingest", "validate microdata"}
    assert {"read the input", "measure", "publish", "close the charge"} <= tasks
    (kept,) = home.workspaces.iterdir()  # one for all stages
    assert any(str(kept) in note for note in outcome["notes"])


def test_of_refused_data_the_terminal_says_why_and_the_server_only_that(
    server: OwnServer, tmp_path: Path
) -> None:
    """What the server holds is told to whoever may look at it."""
    spec, home = write_scene(tmp_path, extra=[("A1", "30", "7")])
    outcome, said = run(spec, home.path, api=server)
    assert not outcome
    assert "the microdata break max_rejected (sex: not in the code list)" in said
    (name,) = (path.stem for path in home.diagnoses.iterdir())
    assert f"see it again: tabularium diagnose {name} --home {home.path}" in said
    failed = [each for each in ask(server, "flow_runs") if each["state_type"] == "FAILED"]
    (message,) = (each["state"]["message"] for each in failed)
    assert f"refused: data rules; ask where it ran: tabularium diagnose {name}" in message
    kept = json.dumps([ask(server, what) for what in ("flow_runs", "task_runs", "logs", "events")])
    assert name in kept
    assert not [word for word in ("max_rejected", "code list", '"sex"', "sex:") if word in kept]

    if not full():
        return
    # Another input than the one of this release: the server cannot tell it from a rule that failed.
    spec, home = write_scene(tmp_path / "bound")
    with pytest.raises(InternalError):
        publish_with(dict[str, None]().popitem, before="measure", spec=spec, home=home)
    other = spec.with_name("other.csv")
    other.write_text((spec.parent / "people.csv").read_text() + "A1,30,1\n")
    assert "another input was bound" in run(spec, home.path, "--source", str(other), api=server)[1]
    failed = [each["id"] for each in ask(server, "flow_runs") if each["state_type"] == "FAILED"]
    assert len(failed) == 2
    for _ in range(100):
        runs = [each for each in ask(server, "task_runs") if each["flow_run_id"] in failed]
        told = {
            run: sorted(
                (each["name"].rpartition("-")[0], each["state_type"])
                for each in runs
                if each["flow_run_id"] == run
            )
            for run in failed
        }
        if all(("read the input", "FAILED") in each for each in told.values()):
            break
        time.sleep(0.1)
    first, second = told.values()
    assert first == second


def test_asked_for_prefect_without_an_api_it_starts_a_server_and_ends_it(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    outcome, said = run(spec, home.path, "--prefect")
    engine, url = outcome["engine"].split()
    assert engine == "prefect"
    assert said.endswith("imported: prefect\n"), "the server runs in a process of its own"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/health")


def test_an_api_that_does_not_answer_is_one_line_without_its_password_and_nothing_is_charged(
    tmp_path: Path,
) -> None:
    spec, home = write_scene(tmp_path)
    outcome, said = run(spec, home.path, api=UNREACHABLE.replace("//", "//user:secret@"))
    assert not outcome
    assert "secret" not in said
    errors = [line for line in said.splitlines() if "imported" not in line]
    assert len(errors) == 1
    assert errors[0].startswith("error: http://127.0.0.1:9/api: the Prefect API does not answer")
    with Ledger.connect(home.ledger_url) as ledger:
        assert not ledger.charges("people")
