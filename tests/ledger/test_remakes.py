"""A release that is made again from an earlier one's measurements costs nothing, and an officer approves it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import (
    BadValue,
    Charge,
    Conflict,
    Ledger,
    LedgerError,
    NotApproved,
    UnknownRelease,
    WrongState,
)
from tests.ledger.measurement.boundaries import Boundaries, in_child, wait_for
from tests.ledger.scene import (
    census,
    enrolled,
    finish,
    new_place,
    open_books,
    postgresql,
    remove_place,
    reserve,
)
from tests.ledger.storage.logins import LogIn

WHY = "wrong titles"


def remake(books: Ledger, release_id: str = "r2", of: str = "r1", **content: Any) -> Charge:
    standard: dict[str, Any] = {"product": "p", "period": "2026", "spec_digest": "t", "revises": WHY}
    account = content.pop("account", "census")
    return books.remake(account, release_id=release_id, measurements_of=of, **(standard | content))


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    return enrolled(books)


@pytest.fixture
def approved(books: Ledger, officer: Ed25519PrivateKey) -> Ledger:
    finish(books, reserve(books).release_id)
    books.approve("census", "t", by=officer, amount=Fraction(1, 1000))
    return books


def test_it_has_the_measurement_of_the_other_and_costs_nothing(approved: Ledger) -> None:
    before, sums = approved.head().seq, approved.sums("census")
    made = remake(approved)
    assert (made.state, made.amount, made.fence, made.measurement_digest) == ("measured", 0, 1, "m")
    assert (made.measurements_of, made.measured_as, made.revises) == ("r1", "r1", WHY)
    assert remake(approved) == made == approved.charge("r2")
    done = approved.published("r2", 1, digest="q")
    assert (done.state, done.measurements_of, done.amount) == ("published", "r1", 0)
    assert remake(approved) == done, "asked for again, it is found"
    assert approved.head().seq == before + 2
    assert approved.sums("census") == sums
    assert approved.balance("census") == Fraction(9, 10)
    assert approved.charge_count("census") == 2
    assert [each.release_id for each in approved.charges("census")] == ["r1", "r2"]
    approved.verify()


def test_how_the_account_stood_is_told_of_it_too(approved: Ledger, officer: Ed25519PrivateKey) -> None:
    remake(approved)
    approved.published("r2", 1, digest="q")
    found = approved.reservation("r2")
    assert found is not None
    assert found.before == found.after == approved.sums("census")
    assert (found.charges, found.releases, found.approved and found.approved.entry) == (1, 1, 7)
    approved.approve("census", "u", by=officer)
    reserve(approved, "r3", revises="new data", spec_digest="u")
    later = approved.reservation("r3")
    assert later is not None
    assert (later.charges, later.releases) == (2, 1), "what is remade is no release more that a person is in"


def test_it_is_not_drawn_given_back_or_charged_for(approved: Ledger, officer: Ed25519PrivateKey) -> None:
    remake(approved)
    for refused, step in (
        (WrongState, lambda: approved.drawing("r2")),
        (WrongState, lambda: approved.void("r2", "no", by=officer)),
        (WrongState, lambda: approved.withhold("r2", draft="d", criterion="c", by=officer)),
        (Conflict, lambda: reserve(approved, "r2", spec_digest="t", revises=WHY)),
        (Conflict, lambda: remake(approved, revises="another reason")),
        (Conflict, lambda: remake(approved, "r1")),
    ):
        with pytest.raises(refused):
            step()
    approved.abandon("r2", "not wanted")
    assert approved.balance("census") == Fraction(9, 10)
    assert approved.charge("r1").state == "published"  # type: ignore[union-attr]
    approved.verify()


def test_only_what_was_published_is_a_source(books: Ledger, officer: Ed25519PrivateKey) -> None:
    books.approve("census", "t", by=officer)

    def refused(error: type[LedgerError], named: str, **content: Any) -> None:
        before = books.head()
        given: dict[str, Any] = {"product": "p", "period": "2026", "spec_digest": "t", "revises": WHY}
        given |= {name: value for name, value in content.items() if name not in ("of", "account")}
        for step in (
            lambda: remake(books, **content),
            lambda: books.precheck_remake(
                content.get("account", "census"),
                release_id="r2",
                measurements_of=content.get("of", "r1"),
                **given,
            ),
        ):
            with pytest.raises(error, match=named):
                step()
        assert books.head() == before

    refused(UnknownRelease, "release r1: was never reserved")
    reserve(books)
    refused(WrongState, "is reserved, and only what was published")
    fence = books.drawing("r1")
    refused(WrongState, "is drawing, and only what was published")
    books.measured("r1", fence, digest="m")
    refused(WrongState, "is measured, and only what was published")
    books.abandon("r1", "a mistake")
    refused(WrongState, "is abandoned, and only what was published")
    reserve(books, "r3", review=True, spec_digest="reviewed")
    books.measured("r3", books.drawing("r3"), digest="m")
    books.submit_draft("r3", 1, digest="d", criteria=("implausible",))
    refused(WrongState, "is measured, and only what was published", of="r3")
    books.withhold("r3", draft="d", criterion="implausible", by=officer)
    refused(WrongState, "is withheld, and only what was published", of="r3")
    reserve(books, "r4", spec_digest="w", period="2027")
    finish(books, "r4")
    census(books, "other", by=officer)
    refused(WrongState, "is of account census, product p, period 2027", of="r4")
    refused(WrongState, "is of account census", of="r4", period="2027", account="other")
    refused(WrongState, "is of account census", of="r4", period="2027", product="q")
    refused(NotApproved, "no disclosure officer has approved", of="r4", period="2027", spec_digest="x")
    asked: dict[str, Any] = {"measurements_of": "r4", "product": "p", "period": "2027", "revises": WHY}
    assert books.precheck_remake("census", release_id="r2", spec_digest="t", **asked).release_id == "r4"
    assert remake(books, of="r4", period="2027").state == "measured"
    books.unapprove("census", "t", by=officer, reason="enough")
    assert books.precheck_remake("census", release_id="r2", spec_digest="t", **asked).release_id == "r4"
    books.verify()


def test_an_officer_approves_it_as_any_revision(approved: Ledger, officer: Ed25519PrivateKey) -> None:
    approved.unapprove("census", "t", by=officer, reason="not so")
    with pytest.raises(NotApproved, match="was taken back"):
        remake(approved)
    approved.approve("census", "t", by=officer)
    with pytest.raises(BadValue, match="revises"):
        remake(approved, revises=" ")
    second = enrolled(approved, "B. Ito", officer)
    approved.revoke_key(next(iter(approved.keys())), reason="left", by=second)
    with pytest.raises(NotApproved, match="was revoked"):
        remake(approved)


def test_what_was_withdrawn_is_mended_so_and_what_is_remade_is_no_source(
    approved: Ledger, officer: Ed25519PrivateKey
) -> None:
    """Nor does a closed account stand in its way: nothing is charged."""
    approved.withdraw("r1", reason=WHY, by=officer)
    approved.close_account("census", reason="over")
    remake(approved)
    approved.published("r2", 1, digest="q")
    with pytest.raises(WrongState, match=r"has no measurements of its own.*name that one: r1"):
        remake(approved, "r3", of="r2")
    approved.withdraw("r2", reason="again", by=officer)
    approved.verify()


def test_it_may_be_reviewed_and_withheld(approved: Ledger, officer: Ed25519PrivateKey) -> None:
    remake(approved, review=True)
    draft = approved.submit_draft("r2", 1, digest="d", criteria=("implausible",))
    with pytest.raises(WrongState, match="unless an officer decides"):
        approved.published("r2", 1, digest="d")
    with pytest.raises(NotApproved, match="to be reviewed"):
        reserve(approved, "r3", spec_digest="u")
    approved.withhold("r2", draft=draft.digest, criterion="implausible", by=officer)
    assert [each.amount for each in approved.withheld("census")] == [0]
    approved.verify()


def test_a_cap_that_is_below_what_is_used_does_not_stand_in_its_way(
    approved: Ledger, officer: Ed25519PrivateKey
) -> None:
    approved.change_account("census", cap_per_period=Fraction(1, 100), reason="enough")
    remake(approved)
    approved.published("r2", 1, digest="q")
    approved.verify()


@postgresql
def test_a_writer_may_write_it_once_it_is_approved(log_in: LogIn, approved: Ledger) -> None:
    with Ledger.connect(log_in("writer")) as writer:
        assert remake(writer).state == "measured"
        writer.published("r2", 1, digest="q")
    approved.verify()


def test_a_crash_anywhere_leaves_it_whole(place: Path) -> None:
    """Killed at a boundary and asked for again, it is there once, and the books are in order."""
    at, step = 1, 7
    while True:
        folder = new_place(place, str(at))
        with open_books(folder) as books:
            census(books)
            officer = enrolled(books)
            finish(books, reserve(books).release_id)
            books.approve("census", "t", by=officer)
            before = books.head().seq

        def steps(folder: Path = folder) -> None:
            with open_books(folder) as books:
                remake(books)
                books.published("r2", 1, digest="q")

        def doomed(at: int = at, run: Callable[[], None] = steps) -> None:
            Boundaries(lambda: os.kill(os.getpid(), signal.SIGKILL), at).arm()
            run()

        code = wait_for(in_child(doomed))
        assert code in (0, -signal.SIGKILL)
        assert wait_for(in_child(steps)) == 0
        with open_books(folder) as books:
            assert books.head().seq == before + 2
            assert books.balance("census") == Fraction(9, 10)
            books.verify()
        remove_place(folder)
        if code == 0:
            break
        at += step
    assert at > step
