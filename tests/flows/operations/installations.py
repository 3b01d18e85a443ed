"""``tabularium up`` for tests: started in a process of its own, waited for, stopped in order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.flows.operations.prefect_api import connected
from tabularium.tasks.runtime.home import Home

ROOT = Path(__file__).parents[3]
HALTING = Path(__file__).parent / "halting"
CLI = [str(Path(sys.executable).with_name("tabularium"))]
PLANTED = ("great_expectations", "ibis", "pandas", "prefect", "sqlalchemy", "typer", "uvicorn")


@dataclass
class Up:
    """A running installation.

    Attributes
    ----------
    url
        Its API.
    process
        ``tabularium up`` itself.
    database
        Name of the server's database, where that is on PostgreSQL.
    """

    home: Home
    url: str
    process: subprocess.Popen[str]
    said: Path
    halts: Path
    database: str = ""

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A Prefect client of its API, signed in; inside the block Prefect's settings are the installation's."""
        with connected(self.home):
            from prefect.client.orchestration import get_client

            with get_client(sync_client=True) as client:
                yield client

    def run_cli(
        self, *words: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``tabularium WORDS --home HOME``."""
        done = subprocess.run(
            [*CLI, *words, "--home", str(self.home.path)],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "300", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done

    def call(self, *words: str, check: bool = True) -> Result:
        """Do the same in this process, which has imported everything already."""
        done = CliRunner().invoke(app, [*words, "--home", str(self.home.path)])
        assert not check or done.exit_code == 0, done.output
        return done

    def halt(self, product: str, stage: str) -> None:
        """Have the next run of ``product`` halt where ``stage`` begins; see ``halting/sitecustomize.py``."""
        (self.halts / product).write_text(stage)

    def fail(self, product: str, stage: str, text: str) -> None:
        """Have ``stage`` of the runs of ``product`` raise an error with this text, as a library would."""
        (self.halts / f"{product}.raises").write_text(f"{stage}\n{text}")

    def halted(self, product: str) -> int | None:
        """The process of the run that has halted."""
        file = self.halts / f"{product}.halted"
        return int(file.read_text()) if file.exists() else None

    def kill_halted(self, product: str) -> None:
        """Kill (-9) the run that has halted."""
        found = self.halted(product)
        assert found
        os.kill(found, signal.SIGKILL)

    def go_on(self, product: str) -> None:
        """Let the run that has halted go on."""
        (self.halts / f"{product}.halted").unlink()

    def part(self, module: str) -> int:
        """The process of ``up`` that runs ``module``, such as ``tabularium.flows.operations.worker``; 0 while there is none."""
        return next((pid for pid, words in children(self.process.pid) if module in words), 0)

    def kill(self, module: str) -> None:
        """Kill (-9) the process of ``up`` that runs ``module``."""
        found = self.part(module)
        assert found
        os.kill(found, signal.SIGKILL)

    def log(self, name: str) -> str:
        """What the server, the worker or the watcher said."""
        return (self.home.path / "server" / "logs" / f"{name}.log").read_text()


def halting(halts: Path) -> dict[str, str]:
    """What a process needs in its environment so that its runs halt where files in ``halts`` say."""
    return {"PYTHONPATH": str(HALTING), "TABULARIUM_TEST_HALTS": str(halts)}


def plant_modules(folder: Path) -> None:
    """Make a folder of Python files with the names of libraries; whoever imports one there is stopped by it."""
    folder.mkdir(exist_ok=True)
    for name in PLANTED:
        (folder / f"{name}.py").write_text("raise SystemExit('planted')")


@contextmanager
def running(home: Path, *words: str, seconds: float = 120, **environment: str) -> Iterator[Up]:
    """Run ``tabularium up --port 0`` while the block does."""
    place = Home.at(home)
    said = home.parent / "up.out"
    halts = home.parent / "halts"
    halts.mkdir(exist_ok=True)
    started_in = home.parent / "started in"
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and processes inherit that
    plant_modules(started_in)
    with said.open("w") as file:
        process = subprocess.Popen(
            [*CLI, "up", "--home", str(home), "--port", "0", "--runs", "8", *words],
            cwd=started_in,
            env={**os.environ, "COLUMNS": "300", **halting(halts), **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        yield Up(place, _when_ready(process, said, home, seconds), process, said, halts)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0, said.read_text()
        assert not _processes_of(home)


@contextmanager
def worker(command: list[str], environment: dict[str, str], folder: Path, log: Path) -> Iterator[None]:
    """Run a worker beside that of an installation while the block does."""
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=file, stderr=file)
    try:
        yield
    finally:
        # What it ran has ended. Asked to stop, it asks itself again by SIGINT, to which a process is deaf
        # whose tests were started in the background.
        process.kill()
        process.wait()


def _when_ready(process: subprocess.Popen[str], said: Path, home: Path, seconds: float) -> str:
    end = time.monotonic() + seconds
    while "Tabularium runs" not in said.read_text():
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < end, "tabularium up did not come up"
        time.sleep(0.1)
    return str(json.loads((home / "server" / "address.json").read_text())["url"])


def children(parent: int) -> list[tuple[int, str]]:
    """The processes that ``parent`` started, each with its words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            about = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(about[1]) == parent:
                found.append((int(folder.name), (folder / "cmdline").read_text().replace("\0", " ")))
    return found


def _processes_of(home: Path) -> list[str]:
    """The processes, ``up`` itself or whatever it started, that work for a home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TABULARIUM_HOME={home}\0" in (folder / "environ").read_text():
                found.append((folder / "cmdline").read_text())
    return found
