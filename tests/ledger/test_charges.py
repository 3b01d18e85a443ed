"""What a release is drawn towards is asked of the ledger once more as it is reserved, and as its drawing begins."""

from __future__ import annotations

import pytest

from tabularium.ledger import Ledger, PriorUnavailable
from tests.ledger.scene import AMOUNT, CAP, enrolled, finish, reserve

PRIORS = {"r1": "p"}


def test_a_prior_that_is_withdrawn_on_the_way_stops_what_was_not_drawn(books: Ledger) -> None:
    officer = enrolled(books)
    finish(books, reserve(books).release_id)
    reserve(books, "begun", period="2027", priors=PRIORS)
    assert books.drawing("begun", priors=PRIORS) == 1
    reserve(books, "waiting", period="2028", priors=PRIORS)
    books.withdraw("r1", reason="counted twice", by=officer)
    with pytest.raises(PriorUnavailable, match=r"withdrawn on .*: counted twice; .*; nothing was charged"):
        reserve(books, "late", period="2029", priors=PRIORS)
    assert books.charge("late") is None
    assert reserve(books, "waiting", period="2028", priors=PRIORS).state == "reserved"  # as it was before
    for ask in (
        lambda: books.drawing("waiting", priors=PRIORS),
        lambda: books.precheck_priors(PRIORS, books.charge("waiting")),
    ):
        with pytest.raises(PriorUnavailable, match=r"no noise was drawn, .* tabularium ledger void waiting"):
            ask()
    assert (books.charge("waiting") or pytest.fail()).fence == 0
    books.void("waiting", "prior withdrawn", by=officer)
    assert books.drawing("begun", priors=PRIORS) == 2, "it is spent already"
    assert books.balance("census") == CAP - 2 * AMOUNT


@pytest.mark.parametrize("priors", [{"r1": "another"}, {"r2": "p"}, {"no id at all": "p"}])
def test_only_what_was_published_is_drawn_towards(books: Ledger, priors: dict[str, str]) -> None:
    finish(books, reserve(books).release_id)
    reserve(books, "r2")
    with pytest.raises(PriorUnavailable, match="has not published a release of this certificate"):
        reserve(books, "r3", priors=priors)
