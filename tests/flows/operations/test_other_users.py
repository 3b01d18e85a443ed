"""What another user of the machine gets of a server that ``tabularium run --prefect`` starts: nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tabularium.flows.operations.listeners import LOOPBACK, listening
from tabularium.flows.operations.prefect_api import own_server
from tests.flows.operations.installations import CLI, children, plant_modules
from tests.flows.operations.other_users import another_user, needs_root, port_of, request
from tests.flows.operations.products import until
from tests.flows.release.scene import write_scene
from tests.plain_suites import BY_THE_LIBRARY

pytestmark = [needs_root, pytest.mark.xdist_group("engine")]


def sign_in(process: subprocess.Popen[str]) -> str:
    """Return what the server asks for that a process started, as root may see."""
    while process.poll() is None:
        for pid, _ in children(process.pid):
            with contextlib.suppress(OSError):  # it ended meanwhile
                for word in Path(f"/proc/{pid}/environ").read_text().split("\0"):
                    if word.startswith("PREFECT_SERVER_API_AUTH_STRING="):
                        return word.partition("=")[2]
        time.sleep(0.05)
    return ""


def servers() -> list[int]:
    """Return the Prefect servers that this process has started."""
    return [pid for pid, words in children(os.getpid()) if "prefect_server" in words]


def test_another_user_neither_signs_in_nor_listens_in_the_place_of_the_server(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    words = [*CLI, "run", str(spec), "--home", str(home.path), "--json", "--prefect"]
    started_in = tmp_path / "started in"
    plant_modules(started_in)
    with another_user(takes=True) as taker, another_user(takes=False) as asker:
        process = subprocess.Popen(
            words,
            cwd=started_in,
            env=os.environ | BY_THE_LIBRARY,  # as long as a user's run takes, others may ask
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        secret = sign_in(process).partition(":")[2]
        said, complained = process.communicate(timeout=600)
    assert not taker.heard  # what is free once the run has ended, anybody may take
    assert json.loads(said or "{}").get("status") == "published", complained
    answers = asker.answers[port_of(json.loads(said)["engine"])]
    open_to_all = {path for path, codes in answers.items() if not codes <= {401, 403, 404}}
    # Pages of the server's own in which there is no word of a run. What /docs is made of takes seconds to
    # make, and is seldom there in time.
    pages = {"GET /api/health", "GET /api/ready", "GET /docs", "GET /openapi.json", "GET /ui-settings"}
    assert open_to_all <= pages
    assert "GET /api/health" in open_to_all
    assert answers["POST /api/flow_runs/filter"] == {401}
    assert len(secret) > 30
    assert any("prefect_server" in line for line in asker.words)
    assert not [line for line in asker.words if secret in line]
    assert not asker.secrets
    assert secret not in said + complained


def test_nobody_takes_the_port_of_a_server_that_died() -> None:
    before = set(servers())  # other tests have one of their own
    with own_server() as server, another_user(takes=True, port=port_of(server.url)) as taker:
        port = port_of(server.url)
        (found,) = set(servers()) - before
        os.kill(found, signal.SIGKILL)
        until("connections are refused", lambda: not request(port, "GET", "/api/health")[0], 10)
        began = time.monotonic()
        assert request(port, "GET", "/api/health") == (0, b"")
        assert time.monotonic() - began < 0.5  # and do not wait for ever
        time.sleep(1)
    assert port not in taker.taken


def test_a_run_that_outlives_its_server_keeps_the_port_from_others() -> None:
    program = "import tabularium.flows.upkeep, time; print('ready', flush=True); time.sleep(60)"
    with listening(LOOPBACK, 0) as server:
        port = server.getsockname()[1]
        environment = {**os.environ, "PREFECT_API_URL": f"http://{LOOPBACK}:{port}/api"}
        run = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == b"ready\n"
            server.close()
            with another_user(takes=True, port=port) as kept:
                time.sleep(1)
        finally:
            run.kill()
            run.communicate()
    with another_user(takes=True, port=port) as free:
        time.sleep(1)
    assert port not in kept.taken
    assert port in free.taken
