"""Every mechanism and every kernel gives the same results with and without the compiler, to the last bit."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabularium import mechanisms
from tabularium.mechanisms import MECHANISMS
from tabularium.mechanisms.kernels.compiled import KERNELS, Kernel, Uncompiled, _say_uncompiled
from tests.mechanisms.histograms.results import CASES, digest

ROOT = Path(__file__).parents[3]
# One worker, so that the interpreted results are made once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("compiler")]


@pytest.fixture(scope="module")
def interpreted() -> Callable[[], dict[str, Any]]:
    """What a process without the compiler says of all cases; it runs while this one computes."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.mechanisms.histograms.results"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    @functools.cache
    def said() -> dict[str, Any]:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        assert found["interpreted"]
        return found

    return said


@pytest.fixture(scope="module")
def compiled(interpreted: Callable[[], dict[str, Any]]) -> dict[str, tuple[str, int]]:
    """What this process says of all cases, while the other one is at work."""
    return {case: digest(case) for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_the_same_without_the_compiler(
    case: str, interpreted: Callable[[], dict[str, Any]], compiled: dict[str, tuple[str, int]]
) -> None:
    seen, count = compiled[case]
    assert count > 1
    assert [seen, count] == interpreted()["cases"][case]


def test_no_mechanism_is_left_out() -> None:
    assert {kind.name for kind in MECHANISMS.values()} <= set(CASES)


def test_every_kernel_is_compiled_and_called_by_some_case(interpreted: Callable[[], dict[str, Any]]) -> None:
    """What no case calls, no test would compare, and every worker of the tests would compile for itself."""
    for info in pkgutil.walk_packages(mechanisms.__path__, "tabularium.mechanisms."):
        importlib.import_module(info.name)
    kernels = {name for name, kernel in KERNELS.items() if name.startswith("tabularium.mechanisms.")}
    assert len(kernels) > 50
    missing = kernels - set(interpreted()["called"])
    assert not missing


def test_without_numba_a_kernel_runs_uncompiled_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def double(values: list[int]) -> list[int]:
        return [2 * value for value in values]

    kernels = [Kernel(double), Kernel(double)]  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "numba", None)
    _say_uncompiled.cache_clear()
    with pytest.warns(Uncompiled, match=r"install tabularium-dp\[run\]") as said:
        assert [kernel([1, 2]) for kernel in kernels] == [[2, 4], [2, 4]]
    assert len(said) == 1
