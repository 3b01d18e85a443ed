"""Processes that race, die and sleep; each driver asserts, and tells how far it came."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.ledger.scene import run_driver


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory if there is one: a killed process loses nothing that it had written there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def figures(line: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", line)]


def test_racing_processes_meet_the_cap_exactly(folder: Path) -> None:
    told = run_driver("race_driver", folder, "8", "40", "200")[-1]
    assert figures(told)[0] == 200


@pytest.mark.parametrize("how", ["once", "twice"])
def test_a_kill_at_every_boundary_ends_in_one_charge_and_one_release(folder: Path, how: str) -> None:
    boundaries, adopted = figures(run_driver("crash_driver", folder, how)[-1])
    assert boundaries > 100
    assert adopted > 3


def test_a_sleeper_that_wakes_after_another_finished_writes_nothing(folder: Path) -> None:
    boundaries, overtaken, stale = figures(run_driver("sleep_driver", folder, "1", "2")[-1])
    assert boundaries > 100
    assert overtaken > 25
    assert stale > 5


def test_a_full_disk_leaves_the_ledger_true(folder: Path) -> None:
    refused = figures(run_driver("full_disk_driver", folder)[-1])[0]
    assert refused > 5
