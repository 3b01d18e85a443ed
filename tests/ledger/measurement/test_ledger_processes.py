"""Processes that race, die and sleep; each driver asserts, and tells how far it came."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.debian import Unavailable, found
from tests.ledger.scene import ENGINES, new_place, remove_place, run_driver, sqlite


@pytest.fixture
def folder(engine: str, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder in memory if there is one: a killed process loses nothing that it had written there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        place = Path(made)
        if engine == "postgresql":
            server = request.getfixturevalue("server")
            (place / "url").write_text(server.url("postgres"))
        yield place


def figures(line: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", line)]


def test_racing_processes_meet_the_cap_exactly(folder: Path) -> None:
    place = new_place(folder, "race")
    told = run_driver("race_driver", place, "8", "20", "100")[-1]
    assert figures(told)[0] == 100
    remove_place(place)


@pytest.mark.parametrize(("how", "step"), [("once", 3), ("twice", 7)])
def test_a_kill_at_every_boundary_ends_in_one_charge_and_one_release(
    folder: Path, engine: str, how: str, step: int
) -> None:
    every = step if engine == "sqlite" else 6 * step - 1
    boundaries, adopted = figures(run_driver("crash_driver", folder, how, str(every))[-1])
    assert boundaries > 100
    assert adopted > 1 or every > step


@sqlite
def test_a_sleeper_that_wakes_after_another_finished_writes_nothing(folder: Path) -> None:
    boundaries, overtaken, stale = figures(run_driver("sleep_driver", folder, "1", "5")[-1])
    assert boundaries > 100
    assert overtaken > 9
    assert stale > 2


@sqlite
def test_a_full_disk_leaves_the_ledger_true(folder: Path) -> None:
    refused = figures(run_driver("full_disk_driver", folder)[-1])[0]
    assert refused > 5


@pytest.mark.parametrize("kind", ENGINES)
def test_kills_at_random_instants_lose_nothing(tmp_path: Path, kind: str) -> None:
    if kind == "postgresql":
        try:
            found("postgresql")
        except Unavailable as reason:
            pytest.skip(str(reason))
    told = figures(run_driver("kill_driver", tmp_path, kind, "15", "6", "1")[-1])
    assert told[0] == 15
