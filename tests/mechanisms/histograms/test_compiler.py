"""Every mechanism and every kernel gives the same results with and without the compiler, to the last bit."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import mechanisms
from mechanisms import MECHANISMS
from tests.mechanisms.histograms.results import CASES, digest

ROOT = Path(__file__).parents[3]
# One worker, so that the interpreted results are made once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("compiler")]


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """What a process without the compiler says of all cases."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.mechanisms.histograms.results"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["interpreted"]
    return said


@pytest.mark.parametrize("case", CASES)
def test_the_same_without_the_compiler(case: str, interpreted: dict[str, Any]) -> None:
    seen, count = digest(case)
    assert count > 1
    assert [seen, count] == interpreted["cases"][case]


def test_no_mechanism_is_left_out() -> None:
    assert {kind.name for kind in MECHANISMS.values()} <= set(CASES)


def test_every_kernel_is_compiled_and_called_by_some_case(interpreted: dict[str, Any]) -> None:
    """What no case calls, no test would compare, and every worker of the tests would compile for itself."""
    kernels = {
        f"{found.py_func.__module__}.{found.__name__}"
        for info in pkgutil.walk_packages(mechanisms.__path__, "mechanisms.")
        for found in vars(importlib.import_module(info.name)).values()
        if isinstance(found, Dispatcher)
    }
    assert len(kernels) > 50
    missing = kernels - set(interpreted["called"])
    assert not missing
