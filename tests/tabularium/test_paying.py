"""What `check` says of the account of a spec: how many periods are left, and nothing without a home."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import tabularium as tb
from tabularium.ledger import Ledger
from tabularium.ledger.keys import public_hex
from tabularium.mechanisms.errors import InputError
from tests.flows.release.scene import let_sign, write_scene


def said_of(spec: Path, home: Path | None) -> str | None:
    """Return the line that `check` prints of the account."""
    words = " ".join(repr(tb.check(spec, home=home)).split())  # whatever the width
    found = re.search(r"Account .*?\.(?= |$)", words)
    return found[0] if found else None


def test_what_is_left_pays_for_so_many_periods(tmp_path: Path) -> None:
    """Of 3: one release of this product and one of another, for 1 and 1/2; 3/2 is left."""
    spec, home = write_scene(tmp_path, cap="3")
    assert (
        said_of(spec, home.path)
        == "Account people: ε = 3 of 3 is left, enough for 3 more periods of this spec."
    )
    with Ledger.connect(home.ledger_url) as ledger:
        for release, product, amount in (("r1", "small", "1"), ("r2", "other", "1/2")):
            ledger.reserve(
                "people",
                release_id=release,
                amount=Fraction(amount),
                product=product,
                period="2026",
                spec_digest="0" * 64,
            )
    found = tb.check(spec, home=home.path).as_dict()["summary"]["account"]
    assert found["words"].startswith(
        "Account people: ε = 3/2 of 3 is left, enough for 1 more period of this spec"
    )
    assert "2026 was charged already" in found["words"]
    assert (found["left"], found["periods"], found["periods_with_other_products"]) == ("3/2", 1, 1)
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "1/2"'))
    found = tb.check(spec, home=home.path).as_dict()["summary"]["account"]
    assert (found["periods"], found["periods_with_other_products"]) == (3, 1)
    spec.write_text(spec.read_text().replace('budget: "1/2"', 'budget: "2"'))
    assert "not enough for one more period" in (said_of(spec, home.path) or "")


def test_an_account_that_does_not_fit_cannot_pay(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("relation: add-remove", "relation: replace"))
    assert "cannot pay for this spec" in (said_of(spec, home.path) or "")
    spec.write_text(spec.read_text().replace("dataset: people", "dataset: nobody"))
    assert said_of(spec, home.path) == "Account nobody is not open: a disclosure officer opens it."
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.change_account("people", cap_per_product=Fraction(1, 2), reason="minute 3")
    spec, _ = write_scene(tmp_path / "again")
    assert "it allows 1/2 for one product, and the spec costs 1" in (said_of(spec, home.path) or "")


def test_caps_of_a_period_and_a_product_are_told_before_the_ledger_refuses(tmp_path: Path) -> None:
    """Of 1 a period another product has taken 3/5, so that this one's 3/5 cannot be paid in 2026, nor beside it."""
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "3/5"'))
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.change_account("people", cap_per_period=Fraction(1), reason="minute 3")
        about = {"amount": Fraction(3, 5), "product": "other", "period": "2026", "spec_digest": "0" * 64}
        ledger.reserve("people", release_id="r1", **about)  # type: ignore[arg-type]
    said = said_of(spec, home.path) or ""
    assert (
        "enough for 15 more periods of this spec; with the other products of the account not enough" in said
    )
    assert "of the 1 for one period 2/5 is left in 2026, which does not pay for it" in said
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.change_account("people", cap_per_period=None, reason="minute 4")
        about |= {"product": "small", "period": "2025", "amount": Fraction(3)}
        ledger.reserve("people", release_id="r2", **about)  # type: ignore[arg-type]
        ledger.change_account("people", cap_per_product=Fraction(1), reason="minute 5")
    found = tb.check(spec, home=home.path).as_dict()["summary"]["account"]
    assert (found["periods"], found["periods_with_other_products"]) == (0, 0)
    assert "0 of it for one product, not enough for one more period" in found["words"]


def test_a_home_is_never_made_and_nothing_is_said_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    away = tmp_path / "nowhere"
    monkeypatch.setenv("TABULARIUM_HOME", str(away))
    assert said_of(spec, None) is None
    assert "account" not in tb.check(spec).as_dict()["summary"]
    with pytest.raises(InputError, match="no home is here"):
        tb.check(spec, home=away)
    assert not away.exists()
    away.mkdir()  # one without a ledger
    assert said_of(spec, None) is None
    assert not list(away.iterdir())
    monkeypatch.setenv("TABULARIUM_HOME", str(home.path))
    assert "enough for 10 more periods" in (said_of(spec, None) or "")


def test_a_decision_costs_nothing_where_its_charge_stands(tmp_path: Path) -> None:
    """A release that is being made has its budget: what is left is not told as if it took it again."""
    spec, home = write_scene(tmp_path, cap="1")
    books = tb.open_ledger(home.path)
    before = books.decision(spec)
    with Ledger.connect(home.ledger_url) as ledger:
        about = {"product": "small", "period": "2026", "spec_digest": before.spec_digest}
        ledger.reserve("people", release_id="r1", amount=Fraction(1), **about)  # type: ignore[arg-type]
        found = books.decision(spec)
        assert (before.cost, found.cost, found.left, found.left_after) == (1, 0, 0, 0)
        assert found.can_be_paid and found.headline == "small 2026: paid for already, and costs nothing more"
        ledger.void("r1", reason="given back")
        assert books.decision(spec).cost == 1


def test_a_revision_is_told_as_one(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    headline = tb.open_ledger(home.path).decision(spec, revises="two areas were exchanged").headline
    assert headline.startswith("small 2026, revised (two areas were exchanged): ε = 1 of account people")


def test_who_approves_noisy_rules_reads_what_every_further_input_costs(tmp_path: Path) -> None:
    rules = '[{rule: row_count, min: 1, noisy: {share: "1/4"}}]'
    spec, home = write_scene(tmp_path, budget="4", rules=rules)
    let_sign(home)
    further = "every further input, such as a corrected one, costs another ε = 1"
    decision = tb.open_ledger(home.path).decision(spec)
    assert f"  {further}\n" in repr(decision)
    assert decision.retries == further
    spec.write_text(spec.read_text().replace(rules, "[]"))
    assert tb.open_ledger(home.path).decision(spec).retries == ""


@pytest.mark.parametrize("officers", [1, 2])
def test_an_approval_for_less_is_none_of_the_spec(tmp_path: Path, officers: int) -> None:
    spec, home = write_scene(tmp_path)
    one, other = let_sign(home), Ed25519PrivateKey.generate()
    books = tb.open_ledger(home.path)

    def approved_by(by: Ed25519PrivateKey, amount: str | None) -> tuple[str, ...]:
        most = None if amount is None else Fraction(amount)
        with Ledger.connect(home.ledger_url) as ledger:
            ledger.approve("people", books.decision(spec).spec_digest, by=by, amount=most)
        return books.decision(spec).approved_by

    with Ledger.connect(home.ledger_url) as ledger:
        ledger.enrol_key(public_hex(other), officer="B. Ito", by=one)
        ledger.change_account("people", approvals=officers, reason="by decree", by=one)
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.approve("people", books.decision(spec).spec_digest, by=one, product="other")
    assert books.decision(spec).approved_by == ()
    assert approved_by(one, "1/2") == ()
    assert approved_by(one, "2") == (
        ("A. Ro",) if officers == 1 else ()
    )  # together with one for 1 it is none
    assert approved_by(one, "1") == ("A. Ro",)
    if officers == 2:
        assert approved_by(other, "1") == ("A. Ro", "B. Ito")
        approved_by(one, None)
        assert approved_by(other, None) == ("A. Ro", "B. Ito")
