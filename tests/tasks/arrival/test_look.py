"""Looking at an inbox: what waits, what arrives, what comes too late, and what becomes of it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.ledger import Ledger
from tabularium.tasks.arrival import drop_outcomes, places
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.drop_outcomes import refused_drops
from tabularium.tasks.arrival.inboxes import Inbox, InboxLimits
from tabularium.tasks.arrival.look import look
from tabularium.tasks.arrival.verify_drop import keep_verified, verified_files
from tabularium.tasks.runtime.home import Home
from tests.tasks.arrival.drops import PRODUCT, TEXT, drops_of, manifest, seen, why, write_drop, write_inbox


def only(home: Home, inbox: Inbox) -> Drop:
    (drop,) = seen(home, inbox)
    return drop


def charge(home: Home, product: str = PRODUCT, period: str = "2026") -> None:
    with Ledger.connect(home.ledger_url) as books:
        books.reserve(
            "people", release_id="r1", amount=Fraction(1), product=product, period=period, spec_digest="d"
        )


def finish(home: Home, drop: Drop, ending: drop_outcomes.Ending) -> None:
    drop_outcomes.started(home, f"drop:{drop.id}")
    drop_outcomes.finished(home, f"drop:{drop.id}", ending, run="RUN")


def test_a_whole_drop_arrives_once_and_stays_where_it_is(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    first = only(home, inbox)
    assert (first.state, first.period, first.place) == ("arrived", "2026", "first")
    assert only(home, inbox) == first
    assert (Path(inbox.address) / "first" / "people.csv").read_bytes() == TEXT
    kept = home.path / "arrivals" / f"{first.id}.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_without_a_manifest_it_waits(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    drop = write_drop(inbox)
    text = (drop / "drop.json").read_text()
    (drop / "drop.json").unlink()
    assert seen(home, inbox) == []
    (drop / "drop.json").write_text(text)
    assert only(home, inbox).state == "arrived"


class Later:
    """A clock that is ahead by some seconds: the system stamps changes by its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def time(self) -> float:
        return time.time() + self.seconds


def test_a_drop_that_grows_while_it_is_watched_waits_and_then_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, inbox = write_inbox(tmp_path, patience=20)
    drop = write_drop(inbox)
    (drop / "people.csv").write_bytes(TEXT[:1000])
    assert seen(home, inbox) == []
    time.sleep(1.2)
    monkeypatch.setattr(
        "tabularium.tasks.arrival.look.time", Later(19)
    )  # the first byte is old enough, the last is not
    with (drop / "people.csv").open("ab") as file:
        for start in range(1000, len(TEXT), 1000):
            file.write(TEXT[start : start + 1000])
            file.flush()
            if start + 1000 < len(TEXT):
                assert seen(home, inbox) == []
    assert only(home, inbox).state == "arrived"


def test_a_drop_that_stops_growing_too_early_is_quarantined_after_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, inbox = write_inbox(tmp_path, patience=20)
    drop = write_drop(inbox)
    (drop / "people.csv").write_bytes(TEXT[:-1])
    os.utime(drop / "people.csv", (0, 0))  # a time that anybody can write is believed by nobody
    assert seen(home, inbox) == []
    monkeypatch.setattr("tabularium.tasks.arrival.look.time", Later(21))
    assert only(home, inbox).state == "quarantined"


def test_what_changes_while_it_is_hashed_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, inbox = write_inbox(tmp_path)
    drop = write_drop(inbox)
    listed = places._Folder.listing

    def touched(self: places._Folder, place: str) -> list[places.Seen]:
        found = listed(self, place)
        os.utime(drop / "people.csv")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(places._Folder, "listing", touched)
        assert seen(home, inbox) == []
    assert only(home, inbox).state == "arrived"


@pytest.mark.parametrize(
    ("others", "line"),
    [
        ({"product": "large"}, "drop.json: names another product than the one of this inbox, small"),
        ({"period": "9999"}, "drop.json: names a period that is none of this product's, or has not begun"),
        ({"period": "2026-1"}, "drop.json: names a period that is none of this product's"),
        (
            {"digest": "0" * 64},
            "people.csv: is not the file that the manifest describes",
        ),
    ],
)
def test_what_does_not_match_is_quarantined_with_one_line(tmp_path: Path, others: dict, line: str) -> None:  # type: ignore[type-arg]
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, **others)
    drop = only(home, inbox)
    assert (drop.state, drop.place, drop.lies, drop.slot) == ("quarantined", "quarantine/first", None, None)
    assert why(inbox, "first").startswith(line)
    assert not (Path(inbox.address) / "first").exists()


def test_only_periods_of_the_inbox_are_taken(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path, periods="2026|2027")
    for period in ("2027", "2028"):
        write_drop(inbox, f"of-{period}", period=period)
    assert {drop.period: drop.state for drop in seen(home, inbox)} == {"2027": "arrived", "": "quarantined"}


@pytest.mark.parametrize("name", ["two words", "übersicht", "x" * 120, "a%2fb", "a\nb"])
def test_a_drop_with_an_odd_name_is_quarantined_under_its_id(tmp_path: Path, name: str) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, name)
    drop = only(home, inbox)
    assert drop.place == f"quarantine/{drop.id}"
    assert why(inbox, drop.id).startswith("the drop: has a name")
    assert (Path(inbox.address) / drop.place / "people.csv").read_bytes() == TEXT


def test_what_is_no_drop_is_left_alone(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    for name in (".hidden", "_temporary", "done", "quarantine"):
        write_drop(inbox, name)
    (Path(inbox.address) / "readme.txt").write_text("for people")
    assert seen(home, inbox) == []


def test_a_link_in_the_inbox_is_not_followed(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    elsewhere = write_drop(tmp_path, "elsewhere")
    (Path(inbox.address) / "first").symlink_to(elsewhere)
    assert only(home, inbox).place == "quarantine/first"
    assert (Path(inbox.address) / "quarantine" / "first").is_symlink()
    assert (elsewhere / "people.csv").exists()


def test_nothing_goes_through_a_quarantine_that_is_a_link(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (Path(inbox.address) / "quarantine").symlink_to(tmp_path / "elsewhere")
    write_drop(inbox, product="large")
    with pytest.raises(NotADirectoryError):
        look(home, inbox)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert (Path(inbox.address) / "first").exists()


def test_a_second_drop_for_a_period_comes_too_late(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, "a")
    write_drop(inbox, "b")
    first, second = seen(home, inbox)
    assert (first.state, second.state, second.slot) == ("arrived", "quarantined", None)
    assert why(inbox, "b").startswith("another drop came first for this period")
    assert second.refusal == "period taken"


def test_the_same_drop_again_and_a_changed_one_are_told_the_same(tmp_path: Path) -> None:
    """Or whoever writes into the inbox could learn, guess by guess, what was published before."""
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, "first")
    finish(home, only(home, inbox), "published")
    write_drop(inbox, "same")
    write_drop(inbox, "changed", {"people.csv": TEXT + b"A1,1,1\n"})
    by_name = {drop.place: drop for drop in seen(home, inbox)}
    assert by_name["done/first"].state == "published"
    lines = []
    for name in ("same", "changed"):
        drop = by_name[f"quarantine/{name}"]
        lines.append(why(inbox, name).replace(drop.id, "ID"))
    assert lines[0] == lines[1]
    assert lines[0].startswith("another drop came first")


def test_a_period_that_the_ledger_charged_is_not_charged_by_a_drop(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    charge(home)
    write_drop(inbox)
    drop = only(home, inbox)
    assert drop.state == "quarantined"
    assert why(inbox, "first").startswith("period already published")
    command = f"tabularium run {inbox.spec} --source drop:{drop.id} --period {drop.period} --revises REASON"
    assert f"{command} --home {home.path}" in why(inbox, "first")
    (refused,) = refused_drops(home)
    assert (refused.refusal, refused.command) == (
        *("refused: period published", f"{command} --home {home.path}"),
    )
    assert verified_files(home, drop.id)  # so that it may be run as a revision


def test_a_database_from_before_refusals_had_a_kind_is_read_and_goes_on(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    finish(home, only(home, inbox), "refused")
    file = home.ledger_folder / "arrivals.db"
    with closing(sqlite3.connect(file)) as old:
        for column in ("refusal", "run"):
            old.execute(f"ALTER TABLE arrivals DROP COLUMN {column}")
    (refused,) = refused_drops(home)
    assert (refused.refusal, refused.run) == ("refused: data", "")
    write_drop(inbox, "wrong", digest="0" * 64)
    seen(home, inbox)
    assert [each.refusal for each in refused_drops(home)] == ["refused: data", "refused: manifest"]


def test_a_refused_drop_goes_to_quarantine_and_its_period_is_free(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    finish(home, only(home, inbox), "refused")
    assert only(home, inbox).place == "quarantine/first"
    assert why(inbox, "first") == f"refused: data rules; see tabularium diagnose RUN --home {home.path}\n"
    (refused,) = refused_drops(home)
    assert (refused.refusal, refused.run) == ("refused: data", "RUN")
    assert refused.command == f"tabularium diagnose RUN --home {home.path}"
    write_drop(inbox)
    states = {drop.state: drop.place for drop in seen(home, inbox)}
    assert states == {"refused": "quarantine/first", "arrived": "first"}


def test_a_failed_drop_stays_keeps_its_period_and_may_be_taken_away(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    drop = write_drop(inbox)
    finish(home, only(home, inbox), "failed")
    assert (only(home, inbox).state, only(home, inbox).place) == ("failed", "first")
    drop.rename(tmp_path / "taken")
    assert only(home, inbox).state == "gone"
    assert not list((home.path / "arrivals").iterdir())
    write_drop(inbox)
    assert [drop.state for drop in seen(home, inbox)] == ["gone", "arrived"]


def test_names_that_are_taken_already_get_the_id(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    for _ in range(2):
        write_drop(inbox, product="large")
        look(home, inbox)
    first, second = drops_of(home)
    assert (first.place, second.place) == ("quarantine/first", f"quarantine/first-{second.id[:8]}")


def test_what_was_put_away_is_deleted_with_its_digests_after_the_retention(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, "published")
    finish(home, only(home, inbox), "published")
    write_drop(inbox, "late")
    write_drop(inbox, "damaged", product="large")
    assert {drop.state for drop in seen(home, inbox)} == {"published", "quarantined"}
    look(home, replace(inbox, retention=0.0))
    assert {drop.state for drop in drops_of(home)} == {"deleted"}
    assert [path.name for path in Path(inbox.address).rglob("*") if path.is_file()] == []
    assert not list((home.path / "arrivals").iterdir())
    write_drop(inbox, "again")
    assert [drop.state for drop in seen(home, inbox) if drop.lies or drop.place] == ["quarantined"]


def test_a_folder_that_is_full_of_names_is_refused(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path, limits=InboxLimits(files=20))
    drop = write_drop(inbox)
    for number in range(130):
        (drop / f".{number}").touch()
    assert only(home, inbox).state == "quarantined"


def test_the_database_holds_no_digest(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    look(home, inbox)
    digest = manifest()["files"][0]["sha256"]
    assert digest in (home.path / "arrivals" / f"{drops_of(home)[0].id}.json").read_text()
    for path in home.path.glob("arrivals.db*"):
        assert digest.encode() not in path.read_bytes()


def test_a_manifest_that_is_not_written_yet_waits(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path, patience=30)
    drop = write_drop(inbox)
    text = json.dumps(manifest())
    (drop / "drop.json").write_text(text[:40])
    assert seen(home, inbox) == []
    (drop / "drop.json").write_text(text)
    assert only(home, inbox).state == "arrived"


def test_digests_without_a_claim_are_removed_after_an_hour(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    keep_verified(home, "ab" * 16, ())
    look(home, inbox)
    path = home.path / "arrivals" / f"{'ab' * 16}.json"
    assert path.exists()
    os.utime(path, (time.time() - 4000,) * 2)
    look(home, inbox)
    assert not path.exists()
    with Claims.at(home) as claims:
        assert claims.find("ab" * 16) is None
