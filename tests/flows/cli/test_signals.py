"""Ctrl-C and SIGTERM, sent as a terminal and a scheduler send them, to the real command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tabularium.flows.cli.terminal import one_line_errors
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.progress import stopping
from tests.flows.release.scene import write_scene

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.xdist_group("engine")  # with the others that start Prefect's server: it makes its database once
@pytest.mark.parametrize(
    ("number", "code", "engine"),
    [
        pytest.param(number, code, engine, marks=() if usual else pytest.mark.audit)
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))
        for engine in ((), ("--prefect",))
        # A terminal's Ctrl-C to all processes of a run, and a scheduler's signal to one.
        for usual in [(number, engine) in ((signal.SIGINT, ("--prefect",)), (signal.SIGTERM, ()))]
    ],
)
def test_a_stopped_run_ends_soon_in_one_line_and_cleans_up(
    number: signal.Signals, code: int, engine: tuple[str, ...], tmp_path: Path
) -> None:
    spec, home = write_scene(tmp_path)
    log = tmp_path / "log"
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and processes inherit that
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tabularium.flows.cli.app",
                "run",
                str(spec),
                "--home",
                str(home.path),
                *engine,
            ],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "200"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        while "look up" not in log.read_text() and process.poll() is None:
            time.sleep(0.02)
        # A terminal sends Ctrl-C to the whole group, Prefect's ephemeral server included.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        assert process.wait(60) == code, log.read_text()
    lines = [line for line in log.read_text().splitlines() if not line.startswith("  ")]  # stages, notes
    assert lines == ["stopped; run the same command again to go on"]
    assert not list(home.workspaces.iterdir())
    with Ledger.connect(home.ledger_url) as books:
        books.verify()
        assert not any(charge.state == "published" for charge in books.charges("people"))
    # The server is gone too. A process for suites that had only just been started ends when its imports do,
    # which takes long on a busy machine.
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.killpg(process.pid, 0)
            time.sleep(0.1)


def test_under_nohup_a_terminal_that_closes_is_not_heard() -> None:
    asked = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from tabularium.tasks.runtime.progress import stopping; stopping.listen(); signal.raise_signal(signal.SIGHUP)\n"
        "print('goes on')"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n"


def test_a_library_that_fails_because_it_was_interrupted_is_a_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt in the middle of an import may come out as whatever the half-imported library raises."""
    monkeypatch.setattr(stopping, "exception", None)
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        try:
            stopping.request_stop(SystemExit(143))
        except SystemExit:
            raise ValueError("half imported") from None
    assert ended.value.exit_code == 143
    assert capsys.readouterr().err.startswith("stopped; run the same command again")
