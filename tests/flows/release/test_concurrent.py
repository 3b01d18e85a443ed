"""Two runs of one release at once, and a holder that sleeps through another's success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_two_runs_and_a_late_sleeper(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.release.concurrent_driver", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "the second run stops while the first holds the release",
        "the first finishes; there is one charge",
        "a sleeper woken before its draw wrote nothing",
        "a sleeper woken after its draw wrote nothing",
        "a sleeper woken before publication left one release",
    ]
