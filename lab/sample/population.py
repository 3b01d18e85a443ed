"""A census in two files, of persons with work, schooling and income and of households; a survey of such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.blocks import Blocks, Choice, Coded, Floats, Geography, Holed, Ints
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

# What somebody who works does: occupation, industry, hours and pay, given sex, schooling and place.
#
# Occupations are the sub-major groups of ISCO-08 (International Labour Organization), industries the
# sections of ISIC Rev. 4 (United Nations), with the prefixes that they have in SDMX code lists. How often
# each occurs was set by hand to look plausible; it is no estimate of any country.


ALL_OCCUPATIONS, ALL_INDUSTRIES = "OC", "TOTAL"
NOT_STATED = ("NRP", "Not stated")


class Major(NamedTuple):
    """A major group of occupations.

    ``men`` and ``women`` are how often it occurs, ``schooling`` how much more often with each step from low
    to medium to high education, ``pay`` what it adds to the logarithm of an income, ``groups`` its sub-major
    groups with their weights, ``sections`` the industries that it is found in, the first ones most often.
    """

    code: str
    name: str
    men: float
    women: float
    schooling: float
    pay: float
    groups: tuple[tuple[str, str, float], ...]
    sections: str


MAJORS = (
    Major("OC1", "Managers", 7, 4, 1.8, 0.40, (
        ("OC11", "Chief executives, senior officials and legislators", 1),
        ("OC12", "Administrative and commercial managers", 4),
        ("OC13", "Production and specialised services managers", 5),
        ("OC14", "Hospitality, retail and other services managers", 3),
    ), "GCMKIOJQ"),
    Major("OC2", "Professionals", 15, 20, 4.5, 0.28, (
        ("OC21", "Science and engineering professionals", 4),
        ("OC22", "Health professionals", 4),
        ("OC23", "Teaching professionals", 6),
        ("OC24", "Business and administration professionals", 5),
        ("OC25", "Information and communications technology professionals", 3),
        ("OC26", "Legal, social and cultural professionals", 3),
    ), "PQMJKOCR"),
    Major("OC3", "Technicians and associate professionals", 15, 17, 1.7, 0.08, (
        ("OC31", "Science and engineering associate professionals", 5),
        ("OC32", "Health associate professionals", 4),
        ("OC33", "Business and administration associate professionals", 7),
        ("OC34", "Legal, social, cultural and related associate professionals", 2),
        ("OC35", "Information and communications technicians", 1),
    ), "QKCMOGFH"),
    Major("OC4", "Clerical support workers", 6, 14, 1.1, -0.05, (
        ("OC41", "General and keyboard clerks", 5),
        ("OC42", "Customer services clerks", 3),
        ("OC43", "Numerical and material recording clerks", 4),
        ("OC44", "Other clerical support workers", 1),
    ), "GOKHNCQM"),
    Major("OC5", "Service and sales workers", 11, 24, 0.7, -0.22, (
        ("OC51", "Personal service workers", 5),
        ("OC52", "Sales workers", 7),
        ("OC53", "Personal care workers", 5),
        ("OC54", "Protective services workers", 2),
    ), "GIQSONPR"),
    Major("OC6", "Skilled agricultural, forestry and fishery workers", 4, 2, 0.5, -0.25, (
        ("OC61", "Market-oriented skilled agricultural workers", 20),
        ("OC62", "Market-oriented skilled forestry, fishery and hunting workers", 3),
        ("OC63", "Subsistence farmers, fishers, hunters and gatherers", 1),
    ), "AAAN"),
    Major("OC7", "Craft and related trades workers", 18, 3, 0.6, 0.0, (
        ("OC71", "Building and related trades workers, excluding electricians", 6),
        ("OC72", "Metal, machinery and related trades workers", 5),
        ("OC73", "Handicraft and printing workers", 1),
        ("OC74", "Electrical and electronic trades workers", 3),
        ("OC75", "Food processing, wood working, garment and other craft workers", 3),
    ), "FCGESHBD"),
    Major("OC8", "Plant and machine operators, and assemblers", 12, 3, 0.5, -0.02, (
        ("OC81", "Stationary plant and machine operators", 4),
        ("OC82", "Assemblers", 1),
        ("OC83", "Drivers and mobile plant operators", 6),
    ), "CHCEFGBN"),
    Major("OC9", "Elementary occupations", 9, 11, 0.3, -0.40, (
        ("OC91", "Cleaners and helpers", 5),
        ("OC92", "Agricultural, forestry and fishery labourers", 1),
        ("OC93", "Labourers in mining, construction, manufacturing and transport", 4),
        ("OC94", "Food preparation assistants", 1),
        ("OC95", "Street and related sales and service workers", 0.2),
        ("OC96", "Refuse workers and other elementary workers", 2),
    ), "NCITGAFE"),
    Major("OC0", "Armed forces occupations", 0.8, 0.1, 1.0, 0.05, (
        ("OC01", "Commissioned armed forces officers", 2),
        ("OC02", "Non-commissioned armed forces officers", 4),
        ("OC03", "Armed forces occupations, other ranks", 4),
    ), "OOOO"),
)  # fmt: skip
SECTIONS = {
    "A": "Agriculture, forestry and fishing", "B": "Mining and quarrying", "C": "Manufacturing",
    "D": "Electricity, gas, steam and air conditioning supply",
    "E": "Water supply; sewerage, waste management and remediation", "F": "Construction",
    "G": "Wholesale and retail trade; repair of motor vehicles", "H": "Transportation and storage",
    "I": "Accommodation and food service activities", "J": "Information and communication",
    "K": "Financial and insurance activities", "L": "Real estate activities",
    "M": "Professional, scientific and technical activities", "N": "Administrative and support services",
    "O": "Public administration and defence", "P": "Education", "Q": "Human health and social work",
    "R": "Arts, entertainment and recreation", "S": "Other service activities",
    "T": "Activities of households as employers", "U": "Activities of extraterritorial organisations",
}  # fmt: skip
SECTORS = (("AGR", "Agriculture", "A"), ("IND", "Industry", "BCDEF"), ("SER", "Services", "GHIJKLMNOPQRSTU"))
OCCUPATIONS = tuple(code for major in MAJORS for code, _, _ in major.groups)
INDUSTRIES = tuple(SECTIONS)
LONGEST_WEEK = 98  # hours

_sex = (np.array([major.men for major in MAJORS]), np.array([major.women for major in MAJORS]))
_SLOPE = np.array([major.schooling for major in MAJORS])
_major = Choice([[*(weights * _SLOPE**step)] for weights in _sex for step in (-1.0, 0.0, 1.0)])
_FIRST = np.cumsum([0, *(len(major.groups) for major in MAJORS)])[:-1]
_WIDEST = max(len(major.groups) for major in MAJORS)
_group = Choice(
    [[*(w for _, _, w in major.groups), *[0.0] * (_WIDEST - len(major.groups))] for major in MAJORS], bits=12
)


def _section_weights(major: Major) -> list[float]:
    liked = {letter: max(0.4, 4.0 - rank) for rank, letter in reversed([*enumerate(major.sections)])}
    return [liked.get(letter, 0.08 if letter != "U" else 0.002) for letter in INDUSTRIES]


_section = Choice([_section_weights(major) for major in MAJORS], bits=12)
_PAY = np.array([major.pay for major in MAJORS])
_WEEKS = np.array([0, 35, 38, 40, 45, 50, 60, 70])  # 0: part of a week, drawn on its own
_week = Choice(np.array([[8, 10, 14, 48, 9, 7, 3, 1], [36, 12, 13, 32, 4, 2, 0.8, 0.2]]))


class Jobs(NamedTuple):
    """What each worker does, (workers,) arrays.

    Positions in ``OCCUPATIONS`` and ``INDUSTRIES``, below zero where not stated; usual weekly hours; and what
    occupation and hours add to the logarithm of an income.
    """

    occupation: Ints
    industry: Ints
    hours: Ints
    premium: Floats


def draw_jobs(rng: np.random.Generator, female: np.ndarray, schooling: Ints) -> Jobs:
    """Draw the jobs of workers, given sex and education (0 low, 1 medium, 2 high); (workers,) both."""
    major = _major.draw(rng, 3 * female + schooling).astype(np.int64)
    occupation = _FIRST[major] + _group.draw(rng, major).astype(np.int64)
    industry = _section.draw(rng, major).astype(np.int64)
    hours = _WEEKS[_week.draw(rng, female.astype(np.int64))]
    part = np.flatnonzero(hours == 0)
    hours[part] = rng.integers(4, 33, len(part))
    odd = np.flatnonzero(rng.random(len(hours), dtype=np.float32) < 0.0005)
    hours[odd] = rng.choice([0, 1, 96, LONGEST_WEEK, 120, 168], len(odd))  # as people answer
    effort = 0.9 * np.log(np.clip(hours, 4, 60) / 40)
    silent = rng.random(len(hours), dtype=np.float32)
    occupation[silent < 0.015] = -1
    industry[silent > 0.99] = -1
    return Jobs(occupation, industry, hours, _PAY[major] + effort)


def occupation_list() -> list[tuple[str, str, str]]:
    """Return (code, label, parent) of the occupations: all, major groups, sub-major groups, not stated."""
    rows = [(ALL_OCCUPATIONS, "All occupations", "")]
    rows += [(major.code, major.name, ALL_OCCUPATIONS) for major in MAJORS]
    rows += [(code, name, major.code) for major in MAJORS for code, name, _ in major.groups]
    return [*rows, (*NOT_STATED, ALL_OCCUPATIONS)]


def industry_list() -> list[tuple[str, str, str]]:
    """Return (code, label, parent) of every industry: all, three sectors, sections, and not stated."""
    rows = [(ALL_INDUSTRIES, "All industries", "")]
    rows += [(code, name, ALL_INDUSTRIES) for code, name, _ in SECTORS]
    rows += [(letter, SECTIONS[letter], code) for code, _, letters in SECTORS for letter in letters]
    return [*rows, (*NOT_STATED, ALL_INDUSTRIES)]


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


def draw_population(rng: np.random.Generator, geography: Geography, block: Ints) -> Population:
    """Draw the persons of one household for each entry of ``place``, (households,) meshblocks."""
    people = draw_households(rng, geography.character[block])
    status = draw_status(rng, people)
    level = _level.draw(rng, np.digitize(people.age, _STAGES)).astype(np.int64)
    workers = np.flatnonzero(status == WORKS)
    jobs = draw_jobs(rng, people.female[workers], np.digitize(level[workers], [3, 5]))
    amount = log_income(rng, people, status, geography.prosperity[block])
    amount[workers] += jobs.premium
    income = np.rint(np.exp(amount) / 10) * 10
    income[without_income(rng, people, status)] = 0
    return Population(people, status, level, workers, jobs, income)


def spread(values: Ints, rows: Ints, size: int, fill: int = -1) -> Ints:
    """Return (size,) with ``values`` in ``rows``, and ``fill`` elsewhere."""
    answers = np.full(size, fill)
    answers[rows] = values
    return answers


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
        block = draw_places(rng, geography)
        batch = draw_population(rng, geography, block)
        people, count = batch.people, len(batch.status)
        first = np.cumsum(people.size) - people.size
        adult = people.age >= ADULT
        hours = spread(batch.jobs.hours, batch.workers, count)
        answered = rng.random(count, dtype=np.float32) >= 0.02
        income = with_oddities(rng, batch.income, 0.04)
        ids = np.arange(len(block)) + (households + 1)
        yield (
            {
                "person_id": np.arange(persons + 1, persons + count + 1),
                "household_id": ids[people.household],
                "district": Coded(geography.district_of[block][people.household], districts),
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
                "district": Coded(geography.district_of[block], districts),
                **_draw_homes(rng, people, geography.character[block], people.age[first]),
            },
        )
        persons += count
        households += len(block)


def _draw_marital(rng: np.random.Generator, people: Households) -> Ints:
    has_partner = np.array([c.partner for c in COMPOSITIONS])[people.composition][people.household]
    together = has_partner & ((people.role == FIRST) | (people.role == PARTNER))
    decade = np.clip(people.age // 10 - 1, 0, 9)
    return np.where(together, _together.draw(rng, decade), _alone.draw(rng, decade)).astype(np.int64)


def _draw_birthplace(rng: np.random.Generator, people: Households) -> Ints:
    moved = rng.random(len(people.size)) < 0.16  # households from abroad
    where = np.where(rng.random(len(people.size)) < 0.4, 1, 2)
    luck = rng.random(len(people.age), dtype=np.float32)
    abroad = moved[people.household] & (luck < np.where(people.age < ADULT, 0.25, 0.85))
    birthplace = np.where(abroad, where[people.household], 0)
    birthplace[luck > 0.995] = BIRTHPLACES.index("unknown")
    return birthplace


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
        block = draw_places(rng, geography)
        batch = draw_population(rng, geography, block)
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
                "district": Coded(geography.district_of[block][people.household], districts),
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
                "weight": _weights(rng, design[block][people.household], people.age),
            },
        )
        persons += count
        households += len(block)


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
