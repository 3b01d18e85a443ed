"""What a person does and earns, given age, sex, household and place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.households import AGES, HALL, Households
from tabularium.lab.sample.quantile_tables import Choice, Floats, Ints

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
    own = rng.standard_normal(len(status), dtype=np.float32) * _SPREAD[status]
    amount: Floats = (
        _LEVEL[status, people.age] + shared[people.household] + own + _WOMEN[status] * people.female
    )
    return amount
