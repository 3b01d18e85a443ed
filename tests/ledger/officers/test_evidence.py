"""An officer asks from which input a release was made: the question is recorded and signed, not the answer."""

from __future__ import annotations

import pytest

from tabularium.ledger import Ledger, NotApproved
from tests.ledger.officers.test_officers import enrolled, key
from tests.ledger.scene import finish, reserve


@pytest.fixture
def asked(books: Ledger) -> Ledger:
    """Five entries: account, key, charge and two questions."""
    officer = enrolled(books)
    charge = reserve(books)
    books.ask_for_evidence(charge, by=officer, reason="a complaint")
    books.ask_for_evidence(charge, by=officer)
    return books


def test_a_question_changes_nothing_and_says_who_asked_what(asked: Ledger) -> None:
    before = asked.balance("census")
    assert finish(asked).state == "published"
    assert asked.balance("census") == before
    asked.verify()
    entry = list(asked.entries())[3]
    signature = {"by", "signature", "turn"}
    framing = {"at", "kind", "prev", "seq", "v"}
    sums = {"account_reserved", "account_spent"}
    assert set(entry.body) == {"account", "of_release", "reason", *signature, *framing, *sums}
    assert (entry.body["of_release"], entry.body["reason"]) == ("r1", "a complaint")


def test_only_an_enrolled_key_asks(asked: Ledger) -> None:
    charge = asked.charge("r1")
    assert charge is not None
    with pytest.raises(NotApproved, match="is not enrolled"):
        asked.ask_for_evidence(charge, by=key())
