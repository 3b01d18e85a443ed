"""The small census: who lives with whom, how old they are, what they do and earn.

A household has one of thirteen compositions. Its members come in a fixed order: a first person, a partner,
the children from the youngest up, an elder, then others. Families are built from the youngest child
upwards, so that ages agree: children spaced by births, the mother's age at the first birth on top of the
eldest, a partner close to her in age, a grandparent a generation above. Everyone else's age is drawn from
the composition's own span of life. The shares of the compositions were chosen so that the pyramid of all
persons together comes close to that of an ageing country with a post-war boom and its echo.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.blocks import Block, Choice, Coded, Floats, Geography, Ints, between

OLDEST = 101
AGES = np.arange(OLDEST + 1, dtype=np.float64)
SURVIVAL = np.exp(-np.exp((AGES - 86) / 9))  # Gompertz
YOUNGEST_PARENT = 16
LAST_BIRTH = 45  # mother's age

FIRST, PARTNER, CHILD, ELDER, OTHER = range(5)  # roles


class Composition(NamedTuple):
    """One kind of household.

    ``share`` is its share of the households in the city, suburb, town and country; ``ages`` the span of its
    first person (of its youngest child where there are children).
    """

    name: str
    share: tuple[float, float, float, float]
    ages: tuple[float, float]
    partner: bool = False
    children: bool = False
    elder: bool = False
    others: tuple[int, ...] = (0,)  # how many others, all equally likely


COMPOSITIONS = (
    Composition("one, young", (9.5, 4.5, 5.0, 4.0), (21, 38)),
    Composition("one, middle-aged", (9.0, 9.0, 11.0, 11.0), (45, 66)),
    Composition("one, old", (8.0, 9.5, 12.0, 9.0), (66, 110)),
    Composition("couple, young", (10.0, 6.0, 5.0, 5.0), (22, 38), partner=True),
    Composition("couple, middle-aged", (12.0, 16.0, 18.0, 22.0), (49, 67), partner=True),
    Composition("couple, old", (6.0, 9.0, 11.0, 12.0), (66, 90), partner=True),
    Composition("couple with children", (22.0, 34.0, 26.0, 30.0), (0, 20), partner=True, children=True),
    Composition("lone parent", (9.0, 8.5, 9.5, 6.5), (0, 20), children=True),
    Composition("three generations", (2.0, 2.5, 1.5, 1.5), (0, 12), partner=True, children=True, elder=True),
    Composition("sharers", (9.0, 3.0, 2.5, 2.0), (19, 32), others=(1, 1, 1, 2, 2, 3, 4)),
    Composition("adult with a parent", (2.5, 2.5, 3.0, 2.5), (44, 54), elder=True),
    Composition("home for the aged", (0.06, 0.08, 0.10, 0.05), (78, 110), others=(8, 12, 17, 24, 34, 48, 68)),
    Composition("hall of residence", (0.06, 0.01, 0.01, 0.0), (18, 22), others=(9, 15, 24, 40, 65, 110)),
)
HALL = len(COMPOSITIONS) - 1

_HAS_PARTNER = np.array([c.partner for c in COMPOSITIONS])
_HAS_CHILDREN = np.array([c.children for c in COMPOSITIONS])
_HAS_ELDER = np.array([c.elder for c in COMPOSITIONS])
_OTHERS = tuple(np.array(c.others) for c in COMPOSITIONS)

_kind = Choice(np.array([c.share for c in COMPOSITIONS]).T)  # by character of the place
# Births per age of the living: fewer before the war, a boom from 52 to 66, an echo around 32.
_COHORTS = 1 + 0.25 * between(AGES, 52, 66, rise=3, fall=3) + 0.10 * np.exp(-(((AGES - 32) / 7) ** 2))


def _age_weights(composition: Composition) -> Floats:
    start, end = composition.ages
    if composition.children:  # of the youngest: fewer with the years, then leaving home
        staying = np.exp(-AGES / 28) / (1 + np.exp((AGES - end) / 2.6))
        return np.where(AGES <= 34, staying, 0.0)
    adult = between(AGES, start, end, rise=1.6, fall=3.0) * SURVIVAL * _COHORTS
    return np.where(AGES >= 17, adult, 0.0)


_age = Choice(np.stack([_age_weights(c) for c in COMPOSITIONS]))
_children = Choice([36, 41, 15.5, 5, 1.6, 0.6, 0.3])  # one to seven
_spacing = Choice([1.5, 9, 32, 27, 15, 9, 6.5])  # years to the next child; 0 for twins
_first_birth = Choice(between(AGES[:46], 24, 34, rise=2.6, fall=3.2) * (AGES[:46] >= YOUNGEST_PARENT))
_GIRLS = 0.4878  # 105 boys for 100 girls
_SAME_SEX = 0.02
# Men live alone younger, women longer.
_FEMALE = 0.46 + 0.29 / (1 + np.exp(-(AGES - 72) / 6))


@dataclass(frozen=True, eq=False)
class Households:
    """A batch of households and their members, household by household.

    (households,) numbers of members and positions in :data:`COMPOSITIONS`; (persons,) each one's household,
    ascending from 0, role, age (0..101) and sex.
    """

    size: Ints
    composition: Ints
    household: Ints
    role: Ints
    age: Ints
    female: NDArray[np.bool_]


def draw_households(rng: np.random.Generator, character: Ints) -> Households:
    """Draw one household for each entry of ``character``, the (households,) kinds of place they live in."""
    plan = _draw_plan(rng, character)
    role = np.full(int(plan.size.sum()), OTHER)
    role[plan.start] = FIRST
    role[plan.partners] = PARTNER
    child_rows, family = _runs(plan.start + 1 + plan.partner, plan.children)
    role[child_rows] = CHILD
    role[plan.elders] = ELDER

    household = np.repeat(np.arange(len(character)), plan.size)
    age = _age.draw(rng, plan.kind[household]).astype(np.int64)
    first_female = _draw_first_sex(rng, plan, age[plan.start])
    if len(child_rows):
        _grow_families(rng, plan, age, child_rows, family, first_female)
    _match_partners(rng, plan, age, first_female)
    age[plan.elders] = age[plan.start[plan.elder]] + rng.integers(19, 36, len(plan.elders))
    np.minimum(age, OLDEST, out=age)

    female = rng.random(len(age)) < np.where(role == CHILD, _GIRLS, _FEMALE[age])
    female[plan.start] = first_female
    alike = rng.random(len(plan.partners)) < _SAME_SEX
    female[plan.partners] = first_female[plan.partner] == alike
    return Households(plan.size, plan.kind, household, role, age, female)


class _Plan(NamedTuple):
    """Who is in each household, before anyone has an age; all (households,)."""

    kind: Ints
    partner: NDArray[np.bool_]
    children: Ints
    elder: NDArray[np.bool_]
    size: Ints
    start: Ints  # row of the first person

    @property
    def partners(self) -> Ints:
        """Rows of the partners."""
        return self.start[self.partner] + 1

    @property
    def elders(self) -> Ints:
        """Rows of the elders."""
        return (self.start + 1 + self.partner + self.children)[self.elder]


def _draw_plan(rng: np.random.Generator, character: Ints) -> _Plan:
    kind = _kind.draw(rng, character).astype(np.int64)
    children = np.zeros_like(kind)
    families = np.flatnonzero(_HAS_CHILDREN[kind])
    children[families] = 1 + _children.draw(rng, np.zeros_like(families))
    others = np.zeros_like(kind)
    for position, numbers in enumerate(_OTHERS):
        if len(numbers) > 1:
            rows = np.flatnonzero(kind == position)
            others[rows] = numbers[rng.integers(0, len(numbers), len(rows))]
    size = 1 + _HAS_PARTNER[kind] + children + _HAS_ELDER[kind] + others
    return _Plan(kind, _HAS_PARTNER[kind], children, _HAS_ELDER[kind], size, np.cumsum(size) - size)


def _draw_first_sex(rng: np.random.Generator, plan: _Plan, age: Ints) -> NDArray[np.bool_]:
    """Draw whether the first person is a woman: most lone parents are, and most who live alone when old."""
    alone = np.where(plan.children > 0, 0.83, _FEMALE[age])
    drawn: NDArray[np.bool_] = rng.random(len(age)) < np.where(plan.partner, 0.4, alone)
    return drawn


def _grow_families(
    rng: np.random.Generator,
    plan: _Plan,
    age: Ints,
    rows: Ints,
    family: Ints,
    first_female: NDArray[np.bool_],
) -> None:
    """Set the ages of the children and of the first parent, from the youngest child upwards.

    ``age`` holds the youngest child's age in the place of the first person. ``rows`` are the children's,
    ``family`` the household of each.
    """
    later = np.ones(len(rows), bool)  # every child but the first of its family
    later[0] = False
    later[1:] = family[1:] == family[:-1]
    gap = np.where(later, _spacing.draw(rng, np.zeros_like(rows)).astype(np.int64), 0)
    total = np.cumsum(gap)
    opening = np.maximum.accumulate(np.where(later, 0, np.arange(len(rows))))
    age[rows] = age[plan.start[family]] + np.minimum(total - total[opening], LAST_BIRTH - YOUNGEST_PARENT)

    parents = np.flatnonzero(plan.children)
    youngest, eldest = _youngest_and_eldest(plan, age, parents)
    birth = _first_birth.draw(rng, np.zeros_like(parents)).astype(np.int64)
    birth = np.minimum(birth, LAST_BIRTH - (eldest - youngest))  # at least YOUNGEST_PARENT
    age[plan.start[parents]] = eldest + birth + np.where(first_female[parents], 0, 2)


def _match_partners(
    rng: np.random.Generator, plan: _Plan, age: Ints, first_female: NDArray[np.bool_]
) -> None:
    """Set the partners' ages: close to the first person's, the man a little older, and fit to be a parent."""
    couples = np.flatnonzero(plan.partner)
    older = np.where(first_female[couples], 2.0, -2.0) + 3.2 * rng.standard_normal(len(couples))
    least = np.full(len(couples), 18)
    most = np.full(len(couples), OLDEST)
    parents = plan.children[couples] > 0
    youngest, eldest = _youngest_and_eldest(plan, age, couples[parents])
    least[parents] = np.maximum(eldest + YOUNGEST_PARENT, 18)
    most[parents] = np.where(first_female[couples[parents]], OLDEST, youngest + LAST_BIRTH)
    near = np.minimum(age[plan.start[couples]] + np.rint(older).astype(np.int64), most)
    age[plan.partners] = np.maximum(near, least)


def _youngest_and_eldest(plan: _Plan, age: Ints, households: Ints) -> tuple[Ints, Ints]:
    """Return the ages of the youngest and the eldest child of ``households``, which all have some."""
    first = (plan.start + 1 + plan.partner)[households]
    return age[first], age[first + plan.children[households] - 1]


def _runs(start: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Return the positions start, start + 1, ... of every run, and which run each belongs to."""
    run = np.repeat(np.arange(len(length)), length)
    before = np.cumsum(length) - length
    return start[run] + np.arange(len(run)) - before[run], run


STATUSES = ("student", "employed", "unemployed", "retired", "other")
STATUS_LABELS = ("child or student", "employed", "unemployed", "retired", "other")
ADULT = 15  # younger persons are children: no other status, no income


def _status_weights(female: bool) -> Floats:
    student = np.where(
        AGES < ADULT, 1.0, 0.95 / (1 + np.exp((AGES - 19.5) / 2.0)) + 0.06 * np.exp(-AGES / 25)
    )
    retired = np.where(AGES < 50, 0.0, 0.985 / (1 + np.exp(-(AGES - 65.0) / 2.6)))
    rest = np.where(AGES < ADULT, 0.0, np.clip(1 - student - retired, 0, None))
    unemployed = 0.03 + 0.09 * np.exp(-np.clip(AGES - 18, 0, None) / 7)
    home = 0.09 + 0.14 * np.exp(-(((AGES - 33) / 7) ** 2)) if female else np.full_like(AGES, 0.07)
    home = home + 0.12 / (1 + np.exp(-(AGES - 62) / 4))  # long-term illness before the pension
    employed = 1 - unemployed - home
    return np.stack([student, rest * employed, rest * unemployed, retired, rest * home], axis=1)


_status = Choice(np.concatenate([_status_weights(False), _status_weights(True)]), bits=12)
_hall_status = Choice([0.90, 0.09, 0.005, 0.0, 0.005])

# Logarithm of a yearly income by status and age, its spread, and who has none.
_CAREER = (
    10.45 + 0.75 * (1 - np.exp(-np.clip(AGES - 16, 0, None) / 10)) - 0.0004 * np.clip(AGES - 52, 0, None) ** 2
)
_LEVEL = np.stack(
    [
        np.full_like(AGES, 9.3),
        _CAREER,
        np.full_like(AGES, 9.85),
        10.25 - 0.004 * (AGES - 65),
        np.full_like(AGES, 9.8),
    ]
)
_SPREAD = np.array([0.65, 0.48, 0.35, 0.42, 0.50])
_WITHOUT = np.array([0.35, 0.0, 0.06, 0.01, 0.25])
_WOMEN = np.array([0.0, -0.14, -0.02, -0.12, -0.05])
_HOUSEHOLD_SPREAD = 0.25
# Tenths of the incomes of persons who have one, in a sample with many meshblocks.
TENTHS = np.array([9.64, 10.03, 10.31, 10.55, 10.77, 10.97, 11.18, 11.41, 11.71])


def draw_status(rng: np.random.Generator, people: Households) -> Ints:
    """Draw each person's position in :data:`STATUSES`; (persons,)."""
    status = _status.draw(rng, people.age + len(AGES) * people.female).astype(np.int64)
    students = np.flatnonzero((people.composition[people.household] == HALL) & (people.age >= ADULT))
    status[students] = _hall_status.draw(rng, np.zeros_like(students))
    return status


def draw_income(rng: np.random.Generator, people: Households, status: Ints, prosperity: Floats) -> Ints:
    """Draw each person's tenth of income, 1 (lowest) to 10, or 0 for none; (persons,).

    ``prosperity`` is (households,): what the place adds to the logarithm of an income. Members of a
    household share some luck.
    """
    amount = log_income(rng, people, status, prosperity)
    tenth = np.searchsorted(TENTHS, amount, side="right") + 1
    tenth[without_income(rng, people, status)] = 0
    return tenth.astype(np.int64)


def without_income(rng: np.random.Generator, people: Households, status: Ints) -> NDArray[np.bool_]:
    """Draw who has no income: everybody under :data:`ADULT`, and some of the others by status; (persons,)."""
    drawn: NDArray[np.bool_] = rng.random(len(status), dtype=np.float32) < _WITHOUT[status]
    return drawn | (people.age < ADULT)


def log_income(
    rng: np.random.Generator, people: Households, status: Ints, prosperity: Floats
) -> NDArray[np.float64]:
    """Draw the logarithm of each person's income as if everybody had one; (persons,)."""
    shared = prosperity + _HOUSEHOLD_SPREAD * rng.standard_normal(len(prosperity))
    deviation = rng.standard_normal(len(status), dtype=np.float32) * _SPREAD[status]
    amount: Floats = (
        _LEVEL[status, people.age] + shared[people.household] + deviation + _WOMEN[status] * people.female
    )
    return amount


HOUSEHOLDS_PER_BLOCK = 65_536  # about 160 000 persons; small enough for the processor's cache
SEXES = ("M", "F")
SEX_LABELS = ("male", "female")


def census_blocks(rng: np.random.Generator, geography: Geography) -> Iterator[Block]:
    """Yield blocks of persons: whole households, numbered from 1 through all blocks.

    Two samples with the same seed and meshblocks begin with the same persons, however long they are.
    """
    meshblocks = tuple(geography.codes("meshblock"))
    reach = np.cumsum(geography.share)
    reach /= reach[-1]
    persons = households = 0
    while True:
        block = np.searchsorted(reach, rng.random(HOUSEHOLDS_PER_BLOCK), side="right")
        people = draw_households(rng, geography.character[block])
        status = draw_status(rng, people)
        income = draw_income(rng, people, status, geography.prosperity[block])
        count = len(people.age)
        yield {
            "person_id": np.arange(persons + 1, persons + count + 1),
            "household_id": people.household + (households + 1),
            "meshblock": Coded(block[people.household], meshblocks),
            "age": people.age,
            "sex": Coded(people.female.astype(np.int64), SEXES),
            "status": Coded(status, STATUSES),
            "income": income,
        }
        persons += count
        households += HOUSEHOLDS_PER_BLOCK
