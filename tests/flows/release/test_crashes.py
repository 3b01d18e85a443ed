"""kill -9 at durable events, then what follows a crash: one charge, one release, one draw kept, a draft's very bytes.

At every event at full size (of a run that lays out a draft at every other), usually at some, from the first to
the last.
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
pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory if there is one: a killed process loses nothing that it had written there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@pytest.mark.parametrize(
    "first", [1, *(pytest.param(each, marks=pytest.mark.audit) for each in range(2, DRIVERS + 1))]
)
def test_a_run_killed_anywhere_is_finished_by_a_plain_rerun(first: int, folder: Path) -> None:
    every = runs(16, 1)
    killed = kills("crash_driver", folder, str(1 + (first - 1) * every), str(every * DRIVERS))
    assert killed.count("one charge, one release") >= runs(6, 70)


@pytest.mark.audit
def test_a_run_in_slabs_killed_anywhere_is_finished_by_a_plain_rerun(folder: Path) -> None:
    killed = kills("crash_driver", folder, "1", "2", "slabs")
    assert killed.count("one charge, one release") >= 45
    assert killed.count("before stage") >= 5


@pytest.mark.parametrize(
    ("what", "events"), [pytest.param("draft", 120, marks=pytest.mark.audit), ("acceptance", 50)]
)
def test_a_review_killed_anywhere_is_finished_by_what_follows(what: str, events: int, folder: Path) -> None:
    stride = runs(events // 4, 2 if what == "draft" else 1)
    killed = kills("review_driver", folder, what, "1", str(stride))
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
