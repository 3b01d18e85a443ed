"""A delivery is taken by the inbox it is for, whole, and leaves nothing when it cannot be made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival import places as delivering
from tabularium.tasks.arrival.inboxes import Inbox, add
from tabularium.tasks.arrival.manifest import MANIFEST
from tabularium.tasks.arrival.places import deliver
from tests.tasks.arrival.drops import seen, write_inbox


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return write_inbox(tmp_path)[1]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "sent" / "people.csv"
    path.parent.mkdir()
    path.write_text("age,sex\n1,2\n")
    return path


def files_in(inbox: Inbox) -> list[str]:
    place = Path(inbox.address)
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


def test_the_inbox_takes_what_was_delivered(data: Path, tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    other = tmp_path / "more.csv"
    other.write_text("age,sex\n3,1\n" * 200_000)
    drop = deliver([data, other], inbox, "2026")
    assert files_in(inbox) == ["2026", "2026/drop.json", "2026/more.csv", "2026/people.csv"]
    told = json.loads((drop / MANIFEST).read_text())
    assert (told["product"], told["period"]) == (inbox.product, "2026")
    assert [each.state for each in seen(home, inbox)] == ["arrived"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda at: {"files": [at / "missing.csv"]}, "missing.csv: the file cannot be read"),
        (
            lambda at: {"files": [at / "Åsa é.csv"]},
            "Åsa é.csv: no manifest can hold this file name; write .* A to Z",
        ),
        (lambda at: {"files": [at / "drop.json"]}, "would refuse this drop: its manifest lists itself"),
        (lambda at: {"product": "P"}, "--product P: no manifest can hold this product"),
        (lambda at: {"period": "2026/1"}, "--period 2026/1: no manifest can hold this period"),
        (lambda at: {"name": "../out"}, "--name ../out: an inbox takes no drop of this name"),
        (lambda at: {"name": "done"}, "--name done: an inbox takes no drop of this name"),
        (lambda at: {"name": "there"}, "a drop of this name lies in the inbox"),
        (
            lambda at: {"files": [at / "sent" / "people.csv", at / "again" / "People.csv"]},
            "two files have one name",
        ),
        (lambda at: {"address": "s3://bucket/inbox"}, "this inbox lies in an object store"),
        (lambda at: {"address": str(at / "nowhere")}, "there is no such folder"),
    ],
)
def test_what_cannot_be_delivered_is_refused_before_it_is_copied(  # type: ignore[no-untyped-def]
    inbox, data, tmp_path, change, said, monkeypatch
) -> None:
    monkeypatch.setattr(delivering, "_copied", None)
    (Path(inbox.address) / "there").mkdir()
    (tmp_path / "again").mkdir()
    for name in ("Åsa é.csv", "drop.json", "again/People.csv"):
        (tmp_path / name).write_text("age\n")
    asked = {"files": [data], "period": "2026", "name": None, "address": inbox.address, "product": "persons"}
    asked |= change(tmp_path)
    before = files_in(inbox)
    with pytest.raises(InputError, match=said):
        deliver(
            asked["files"], Inbox(asked["product"], asked["address"], ""), asked["period"], name=asked["name"]
        )
    assert files_in(inbox) == before


def test_of_two_deliveries_at_once_one_is_whole_and_the_other_refused(
    inbox: Inbox, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = delivering._copied

    def faster(file: Path, aside: Path) -> dict[str, object]:
        monkeypatch.setattr(delivering, "_copied", copied)
        deliver([data], inbox, "2026")
        return copied(file, aside)

    monkeypatch.setattr(delivering, "_copied", faster)
    with pytest.raises(InputError, match="a drop of this name lies in the inbox"):
        deliver([data], inbox, "2026")
    assert files_in(inbox) == ["2026", "2026/drop.json", "2026/people.csv"]


def test_what_a_killed_delivery_left_is_removed_after_a_day(inbox: Inbox, data: Path) -> None:
    killed, going_on = (Path(inbox.address) / f".2026.{name}.part" for name in ("aa", "bb"))
    for part in (killed, going_on):
        part.mkdir()
        (part / "people.csv").write_text("age")
    for path in (killed / "people.csv", killed, going_on):
        os.utime(path, (0, 0))
    deliver([data], inbox, "2026")
    assert not killed.exists()
    assert going_on.exists()


def test_the_command_knows_the_inbox_of_a_product(data: Path, tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    add(home, inbox)
    words = ["deliver", str(data), "--product", inbox.product, "--period", "2026", "--home", str(home.path)]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["files"] == ["people.csv"]
    unknown = CliRunner().invoke(app, ["deliver", str(data), "--product", "other", *words[4:]])
    assert unknown.exit_code == 1
    assert "no inbox of this product is watched" in unknown.output
