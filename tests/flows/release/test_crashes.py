"""kill -9 at the durable events of a run, then a plain re-run: one charge, one release, one draw kept.

At every event at full size, usually at every fifth, from the first to the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.sizes import runs

ROOT = Path(__file__).parents[3]
DRIVERS = 2  # each imports everything once


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory if there is one: a killed process loses nothing that it had written there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, DRIVERS + 1))
def test_a_run_killed_anywhere_is_finished_by_a_plain_rerun(first: int, folder: Path) -> None:
    every = runs(5, 1)
    start, stride = 1 + (first - 1) * every, every * DRIVERS
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.release.crash_driver", str(folder), str(start), str(stride)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("one charge, one release") >= runs(14, 70)
    assert done.stdout.rstrip().splitlines()[-1].startswith("finished")
