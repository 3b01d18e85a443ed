"""The steps that make the image, run for real: installed by one user, used by another who can change nothing of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tabularium.flows.operations.server_address import answers
from tests.debian import Unavailable
from tests.flows.operations.products import until
from tests.pages import browser

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
USER = 10001
# Folders of the image, and where the test has them instead.
PLACES = ("/opt/tabularium", "/run/tabularium", "/var/lib/tabularium", "/var/cache/tabularium", "/tmp")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]


@dataclass(frozen=True)
class Image:
    """What would be in the image, and who runs it with which environment."""

    prefix: Path
    folder: Path
    environment: dict[str, str]

    def run(self, line: str, cwd: Path | None = None) -> str:
        """Run a program of the image as its user; it ends well."""
        done = as_user(["with-secrets", *line.split()], cwd=cwd or self.folder, env=self.environment)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout


def environment(root: Path) -> dict[str, str]:
    """The variables that the Dockerfile sets, with the folders of the test."""
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    pairs = dict(pair.split("=", 1) for pair in block.replace("\\\n", " ").split())
    place = re.compile("(?<![^:=])(?=" + "|".join(PLACES) + ")")
    moved = {name: place.sub(str(root), value) for name, value in pairs.items()}
    # The user's own settings and the tests' are not the image's.
    return {
        **moved,
        "PATH": moved["PATH"].replace("$PATH", "/usr/bin:/bin"),
        "HOME": str(root / "var/lib/tabularium"),
    }


def interpreter(root: Path) -> str:
    """A Python that another user may run too: one below somebody's home is closed to them."""
    tried = root / "tried"
    for program in ("python3", "/usr/bin/python3", "/usr/local/bin/python3"):
        # env says by its exit code that there is no such program, or that this user may not run it.
        made = subprocess.run(["env", program, "-m", "venv", tried], capture_output=True, check=False)
        runs = as_user(
            ["env", tried / "bin/python", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        )
        shutil.rmtree(tried, ignore_errors=True)
        if made.returncode == runs.returncode == 0:
            return program
    pytest.skip("no Python 3.11 with venv that another user could run")


def as_user(words: list[str | Path], **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a program as the image's user, where this user may become another; as this one otherwise."""
    who = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(
        words, umask=0o077, capture_output=True, text=True, check=False, timeout=300, **who, **settings
    )


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The prefix that ``install.sh`` makes, and the folders that the image's user may write."""
    root = Path(tempfile.mkdtemp(prefix="tabularium-image-"))
    root.chmod(0o755)
    prefix = root / "opt/tabularium"
    prefix.parent.mkdir()
    before = {path for path in ROOT.iterdir() if path.name != ".git"}
    try:
        done = subprocess.run(
            [ROOT / "deploy" / "install.sh", ROOT, prefix],
            env={**os.environ, "PYTHON": interpreter(root)},
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert {path for path in ROOT.iterdir() if path.name != ".git"} == before
        for place in (*PLACES[1:], "/srv"):
            folder = root / place[1:]
            folder.mkdir(parents=True)
            folder.chmod(0o700)
            if os.geteuid() == 0:
                os.chown(folder, USER, USER)
        yield Image(prefix, root / "srv", environment(root))
    finally:
        for path in prefix.rglob("*"):  # the prefix is read-only, for its owner too
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        prefix.chmod(0o755)
        shutil.rmtree(root)


def test_the_dockerfile_runs_the_script_of_this_test() -> None:
    runs = re.findall(r"^RUN (.*)$", DOCKERFILE, re.MULTILINE)
    assert runs[0] == "/source/deploy/install.sh /source /opt/tabularium"
    assert len(runs) == 2
    assert 'ENTRYPOINT ["with-secrets"]' in DOCKERFILE
    assert f"USER {USER}:{USER}" in DOCKERFILE


@pytest.mark.audit
def test_what_is_installed_is_pinned_and_read_only(image: Image) -> None:
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    pinned = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned.items()}
    listed = json.loads(image.run("python -m pip list --format json --disable-pip-version-check"))
    there = {re.sub(r"[-_.]+", "-", entry["name"]).lower(): entry["version"] for entry in listed}
    assert {name: v for name, v in there.items() if pinned.get(name, v) != v} == {}
    assert set(there) - set(pinned) <= {"pip", "tabularium-dp"}
    assert not {"pytest", "mypy", "moto"} & set(there)
    writable = [p for p in image.prefix.rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o222]
    assert not writable


@pytest.mark.audit
def test_a_release_is_published_where_no_code_can_be_changed(image: Image) -> None:
    files = {path: path.stat().st_mtime_ns for path in image.prefix.rglob("*")}
    image.run("tabularium sample --rows 3000 --meshblocks 20 --out people.parquet")
    spec = image.folder / "people.yaml"
    # A mechanism whose kernels are compiled: their machine code is kept outside the prefix.
    spec.write_text(
        spec.read_text().replace("[status, income]\n", "[status, income]\n    mechanism: noise_first\n")
    )
    image.run("tabularium ledger open people --cap 4 --unit record")
    outcome = json.loads(image.run("tabularium run people.yaml --json"))
    assert outcome["status"] == "published"
    assert json.loads(image.run("tabularium run people.yaml --json"))["status"] == "already published"
    root = image.folder.parent
    assert list((root / "var/cache/tabularium/kernels").rglob("*.nbi"))
    assert list((root / "run/tabularium").iterdir()) == []
    assert (root / "var/lib/tabularium/home/ledger.db").exists()
    assert {path: path.stat().st_mtime_ns for path in image.prefix.rglob("*")} == files


@contextmanager
def started(image: Image, words: list[str], **more: str) -> Iterator[Callable[[], str]]:
    """Run a program of the image in the background, as its user; what it says so far is yielded."""
    who = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    said = image.folder / "said.txt"
    with said.open("w") as out:
        running = subprocess.Popen(
            ["with-secrets", *words],
            cwd=image.folder,
            env={**image.environment, "COLUMNS": "300", **more},
            stdout=out,
            stderr=out,
            umask=0o077,
            **who,  # type: ignore[call-overload]
        )
    try:
        yield said.read_text
    finally:
        running.terminate()
        assert running.wait(90) in (0, -signal.SIGTERM), said.read_text()


def sign_in(page: str, password: str) -> None:
    """Open the page in a browser and sign in, as a person does."""
    try:
        with browser() as running:
            window = running.new_page()
            window.goto(page)
            window.wait_for_selector("input[type=password]", timeout=60_000)
            window.fill("input[type=password]", password)
            window.keyboard.press("Enter")
            window.wait_for_url("**/dashboard**", timeout=60_000)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.audit
def test_the_page_of_the_installation_opens_in_a_browser(image: Image) -> None:
    with started(image, ["tabularium", "up", "--port", "0"]) as said:
        until("it runs", lambda: "Tabularium runs" in said(), 180, said)
        (page,) = re.findall("Tabularium runs: (http://.*)", said())
        password = Path(image.environment["TABULARIUM_HOME"]) / "server" / "password"
        sign_in(page, password.read_text().strip())
        closed = image.folder.parent / "home of who ran sudo"
        closed.mkdir(mode=0o700)
        # Its code may be that of a failure: the worker is perhaps not yet online.
        line = ["with-secrets", "tabularium", "doctor", "--json"]
        health = json.loads(as_user(line, cwd=closed, env=image.environment).stdout)
        (look,) = (each for each in health["looks"] if each["thing"] == "page")
        assert (look["state"], look["said"]) == ("ok", page)


@pytest.mark.audit
def test_the_page_of_the_containers_opens_in_a_browser(image: Image) -> None:
    """Their server listens on every address, and only its port is known to whoever opens the page."""
    words = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["server"]["command"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        page = f"http://127.0.0.1:{free.getsockname()[1]}"
    port = [page.rpartition(":")[2] if word == "4200" else word for word in words]
    auth = image.folder / "auth"
    auth.write_text("admin:of this very test")
    if os.geteuid() == 0:
        os.chown(auth, USER, USER)
    with started(image, port, PREFECT_AUTH_FILE=str(auth)) as said:
        until("it answers", lambda: answers(f"{page}/api/health"), 180, said)
        sign_in(page, auth.read_text())
