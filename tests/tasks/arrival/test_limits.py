"""What a drop, and any number of them, may cost the watcher before it is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival import look as looking
from tabularium.tasks.arrival.inboxes import DEFAULT, Inbox, InboxLimits, add, inbox_of
from tabularium.tasks.arrival.look import look
from tabularium.tasks.arrival.places import opened
from tests.tasks.arrival.drops import TEXT, drops_of, manifest, seen, why, write_drop, write_inbox


def write_hole(inbox: Inbox, size: int, name: str = "hole") -> None:
    """Write a drop of one file that says it is so large, and takes up nothing."""
    drop = write_drop(inbox, name, {"people.csv": b""})
    os.truncate(drop / "people.csv", size)
    listed = [{"name": "people.csv", "size": size, "sha256": "0" * 64}]
    (drop / "drop.json").write_text(str(manifest(files=listed)).replace("'", '"'))


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (InboxLimits(files=1), "drop.json: lists more files than this inbox takes, 1"),
        (InboxLimits(size=len(TEXT)), "drop.json: lists files that are larger than this inbox takes, 4"),
        (InboxLimits(manifest=100), "drop.json: is larger than this inbox takes, 100 bytes"),
    ],
)
def test_a_drop_beyond_a_limit_is_quarantined_with_a_line(
    tmp_path: Path, limits: InboxLimits, line: str
) -> None:
    home, inbox = write_inbox(tmp_path, limits=limits)
    write_drop(inbox, "first", {"people.csv": TEXT, "more.csv": TEXT})
    (drop,) = seen(home, inbox)
    assert drop.state == "quarantined"
    assert why(inbox, "first").startswith(line)


@pytest.mark.parametrize(
    ("size", "line"), [(1 << 43, "drop.json: lists files"), (1 << 35, "the drop: is larger")]
)
def test_a_hole_is_refused_before_a_byte_is_hashed(
    tmp_path: Path, size: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabularium.tasks.arrival.inboxes._SPARE_BYTES", 1 << 50)
    monkeypatch.setattr("tabularium.tasks.arrival.verify_drop._digest", lambda *_: pytest.fail("hashed"))
    home, inbox = write_inbox(tmp_path)
    write_hole(inbox, size)
    (drop,) = seen(home, inbox)
    assert drop.state == "quarantined"
    assert why(inbox, "hole").startswith(line)


def test_folders_without_a_manifest_keep_no_drop_waiting(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path, limits=InboxLimits(drops=3))
    for number in range(300):
        (Path(inbox.address) / f"waits-{number:03}").mkdir()  # for ever
    for name in ("bad", "bad-too"):
        write_drop(inbox, name, product="large")
    write_drop(inbox, "z")
    look(home, inbox)
    assert sorted(drop.state for drop in drops_of(home)) == ["arrived", "quarantined", "quarantined"]


def test_a_good_drop_among_many_bad_ones_arrives_however_they_are_named(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path, limits=InboxLimits(drops=5))
    for number in range(30):
        write_drop(inbox, f"bad-{number:02}", product="large")
    write_drop(inbox, "z")
    looks = 0
    while not [drop for drop in drops_of(home) if drop.state == "arrived"]:
        look(home, inbox)
        looks += 1
        assert looks <= 7  # five of 31 are judged in each


def test_one_look_is_bounded_and_says_that_more_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, inbox = write_inbox(tmp_path, limits=InboxLimits(drops=5))
    for number in range(12):
        write_drop(inbox, f"bad{number}", product="large")
    assert look(home, inbox)
    assert len(drops_of(home)) == 5
    monkeypatch.setattr(looking, "_SECONDS", -1.0)  # no part has time for more than one
    assert look(home, inbox)
    assert len(drops_of(home)) == 6
    monkeypatch.undo()
    while look(home, inbox):
        pass
    assert {drop.place.partition("/")[0] for drop in drops_of(home)} == {"quarantine"}
    assert len(drops_of(home)) == 12
    assert not look(home, inbox)


def test_small_drops_are_hashed_first_and_one_of_the_others_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(looking, "is_whole", lambda _, name, *__: hashed.append(name))
    home, inbox = write_inbox(tmp_path, periods="20.*")
    for number in range(4):
        write_drop(inbox, f"large{number}", {"a.csv": TEXT * (number + 2)}, period=f"200{number}")
    write_drop(inbox, "small")
    reading = looking._Work.process

    def no_time_to_hash(self: looking._Work, drops: list[object], do: object, **how: Any) -> list[object]:
        with monkeypatch.context() as patch:
            if getattr(do, "__name__", "") == "claim":
                patch.setattr(looking, "_SECONDS", -1.0)
            return reading(self, drops, do, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(looking._Work, "process", no_time_to_hash)
    look(home, inbox)
    assert len(hashed) == 2
    assert hashed[0] == "small"


def test_a_drop_of_folders_in_folders_is_deleted_to_its_bottom(tmp_path: Path) -> None:
    place = opened(str(tmp_path))
    at = tmp_path / "deep"
    at.mkdir()
    folder = os.open(at, os.O_RDONLY)
    for _ in range(2000):  # deeper than Python calls itself, and than a path is long
        os.mkdir("down", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        inner = os.open("down", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    place.delete("deep")
    assert list(tmp_path.iterdir()) == []


def test_limits_are_kept_with_the_inbox(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    assert inbox.limits == DEFAULT
    limits = DEFAULT.changed(["files=500", "size=20GB", "manifest=1 MiB", "drops=7"])
    assert limits == InboxLimits(500, 20 * 10**9, 1 << 20, 7)
    add(home, replace(inbox, limits=limits))
    assert inbox_of(home, inbox.product) == replace(inbox, limits=limits)


@pytest.mark.parametrize(
    "written", ["files", "files=0", "files=1GB", "rows=1", "size=-1", "size=1e9", "size=1 XB"]
)
def test_what_is_no_limit_is_refused(written: str) -> None:
    with pytest.raises(InputError, match="is no limit of an inbox"):
        DEFAULT.changed([written])
