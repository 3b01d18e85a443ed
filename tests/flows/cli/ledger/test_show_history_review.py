"""What ``tabularium ledger show|history|review`` say to people and programs, in narrow and long ledgers too."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from rich.cells import cell_len
from sqlalchemy import Engine, event

from tabularium.ledger import Ledger, review
from tabularium.ledger.export import restore
from tabularium.ledger.keys import read_private
from tabularium.ledger.records import Charge
from tabularium.mechanisms.accounting import epsilon_at
from tabularium.tasks.runtime.home import Home
from tests.flows.cli.ledger.test_ledger_cli import DIGEST, good, refused
from tests.ledger.long_chain import write_export
from tests.ledger.scene import census, finish, reserve

TODAY = datetime.now(UTC).date()
#: A name that Rich, asked to print it, would fail on, hide and turn into a picture.
ODD = "A [/b] [red]Ro :skull:"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return Home.at(None)


@pytest.fixture
def books(home: Home) -> Iterator[Ledger]:
    with Ledger.connect(home.ledger_url) as ledger:
        yield ledger


def charge(books: Ledger, number: int, account: str = "census", **content: object) -> None:
    reserve(books, f"r{number}", account, **content)


# Names


def test_names_are_shown_as_they_are(books: Ledger, tmp_path: Path) -> None:
    key = tmp_path / f"{ODD.replace('/', '')}.pem"
    assert str(key) in good("keys", "new", key)
    census(books, ODD, unit=ODD)
    charge(books, 1, ODD, product=ODD, period="[/x]", amount=Fraction(1, 5))
    enrolled = good("keys", "enrol", key.with_suffix(".pub.pem"), "--officer", ODD, "--key", key)
    assert f" of {ODD} is enrolled" in enrolled
    assert ODD in good("keys")
    assert f"Account {ODD} is changed" in good(
        "change", ODD, "--cap", "2", "--reason", "[/decree]", "--key", key
    )
    assert f"for account {ODD}," in good("approve", DIGEST, "--account", ODD, "--key", key)
    assert "no such account" in refused("approve", DIGEST, "--account", "[/x]", "--key", key)
    for word in ("show", "history", "review"):
        shown = good(word)
        assert shown.count(ODD) >= 3, shown
    assert "[/decree]" in good("history") and "[/x]" in good("show")
    (revoked,) = json.loads(good("keys", "--json"))
    assert f" of {ODD} is revoked" in good("keys", "revoke", revoked["key"], "--reason", "lost", "--key", key)
    assert f"Account {ODD} is closed" in good("close", ODD, "--reason", "over")


def test_only_a_digest_is_approved_by_name(books: Ledger, tmp_path: Path) -> None:
    key, spec = tmp_path / "a.pem", tmp_path / "census.yaml"
    census(books)
    good("keys", "new", key)
    good("keys", "enrol", tmp_path / "a.pub.pem", "--officer", "A. Ro", "--key", key)
    spec.write_text("product: p")
    named = ("--account", "census", "--key", key)
    assert "leave out --account" in refused("approve", spec, *named)
    for wrong in ("census.yaml", DIGEST.upper(), DIGEST[:-1], f"{DIGEST}0"):
        assert "is not a spec's digest" in refused("approve", wrong, *named)
    assert not books.approvals()
    good("approve", DIGEST, *named)
    # What an earlier release let somebody approve can still be taken back.
    books.approve("census", "census.yaml", by=read_private(key))
    good("unapprove", "census.yaml", *named, "--reason", "it is a name")
    assert "is not a spec's digest" in refused("unapprove", "other.yaml", *named, "--reason", "x")


def test_a_key_is_made_whole_or_not_at_all(home: Home, tmp_path: Path) -> None:
    del home
    key, public = tmp_path / "a.pem", tmp_path / "a.pub.pem"
    public.write_text("somebody else's")
    assert "is there already" in refused("keys", "new", key)
    assert not key.exists() and public.read_text() == "somebody else's"
    public.unlink()
    public.symlink_to(tmp_path / "nowhere" / "a.pub.pem")  # cannot be written
    assert "a.pub.pem" in refused("keys", "new", key)
    assert not key.exists()


# Sums


def test_spent_is_what_was_drawn_in_every_json(books: Ledger) -> None:
    census(books, "census", cap=Fraction(1))
    for number in range(3):
        charge(books, number)
    finish(books, "r0")
    books.drawing("r1")
    (account,) = json.loads(good("show", "--json"))
    sums = {"reserved": "1/10", "spent": "1/5", "used": "3/10"}
    assert {name: account[name] for name in sums} == sums
    assert account["left"] == "7/10" and "drawn" not in account
    assert account["periods"] == {"2026": sums} and account["products"] == {"p": sums}
    assert json.loads(good("review", "--json"))["accounts"][0]["periods"] == {"2026": sums}
    assert "spent 1/5 and reserved 1/10 of 1, left 7/10" in good("show")


def test_what_programs_read_is_explained(books: Ledger) -> None:
    census(books)
    charge(books, 1)
    found = json.loads(good("review", "--json"))
    (account,) = json.loads(good("show", "--json"))
    census(books, "homes", unit="household")
    (apart,) = json.loads(good("review", "--json"))["not_composable"]
    fields = {
        "show": {*account, *account["charges"][0], *account["periods"]["2026"]},
        "review": {*found, *apart, *found["accounts"][0], *found["units"][0]},
        "history": {"by", "account_reserved", "account_spent"},
    }
    for word, names in fields.items():
        shown = good(word, "--help")
        assert [name for name in names if not re.search(rf"\b{name}\b", shown)] == []


def test_a_reviewer_sees_years_and_products(home: Home) -> None:
    times = [datetime(2024, 5, 1, tzinfo=UTC)]
    with Ledger.connect(home.ledger_url, clock=lambda: times[0]) as books:
        census(books, cap=Fraction(1))
        for number in range(3):
            charge(books, number, product=f"p{number % 2}", amount=Fraction(1, 7))
            times[0] += timedelta(days=300)
        census(books, "other", cap=Fraction(1), unit="household", definition="zcdp", delta=Fraction(1, 10**6))
        charge(books, 7, "other", amount=Fraction(1, 50))
        census(books, "third", cap=Fraction(1), unit="household")
        charge(books, 8, "third")
    names = ("2024", "2025", "2026", "p0", "p1", "p")
    lines = [line.split() for line in good("review").splitlines()]
    assert [[line[0], *line[2:]] for line in lines if line and line[0] in names] == [
        ["2024", "1/7", "1/7"],
        ["2025", "2/7", "3/7"],
        ["p0", "2/7"],
        ["p1", "1/7"],
        ["2026", "0.025", "0.025"],
        ["p", "0.025"],
    ]
    person, household = json.loads(good("review", "--json"))["units"]
    assert (person["measure"], person["years"]) == ("epsilon", {"2024": "1/7", "2025": "2/7"})
    # An ε of 1/10 is a ρ of 1/200: what cannot be added as it is is added as ρ.
    assert (household["measure"], household["plain"]) == ("rho", None)
    assert household["products"] == {"p": "1/40"} and household["rho"] == "1/40"


def test_a_reviewer_sees_whose_losses_are_added(books: Ledger, tmp_path: Path) -> None:
    key = tmp_path / "a.pem"
    for name, unit in (("census", "person"), ("wages", "person"), ("homes", "household")):
        good(
            "open", name, "--cap", "1", "--unit", unit, *(("--population", "all") if name == "homes" else ())
        )
    good("open", "misnamed", "--cap", "1", "--unit", "hosehold")
    good("retire", "misnamed", "--reason", "a slip")
    assert "open it again" in refused("change", "misnamed", "--cap", "2", "--reason", "more")
    good("open", "misnamed", "--cap", "1", "--unit", "household", "--population", "some")
    assert "household of some, add-remove" in good("history", "misnamed")
    good("retire", "misnamed", "--reason", "nobody needs it")
    assert "household of all, add-remove" in good("show") and "retired: it takes no charges" in good("show")
    assert "misnamed" not in (shown := good("review")) and "hosehold" not in shown
    assert "Not added: person and household of census, wages, all" in " ".join(shown.split())
    good("keys", "new", key)
    good("keys", "enrol", tmp_path / "a.pub.pem", "--officer", "A. Ro", "--key", key)
    signed = ("--key", key, "--reason", "by birth")
    assert "reported apart" in good("disjoint", "wages", "census", *signed)
    found = json.loads(good("review", "--json"))
    assert [unit["populations"] for unit in found["units"]] == [["census"], ["wages"], ["all"]]
    assert "it is in those of one row only" in " ".join(good("review").split())
    assert "added again" in good("disjoint", "census", "wages", *signed, "--withdraw")
    assert json.loads(good("review", "--json"))["units"][0]["populations"] == ["census", "wages"]
    told = good("history")
    assert told.count("populations census and wages") == 2 and "reason: a slip" in told
    assert "signed by A. Ro" in told and "not signed" in told


def test_an_account_says_whether_it_takes_charges(home: Home) -> None:
    yesterday, tomorrow = (str(TODAY + timedelta(days=days)) for days in (-2, 2))
    with Ledger.connect(home.ledger_url) as books:
        census(books, "old", opens_on=yesterday, closes_on=str(TODAY))
        census(books, "new", opens_on=tomorrow, closes_on="9999-01-01")
    shown = good("show")
    assert f"open since {yesterday}; closed since {TODAY}" in shown
    assert f"opens on {tomorrow}; closes on 9999-01-01" in shown


def test_amounts_that_are_refused_name_what_to_type(home: Home) -> None:
    del home
    opening = ("open", "census", "--cap", "1")
    zcdp = ("--definition", "zcdp", "--delta", "2")
    for wrong in (zcdp, ("--quantum", "2/3")):
        assert "1/1000000" in (line := refused(*opening, *wrong)) and "Fraction" not in line


# Entries


def test_the_history_says_who_signed_why_and_what_changed(books: Ledger, tmp_path: Path) -> None:
    key = tmp_path / "a.pem"
    good("open", "first", "--cap", "1")
    good("keys", "new", key)
    good("keys", "enrol", tmp_path / "a.pub.pem", "--officer", "A. Ro", "--key", key)
    (name,) = books.keys()
    good("open", "census", "--cap", "1", "--unit", "person", "--cap-per-period", "1/2", "--key", key)
    for number in range(2):
        charge(books, number)
    good("void", "r0", "--reason", "wrong period", "--key", key)
    books.drawing("r1")
    good("abandon", "r1", "--reason", "measurement lost")
    wider = ("--cap", "2", "--cap-per-period", "none", "--needs-approval", "--reason", "decree")
    good("change", "census", *wider, "--key", key)
    good("change", "census", "--cap", "3/2", "--reason", "less")
    rows: list[str] = []
    for line in good("history", "--last", "0").splitlines():
        words = line.split()
        if words and words[0].isdigit():
            rows.append("")
        if rows:
            rows[-1] += " " + " ".join(words)
    signed = f"signed by A. Ro, key {name}"
    kinds = {kind: row for row in rows for kind in ("voided", "abandoned") if f" {kind} " in row}
    assert "reason: wrong period" in kinds["voided"] and signed in kinds["voided"]
    assert "reason: measurement lost" in kinds["abandoned"]
    unsigned, opened = (row for row in rows if " account account " in row)
    assert signed in opened and "not signed" not in opened and "not signed" in unsigned
    first, second = (row for row in rows if " terms " in row)
    for change in ("cap: 1 → 2", "cap per period: 1/2 → none", "needs approval: no → yes"):
        assert change in first
    assert "reason: decree" in first and signed in first and "unit" not in first
    assert "cap: 2 → 3/2 reason: less not signed" in second and second.count("→") == 1
    assert good("history", "census", "--last", "1").count("→") == 1


@pytest.mark.parametrize("width", [80, 200])
def test_everything_fits_the_terminal(books: Ledger, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    census(
        books, "census-of-people", cap=Fraction(10**6), cap_per_product=Fraction(5), closes_on="2099-01-01"
    )
    digest = "3fa94c1f2f0a5f5aa7e0a7b6f6f0c1d2"
    for number in range(3):
        reserve(
            books, f"{digest[:-1]}{number}", "census-of-people", amount=Fraction(1, 10**6),
            product=f"persons-by-area-and-age-{number}", period=f"{2026 + number}-Q1",
        )  # fmt: skip
    for word in ("show", "history", "review"):
        shown = good(word)
        assert max(cell_len(line) for line in shown.splitlines()) <= width, shown
        assert word == "review" or f"{digest[:-1]}2" in shown  # whole, to be copied
        assert "persons-by-area-and-age-2" in shown


# Long ledgers


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    def make(entries: int) -> Path:
        file = tmp_path_factory.mktemp("long") / "books.txt"
        write_export(file, entries)
        return file

    return make


@pytest.fixture
def steps() -> Iterator[list[int]]:
    """Count what SQLite does: one for every hundred instructions of its machine."""
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    def watch(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_progress_handler(count, 100)

    event.listen(Engine, "connect", watch)
    yield counted
    event.remove(Engine, "connect", watch)


def test_the_last_entries_cost_the_same_in_a_long_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_file: Callable[[int], Path], steps: list[int]
) -> None:
    taken: dict[int, dict[str, int]] = {}
    for size in (241, 1601):
        monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / str(size)))
        restore(long_file(size), Home.at(None).ledger_url, scratch=True)
        taken[size] = {}
        for words in (("history", "census", "--last", "5"), ("show", "census", "--no-charges")):
            steps[0] = 0
            good(*words)
            taken[size][words[0]] = steps[0]
    for word, few in taken[241].items():
        assert taken[1601][word] < 1.2 * few + 5, (word, taken)


def test_the_last_charges_are_listed_and_the_others_counted(
    home: Home, long_file: Callable[[int], Path]
) -> None:
    restore(long_file(241), home.ledger_url, scratch=True)
    shown = good("show", "census", "--last", "7")
    assert "53 more charges moved earlier; all: tabularium ledger show census --last 0" in shown
    assert "1 more charge moved earlier" in good("show", "--last", "59")
    assert shown.count("published") == 7
    assert good("show", "census").count("published") == 50
    whole = good("show", "census", "--last", "0")
    assert whole.count("published") == 60 and "earlier" not in whole
    (account,) = json.loads(good("show", "--json", "--last", "0"))
    assert len(account["charges"]) == account["charge_count"] == 60
    (account,) = json.loads(good("show", "--json"))
    assert (len(account["charges"]), account["charge_count"]) == (50, 60)
    with Ledger.connect(home.ledger_url) as books:
        last = [entry.release_id for entry in books.charges("census")[-50:]]
        entries = [entry.body for entry in books.entries()]
    assert [entry["release_id"] for entry in account["charges"]] == last
    assert json.loads(good("history", "--last", "0", "--json")) == entries
    assert json.loads(good("history", "census", "--last", "9", "--json")) == entries[-9:]
    assert good("history", "--last", "0").count("published") == 60
    assert "below zero" in refused("show", "--last", "-1") and "below zero" in refused(
        "history", "--last", "-1"
    )


def test_a_review_reads_every_charge_once_and_composes_it_once(
    books: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    census(books)
    for number in range(5):
        charge(books, number)
    read, composed = [], []
    of = Charge.of

    def reading(body: dict[str, object]) -> Charge:
        read.append(body["seq"])
        return of(body)

    def composing(events: list[object], *rest: float, **how: bool) -> float:
        composed.append(len(events))
        return epsilon_at(events, *rest, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Charge, "of", reading)
    monkeypatch.setattr(review, "epsilon_at", composing)
    found = json.loads(good("review", "--json"))
    assert found["accounts"][0]["epsilon"] == found["units"][0]["epsilon"] > 0
    assert (len(read), composed) == (5, [5])
