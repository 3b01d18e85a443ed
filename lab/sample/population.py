"""A census in two files, of persons with work, schooling and income and of households; a survey of such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.blocks import Blocks, Coded, Holed
from tabularium.lab.sample.geography import Geography
from tabularium.lab.sample.households import (
    ADULT,
    COMPOSITIONS,
    FIRST,
    HALL,
    HOUSEHOLDS_PER_BLOCK,
    PARTNER,
    SEXES,
    STATUSES,
    Households,
    draw_households,
    draw_status,
    log_income,
    without_income,
)
from tabularium.lab.sample.jobs import INDUSTRIES, OCCUPATIONS, Jobs, draw_jobs
from tabularium.lab.sample.quantile_tables import Choice, Floats, Ints

ROLES = ("reference", "partner", "child", "parent", "other")
MARITAL = ("single", "married", "widowed", "divorced")
BIRTHPLACES = ("here", "neighbour", "elsewhere", "unknown")
TENURES = ("owned", "mortgaged", "rented", "social", "free", "institution")
DWELLINGS = ("house", "terrace", "flat", "other")
WORKS = STATUSES.index("employed")
HOME = HALL - 1  # for the aged; with the halls, the institutions

# ISCED levels 0 to 8 by age: school, students, the young, the middle, the old.
_level = Choice(
    np.array([
        [1, 12, 70, 17, 0, 0, 0, 0, 0], [0.5, 2, 12, 60, 4, 4, 15, 2.5, 0],
        [0.5, 2, 9, 34, 5, 6, 25, 17, 1.5], [1, 4, 16, 42, 5, 7, 13, 10.5, 1.5],
        [3, 18, 24, 35, 2, 4, 7, 6, 1],
    ])
)  # fmt: skip
_STAGES = (18, 25, 45, 65)
# Marital state by decade of age from 10 on: without a partner in the household, and with one.
_alone = Choice(
    np.array([
        [1, 0, 0, 0], [95, 2, 0.1, 3], [78, 6, 0.5, 15], [57, 7, 2, 34], [40, 8, 8, 44], [22, 7, 32, 39],
        [12, 6, 62, 20], [7, 4, 82, 7], [6, 3, 88, 3], [5, 3, 90, 2],
    ])
)  # fmt: skip
_together = Choice([[60 * 0.45**step + 3, 100 - 60 * 0.45**step, 1, 5] for step in range(10)])
_tenure = Choice(
    [[12, 18, 48, 18, 4, 0], [26, 46, 18, 8, 2, 0], [62, 14, 10, 12, 2, 0], [0, 0, 0, 0, 0, 1]]
)  # by age of the first person: under 35, under 60, older; institutions
_dwelling = Choice(
    [[8, 22, 68, 2], [38, 34, 26, 2], [48, 26, 23, 3], [76, 14, 6, 4]]
)  # by character of the place
_rooms = Choice([[22, 34, 26, 12, 4, 1, 1], [6, 16, 30, 27, 13, 5, 3], [2, 6, 16, 30, 27, 12, 7]])  # from 1
_INFINITE, _NINES, _LOSS = 0.00001, 0.00005, 0.003  # shares of incomes that are odd
NINES = 99_999_999  # as some forms say "not stated"


class Population(NamedTuple):
    """A batch of persons: what :class:`Households` has, and what each does; (persons,) arrays.

    ``level`` is the ISCED level, ``jobs`` those of ``workers`` (rows); ``income`` a year's, of everybody.
    """

    people: Households
    status: Ints
    level: Ints
    workers: Ints
    jobs: Jobs
    income: Floats


def draw_population(rng: np.random.Generator, geography: Geography, place: Ints) -> Population:
    """Draw the persons of one household for each entry of ``place``, (households,) meshblocks."""
    people = draw_households(rng, geography.character[place])
    status = draw_status(rng, people)
    level = _level.draw(rng, np.digitize(people.age, _STAGES)).astype(np.int64)
    workers = np.flatnonzero(status == WORKS)
    jobs = draw_jobs(rng, people.female[workers], np.digitize(level[workers], [3, 5]))
    amount = log_income(rng, people, status, geography.prosperity[place])
    amount[workers] += jobs.premium
    income = np.rint(np.exp(amount) / 10) * 10
    income[without_income(rng, people, status)] = 0
    return Population(people, status, level, workers, jobs, income)


def spread(values: Ints, rows: Ints, size: int, fill: int = -1) -> Ints:
    """Return (size,) with ``values`` in ``rows``, and ``fill`` elsewhere."""
    found = np.full(size, fill)
    found[rows] = values
    return found


def with_oddities(rng: np.random.Generator, amounts: Floats, refused: float) -> Holed:
    """Return incomes as they are answered: some null, a few below zero, all nines, or infinite."""
    values = amounts.copy()
    chance = rng.random(len(values))
    values[chance < _LOSS] *= -0.5
    values[chance < _NINES] = NINES
    values[chance < _INFINITE] = np.inf
    return Holed(values, rng.random(len(values), dtype=np.float32) < refused)


def draw_places(rng: np.random.Generator, geography: Geography) -> Ints:
    """Draw the meshblocks of a block of households."""
    reach: Floats = np.cumsum(geography.share)
    reach /= reach[-1]
    return np.searchsorted(reach, rng.random(HOUSEHOLDS_PER_BLOCK), side="right")


def population_blocks(rng: np.random.Generator, geography: Geography) -> Iterator[Blocks]:
    """Yield blocks of persons and of their households, both numbered from 1 through all blocks."""
    districts = tuple(geography.codes("district"))
    persons = households = 0
    while True:
        place = draw_places(rng, geography)
        batch = draw_population(rng, geography, place)
        people, count = batch.people, len(batch.status)
        first = np.cumsum(people.size) - people.size
        adult = people.age >= ADULT
        hours = spread(batch.jobs.hours, batch.workers, count)
        answered = rng.random(count, dtype=np.float32) >= 0.02
        income = with_oddities(rng, batch.income, 0.04)
        ids = np.arange(len(place)) + (households + 1)
        yield (
            {
                "person_id": np.arange(persons + 1, persons + count + 1),
                "household_id": ids[people.household],
                "district": Coded(geography.district_of[place][people.household], districts),
                "role": Coded(people.role, ROLES),
                "sex": Coded(people.female.astype(np.int64), SEXES),
                "age": people.age,
                "marital": Coded(np.where(adult, _draw_marital(rng, people), -1), MARITAL),
                "birthplace": Coded(_draw_birthplace(rng, people), BIRTHPLACES),
                "education": Holed(batch.level, ~adult | (rng.random(count, dtype=np.float32) < 0.01)),
                "status": Coded(batch.status, STATUSES),
                "occupation": Coded(spread(batch.jobs.occupation, batch.workers, count), OCCUPATIONS),
                "industry": Coded(spread(batch.jobs.industry, batch.workers, count), INDUSTRIES),
                "hours": Holed(hours, (hours < 0) | ~answered),
                "income": Holed(income.values, income.missing | ~adult),
            },
            {
                "household_id": ids,
                "district": Coded(geography.district_of[place], districts),
                **_draw_homes(rng, people, geography.character[place], people.age[first]),
            },
        )
        persons += count
        households += len(place)


def _draw_marital(rng: np.random.Generator, people: Households) -> Ints:
    has_partner = np.array([c.partner for c in COMPOSITIONS])[people.composition][people.household]
    together = has_partner & ((people.role == FIRST) | (people.role == PARTNER))
    decade = np.clip(people.age // 10 - 1, 0, 9)
    return np.where(together, _together.draw(rng, decade), _alone.draw(rng, decade)).astype(np.int64)


def _draw_birthplace(rng: np.random.Generator, people: Households) -> Ints:
    moved = rng.random(len(people.size)) < 0.16  # households from abroad
    where = np.where(rng.random(len(people.size)) < 0.4, 1, 2)
    own = rng.random(len(people.age), dtype=np.float32)
    abroad = moved[people.household] & (own < np.where(people.age < ADULT, 0.25, 0.85))
    found = np.where(abroad, where[people.household], 0)
    found[own > 0.995] = BIRTHPLACES.index("unknown")
    return found


def _draw_homes(
    rng: np.random.Generator, people: Households, character: Ints, age: Ints
) -> dict[str, Coded | Holed]:
    institution = people.composition >= HOME
    stage = np.where(institution, 3, np.digitize(age, [35, 60]))
    dwelling = np.where(institution, DWELLINGS.index("other"), _dwelling.draw(rng, character))
    rooms = 1 + _rooms.draw(rng, np.digitize(people.size, [2, 4])).astype(np.int64)
    unknown: NDArray[np.bool_] = rng.random(len(rooms), dtype=np.float32) < 0.01
    tenure = _tenure.draw(rng, stage).astype(np.int64)
    return {
        "tenure": Coded(tenure, TENURES),
        "dwelling": Coded(dwelling.astype(np.int64), DWELLINGS),
        "rooms": Holed(rooms, institution | unknown),
    }


LABOUR = ("employed", "unemployed", "outside")
POSITIONS = ("employee", "self-employed", "family")
SMALLEST_WEIGHT, LARGEST_WEIGHT = 20, 400
_position = Choice([[84.0, 15.5, 0.5], [90.0, 9.0, 1.0]])


def survey_blocks(rng: np.random.Generator, geography: Geography) -> Iterator[Blocks]:
    """Yield blocks of respondents: whole households, numbered from 1 through all blocks."""
    districts = tuple(geography.codes("district"))
    design = _design_weights(geography)
    persons = households = 0
    while True:
        place = draw_places(rng, geography)
        batch = draw_population(rng, geography, place)
        people, count = batch.people, len(batch.status)
        works = batch.status == WORKS
        self_employed_or_not = _position.draw(rng, people.female[batch.workers].astype(np.int64))
        position = spread(self_employed_or_not.astype(np.int64), batch.workers, count)
        seeks = batch.status == STATUSES.index("unemployed")
        labour = np.where(works, 0, np.where(seeks, 1, 2))
        labour[people.age < ADULT] = -1
        hours = spread(batch.jobs.hours, batch.workers, count)
        answered = rng.random(count, dtype=np.float32) >= 0.03
        silent = rng.random(count, dtype=np.float32) < 0.02  # about schooling
        months = np.minimum(rng.geometric(0.11, count), 120)
        pay = with_oddities(rng, np.rint(batch.income / 120) * 10, 0.12)
        yield (
            {
                "person_id": np.arange(persons + 1, persons + count + 1),
                "household_id": people.household + (households + 1),
                "district": Coded(geography.district_of[place][people.household], districts),
                "sex": Coded(people.female.astype(np.int64), SEXES),
                "age": people.age,
                "education": Holed(batch.level, silent | (people.age < ADULT)),
                "status": Coded(labour, LABOUR),
                "position": Coded(position, POSITIONS),
                "occupation": Coded(spread(batch.jobs.occupation, batch.workers, count), OCCUPATIONS),
                "industry": Coded(spread(batch.jobs.industry, batch.workers, count), INDUSTRIES),
                "hours": Holed(hours, ~works | ~answered),
                "pay": Holed(pay.values, pay.missing | (position != 0)),
                "months": Holed(months, ~seeks),
                "weight": _weights(rng, design[place][people.household], people.age),
            },
        )
        persons += count
        households += len(place)


def _design_weights(geography: Geography) -> Ints:
    """Return how many persons one stands for, by meshblock: small regions are sampled more densely."""
    region = geography.region_of[geography.district_of]
    share = np.bincount(region, geography.share, minlength=geography.regions)
    size = share / share.max()
    weights: Ints = np.rint(60 + 140 * np.sqrt(size)).astype(np.int64)
    return weights[region]


def _weights(rng: np.random.Generator, design: Ints, age: Ints) -> Ints:
    """Return whole weights: the design's, raised where fewer answer, and a little calibration."""
    answers = np.interp(age, [0, 18, 25, 40, 65, 85], [0.75, 0.6, 0.55, 0.7, 0.85, 0.7]) / 0.72
    drawn = np.rint(design / answers * np.exp(0.12 * rng.standard_normal(len(age), dtype=np.float32)))
    weights: Ints = np.clip(drawn, SMALLEST_WEIGHT, LARGEST_WEIGHT).astype(np.int64)
    return weights
