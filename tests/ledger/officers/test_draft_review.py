"""Review before publication in the ledger: one draft of a release, one decision, both for ever."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import (
    BadValue,
    ChainBroken,
    Conflict,
    Ledger,
    NotApproved,
    StorageFailed,
    Withheld,
    WrongState,
)
from tabularium.ledger.composition import Partition
from tabularium.ledger.export import export, restore, verify_export
from tabularium.ledger.keys import key_id, public_hex
from tests.ledger.chain.test_verify_forged import (
    CHARGED,
    DONE,
    DRAWN,
    MEASURED,
    OPENED,
    RESERVED,
    SWAPPED,
    Step,
    chain,
)
from tests.ledger.officers.test_officers import enrolled, key
from tests.ledger.scene import (
    AMOUNT,
    new_place,
    open_books,
    postgresql,
    reserve,
    url,
    verify_entries,
)
from tests.ledger.storage.logins import LogIn

CRITERIA = ("error-in-processing", "implausible")
LAID_OUT: dict[str, Any] = {
    **{"account": "census", "account_reserved": "0/1", "account_spent": "1/10"},
    **{"criteria": list(CRITERIA), "draft": "d", "release": "r1"},
}
DRAFTED: Step = ("drafted", LAID_OUT)


def measure(books: Ledger, release: str = "r1", **content: Any) -> int:
    reserve(books, release, **content)
    fence = books.drawing(release)
    books.measured(release, fence, digest="m")
    return fence


def lay_out(books: Ledger, release: str = "r1", **content: Any) -> int:
    fence = measure(books, release, **content)
    books.drafted(release, fence, digest="d", criteria=CRITERIA)
    return fence


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    return enrolled(books)


def test_what_is_accepted_is_published_and_nothing_else(books: Ledger, officer: Ed25519PrivateKey) -> None:
    fence = lay_out(books)
    books.drafted("r1", fence, digest="d", criteria=CRITERIA)
    with pytest.raises(Conflict, match="another draft"):
        books.drafted("r1", fence, digest="other", criteria=CRITERIA)
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
    for step in (
        lambda: books.accept("r1", draft="d", by=officer),
        lambda: books.published("r1", fence, digest="d"),
        lambda: books.abandon("r1", "x"),
        lambda: books.drawing("r1"),
    ):
        with pytest.raises(WrongState, match="withheld"):
            step()
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


def test_only_what_is_measured_is_reviewed_and_only_by_an_enrolled_key(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    reserve(books)
    fence = books.drawing("r1")
    with pytest.raises(WrongState, match="is drawing, and only what is measured"):
        books.drafted("r1", fence, digest="d", criteria=CRITERIA)
    with pytest.raises(WrongState, match="waits for no review"):
        books.accept("r1", draft="d", by=officer)
    assert books.draft("r1") is None
    books.measured("r1", fence, digest="m")
    with pytest.raises(BadValue, match="criteria: is empty"):
        books.drafted("r1", fence, digest="d", criteria=())
    books.drafted("r1", fence, digest="d", criteria=CRITERIA)
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.accept("r1", draft="d", by=key())
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.withhold("r1", draft="d", criterion="implausible", by=key())
    assert books.charge("r1").state == "measured"  # type: ignore[union-attr]


def two_decisions(books: Ledger, officer: Ed25519PrivateKey) -> None:
    """Entries 6 drafted, 7 acceptance, 8 published; 12 drafted, 13 withheld."""
    fence = lay_out(books)
    books.accept("r1", draft="d", by=officer)
    books.published("r1", fence, digest="d")
    lay_out(books, "r2")
    books.withhold("r2", draft="d", criterion="implausible", by=officer)


def test_both_decisions_go_through_an_export(place: Path, books: Ledger, officer: Ed25519PrivateKey) -> None:
    two_decisions(books, officer)
    export(books, place / "books.txt")
    assert verify_export(place / "books.txt") == books.verify()
    again = new_place(place, "again")
    restore(place / "books.txt", url(again))
    with open_books(again) as restored:
        assert restored.draft("r1") == books.draft("r1")
        assert restored.withheld("census") == books.withheld("census")
        restored.confirm(books.head().hash, by=officer)
        with pytest.raises(WrongState, match="withheld"):
            restored.published("r2", 1, digest="d")


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ([DRAFTED], "entry 4 lays out a draft of what is not measured"),
        ([DONE, DRAFTED, DRAFTED], "entry 6 lays out a draft a second time"),
        ([DONE, ("drafted", LAID_OUT | {"criteria": []})], "entry 5 lays out a draft a second time, or with"),
        ([DONE, ("drafted", LAID_OUT | {"release": "r2"})], "entry 5 lays out a draft of what is not"),
        ([DONE, ("drafted", LAID_OUT | {"account_spent": "0/1"})], "entry 5 has a wrong running sum"),
        ([DONE, DRAFTED, ("published", MEASURED | {"publication_digest": "d"})], "entry 6 ends a draft with"),
        ([DONE, DRAFTED, ("abandoned", MEASURED | {"reason": "x"})], "entry 6 ends a draft without an off"),
        ([DONE, ("withheld", MEASURED)], "entry 5 has a field that is missing"),
    ],
)
def test_a_draft_that_the_program_would_not_write_is_named(steps: list[Step], wrong: str) -> None:
    with pytest.raises(ChainBroken, match=wrong):
        verify_entries(chain(OPENED, CHARGED, DRAWN, *steps))


def test_what_is_to_be_reviewed_ends_by_an_officer_alone(books: Ledger, officer: Ed25519PrivateKey) -> None:
    """From the reservation on: also before its draft is in the ledger, and its tallies with it."""
    tallies = measure(books, "tallies", review=True)
    fence = measure(books, review=True)
    with pytest.raises(WrongState, match="is to be reviewed, and cannot become published unless"):
        books.published("r1", fence, digest="d")
    with pytest.raises(NotApproved, match="giving up what is measured and to be reviewed needs"):
        books.abandon("r1", "nobody likes it")
    books.drafted("r1", fence, digest="d", criteria=CRITERIA)
    for step in (
        lambda: books.abandon("tallies", "tidy", by=officer),
        lambda: books.published("tallies", tallies, digest="d"),
    ):
        with pytest.raises(WrongState, match="is laid out as a draft, and cannot become"):
            step()
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


REVIEWED: Step = ("reserved", RESERVED | {"review": True})
OTHER = SWAPPED | {"release_id": "r2", "spec_digest": "t"}
OTHER |= {name: "1/10" for name in OTHER if name.endswith("_reserved")}


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        (("published", MEASURED | {"publication_digest": "d"}), "publishes what no officer has accepted"),
        (("abandoned", MEASURED | {"reason": "x"}), "gives up what is to be reviewed without an officer's"),
        (("reserved", RESERVED | OTHER), "charges for a spec that no officer has approved"),
        (("reserved", RESERVED | OTHER | {"period": "2027", "review": 1}), "malformed: review"),
        (("drafted", LAID_OUT | {"release": "r1"}), ""),
    ],
)
def test_a_review_that_is_evaded_is_named(step: Step, wrong: str) -> None:
    kind, fields = step
    fields = fields if kind in ("reserved", "drafted") else fields | {"review": True}
    drawn = [(name, body | {"review": True}) for name, body in (DRAWN, DONE)]
    whole = chain(OPENED, REVIEWED, *drawn, (kind, fields))
    if not wrong:
        verify_entries(whole)
        return
    with pytest.raises(ChainBroken, match=f"entry 5 .*{wrong}"):
        verify_entries(whole)


@postgresql
def test_a_writer_lays_out_drafts_and_decides_nothing(
    log_in: LogIn, books: Ledger, officer: Ed25519PrivateKey
) -> None:
    with Ledger.connect(log_in("writer")) as writer:
        lay_out(writer)
        for decision in (
            lambda: writer.accept("r1", draft="d", by=officer),
            lambda: writer.withhold("r1", draft="d", criterion="implausible", by=officer),
        ):
            with pytest.raises(StorageFailed, match="lets only a disclosure officer write"):
                decision()
        lay_out(writer, "r2")
        with Ledger.connect(log_in("officer")) as deciding:
            deciding.accept("r1", draft="d", by=officer)
            deciding.withhold("r2", draft="d", criterion="implausible", by=officer)
        assert writer.published("r1", 1, digest="d").state == "published"
        measure(writer, "r3", review=True, spec_digest="t")
        with pytest.raises(StorageFailed, match="lets only a disclosure officer write"):
            writer.abandon("r3", "nobody likes it", by=officer)
    books.verify()
