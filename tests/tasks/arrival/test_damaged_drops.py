"""Drops that are damaged at random: none is published, none is lost, each lies in quarantine with a line why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.flows.release.scene import states
from tests.sizes import full, runs
from tests.tasks.arrival.drops import damage, drops_of, seen, why, write_drop, write_inbox


def everything_in(folder: Path) -> list[tuple[str, bytes | None]]:
    return sorted(
        (str(path.relative_to(folder)), path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    )


def test_damaged_drops_go_to_quarantine_each_with_a_line(tmp_path: Path) -> None:
    seed = random.randrange(10**9) if full() else 4
    print("seed", seed)
    home, inbox = write_inbox(tmp_path)
    place, chance, kinds = Path(inbox.address), random.Random(seed), {}
    for number in range(runs(40, 200)):
        drop = write_drop(inbox, f"drop{number}")
        kinds[drop.name] = damage(drop, chance)
    before = {name: everything_in(place / name) for name in kinds}

    drops = {drop.place: drop for drop in seen(home, inbox)}

    assert [path.name for path in place.iterdir()] == ["quarantine"]
    for name, kind in kinds.items():
        assert drops[f"quarantine/{name}"].state == "quarantined", kind
        assert everything_in(place / "quarantine" / name) == before[name], kind
        line = why(inbox, name)
        assert line.count("\n") == 1, kind
        assert len(line) < 200, kind
    assert len(drops) == len(kinds)
    assert states(home) == []
    assert not list((home.path / "arrivals").glob("*"))


def test_a_whole_drop_beside_damaged_ones_arrives(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    damage(write_drop(inbox, "damaged"), random.Random(1))
    write_drop(inbox, "whole")
    assert sorted(drop.state for drop in seen(home, inbox)) == ["arrived", "quarantined"]


def test_one_drop_that_cannot_be_put_away_stops_no_other(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    (Path(inbox.address) / "quarantine").write_text("in the way")
    damage(write_drop(inbox, "a"), random.Random(1))
    write_drop(inbox, "b")
    with pytest.raises(NotADirectoryError):
        seen(home, inbox)
    assert [drop.state for drop in drops_of(home) if drop.place == "b"] == ["arrived"]
