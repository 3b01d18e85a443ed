"""What people read of an account, read from either end of it: the same as reading all of it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tabularium.ledger import AccountClosed, Ledger
from tabularium.ledger.composition import Partition
from tabularium.ledger.review import Reviewer
from tests.ledger.scene import AMOUNT, census, finish, reserve


@pytest.fixture
def two(books: Ledger) -> Ledger:
    """Two accounts whose entries alternate; one release is voided, one began, one is published."""
    census(books, "other", cap=Fraction(5))
    for number in range(6):
        reserve(books, f"r{number}")
        reserve(books, f"o{number}", "other", product=f"p{number % 2}", period=f"{2026 + number % 3}")
    books.void("r1", "mistake")
    books.drawing("r0")
    finish(books, "o2")
    books.change_account("other", reason="decree", cap=Fraction(7), cap_per_period=Fraction(1))
    books.change_account("other", reason="again", cap=Fraction(8))
    return books


def test_the_ends_of_an_account_are_those_of_the_whole(two: Ledger) -> None:
    entries = list(two.entries())
    for name in ("census", "other"):
        own = [entry for entry in entries if entry.body["account"] == name]
        assert list(two.account_entries(name)) == own
        for number in (1, 3, len(own), len(own) + 5):
            assert two.last_entries(number, name) == own[-number:]
        charges = two.charges(name)
        assert two.charge_count(name) == len(charges) == 6
        assert list(two.all_charges(name)) == charges
        for number in (1, 4, 6, 9):
            assert two.last_charges(name, number) == charges[-number:]
        steps = [(charge.release_id, charge.state) for charge in two.budgeted(name)]
        assert sorted(steps) == sorted(
            [(charge.release_id, "reserved") for charge in charges]
            + [(charge.release_id, "voided") for charge in charges if charge.state == "voided"]
        )
        assert Reviewer(two).account(name).charges == sum(charge.state != "voided" for charge in charges)
    assert [charge.release_id for charge in two.charges("census")][-2:] == ["r1", "r0"]
    assert two.last_entries(4) == entries[-4:]
    assert not two.last_entries(1, "nobody") and not two.last_charges("nobody", 5)
    assert not list(two.all_charges("nobody"))


def test_what_was_published_before_a_period_is_found_the_last_first(two: Ledger) -> None:
    for number in (5, 4, 0, 1, 3):
        finish(
            two, f"o{number}"
        )  # of 2028, 2027, 2026, 2027, 2026; o2 of 2028 is published, each in p0 or p1
    found = [charge.release_id for charge in two.published_before("other", "p1", "2028")]
    assert found == ["o1", "o3"]
    assert [charge.release_id for charge in two.published_before("other", "p0", "2029")] == ["o2", "o4", "o0"]
    assert not two.published_before("census", "p1", "2028") and not two.published_before(
        "other", "p1", "2026"
    )


@pytest.mark.parametrize("digest", ["s", "S%", "s_", 'a "quoted" \\ one', "é"])
def test_who_was_charged_for_a_spec_may_finish_and_no_other(books: Ledger, digest: str) -> None:
    """Also where the digest's text would mean something else to the database."""
    reserve(books, "r1", spec_digest=digest)
    reserve(books, "r2", spec_digest="voided %")
    books.void("r2", "mistake")
    books.close_account("census", reason="over")
    assert books.precheck("census", amount=AMOUNT, spec_digest=digest).name == "census"
    for other in ("%", "_", digest.swapcase(), "voided %"):
        with pytest.raises(AccountClosed):
            books.precheck("census", amount=AMOUNT, spec_digest=other)


def test_terms_are_known_as_they_were_before_an_entry(two: Ledger) -> None:
    *_, first, second = (entry.seq for entry in two.entries())
    caps = [(first, Fraction(5), None), (second, Fraction(7), Fraction(1)), (second + 1, 8, Fraction(1))]
    for entry, cap, per_period in caps:
        found = two.terms_before("other", entry)
        assert found is not None and (found.cap, found.cap_per_period) == (cap, per_period)
    assert two.terms_before("nobody", second) is None


def test_the_course_of_an_account_keeps_its_ends_and_every_change_of_its_terms(two: Ledger) -> None:
    own = list(two.account_entries("other"))
    assert two.course("other", len(own)) == own
    some = two.course("other", 4)
    assert len(some) < len(own) and [entry.seq for entry in some] == sorted({entry.seq for entry in some})
    assert all(entry in own for entry in some)
    kinds = [entry.body["kind"] for entry in some]
    assert (some[0], some[-1]) == (own[0], own[-1]) and kinds.count("terms") == 2


def test_voided_charges_of_a_group_take_nothing(books: Ledger) -> None:
    """A group of parallel charges costs its dearest part, as the account's own sums have it."""
    for release, part, amount in (("a", "north", 1), ("b", "south", 2), ("c", "south", 3), ("d", "west", 4)):
        reserve(books, release, amount=amount * AMOUNT / 10, partition=Partition("zones", part))
    books.void("d", "mistake")
    view = Reviewer(books).account("census", Fraction(1, 10**9))
    assert (view.plain, view.charges) == (5 * AMOUNT / 10, 3)
    assert view.epsilon == pytest.approx(0.05)


def test_the_figures_are_those_of_the_entry_and_never_change(books: Ledger) -> None:
    assert books.reservation("r1") is None
    cap = books.account("census").cap
    amount = reserve(books, "r1").amount
    finish(books, "r1")
    reserve(books, "gone")
    books.void("gone", reason="a test")
    reserve(books, "r2")
    found = books.reservation("r2")
    assert found is not None
    body = {entry.seq: entry.body for entry in books.entries()}[found.entry]
    assert (body["kind"], body["release_id"], body["at"]) == ("reserved", "r2", found.at)
    assert (found.before.used, found.after.used) == (amount, 2 * amount)
    assert (found.charges, found.releases, found.terms.cap) == (2, 1, cap)
    finish(books, "r2")
    reserve(books, "r3")
    books.change_account("census", cap=cap - Fraction(1, 1000), reason="a test")
    assert books.reservation("r2") == found
    assert books.reservation("r1") != found
