"""kill -9 at the durable events of a run, then a plain re-run: one charge, one release, one draw kept.

At every event at full size, usually at every other one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import runs

ROOT = Path(__file__).parents[3]
DRIVERS = 2  # each imports everything once


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, DRIVERS + 1))
def test_a_run_killed_anywhere_is_finished_by_a_plain_rerun(first: int, tmp_path: Path) -> None:
    stride = runs(2, 1) * DRIVERS
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.release.crash_driver", str(tmp_path), str(first), str(stride)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("one charge, one release") >= 20
    assert done.stdout.rstrip().splitlines()[-1].startswith("finished")
