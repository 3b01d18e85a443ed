"""The ledger as Python sees it: how far a budget goes, and what waits for an officer."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

import tabularium as tb
from tabularium import _waiting
from tabularium.flows.operations.waiting import WaitingRun
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.refusals import AwaitingReview
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.drop_outcomes import finished
from tabularium.tasks.runtime.run import Request, load
from tests.flows.release.scene import let_sign, write_scene
from tests.tasks.arrival.drops import seen, write_drop, write_inbox


def test_a_budget_goes_as_far_as_the_last_periods_cost(tmp_path: Path) -> None:
    _, home = write_scene(tmp_path, cap="3")
    with Ledger.connect(home.ledger_url) as ledger:
        # a: 1/2, and then 1/4; b: 1/3 once, and a try that was given back
        for release, product, period, amount in (
            *(("r1", "a", "2025", "1/2"), ("r2", "a", "2026", "1/4")),
            *(("r4", "b", "2026", "1/3"), ("r5", "b", "2027", "1/2")),
        ):
            ledger.reserve(
                "people",
                release_id=release,
                amount=Fraction(amount),
                product=product,
                period=period,
                spec_digest="0" * 64,
            )
        ledger.void("r5", reason="given back")
    found = tb.open_ledger(home.path).forecast("people")
    assert found.period_cost == Fraction(1, 4) + Fraction(1, 3)
    assert found.left == 3 - Fraction(1, 2) - found.period_cost
    assert found.more == 3  # 23/12 over 7/12
    assert "enough for 3 more periods at 7/12" in repr(found)
    with pytest.raises(InputError, match="no such account"):
        tb.open_ledger(home.path).forecast("nobody")


def test_before_the_first_charge_nothing_is_known(tmp_path: Path) -> None:
    _, home = write_scene(tmp_path)
    found = tb.open_ledger(home.path).forecast("people")
    assert (found.period_cost, found.more, found.left) == (0, None, 10)


def test_a_draft_waits_until_it_is_decided(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    let_sign(home)
    books = tb.open_ledger(home.path)
    assert books.waiting().empty
    spec.write_text(
        spec.read_text().replace(
            "{folder: releases}", "{folder: releases, review: {criteria: [implausible]}}"
        )
    )
    with pytest.raises(AwaitingReview):
        tb.publish(spec, home=home.path, notes=lambda _: None)
    (draft,) = books.waiting().to_dict("records")
    assert (draft["account"], draft["product"], draft["amount"]) == ("people", "small", 1)
    assert (draft["kind"], len(draft["digest"])) == ("review", 64)
    assert draft["command"].startswith("tabularium ledger accept ")
    (charged,) = books.charges("people")
    assert (charged.standing, charged.charge.state) == ("draft, to review", "measured")
    assert charged.draft is not None and charged.draft.digest == draft["digest"]


def test_a_release_waits_whose_attempts_are_used_up(tmp_path: Path) -> None:
    _, home = write_scene(tmp_path)
    let_sign(home)
    with Ledger.connect(home.ledger_url) as ledger:
        about = {"amount": Fraction(1), "product": "small", "period": "2026", "spec_digest": "0" * 64}
        ledger.reserve("people", release_id="r1", **about)  # type: ignore[arg-type]
        for _ in range(3):
            ledger.drawing("r1")
        export(ledger, tmp_path / "books.txt")
        with hold(ledger, "r1"):  # the third attempt is under way
            assert tb.open_ledger(home.path).waiting().empty
    (waits,) = tb.open_ledger(home.path).waiting().to_dict("records")
    assert (waits["kind"], waits["about"], waits["amount"]) == ("attempts", "drawing was cut off 3 times", 1)
    assert waits["command"] == (
        f'tabularium ledger allow-attempts r1 --reason "…" --key FILE --home {home.path}'
    )
    exported = tb.open_ledger(export=tmp_path / "books.txt").waiting()
    assert [*exported["kind"]] == ["attempts"] and "An export tells only of" in exported.unknown[0]


def test_a_refused_delivery_waits_until_another_one_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, "secret-name", digest="0" * 64)
    seen(home, inbox)
    write_drop(inbox, "whole")
    (drop,) = [each for each in seen(home, inbox) if each.state == "arrived"]
    books = tb.open_ledger(home.path)
    assert books.waiting().empty, "of this product one was taken up later"
    finished(home, f"drop:{drop.id}", "refused", run="20261122T143000-1f3a9c2e")
    found = books.waiting()
    rows = {each["about"]: each for each in found.to_dict("records")}
    assert set(rows) == {"refused: data", "refused: manifest"} and set(found["kind"]) == {"refused"}
    data = rows["refused: data"]
    assert (data["product"], data["period"], data["asks"]) == (
        *("small", "2026"), "run 20261122T143000-1f3a9c2e",
    )  # fmt: skip
    assert data["command"] == f"tabularium diagnose 20261122T143000-1f3a9c2e --home {home.path}"
    assert "secret-name" not in str(rows) and "people.csv" not in str(rows)
    write_drop(inbox, "mended")
    seen(home, inbox)
    assert books.waiting().empty
    monkeypatch.setenv("TABULARIUM_ARRIVALS", f"sqlite:///{tmp_path}/nowhere/arrivals.db")
    assert books.waiting().unknown[-1].startswith("Refused deliveries are not listed: ")


def test_who_does_not_know_of_prefect_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, home = write_scene(tmp_path)
    books = tb.open_ledger(home.path)
    assert books.waiting().unknown[0].startswith("No Prefect API is known here: ")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert books.waiting().unknown[0].startswith("Prefect does not answer: ")


def test_a_spec_that_is_not_approved_leaves_nothing_in_the_ledger(tmp_path: Path) -> None:
    """So that books cannot say that it waits."""
    spec, home = write_scene(tmp_path)
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.change_account("people", needs_approval=True, reason="a new law")
        before = ledger.head()
    with pytest.raises(tb.NotApproved):
        tb.publish(spec, home=home.path, notes=lambda _: None)
    books = tb.open_ledger(home.path)
    assert books.waiting().empty
    assert list(books.charges("people")) == []
    with Ledger.connect(home.ledger_url) as ledger:
        assert ledger.head() == before


def test_an_export_says_what_its_ledger_says(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    for period in ("2026", "2027"):
        tb.publish(spec, home=home.path, period=period, same_input=True, notes=lambda _: None)
    with Ledger.connect(home.ledger_url) as ledger:
        export(ledger, tmp_path / "books.txt")
    here, there = tb.open_ledger(home.path), tb.open_ledger(export=tmp_path / "books.txt")
    assert list(there.as_dicts()) == list(here.as_dicts())
    assert list(there.entries()) == list(here.entries())
    assert there.history("people").equals(here.history("people"))
    assert there.review()[0][0].plain == here.review()[0][0].plain == 2
    (account,) = there.as_dicts("people", last=1)
    assert [each["period"] for each in account["charges"]] == ["2027"] and account["charge_count"] == 2
    assert "charges" not in next(there.as_dicts(last=0))
    with there as held:
        said = [held.explain(entry) for entry in held.entries("people", last=2)]
        assert all("1 for small, 2027" in lines for lines in said)
    with pytest.raises(InputError, match="names another ledger"):
        tb.open_ledger(home.path, export=tmp_path / "books.txt")
    for ask in (there.charges, there.as_dicts, there.entries):
        with pytest.raises(InputError, match="no such account"):
            list(ask("nobody"))
        with pytest.raises(InputError, match="below zero"):
            list(ask("people", last=-1))


def test_a_spec_waits_with_whether_the_account_can_pay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path, cap="10")
    officer = let_sign(home)

    def about(**asked: str) -> str:
        since = datetime(2026, 11, 1, tzinfo=UTC)
        digest = load(Request.of(spec, home=home.path, **asked)).digest
        run = WaitingRun(
            *("kind-fox", "small", "2026", str(spec), asked.get("revises"), asked.get("measurements_of")),
            *(digest, True, since, None),
        )
        monkeypatch.setattr(_waiting, "_of_prefect", lambda _: ([run], [], []))
        (row,) = tb.open_ledger(home.path).waiting().to_dict("records")
        assert row["amount"] == ("measurements_of" not in asked), "what it costs: 1, or nothing"
        return str(row["about"])

    unpaid, free = "not approved, and the account cannot pay for it", {"revises": "a slip"}
    free["measurements_of"] = "0123456789abcdef0123456789abcdef"
    assert about() == "not approved"
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.change_account("people", cap_per_period=Fraction(1, 2), reason="by decree", by=officer)
    assert about() == unpaid, "left would do, the period's cap does not"
    assert about(**free) == "not approved", "measurements that are there cost nothing"
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.change_account(
            "people", cap_per_period=None, closes_on="2020-01-01", reason="by decree", by=officer
        )
    assert about() == unpaid, "a closed account pays nothing"
    assert about(**free) == "not approved"
