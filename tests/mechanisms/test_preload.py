"""What a mechanism needs is imported before it draws: what follows a draw on full data imports nothing more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tabularium.mechanisms import MECHANISMS
from tabularium.mechanisms.registry import preload

_CODE = """
import sys
import numpy as np
from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.registry import preload
name, whole = sys.argv[1], sys.argv[2] == "whole"
data = [[9, 3], [4, 2], [1, 5]] if name == "privhist" else [5, 0, 7, 9, 0, 1, 30, 2]
data = np.array(data, np.int64)
made = build(name, form="prevalences") if name == "privhist" else build(name)
if whole:
    preload(name)
build("identity").release(np.zeros(3, np.int64), SeededChannel(1, seed=0))
before = set(sys.modules)
made.release(data, SeededChannel(1, seed=0))
late = set(sys.modules) - before
print(sorted(each for each in late if each.startswith("tabularium.mechanisms.histograms") or each == "numba"))
"""


def later(name: str, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CODE, name, how], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_full_data_import_nothing_more() -> None:
    assert later("privhist", "whole") == "[]"
    assert later("privhist", "not") != "[]", "without it they do, so that this can fail"


@pytest.mark.parametrize("name", [*MECHANISMS, "bounded_sums"])
def test_every_mechanism_can_be_imported_whole(name: str) -> None:
    preload(name)
