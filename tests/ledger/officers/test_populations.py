"""Whose losses are added: one entity's, over populations that may overlap; and accounts that are retired."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from tabularium.ledger import BadValue, ChainBroken, Conflict, Ledger, NotApproved, UnknownAccount
from tabularium.ledger.events import columns, make_entry
from tabularium.ledger.export import export, restore
from tabularium.ledger.keys import key_id, public_hex, statement
from tabularium.ledger.records import Entry
from tabularium.ledger.review import Reviewer, clusters
from tests.ledger.scene import CAP, census, finish, reserve, verify_entries

TENTH = Fraction(1, 10)
NAMES = "abcde"


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    return key


def put(books: Ledger, kind: str, fields: dict[str, object]) -> list[Entry]:
    """Return the ledger's entries and one more, which the program itself did not write."""
    entries = list(books.entries())
    return [*entries, make_entry(books.head(), kind, entries[-1].body["at"], fields)[1]]


# Populations and entities


def test_a_population_is_the_accounts_own_unless_it_is_named(books: Ledger) -> None:
    assert books.account("census").population == "census"
    assert census(books, "wages", population="residents").population == "residents"
    with pytest.raises(Conflict, match="is in the ledger with another population"):
        census(books, "wages")
    with pytest.raises(BadValue, match="population"):
        census(books, "other", population="two\nlines")
    books.verify()


def test_one_entity_of_one_population_adds_up(books: Ledger) -> None:
    census(books, "wages", population="census")
    reserve(books, "r1")
    reserve(books, "r2", "wages")
    (view,) = Reviewer(books).units()
    assert (view.unit, view.populations, view.accounts) == ("person", ["census"], ["census", "wages"])
    assert view.plain == 2 * TENTH


def test_populations_add_up_until_an_officer_signs_that_they_are_disjoint(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    for name, amount in (("census", 1), ("wages", 2), ("prisons", 4)):
        if name != "census":
            census(books, name, by=officer)
        reserve(books, name, name, amount=amount * TENTH)

    def sums() -> dict[str, Fraction | None]:
        return {"+".join(view.populations): view.plain for view in Reviewer(books).units()}

    assert sums() == {"census+wages+prisons": 7 * TENTH}
    books.separate("wages", "prisons", reason="no wages in prison", by=officer)
    assert sums() == {"census+wages+prisons": 7 * TENTH}, "somebody of each may be in the census"
    said = books.separate("census", "prisons", reason="the census leaves them out", by=officer)
    assert (said.population, said.other, said.holds) == ("census", "prisons", True)
    assert sums() == {"census+wages": 3 * TENTH, "prisons": 4 * TENTH}
    head = books.head()
    books.separate("prisons", "census", reason="once more", by=officer)
    assert books.head() == head, "what changes nothing is no entry"
    books.separate("prisons", "census", reason="some are in it", by=officer, disjoint=False)
    assert sums() == {"census+wages+prisons": 7 * TENTH}
    books.separate("prisons", "census", reason="they are not", by=officer)
    assert len(sums()) == 2
    assert [(each.other, each.turn) for each in books.separations()] == [("wages", 0), ("prisons", 2)]
    books.verify()


def test_what_a_revoked_key_signed_of_populations_counts_no_more(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    second = Ed25519PrivateKey.generate()
    books.enrol_key(public_hex(second), officer="B. Ito", by=officer)
    census(books, "wages", by=officer)
    books.separate("census", "wages", reason="by law", by=second)
    assert len(Reviewer(books).units()) == 2
    books.revoke_key(key_id(public_hex(second)), reason="lost", by=officer)
    assert len(Reviewer(books).units()) == 1
    books.separate("census", "wages", reason="by law", by=officer)
    assert len(Reviewer(books).units()) == 2
    books.verify()


@pytest.mark.parametrize(
    ("pair", "disjoint", "refusal", "what"),
    [
        (("census", "census"), True, BadValue, "is named twice"),
        (("census", "wagse"), True, BadValue, "no account is about this population"),
        (("census", "wages"), False, Conflict, "nobody said that they are disjoint"),
    ],
)
def test_what_cannot_be_said_of_populations(
    books: Ledger,
    officer: Ed25519PrivateKey,
    pair: tuple[str, str],
    disjoint: bool,
    refusal: type[Exception],
    what: str,
) -> None:
    census(books, "wages", by=officer)
    head = books.head()
    with pytest.raises(refusal, match=what):
        books.separate(*pair, reason="x", by=officer, disjoint=disjoint)
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.separate("census", "wages", reason="x", by=Ed25519PrivateKey.generate())
    assert books.head() == head


def test_a_forged_word_on_populations_is_named(books: Ledger, officer: Ed25519PrivateKey) -> None:
    census(books, "wages", by=officer)
    first, signer = next(iter(books.entries())).hash, key_id(public_hex(officer))
    seq = books.head().seq + 1
    said = {"population": "census", "other": "wages", "reason": "x", "by": signer, "turn": 0}

    def forged(kind: str = "disjoint", **lies: object) -> list[Entry]:
        fields = said | lies
        signature = officer.sign(statement(first, kind, fields)).hex()
        return put(books, kind, {"signature": signature, **fields} | lies)

    verify_entries(forged())
    for entries, named in (
        (forged(signature="0" * 128), "has a signature that is not its key's"),
        (forged(turn=1), "is signed for another turn"),
        (forged(by="0" * 32), "is signed with a key that is not enrolled"),
        (forged(population="wages", other="census"), "has a field that is missing or malformed: population"),
        (forged(other="census"), "has a field that is missing or malformed: population"),
        (forged(other="nowhere"), "names a population that no account is about"),
        (forged("overlapping"), "withdraws that two populations are disjoint, which nobody said"),
        (put(books, "disjoint", {k: v for k, v in said.items() if k not in ("by", "turn")}), "has a field"),
    ):
        with pytest.raises(ChainBroken, match=f"entry {seq} {named}"):
            verify_entries(entries)


def test_different_entities_of_populations_that_may_overlap_are_not_added(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    """To add a person is to replace their household; of two populations without a common entity it is not."""
    census(books, "homes", unit="household", population="census", by=officer)
    census(books, "abroad", unit="household", by=officer)
    for name in ("census", "homes", "abroad"):
        reserve(books, name, name)
    found = Reviewer(books)
    assert [(view.unit, view.plain) for view in found.units()] == [
        ("person", TENTH),
        ("household", 2 * TENTH),
    ]
    (apart,) = found.not_composable()
    assert (apart.units, apart.populations) == (["person", "household"], ["census", "abroad"])
    books.separate("abroad", "census", reason="they live elsewhere", by=officer)
    assert [view.populations for view in found.units()] == [["census"], ["census"], ["abroad"]]
    (apart,) = found.not_composable()
    assert apart.populations == ["census"]


@given(
    overlaps=st.sets(st.sampled_from([frozenset(pair) for pair in combinations(NAMES, 2)])),
    losses=st.lists(st.integers(0, 9), min_size=5, max_size=5),
)
def test_the_largest_cluster_bounds_what_anybody_loses(
    overlaps: set[frozenset[str]], losses: list[int]
) -> None:
    """Whoever is in some populations is in no two that are disjoint; try everybody there can be."""
    loses = dict(zip(NAMES, losses, strict=True))
    apart = {frozenset(pair) for pair in combinations(NAMES, 2)} - overlaps
    found = clusters(NAMES, apart)
    assert sorted(name for cluster in found for name in cluster) == list(NAMES)
    most = max(sum(loses[name] for name in cluster) for cluster in found)
    for number in range(1, 6):
        for person in combinations(NAMES, number):
            if all(frozenset(pair) not in apart for pair in combinations(person, 2)):
                assert any(set(person) <= set(cluster) for cluster in found)
                assert sum(loses[name] for name in person) <= most
    for one, other in combinations(found, 2):
        assert all(frozenset((here, there)) in apart for here in one for there in other)


# Accounts that are retired


def test_a_misnamed_account_is_retired_and_takes_nothing(books: Ledger) -> None:
    census(books, "homes", unit="person")
    found = books.retire_account("homes", reason="its unit is the household")
    assert (found.retired, found.left) == (True, 1)
    head = books.head()
    assert books.retire_account("homes", reason="again").retired and books.head() == head
    key = Ed25519PrivateKey.generate()
    books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    for step in (
        lambda: reserve(books, "r1", "homes"),
        lambda: books.precheck("homes", amount=TENTH, spec_digest="s"),
        lambda: books.change_account("homes", cap=Fraction(2), reason="more", by=key),
        lambda: books.close_account("homes", reason="over"),
        lambda: books.approve("homes", "s", by=key),
    ):
        with pytest.raises(Conflict, match=r"account homes: is retired; open it again, on other terms"):
            step()
    assert [view.accounts for view in Reviewer(books).units()] == [["census"]]
    assert books.verify().accounts == 2


def test_a_retired_account_opens_again_on_other_terms(books: Ledger, place: Path) -> None:
    census(books, "homes", unit="person", quantum=Fraction(1, 10))
    books.change_account("homes", cap=Fraction(2), reason="more")
    books.retire_account("homes", reason="its unit is the household")
    key = Ed25519PrivateKey.generate()
    books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    terms = {"unit": "household", "cap": Fraction(3), "definition": "zcdp", "delta": Fraction(1, 1000)}
    with pytest.raises(NotApproved, match=r"opening an account needs .* tabularium ledger open … --key"):
        census(books, "homes", **terms)
    found = census(books, "homes", **terms, by=key)
    assert (found.retired, found.terms.unit, found.left) == (False, "household", 3)
    head = books.head()
    assert census(books, "homes", **terms) == found and books.head() == head
    books.retire_account("homes", reason="its unit is the household", by=key)
    assert census(books, "homes", unit="dwelling", by=key).terms.definition == "pure"
    reserve(books, "r1", "homes")
    assert books.account("homes").left == CAP - TENTH
    with pytest.raises(Conflict, match="was charged"):
        books.retire_account("homes", reason="misnamed", by=key)
    assert books.verify().accounts == 2
    export(books, place / "books.txt")
    restore(place / "books.txt", url := f"sqlite:///{place}/again.db", scratch=True)
    with Ledger.connect(url) as again:
        assert again.account("homes").terms == books.account("homes").terms
        assert again.verify().head == books.head()


def test_an_account_for_which_specs_were_approved_does_not_open_again(books: Ledger) -> None:
    key = Ed25519PrivateKey.generate()
    books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    books.approve("census", "s", by=key)
    books.unapprove("census", "s", by=key, reason="a slip")
    books.retire_account("census", reason="misnamed", by=key)
    with pytest.raises(Conflict, match="specs were approved for it, so that its name is not used again"):
        census(books, unit="household", by=key)


@pytest.mark.parametrize("ended", ["reserved", "voided", "published"])
def test_an_account_that_was_ever_charged_is_not_retired(books: Ledger, ended: str) -> None:
    reserve(books)
    if ended == "voided":
        books.void("r1", "mistake")
    elif ended == "published":
        finish(books)
    with pytest.raises(Conflict, match=r"was charged, and only .* tabularium ledger close census"):
        books.retire_account("census", reason="misnamed")
    with pytest.raises(UnknownAccount):
        books.retire_account("nowhere", reason="misnamed")
    sums = {name: books.account("census").terms.fields()[name] for name in ("account",)}
    spent = "1/10" if ended == "published" else "0/1"
    reserved = "1/10" if ended == "reserved" else "0/1"
    fields = {**sums, "account_reserved": reserved, "account_spent": spent, "reason": "misnamed"}
    with pytest.raises(ChainBroken, match="retires an account that was charged"):
        verify_entries(put(books, "retired", fields))


def test_a_retirement_is_signed_while_officers_have_keys(books: Ledger, officer: Ed25519PrivateKey) -> None:
    sums = {"account_reserved": "0/1", "account_spent": "0/1"}
    with pytest.raises(NotApproved, match=r"retiring an account needs .* tabularium ledger retire … --key"):
        books.retire_account("census", reason="misnamed")
    seq = books.head().seq + 1
    said = {"account": "census", "reason": "misnamed"}
    fields = {**said, **sums, "by": key_id(public_hex(officer)), "turn": 0}
    first = next(iter(books.entries())).hash
    signed = {**fields, "signature": officer.sign(statement(first, "retired", fields)).hex()}
    verify_entries(put(books, "retired", signed))
    for wrong, named in (
        ({**said, **sums}, "retires an account without an officer's signature"),
        ({**signed, "reason": "another"}, "has a signature that is not its key's"),
        ({**signed, "account_spent": "1/10"}, "has a wrong running sum of its account"),
        ({**signed, "account": "nowhere"}, "names an account that was never opened"),
    ):
        with pytest.raises(ChainBroken, match=f"entry {seq} {named}"):
            verify_entries(put(books, "retired", wrong))
    assert books.retire_account("census", reason="misnamed", by=officer).retired
    books.verify()


def appended(books: Ledger, entries: list[Entry]) -> None:
    """Append the last entry past the program, as an owner of a ledger on PostgreSQL can."""
    backend = books._transactions.database.backend
    with backend.writers.begin() as connection:
        backend.append(connection, entries[-1], columns(entries[-1].body))


def test_an_account_opens_again_only_once_it_is_retired(books: Ledger, officer: Ed25519PrivateKey) -> None:
    """And never after a charge or an approval, nor with a signature that was used before."""
    first = next(iter(books.entries()))
    terms = {
        name: value for name, value in first.body.items() if name not in ("at", "kind", "prev", "seq", "v")
    }
    wanted = {**terms, "unit": "household", "reason": "opened again", "by": key_id(public_hex(officer))}

    def signed(turn: int) -> dict[str, Any]:
        fields = {**wanted, "turn": turn}
        return {**fields, "signature": officer.sign(statement(first.hash, "terms", fields)).hex()}

    with pytest.raises(ChainBroken, match="changes what its step may not change"):
        verify_entries(put(books, "terms", signed(0)))
    books.retire_account("census", reason="misnamed", by=officer)
    verify_entries(put(books, "terms", signed(0)))
    with pytest.raises(ChainBroken, match="opens an account without an officer's signature"):
        verify_entries(put(books, "terms", {**terms, "unit": "household", "reason": "opened again"}))
    with pytest.raises(ChainBroken, match="has a wrong running sum"):
        verify_entries(put(books, "terms", {**signed(0), "account_spent": "1/10"}))
    census(books, unit="household", by=officer)
    books.retire_account("census", reason="misnamed", by=officer)
    with pytest.raises(ChainBroken, match="is signed for another turn"):
        verify_entries(put(books, "terms", signed(0)))
    verify_entries(put(books, "terms", signed(1)))
    census(books, by=officer)
    books.approve("census", "s", by=officer)
    books.retire_account("census", reason="misnamed", by=officer)
    named = "opens an account again for which specs were approved"
    with pytest.raises(ChainBroken, match=named):
        verify_entries(put(books, "terms", signed(3)))
    if books.identity.startswith("postgresql"):
        with pytest.raises(DBAPIError, match=named):
            appended(books, put(books, "terms", signed(3)))


def test_nothing_else_may_follow_the_entry_that_retires(books: Ledger) -> None:
    opening = next(iter(books.entries())).body
    terms = {name: value for name, value in opening.items() if name not in ("at", "kind", "prev", "seq", "v")}
    books.retire_account("census", reason="misnamed")
    for kind, fields, named in (
        ("account", terms, "opens an account that is open"),
        ("terms", {**terms, "cap": "2/1"}, "has a field"),
        ("retired", {**terms, "reason": "x"}, "has a field"),
    ):
        with pytest.raises(ChainBroken, match=f"entry 3 {named}"):
            verify_entries(put(books, kind, fields))
    again = {name: terms[name] for name in ("account", "account_reserved", "account_spent")}
    with pytest.raises(ChainBroken, match="entry 3 names an account that was retired"):
        verify_entries(put(books, "retired", {**again, "reason": "x"}))
