"""Suites in a process of their own: the same verdicts, and nothing but verdicts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import os, sys
from tabularium.validations.suites.expectations import Bound, Same, check_suite
from tabularium.validations.suites.expectations import _process, suites_apart
from tabularium.mechanisms.errors import InternalError

numbers = {"rows": [3, None], "total": [7, 7]}
suite = [Bound("some", "rows", 1, 2), Bound("few", "rows", None, 9), Same("equal", "total")]
with suites_apart():
    print([result.passed for result in check_suite("s", numbers, suite)])
    print([result.passed for result in check_suite("s", {"rows": [1], "total": [7]}, suite)])
    try:
        check_suite("s", {"rows": ["Zebedee"]}, suite)
    except InternalError as error:
        print("Zebedee" in str(error), error.__cause__)
    os.kill(_process.get().pid, 9)
    try:
        check_suite("s", numbers, suite)
    except InternalError as error:
        print(error.what)
print("great_expectations" in sys.modules)
"""


def test_verdicts_and_failures_of_the_process_are_those_of_the_library() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[False, True, True]",
        "[True, True, True]",
        "False None",
        "Great Expectations could not check the metrics",
        "False",
    ]


def test_the_process_ends_with_the_one_that_started_it() -> None:
    program = (
        "import os, time\n"
        "from tabularium.validations.suites.expectations import _process, suites_apart\n"
        "with suites_apart():\n"
        "    print(_process.get().pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    helper = int(started.stdout.readline())
    started.send_signal(signal.SIGKILL)
    started.communicate()
    with pytest.raises(ProcessLookupError):
        for _ in range(1200):
            os.kill(helper, 0)
            signal.sigtimedwait([], 0.1)
