"""What another user of the machine gets of a server that ``tabularium run --prefect`` starts: nothing."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path

from tests.flows.operations.installations import CLI, ROOT, children
from tests.flows.operations.other_users import another_user, needs_root
from tests.flows.release.scene import write_scene

pytestmark = [needs_root]
ANSWERED = {"GET /api/health": {200}, "GET /api/ready": {200}}


def start(folder: Path) -> subprocess.Popen[str]:
    """Start a release on a server of its own."""
    spec, home = write_scene(folder)
    words = [*CLI, "run", str(spec), "--home", str(home.path), "--json", "--prefect"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


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


def test_who_is_not_signed_in_is_told_that_the_server_is_well_and_no_more(tmp_path: Path) -> None:
    with another_user(takes=False) as found:
        process = start(tmp_path)
        secret = sign_in(process)
        said, complained = process.communicate(timeout=300)
    engine = json.loads(said)["engine"]
    port = int(engine.rpartition(":")[2].removesuffix("/api"))
    answers = found.answers[port]
    assert {"GET /api/health", "POST /api/flow_runs/filter"} <= set(answers)
    assert {path: codes for path, codes in answers.items() if not codes <= {401, 403, 404}} == ANSWERED
    assert answers["POST /api/flow_runs/filter"] == {401}
    assert len(secret) > 30
    assert any("prefect_server" in words for words in found.words)
    assert not [words for words in found.words if secret.partition(":")[2] in words]
    assert not found.secrets
    assert secret.partition(":")[2] not in said + complained


def test_nobody_listens_in_the_place_of_the_server(tmp_path: Path) -> None:
    with another_user(takes=True) as found:
        process = start(tmp_path)
        said, complained = process.communicate(timeout=300)
    assert not found.taken
    assert not found.heard
    assert json.loads(said)["status"] == "published", complained
