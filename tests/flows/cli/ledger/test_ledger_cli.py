"""``tabularium ledger …`` as typed: what officers, reviewers and operators do, start to end."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger, Partition
from tabularium.ledger.storage.schema import REVISION
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import write_scene

DIGEST = "043a718774c572bd8a25adbeb1bfcd5c0256ae11cecf9f9c3f925d0e52beaf89"
WORDS = [
    *("open", "change", "close", "show", "history", "review", "plot", "approve", "unapprove", "verify"),
    *("export", "restore", "migrate", "roles", "void", "abandon", "allow-attempts"),
    *("evidence", "retire", "disjoint", "accept", "withhold"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return Home.at(None)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["ledger", *map(str, words)])


def good(*words: str | Path) -> str:
    done = run(*words)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*words: str | Path) -> str:
    done = run(*words)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    return done.stderr


def charge(home: Home, number: int, **more: object) -> None:
    with Ledger.connect(home.ledger_url) as books:
        books.reserve(
            "census", release_id=f"r{number}", amount=Fraction(1, 10), product=f"p{number % 2}",
            period=f"{2026 + number % 2}", spec_digest=DIGEST, **more,  # type: ignore[arg-type]
        )  # fmt: skip


def test_an_officers_day(home: Home, tmp_path: Path) -> None:
    key, other = tmp_path / "a.pem", tmp_path / "b.pem"
    good("open", "census", "--cap", "1", "--unit", "person", "--cap-per-period", "1/2", "--needs-approval")
    assert "No key is enrolled" in good("keys")
    good("keys", "new", key)
    good("keys", "new", other)
    good("keys", "enrol", tmp_path / "a.pub.pem", "--officer", "A. Ro", "--key", key)
    good("keys", "enrol", tmp_path / "b.pub.pem", "--officer", "B. Ito", "--key", key)
    name = json.loads(good("keys", "--json"))[1]["key"]
    good("keys", "revoke", name, "--reason", "lost", "--key", key)
    assert "is not enrolled" in refused("approve", DIGEST, "--account", "census", "--key", other)
    assert "at most 1/10" in good("approve", DIGEST, "--account", "census", "--amount", "0.1", "--key", key)
    for number in range(3):
        charge(home, number)
    assert "voiding a charge needs an officer's signature" in refused("void", "r1", "--reason", "mistake")
    assert "is not enrolled" in refused("void", "r1", "--reason", "mistake", "--key", other)
    good("void", "r1", "--reason", "mistake", "--key", key)
    good("unapprove", DIGEST, "--account", "census", "--key", key, "--reason", "an error was found")
    shown = good("show")
    assert "reserved 1/5 of 1, left 4/5" in shown
    assert "█" in shown and "2026" in shown and "p0" in shown and "needs an officer's approval" in shown
    (account,) = json.loads(good("show", "--json"))
    assert (account["account"], account["used"], account["left"]) == ("census", "1/5", "4/5")
    assert account["periods"]["2026"] == {"reserved": "1/5", "spent": "0", "used": "1/5"}
    assert [entry["state"] for entry in account["charges"]] == ["reserved", "reserved", "voided"]
    assert account["charge_count"] == 3
    assert "charges" not in json.loads(good("show", "--json", "--no-charges"))[0]
    wider = ("change", "census", "--cap", "2", "--cap-per-period", "none", "--reason", "decree")
    assert "loosening cap, cap_per_period needs an officer's signature" in refused(*wider)
    assert "signature" in refused("change", "census", "--needs-no-approval", "--reason", "in the way")
    assert "is not enrolled, or was revoked" in refused(*wider, "--key", other)
    assert "its cap is 2" in good(*wider, "--key", key)
    assert "below the 1/5" in refused("change", "census", "--cap", "1/10", "--reason", "x")
    assert "nothing is to be changed" in refused("change", "census", "--reason", "x")
    another = ("open", "another", "--cap", "1", "--unit", "person")
    assert "opening an account needs an officer's signature" in refused(*another)
    good(*another, "--key", key)
    good("close", "census", "--reason", "over")
    history = good("history", "census")
    assert all(
        word in history for word in ("account", "approval", "reserved", "voided", "terms", "unapproval")
    )
    assert [entry["seq"] for entry in json.loads(good("history", "--last", "2", "--json"))] == [12, 13]
    good("verify")


def test_two_officers_approve(home: Home, tmp_path: Path) -> None:
    del home
    first, second = tmp_path / "a.pem", tmp_path / "b.pem"
    good("open", "census", "--cap", "1", "--approvals", "2", "--approvals-for", "p1=3")
    assert "every spec and every draft needs 2 officers; specs and drafts of p1 need 3" in good("show")
    for name, officer in (("a", "A. Ro"), ("b", "B. Ito")):
        good("keys", "new", tmp_path / f"{name}.pem")
        good("keys", "enrol", tmp_path / f"{name}.pub.pem", "--officer", officer, "--key", first)
    for key in json.loads(good("keys", "--json")):
        assert key["enrolled_by"] == json.loads(good("keys", "--json"))[0]["key"]
    assert "enrolled by" in good("keys")
    digest = ("approve", DIGEST, "--account", "census", "--amount", "1/10", "--key")
    assert "product: is needed" in refused(*digest, first)
    approving = (*digest[:-1], "--product", "p2", "--key")
    said = good(*approving, first)
    assert f"1 of 2 officers have approved spec {DIGEST}, for at most 1/10: A. Ro." in said
    assert "is approved" not in said
    assert "1 of 2 officers" in good(*approving, first)
    assert f"Spec {DIGEST} is approved for account census, for at most 1/10." in good(*approving, second)
    change = ("change", "census", "--reason", "x", "--key", first)
    assert "approvals: can be raised, not lowered" in refused(*change, "--approvals", "1")
    assert "approvals_by_product: can be raised, not lowered" in refused(*change, "--approvals-for", "p1=2")
    for wrong in ("p1", "=2", "p1=x", "p1=10"):
        assert "--approvals-for: is not PRODUCT=N" in refused(*change, "--approvals-for", wrong)
    good(*change, "--approvals-for", "p1=4", "--approvals", "3")
    assert "officers who must sign: 2 → 3" in good("history")
    assert "officers who must sign, by product: p1 3 → p1 4" in good("history")
    (account,) = json.loads(good("show", "--json"))
    assert (account["approvals"], account["approvals_by_product"]) == (3, {"p1": 4})


def test_a_reviewers_day(home: Home, tmp_path: Path) -> None:
    good(
        "open", "census", "--cap", "1/10", "--unit", "person", "--definition", "zcdp", "--delta", "1/1000000"
    )
    charge(home, 0, partition=Partition("zones", "north"))
    review = json.loads(good("review", "--json"))
    assert review["accounts"][0]["plain"] == "1/10"
    assert "ρ = 1/10" in good("review")
    assert "between 0 and 1" in refused("review", "--delta", "2")
    plot = tmp_path / "spending.svg"
    good("plot", "census", plot)
    assert plot.read_text().count("<path") > 5
    assert "kind of picture" in refused("plot", "census", tmp_path / "spending.xls")
    assert "no such account" in refused("plot", "nobody", plot)
    file = tmp_path / "books.txt"
    good("export", file)
    assert json.loads(good("verify", "--export", file, "--json"))["entries"] == 2
    with Ledger.connect(home.ledger_url) as books:
        head = books.head()
    certificate = tmp_path / "certificate.json"
    for value, says in ((head.hash, "a release that the ledger does not know"), ("0" * 64, "entry 2")):
        named = {"seq": head.seq, "hash": value}
        certificate.write_text(json.dumps({"release_id": "r9", "ledger": {"head": named}}))
        assert says in refused("verify", "--certificate", certificate)
        assert says in refused("verify", "--export", file, "--certificate", certificate)
    certificate.write_text("{}")
    assert "names no release and no head" in refused("verify", "--certificate", certificate)
    assert "names no release and no head" in refused("verify", "--certificate", tmp_path), "a release folder"
    assert "there is no such file" in refused("verify", "--certificate", tmp_path / "none.json")


def test_an_operators_day(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good("open", "census", "--cap", "1", "--unit", "person")
    charge(home, 0)
    file = tmp_path / "books.txt"
    good("export", file)
    assert f"revision {REVISION}, and their guard is in place" in good("migrate")
    assert "CREATE ROLE %I NOLOGIN" in good("roles")
    charge(home, 1)
    for path in home.path.glob("ledger.db*"):
        if path.is_file() and "witness" not in path.name:
            path.unlink()
    assert "it lacks entry 3" in refused("restore", file)
    newer = tmp_path / "newer"
    monkeypatch.setenv("TABULARIUM_HOME", str(newer))
    good("restore", file)
    assert json.loads(good("verify", "--json"))["entries"] == 3
    assert "holds entries already" in refused("restore", file)


@pytest.mark.parametrize("word", [*WORDS, *(f"keys {word}" for word in ("new", "enrol", "revoke"))])
def test_every_command_has_help_with_an_example(word: str) -> None:
    assert "Example:" in good(*word.split(), "--help")


def test_attempts_beyond_the_third_are_allowed_and_seen_in_the_history(home: Home) -> None:
    good("open", "census", "--cap", "1", "--unit", "person")
    charge(home, 1)
    assert "is not being drawn" in refused("allow-attempts", "r1", "--reason", "early")
    assert "give all 32 digits" in refused("allow-attempts", "deadbeef", "--reason", "early")
    assert "give the 32 digits" in refused("void", "3fa9…", "--reason", "early")
    assert "there is no such file" in refused("void", "r1", "--reason", "early", "--key", "none.pem")
    with Ledger.connect(home.ledger_url) as books:
        for _ in range(3):
            books.drawing("r1")
    told = good("allow-attempts", "r1", "--reason", "the disk was full")
    assert told == "The drawing of release r1 may begin 6 times in all.\n"
    history = good("history")
    for line in ("release r1, 6 attempts in all", "reason: the disk was full", "not signed"):
        assert line in history
    good("verify")


@pytest.mark.parametrize("kept", [True, False])
def test_show_says_where_no_second_witness_is(
    kept: bool, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home
    if kept:
        monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witness"))
    good("open", "census", "--cap", "1", "--unit", "person")
    for told in (good("show"), good("verify")):
        assert ("There is no second witness" in told) is not kept
    assert ("Whether it is the newest was not checked" in told) is not kept
    json.loads(good("show", "--json"))


@pytest.mark.parametrize(
    ("unit", "entity"),
    [
        ("{entity: household, column: id}", "household"),
        ("entity: household", "household"),
        ("{column: id}", "person"),
        ('{"entity": "patient"}', "patient"),
        ("household member", "person"),
    ],
)
def test_the_unit_of_an_account_is_the_entity_alone(unit: str, entity: str, home: Home) -> None:
    assert f"write --unit {entity};" in refused("open", "census", "--cap", "1", "--unit", unit)
    good("open", "census", "--cap", "1", "--unit", entity)
    assert home.path.exists()


def test_an_approval_says_where_nothing_can_pay(home: Home, tmp_path: Path) -> None:
    key = tmp_path / "officer.pem"
    good("keys", "new", key)
    good("keys", "enrol", key.with_suffix(".pub.pem"), "--officer", "A", "--key", key)
    good("open", "census", "--cap", "1", "--unit", "person", "--key", key)
    named = ("approve", DIGEST, "--account", "census", "--key", key)
    assert "cannot pay" not in good(*named)
    for number in range(10):
        charge(home, number)
    with Ledger.connect(home.ledger_url) as books:
        left = books.account("census").left
    told = good(*named)
    assert left == 0
    assert "Account census has nothing left: it cannot pay" in told


def test_an_officer_sees_what_is_decided_and_may_leave_it_at_a_terminal(home: Home, tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    key = tmp_path / "officer.pem"
    good("keys", "new", key)
    good("keys", "enrol", key.with_suffix(".pub.pem"), "--officer", "A", "--key", key)

    def at_a_terminal(answer: str) -> str:
        ours, theirs = pty.openpty()
        os.write(ours, f"{answer}\n".encode())
        words = [
            sys.executable,
            "-m",
            "tabularium.flows.cli.app",
            "ledger",
            "approve",
            str(spec),
            "--key",
            str(key),
        ]
        done = subprocess.run(words, stdin=theirs, capture_output=True, text=True, check=False, timeout=120)
        return done.stdout + done.stderr

    for answer, signed in (("n", False), ("y", True)):
        said = " ".join(at_a_terminal(answer).split())
        assert "small 2026: ε = 1 of account people, for one record ε = 10 of 10 is left, 9 after it" in said
        assert "area_age_sex: area × age × sex; count ± 6 at nation" in said
        assert "max_rejected: no record was rejected" in said
        assert ("is approved for account people" in said) is signed
        with Ledger.connect(home.ledger_url) as books:
            assert (books.last_entries(1)[0].body["kind"] == "approval") is signed


def test_several_periods_are_approved_at_once_or_none_is(home: Home, tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("dataset: people", "dataset: few"))
    key = tmp_path / "officer.pem"
    good("keys", "new", key)
    good("keys", "enrol", key.with_suffix(".pub.pem"), "--officer", "A", "--key", key)
    good("open", "few", "--cap", "2", "--unit", "record", "--key", key)
    several = ("approve", spec, "--key", key, "--period", "2027", "--period")
    refused(*several, "20 28")
    with Ledger.connect(home.ledger_url) as books:
        assert books.last_entries(1)[0].body["kind"] == "account"
    assert "cannot pay the 3 that they cost together; see its caps" in refused(
        *several, "2028", "--period", "2029"
    )
    with Ledger.connect(home.ledger_url) as books:
        assert books.last_entries(1)[0].body["kind"] == "account"
    told = good(*several, "2028", "--period", "2029", "--even-if-unpaid")
    rows = [line.split() for line in told.splitlines() if line.strip().startswith("20")]
    assert [row[0] for row in rows] == ["2027", "2028", "2029"]
    assert "Together they cost 3." in told
    with Ledger.connect(home.ledger_url) as books:
        bodies = [entry.body for entry in books.last_entries(3)]
    assert [body["spec_digest"] for body in bodies] == [row[1] for row in rows]
