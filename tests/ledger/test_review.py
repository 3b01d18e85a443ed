"""Whose losses are added: one entity's, over populations that may overlap, and composed as they compose."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tabularium.ledger import BadValue, Conflict, Ledger, NotApproved
from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.review import Reviewer, clusters
from tests.ledger.scene import census, enrolled, key, reserve
from tests.ledger.test_composition import part

TENTH = Fraction(1, 10)
NAMES = "abcde"


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    return enrolled(books)


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
    books.declare_disjoint("wages", "prisons", reason="no wages in prison", by=officer)
    assert sums() == {"census+wages+prisons": 7 * TENTH}, "somebody of each may be in the census"
    said = books.declare_disjoint("census", "prisons", reason="the census leaves them out", by=officer)
    assert (said.population, said.other, said.holds) == ("census", "prisons", True)
    assert sums() == {"census+wages": 3 * TENTH, "prisons": 4 * TENTH}
    head = books.head()
    books.declare_disjoint("prisons", "census", reason="once more", by=officer)
    assert books.head() == head, "what changes nothing is no entry"
    books.declare_disjoint("prisons", "census", reason="some are in it", by=officer, disjoint=False)
    assert sums() == {"census+wages+prisons": 7 * TENTH}
    books.declare_disjoint("prisons", "census", reason="they are not", by=officer)
    assert len(sums()) == 2
    assert [(each.other, each.turn) for each in books.separations()] == [("wages", 0), ("prisons", 2)]
    books.verify()


def test_what_a_revoked_key_signed_of_populations_counts_no_more(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    second = enrolled(books, "B. Ito", officer)
    census(books, "wages", by=officer)
    books.declare_disjoint("census", "wages", reason="by law", by=second)
    assert len(Reviewer(books).units()) == 2
    books.revoke_key(key_id(public_hex(second)), reason="lost", by=officer)
    assert len(Reviewer(books).units()) == 1
    books.declare_disjoint("census", "wages", reason="by law", by=officer)
    assert len(Reviewer(books).units()) == 2
    books.verify()


@pytest.mark.parametrize(
    ("pair", "disjoint", "refusal", "what"),
    [
        (("census", "census"), True, BadValue, "is named twice"),
        (("census", "wagse"), True, BadValue, "no account is about this population"),
        (("census", "wages"), False, Conflict, "nobody declared that they are disjoint"),
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
        books.declare_disjoint(*pair, reason="x", by=officer, disjoint=disjoint)
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.declare_disjoint("census", "wages", reason="x", by=key())
    assert books.head() == head


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
    books.declare_disjoint("abroad", "census", reason="they live elsewhere", by=officer)
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


def test_the_view_of_pure_charges_is_tighter_than_their_sum(books: Ledger) -> None:
    census(books, "long", cap=Fraction(100))
    for number in range(100):
        reserve(books, f"r{number}", "long", period=f"{2020 + number % 10}")
    view = Reviewer(books).account("long", Fraction(1, 10**6))
    assert (view.plain, view.charges) == (10, 100)
    # Advanced composition (Dwork, Rothblum, Vadhan 2010) at δ = 10^-6 is a bound that the tightest must meet,
    # and 100 randomised responses at ε = 0.1 are worth at least what their mean log-odds are.
    advanced = 0.1 * math.sqrt(2 * 100 * math.log(1e6)) + 100 * 0.1 * (math.exp(0.1) - 1)
    assert 100 * 0.1 * math.tanh(0.05) < view.epsilon < advanced < 10
    assert view.periods["2021"].used == 1


def test_the_view_of_rho_is_converted_at_the_accounts_delta(books: Ledger) -> None:
    census(books, "other", definition="zcdp", delta=Fraction(1, 10**6), unit="household")
    reserve(books, "r1", "other", amount=TENTH)
    reserve(books, "r2", "other", amount=TENTH)
    reserve(books, "r3", "other", amount=TENTH)
    books.void("r3", "mistake")
    view = Reviewer(books).account("other")
    # Bun and Steinke 2016, Proposition 1.3: ρ + 2√(ρ ln 1/δ); the conversion used is tighter, but not below
    # what Gaussian noise of that ρ truly loses.
    assert view.plain == 2 * TENTH
    assert 2.4 < view.epsilon < 0.2 + 2 * math.sqrt(0.2 * math.log(1e6))


def test_the_view_of_a_unit_covers_all_accounts(books: Ledger) -> None:
    census(books, "other", definition="zcdp", delta=Fraction(1, 10**6))
    census(books, "houses", unit="household")
    reserve(books, "r1", amount=2 * TENTH, product="p")
    reserve(books, "r2", "other", product="q")
    reserve(books, "r3", "houses")
    person, household = Reviewer(books).units(Fraction(1, 10**6))
    assert (person.unit, person.accounts, person.plain) == ("person", ["census", "other"], None)
    assert person.rho == TENTH + Fraction(1, 50)
    assert person.products == {"p": 2 * TENTH, "q": TENTH}
    assert sum(person.years.values()) == 3 * TENTH
    assert (household.unit, household.plain) == ("household", TENTH)
    assert 0.0999 < household.epsilon <= 0.1


def test_a_units_total_counts_every_account_under_replace(books: Ledger) -> None:
    """To replace a person is to remove one and add one: twice the ε, four times the ρ."""
    delta = Fraction(1, 10**6)
    census(books, "survey", relation="replace")
    census(books, "wages", definition="zcdp", delta=delta)
    for account, amount in (("census", TENTH), ("survey", 3 * TENTH), ("wages", Fraction(1, 50))):
        reserve(books, account, account, amount=amount)
    part_of_it, total = Reviewer(books).units(delta)
    assert (part_of_it.relation, part_of_it.accounts) == ("add-remove", ["census", "wages"])
    assert not part_of_it.whole and part_of_it.rho == TENTH**2 / 2 + Fraction(1, 50)
    assert (total.relation, total.accounts, total.whole) == ("replace", ["census", "survey", "wages"], True)
    assert total.rho == (2 * TENTH) ** 2 / 2 + (3 * TENTH) ** 2 / 2 + 4 * Fraction(1, 50)
    assert total.plain is None
    assert total.products == {"p": 2 * TENTH + 3 * TENTH + 4 * Fraction(1, 50)}
    assert total.epsilon > part_of_it.epsilon


def test_a_total_of_pure_accounts_doubles_what_parallel_parts_cost(books: Ledger) -> None:
    for name in "abc":
        reserve(books, name, **part(name, 2))
    census(books, "survey", relation="replace")
    reserve(books, "s", "survey")
    _part, total = Reviewer(books).units(Fraction(1, 10**9))
    assert (total.plain, total.whole) == (2 * 2 * TENTH + TENTH, True)
    assert 0.4 < total.epsilon <= 0.5


def test_a_group_counts_in_the_view_as_its_dearest_parts(books: Ledger) -> None:
    for name in "abc":
        reserve(books, name, **part(name))
    view = Reviewer(books).account("census", Fraction(1, 10**9))
    assert (view.plain, view.charges) == (TENTH, 3)
    assert view.epsilon == pytest.approx(0.1)


def test_many_different_amounts_are_still_bounded(books: Ledger) -> None:
    census(books, "fine", cap=Fraction(1000))
    for number in range(230):
        reserve(books, f"r{number}", "fine", amount=Fraction(number + 1, 10000))
    view = Reviewer(books).account("fine")
    assert view.plain == Fraction(230 * 231, 2 * 10000)
    assert 0 < view.epsilon <= float(view.plain) * (1 + 1e-12)
