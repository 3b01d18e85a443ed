"""kill -9 while a draft is laid out or accepted, then the command or a run again: the draft's bytes, once.

At every durable event at full size (of a draft at every other), usually at some.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import runs

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "events"), [pytest.param("draft", 120, marks=pytest.mark.audit), ("acceptance", 50)]
)
def test_what_is_killed_anywhere_is_finished_by_what_follows(what: str, events: int, tmp_path: Path) -> None:
    stride = runs(events // 4, 2 if what == "draft" else 1)
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.release.review_driver", str(tmp_path), what, "1", str(stride)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("the draft's bytes, once") >= runs(4, 50)
    assert done.stdout.rstrip().splitlines()[-1].startswith("finished")
