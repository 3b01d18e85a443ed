"""Who lives with whom, and how old they are.

A household has one of thirteen compositions. Its members come in a fixed order: a first person, a partner,
the children from the youngest up, an elder, then others. Families are built from the youngest child
upwards, so that ages agree: children spaced by births, the mother's age at the first birth on top of the
eldest, a partner close to her in age, a grandparent a generation above. Everyone else's age is drawn from
the composition's own span of life. The shares of the compositions were chosen so that the pyramid of all
persons together comes close to that of an ageing country with a post-war boom and its echo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.sample.chance import Choice, Floats, Ints, between

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
    Composition("one, middle-aged", (9.0, 7.0, 9.0, 9.0), (36, 66)),
    Composition("one, old", (8.0, 9.5, 12.0, 9.0), (66, 110)),
    Composition("couple, young", (10.0, 6.0, 5.0, 5.0), (22, 40), partner=True),
    Composition("couple, middle-aged", (8.0, 11.0, 12.0, 16.0), (42, 68), partner=True),
    Composition("couple, old", (7.0, 11.0, 13.0, 14.0), (64, 110), partner=True),
    Composition("couple with children", (22.0, 32.0, 25.0, 29.0), (0, 19), partner=True, children=True),
    Composition("lone parent", (9.0, 8.5, 9.5, 6.5), (0, 19), children=True),
    Composition("three generations", (2.0, 2.5, 1.5, 1.5), (0, 16), partner=True, children=True, elder=True),
    Composition("sharers", (9.0, 3.0, 2.5, 2.0), (19, 34), others=(1, 1, 1, 2, 2, 3, 4)),
    Composition("adult with a parent", (2.5, 2.5, 3.0, 2.5), (42, 66), elder=True),
    Composition("home for the aged", (0.06, 0.08, 0.10, 0.05), (78, 110), others=(8, 12, 17, 24, 34, 48, 68)),
    Composition("hall of residence", (0.06, 0.01, 0.01, 0.0), (18, 22), others=(9, 15, 24, 40, 65, 110)),
)
HALL = len(COMPOSITIONS) - 1

_HAS_PARTNER = np.array([c.partner for c in COMPOSITIONS])
_HAS_CHILDREN = np.array([c.children for c in COMPOSITIONS])
_HAS_ELDER = np.array([c.elder for c in COMPOSITIONS])
_OTHERS = tuple(np.array(c.others) for c in COMPOSITIONS)

_kind = Choice(np.array([c.share for c in COMPOSITIONS]).T)  # by character of the place
# Births per age of the living: fewer before the war, a boom from 60 to 78, an echo around 32.
_COHORTS = 1 + 0.20 * between(AGES, 57, 76, rise=3, fall=3) + 0.10 * np.exp(-(((AGES - 32) / 7) ** 2))


def _age_weights(composition: Composition) -> Floats:
    start, end = composition.ages
    if composition.children:  # of the youngest: nearly level, with fewer newborns, then leaving home
        level = between(AGES, 0.0, end, rise=1.0, fall=2.6) * (1 + 0.012 * AGES)
        return np.where(AGES <= 34, level, 0.0)
    adult = between(AGES, start, end, rise=1.6, fall=3.0) * SURVIVAL * _COHORTS
    return np.where(AGES >= 17, adult, 0.0)


_age = Choice(np.stack([_age_weights(c) for c in COMPOSITIONS]))
_children = Choice([36, 41, 15.5, 5, 1.6, 0.6, 0.3])  # one to seven
_spacing = Choice([1.5, 9, 32, 27, 15, 9, 6.5])  # years to the next child; 0 for twins
_first_birth = Choice(between(AGES[:46], 22, 32, rise=2.6, fall=3.2) * (AGES[:46] >= YOUNGEST_PARENT))


@dataclass(frozen=True, eq=False)
class Households:
    """A batch of households and their members, household by household.

    Attributes
    ----------
    size
        (households,) number of members.
    composition
        (households,) position in :data:`COMPOSITIONS`.
    household
        (persons,) each person's household, ascending from 0.
    role
        (persons,) FIRST, PARTNER, CHILD, ELDER or OTHER.
    age
        (persons,) 0..101.
    female
        (persons,) bool.
    """

    size: Ints
    composition: Ints
    household: Ints
    role: Ints
    age: Ints
    female: NDArray[np.bool_]


def draw_households(rng: np.random.Generator, character: Ints) -> Households:
    """Draw one household for each entry of ``character``, the (households,) kinds of place they live in."""
    kind = _kind.draw(rng, character).astype(np.int64)
    children = np.where(_HAS_CHILDREN[kind], 1 + _children.draw(rng, np.zeros_like(kind)).astype(np.int64), 0)
    partner = _HAS_PARTNER[kind].astype(np.int64)
    elder = _HAS_ELDER[kind].astype(np.int64)
    others = _draw_others(rng, kind)

    size = 1 + partner + children + elder + others
    start = np.cumsum(size) - size
    household = np.repeat(np.arange(len(kind)), size)
    role = np.full(len(household), OTHER)
    role[start] = FIRST
    role[(start + 1)[partner > 0]] = PARTNER
    child_rows = _runs(start + 1 + partner, children)
    role[child_rows] = CHILD
    elder_rows = (start + 1 + partner + children)[elder > 0]
    role[elder_rows] = ELDER

    first_female = _sex_of_first(rng, kind)
    age = _age.draw(rng, kind[household]).astype(np.int64)
    age[start] = _first_ages(rng, age, start, children, child_rows, first_female)
    has_partner = partner > 0
    age[start[has_partner] + 1] = _partner_ages(
        rng, age[start[has_partner]], first_female[has_partner], _eldest(age, start, 1 + children)[has_partner]
    )
    age[elder_rows] = np.minimum(age[start[elder > 0]] + 20 + rng.integers(0, 17, len(elder_rows)), OLDEST)
    female = _sexes(rng, age, role, first_female, start, has_partner)
    return Households(size, kind, household, role, age, female)
