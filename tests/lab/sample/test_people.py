"""The people of a sample: plausible one by one, in their households, and all together."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tabularium.lab.sample.blocks import Choice, Coded, Geography, between, draw_geography
from tabularium.lab.sample.hospital import CHAPTERS, LONGEST_STAY, MOST_VISITS, health_blocks
from tabularium.lab.sample.households import (
    CHILD,
    ELDER,
    FIRST,
    OLDEST,
    PARTNER,
    STATUSES,
    Households,
    census_blocks,
    draw_households,
)
from tabularium.mechanisms.noise.synthetic import generator

NONE = -1  # no such member


@pytest.fixture(scope="module")
def geography() -> Geography:
    return draw_geography(generator(3), 2000)


@pytest.fixture(scope="module")
def people(geography: Geography) -> Households:
    rng = generator(4)
    return draw_households(rng, geography.character[rng.integers(0, 2000, 200_000)])


@pytest.fixture(scope="module")
def census(geography: Geography) -> dict[str, np.ndarray]:
    return columns(islice(census_blocks(generator(5), geography), 3))


@pytest.fixture(scope="module")
def health(geography: Geography) -> dict[str, np.ndarray]:
    return columns(islice(health_blocks(generator(6), geography), 2))


def columns(blocks: object) -> dict[str, np.ndarray]:
    """Join blocks; texts stay positions."""
    blocks = list(blocks)  # type: ignore[call-overload]
    return {
        name: np.concatenate([b[name].index if isinstance(b[name], Coded) else b[name] for b in blocks])
        for name in blocks[0]
    }


def member(people: Households, role: int, choose: type[np.maximum] = np.maximum) -> np.ndarray:
    """Age of the eldest (or youngest) member with ``role`` in each household; NONE where there is none."""
    start = np.full(len(people.size), NONE if choose is np.maximum else 1000)
    rows = people.role == role
    choose.at(start, people.household[rows], people.age[rows])
    return np.where(start == 1000, NONE, start)


def test_quantiles_by_hand() -> None:
    assert Choice([[1, 3], [2, 2], [0, 5]], bits=2).values.tolist() == [[0, 1, 1, 1], [0, 0, 1, 1], [1] * 4]


def test_a_choice_has_its_frequencies() -> None:
    drawn = Choice([[1, 2, 5, 0], [0, 0, 0, 1]]).draw(generator(1), np.repeat([0, 1], 80_000))
    assert np.bincount(drawn[:80_000]) == pytest.approx([10_000, 20_000, 50_000], abs=600)
    assert set(drawn[80_000:].tolist()) == {3}


def test_a_window_is_open_in_the_middle_only() -> None:
    window = between(np.array([0.0, 20, 45, 70, 100]), 20, 70, rise=2, fall=2)
    assert window == pytest.approx([0, 0.5, 1, 0.5, 0], abs=1e-4)


def test_sizes_of_areas_are_skewed(geography: Geography) -> None:
    share = np.sort(geography.share)[::-1]
    assert share.sum() == pytest.approx(1)
    assert 0.25 < share[:200].sum() < 0.6  # a tenth of the meshblocks
    assert 0.01 < (share == 0).mean() < 0.08
    regions = np.bincount(geography.region_of[geography.district_of], geography.share)
    assert regions.max() > 2.5 * np.median(regions) > 5 * regions.min()
    assert len(regions) == geography.regions
    assert set(geography.character.tolist()) == {0, 1, 2, 3}
    assert (np.diff(geography.district_of) >= 0).all()


def test_people_live_where_the_shares_say(census: dict[str, np.ndarray], geography: Geography) -> None:
    households = np.unique(census["household_id"], return_index=True)[1]
    lived = np.bincount(census["meshblock"][households], minlength=2000)
    assert (lived[geography.share == 0] == 0).all()
    expected = geography.share * len(households)
    inhabited = expected > 0
    chi2 = ((lived - expected)[inhabited] ** 2 / expected[inhabited]).sum()
    freedom = inhabited.sum() - 1
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)
    assert (np.bincount(census["household_id"])[1:] > 0).all()
    same_place = np.diff(census["meshblock"])[np.diff(census["household_id"]) == 0]
    assert (same_place == 0).all()


def test_the_order_inside_a_household(people: Households) -> None:
    first = np.diff(people.household, prepend=-1) == 1
    assert (people.role[first] == FIRST).all()
    assert (people.role[~first] != FIRST).all()
    assert (np.bincount(people.household) == people.size).all()
    inside = ~first[1:]
    assert (np.diff(people.role)[inside] >= 0).all()
    assert (np.bincount(people.household[people.role == PARTNER]).max(), people.age.min()) == (1, 0)
    assert people.age.max() <= OLDEST


def test_children_are_younger_than_their_parents(people: Households) -> None:
    eldest, youngest = member(people, CHILD), member(people, CHILD, np.minimum)
    first, partner = member(people, FIRST), member(people, PARTNER)
    family = eldest != NONE
    assert 0.25 < family.mean() < 0.5
    assert (first[family] - eldest[family] >= 16).all()
    with_partner = family & (partner != NONE)
    assert (partner[with_partner] - eldest[with_partner] >= 16).all()
    mothers = people.female & np.isin(people.role, [FIRST, PARTNER])
    mother_first = np.zeros(len(first), bool)
    mother_first[people.household[mothers & (people.role == FIRST)]] = True
    assert (first[family & mother_first] - youngest[family & mother_first]).max() <= 45
    father_first = with_partner & ~mother_first
    assert (partner[father_first] - youngest[father_first]).max() <= 45
    at_first_birth = (first - eldest)[family & mother_first]
    assert 26 < np.median(at_first_birth) < 31


def test_siblings_are_spaced(people: Households) -> None:
    both = (people.role[1:] == CHILD) & (people.role[:-1] == CHILD) & (np.diff(people.household) == 0)
    gap = np.diff(people.age)[both]
    assert gap.min() == 0
    assert gap.max() <= 6
    assert (gap == 0).mean() < 0.04
    assert np.bincount(gap).argmax() == 2


def test_couples_are_of_similar_age(people: Households) -> None:
    first, partner = member(people, FIRST), member(people, PARTNER)
    couple = partner != NONE
    difference = (first - partner)[couple]
    assert (abs(difference) <= 10).mean() > 0.97
    assert partner[couple].min() >= 18
    sex_first = people.female[people.role == FIRST][couple]
    sex_partner = people.female[people.role == PARTNER]
    assert 0.97 < (sex_first != sex_partner).mean() < 0.99
    men_first = ~sex_first & sex_partner
    assert 1 < difference[men_first].mean() < 3  # the man is the older by two years


def test_an_elder_is_a_generation_above(people: Households) -> None:
    first, elder = member(people, FIRST), member(people, ELDER)
    there = elder != NONE
    assert there.any()
    assert ((elder - first)[there] >= 19).mean() > 0.999  # the oldest are cut at 101
    assert ((elder - first)[there] > 0).all()


def test_household_sizes(people: Households) -> None:
    shares = np.bincount(np.minimum(people.size, 8), minlength=9) / len(people.size)
    assert 2.2 < people.size.mean() < 2.8
    assert 0.2 < shares[1] < 0.35
    assert shares[1] + shares[2] > 0.5
    assert 0.001 < (people.size >= 10).mean() < 0.01  # homes and halls
    assert people.size.max() > 60


def test_the_age_pyramid(people: Households) -> None:
    ages = np.bincount(people.age, minlength=OLDEST + 1) / len(people.age)

    def band(start: int, end: int) -> float:
        return float(ages[start:end].sum())

    assert len(ages) == 102
    assert (ages[:100] > 0).all()
    assert 0.17 < band(0, 15) < 0.22
    assert 0.60 < band(15, 65) < 0.70
    assert 0.13 < band(65, 102) < 0.20
    assert 0.003 < band(90, 102) < 0.012
    smooth = np.convolve(ages, np.ones(5) / 5, "valid")
    assert smooth[:55].min() > 0.009  # no hole below 60
    assert smooth.max() < 0.018  # no heap
    assert (np.diff(smooth[60:]) < 0.0003).all()  # and nothing but decline after it
    assert 0.48 < people.female.mean() < 0.53
    assert people.female[people.age < 15].mean() == pytest.approx(0.488, abs=0.01)
    assert people.female[people.age >= 85].mean() > 0.57


def test_status_goes_with_age(census: dict[str, np.ndarray]) -> None:
    def share(status: str, start: int, end: int) -> float:
        there = (census["age"] >= start) & (census["age"] < end)
        return float((census["status"][there] == STATUSES.index(status)).mean())

    assert share("student", 0, 15) == 1
    assert share("student", 15, 18) > 0.7
    assert share("employed", 30, 55) > 0.75
    assert share("retired", 0, 50) == 0
    assert 0.3 < share("retired", 60, 70) < 0.7
    assert share("retired", 80, 102) > 0.95
    assert 0.01 < share("unemployed", 15, 65) < 0.06
    assert 0.05 < share("other", 15, 65) < 0.15


def test_incomes(census: dict[str, np.ndarray], geography: Geography) -> None:
    income, status = census["income"], census["status"]
    assert (income[census["age"] < 15] == 0).all()
    assert (income[status == STATUSES.index("employed")] >= 1).all()
    tenths = np.bincount(income[income > 0], minlength=11)[1:] / (income > 0).sum()
    assert len(tenths) == 10
    assert tenths == pytest.approx([0.1] * 10, abs=0.03)
    means = [
        income[(status == STATUSES.index(s)) & (income > 0)].mean()
        for s in ("student", "retired", "employed")
    ]
    assert means[0] + 1 < means[1] < means[2] - 1
    order = np.argsort(geography.prosperity)
    rank = np.empty(2000, int)
    rank[order] = np.arange(2000)
    working = status == STATUSES.index("employed")
    place = rank[census["meshblock"]]
    assert income[working & (place >= 1600)].mean() > income[working & (place < 400)].mean() + 1


def test_visits_per_patient_have_a_heavy_tail(health: dict[str, np.ndarray]) -> None:
    visits = np.bincount(health["patient_id"])[1:]
    assert visits.min() == 1
    assert 40 < visits.max() <= MOST_VISITS
    assert 1.8 < visits.mean() < 4
    assert 0.4 < (visits == 1).mean() < 0.8
    assert 0.05 < (visits > 5).mean() < 0.2
    top = np.sort(visits)[::-1][: len(visits) // 100]
    assert top.sum() / visits.sum() > 0.1


def test_a_patient_stays_the_same_person(health: dict[str, np.ndarray]) -> None:
    again = np.diff(health["patient_id"]) == 0
    for column in ("age", "sex", "district"):
        assert (np.diff(health[column])[again] == 0).all()
    assert (np.diff(health["month"])[again] >= 0).all()
    same = (np.diff(health["chapter"])[again] == 0).mean()
    chapters = np.bincount(health["chapter"]) / len(health["chapter"])
    assert same > 2 * (chapters**2).sum()  # patients come back for the same thing


def test_chapters_go_with_age_and_sex(health: dict[str, np.ndarray]) -> None:
    code = {chapter.code: i for i, chapter in enumerate(CHAPTERS)}

    def where(chapter: str) -> np.ndarray:
        return health["chapter"] == code[chapter]

    assert set(np.unique(health["chapter"]).tolist()) == set(range(22))
    births = where("XV")
    assert (health["sex"][births] == 1).all()
    assert health["age"][births].min() >= 13
    assert health["age"][births].max() <= 50
    assert (health["age"][where("XVI")] == 0).all()
    assert np.median(health["age"][where("IX")]) > np.median(health["age"][where("X")]) + 10
    months = np.bincount(health["month"][where("X")], minlength=12)
    assert months[0] > 1.6 * months[6]


def test_stays(health: dict[str, np.ndarray]) -> None:
    stay = health["stay"]
    assert stay.min() == 0
    assert stay.max() <= LONGEST_STAY
    assert 0.3 < (stay == 0).mean() < 0.55
    assert np.median(stay[stay > 0]) <= 3 < np.quantile(stay, 0.95)
    mental = health["chapter"] == 4
    assert stay[mental].mean() > 2 * stay[~mental].mean()
