"""A delivery is taken by the inbox it is for, whole, and leaves nothing when it cannot be made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.deliver import deliver
from tabularium.tasks.arrival.inboxes import Inbox, add
from tabularium.tasks.arrival.manifest import MANIFEST
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
        (lambda at: {"files": [at / "missing.csv"]}, "missing.csv: cannot be read"),
        (lambda at: {"period": "a b"}, "its manifest has a period that is not of the form"),
        (lambda at: {"name": "../out"}, "is no name of a folder"),
        (lambda at: {"name": "done"}, "is no name of a folder"),
        (lambda at: {"name": "there"}, "a drop of this name lies in the inbox"),
        (
            lambda at: {"files": [at / "sent" / "people.csv", at / "again" / "people.csv"]},
            "two files have one name",
        ),
        (lambda at: {"address": "s3://bucket/inbox"}, "is no folder of this machine"),
        (lambda at: {"address": str(at / "nowhere")}, "there is no such folder"),
    ],
)
def test_what_cannot_be_delivered_leaves_nothing(inbox, data, tmp_path, change, said) -> None:  # type: ignore[no-untyped-def]
    (Path(inbox.address) / "there").mkdir()
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "people.csv").write_text("age\n")
    asked = {"files": [data], "period": "2026", "name": None, "address": inbox.address, **change(tmp_path)}
    before = files_in(inbox)
    with pytest.raises(InputError, match=said):
        deliver(asked["files"], Inbox("persons", asked["address"], ""), asked["period"], name=asked["name"])
    assert files_in(inbox) == before


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
