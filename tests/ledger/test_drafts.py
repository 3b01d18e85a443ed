"""Review before publication: one draft of a release, one decision, both for ever."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import BadValue, Conflict, Ledger, NotApproved, Withheld, WrongState
from tabularium.ledger.composition import Partition
from tabularium.ledger.keys import key_id, public_hex
from tests.ledger.scene import AMOUNT, CRITERIA, enrolled, lay_out, reserve, step


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    return enrolled(books)


def measure(books: Ledger, release: str, **content: Any) -> int:
    step(books, release, "measured", **content)
    return 1


def test_what_is_accepted_is_published_and_nothing_else(books: Ledger, officer: Ed25519PrivateKey) -> None:
    fence = lay_out(books)
    books.submit_draft("r1", fence, digest="d", criteria=CRITERIA)
    with pytest.raises(Conflict, match="another draft"):
        books.submit_draft("r1", fence, digest="other", criteria=CRITERIA)
    with pytest.raises(WrongState, match="cannot become published unless an officer decides"):
        books.published("r1", fence, digest="d")
    with pytest.raises(WrongState, match="cannot become abandoned unless an officer decides"):
        books.abandon("r1", "nobody likes it")
    with pytest.raises(Conflict, match="another draft"):
        books.accept("r1", draft="other", by=officer)
    accepted = books.accept("r1", draft="d", by=officer)
    head = books.head()
    assert books.accept("r1", draft="d", by=officer) == accepted == books.draft("r1")
    assert (accepted.accepted, accepted.criteria, books.head()) == (True, CRITERIA, head)
    with pytest.raises(WrongState, match="was accepted, which is not taken back"):
        books.withhold("r1", draft="d", criterion="implausible", by=officer)
    with pytest.raises(Conflict, match="is not the draft that was accepted"):
        books.published("r1", fence, digest="other")
    assert books.published("r1", fence, digest="d").state == "published"
    assert books.accept("r1", draft="d", by=officer) == accepted
    books.verify()


def test_what_is_withheld_is_spent_and_never_published(books: Ledger, officer: Ed25519PrivateKey) -> None:
    fence = lay_out(books)
    with pytest.raises(BadValue, match="criterion: is not among error-in-processing, implausible"):
        books.withhold("r1", draft="d", criterion="the mayor asked", by=officer)
    ended = books.withhold("r1", draft="d", criterion="implausible", by=officer, consulted_confidential=True)
    assert books.withhold("r1", draft="d", criterion="implausible", by=officer) == ended
    assert (ended.state, ended.final, books.account("census").spent) == ("withheld", True, Fraction(1, 10))
    for act in (
        lambda: books.accept("r1", draft="d", by=officer),
        lambda: books.published("r1", fence, digest="d"),
        lambda: books.abandon("r1", "x"),
        lambda: books.drawing("r1"),
    ):
        with pytest.raises(WrongState, match="withheld"):
            act()
    body = [*books.entries()][-1].body
    said = ("kind", "by", "criterion", "consulted", "draft", "release_id")
    signer = key_id(public_hex(officer))
    assert [body[name] for name in said] == ["withheld", signer, "implausible", True, "d", "r1"]
    books.verify()


def test_what_was_withheld_is_listed_with_what_all_its_charges_cost(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    measure(books, "tallies", amount=Fraction(1, 100))
    reserve(books, "mistaken", amount=Fraction(1, 50))
    books.void("mistaken", "x", by=officer)
    lay_out(books)
    lay_out(books, "r2", spec_digest="another")
    assert books.withheld("census") == []
    books.withhold("r1", draft="d", criterion="implausible", by=officer)
    found = books.withheld("census")
    assert found == [Withheld("r1", "p", "2026", Fraction(11, 100), "implausible", False)]
    assert [Withheld.of(each.fields()) for each in found] == found


def test_only_what_is_measured_is_reviewed(books: Ledger, officer: Ed25519PrivateKey) -> None:
    reserve(books)
    fence = books.drawing("r1")
    with pytest.raises(WrongState, match="is drawing, and only what is measured"):
        books.submit_draft("r1", fence, digest="d", criteria=CRITERIA)
    with pytest.raises(WrongState, match="waits for no review"):
        books.accept("r1", draft="d", by=officer)
    assert books.draft("r1") is None
    books.measured("r1", fence, digest="m")
    with pytest.raises(BadValue, match="criteria: is empty"):
        books.submit_draft("r1", fence, digest="d", criteria=())
    books.submit_draft("r1", fence, digest="d", criteria=CRITERIA)


def test_what_is_to_be_reviewed_ends_by_an_officer_alone(books: Ledger, officer: Ed25519PrivateKey) -> None:
    """From the reservation on: also before its draft is in the ledger, and its tallies with it."""
    tallies = measure(books, "tallies", review=True)
    fence = measure(books, "r1", review=True)
    with pytest.raises(WrongState, match="is to be reviewed, and cannot become published unless"):
        books.published("r1", fence, digest="d")
    with pytest.raises(NotApproved, match="giving up what is measured and to be reviewed needs"):
        books.abandon("r1", "nobody likes it")
    books.submit_draft("r1", fence, digest="d", criteria=CRITERIA)
    for act in (
        lambda: books.abandon("tallies", "tidy", by=officer),
        lambda: books.published("tallies", tallies, digest="d"),
    ):
        with pytest.raises(WrongState, match="is laid out as a draft, and cannot become"):
            act()
    books.accept("r1", draft="d", by=officer)
    with pytest.raises(WrongState, match="is laid out as a draft, and cannot become"):
        books.abandon("tallies", "tidy", by=officer)
    with pytest.raises(Conflict, match="is not the draft that was accepted"):
        books.published("tallies", tallies, digest="other")
    books.published("tallies", tallies, digest="d")
    books.published("r1", fence, digest="d")
    measure(books, "r2", review=True, period="2027")
    assert books.abandon("r2", "its measurement is lost", by=officer).state == "abandoned"
    with pytest.raises(BadValue, match="partition: is not for what is to be reviewed"):
        reserve(books, "r3", review=True, partition=Partition("zones", "north", 1))
    books.verify()


def test_another_spec_does_not_evade_a_review(books: Ledger, officer: Ed25519PrivateKey) -> None:
    """While one is in review, and after one was withheld, another release of its product wants an approval."""
    lay_out(books, review=True)

    def another(**content: Any) -> Any:
        return reserve(books, "r2", **({"spec_digest": "unreviewed"} | content))

    for _ in ("in review", "withheld"):
        with pytest.raises(NotApproved, match="was to be reviewed, drawn, and not published"):
            another()
        with pytest.raises(NotApproved, match="was to be reviewed, drawn, and not published"):
            reserve(books, "r6", review=False)  # of the same spec, whose draft is open
        with pytest.raises(NotApproved, match="was to be reviewed, drawn, and not published"):
            books.precheck("census", amount=AMOUNT, spec_digest="unreviewed", product="p", period="2026")
        books.withhold("r1", draft="d", criterion="implausible", by=officer)
    reserve(books, "r3", spec_digest="unreviewed", period="2027")
    books.approve("census", "unreviewed", by=officer)
    assert another().state == "reserved"
    lay_out(books, "r4", spec_digest="later", period="2028", review=True)
    books.accept("r4", draft="d", by=officer)
    books.published("r4", 1, digest="d")
    reserve(books, "r5", spec_digest="last", period="2028")
    books.verify()
