"""kill -9 at durable events, then what follows a crash: one charge, one release, one draw kept, a draft's very bytes.

At every event at full size (of a run that lays out a draft at every other), usually at some.
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
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", range(1, DRIVERS + 1))
def test_a_run_killed_anywhere_is_finished_by_a_plain_rerun(first: int, tmp_path: Path) -> None:
    killed = kills("crash_driver", tmp_path, str(first), str(runs(2, 1) * DRIVERS))
    assert killed.count("one charge, one release") >= 20


@pytest.mark.parametrize(
    ("what", "events"), [pytest.param("draft", 120, marks=pytest.mark.audit), ("acceptance", 50)]
)
def test_a_review_killed_anywhere_is_finished_by_what_follows(what: str, events: int, tmp_path: Path) -> None:
    stride = runs(events // 4, 2 if what == "draft" else 1)
    killed = kills("review_driver", tmp_path, what, "1", str(stride))
    assert killed.count("the draft's bytes, once") >= runs(4, 50)


def kills(driver: str, folder: Path, *words: str) -> str:
    """Run a driver to its end and return what it says of each kill."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.flows.release.{driver}", str(folder), *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.rstrip().splitlines()[-1].startswith("finished")
    return done.stdout
