"""Processes that race, die and sleep; each driver asserts, and tells how far it came."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.debian import Unavailable, found
from tests.ledger.scene import ENGINES, both, new_place, remove_place, run_driver
from tests.sizes import runs


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


def driver(name: str, *arguments: object) -> list[int]:
    """Run a driver; return the figures in the last line that it prints."""
    last = run_driver(name, *map(str, arguments), patience=runs(400, 4 * 3600))[-1]
    return [int(number) for number in re.findall(r"\d+", last)]


@both
def test_racing_processes_meet_the_cap_exactly(folder: Path) -> None:
    place, charges = new_place(folder, "race"), runs(100, 1000)
    told = driver("race_driver", place, runs(8, 32), runs(20, 47), charges)
    assert told[0] == charges
    remove_place(place)


@both
@pytest.mark.slow
@pytest.mark.parametrize(("how", "steps"), [("once", (13, 29)), ("twice", (19, 41))])
def test_a_kill_at_every_boundary_ends_in_one_charge_and_one_release(
    folder: Path, engine: str, how: str, steps: tuple[int, int]
) -> None:
    every = runs(steps[ENGINES.index(engine)], 1)
    boundaries, adopted, whole = driver("crash_driver", folder, how, every)
    assert boundaries > 100
    assert (adopted > 1 and whole > 1) or every == steps[1]


@pytest.mark.slow
def test_a_sleeper_that_wakes_after_another_finished_writes_nothing(folder: Path) -> None:
    boundaries, overtaken, stale = driver("sleep_driver", folder, 1, runs(11, 1))
    assert boundaries > 100
    assert overtaken > 9
    assert stale > 2


def test_a_full_disk_leaves_the_ledger_true(folder: Path) -> None:
    refused = driver("full_disk_driver", folder)[0]
    assert refused > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
def test_kills_at_random_instants_lose_nothing(tmp_path: Path, kind: str) -> None:
    if kind == "postgresql":
        try:
            found("postgresql")
        except Unavailable as reason:
            pytest.skip(str(reason))
    releases = runs(15, 300)
    assert driver("kill_driver", tmp_path, kind, releases, runs(6, 60), 1)[0] == releases
