"""What processes leave behind when they end is buried, and what lives is left alone until the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tabularium.flows.operations import supervisor
from tabularium.flows.operations.supervisor import ManagedProcess

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys, time
from pathlib import Path
from tabularium.flows.operations.supervisor import ManagedProcess, keeping

end, seen = time.monotonic() + 60, set()
with keeping(print) as keeper:
    words = ["bash", "-c", "(sleep 0.5 &); exec sleep 300"]
    keeper.start(ManagedProcess("sleeper", words, dict(os.environ), Path(sys.argv[1])))
    while time.monotonic() < end and (not seen or keeper._orphans()):
        seen.update(keeper._orphans())
        keeper.look_after()
        time.sleep(0.05)
    print(len(seen), keeper._orphans(), keeper.parts[0].ended())
"""


def test_an_orphan_that_has_ended_is_buried(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 [] None\n", done.stdout + done.stderr


WRITER = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.01; done"


def test_a_log_that_grows_is_put_aside_while_its_process_goes_on_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_MOST_BYTES", 200)
    monkeypatch.setattr(supervisor, "_LOG_SECONDS", 0.0)
    part = ManagedProcess("writer", ["bash", "-c", WRITER], dict(os.environ), tmp_path)
    aside = tmp_path / "logs" / "writer.log.1"
    part.start()
    assert part.process is not None
    try:
        while not aside.exists():
            part.look_after(print)
        monkeypatch.setattr(supervisor, "_LOG_SECONDS", 3600.0)
        time.sleep(0.2)
    finally:
        part.process.kill()
        part.process.wait()
    before, now = aside.read_bytes(), part.log.read_bytes()
    assert before.startswith(b"line 1\n") and now.startswith(b"line ") and now.count(b"\n") > 5
    assert b"\0" not in now, "it wrote where the old log ended"
