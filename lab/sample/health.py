"""Hospital visits: patients with a heavy-tailed number of visits and what brought them there.

Diagnoses are chapters of the ICD-10 (World Health Organization, version 2019). How often a chapter occurs
at an age was set by hand to look plausible; it is no estimate of any country. A patient has a leading
chapter and comes back for it more often than for anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.census import SEXES
from tabularium.lab.sample.columns import Block, Coded
from tabularium.lab.sample.geography import Geography
from tabularium.lab.sample.households import AGES, SURVIVAL
from tabularium.lab.sample.quantile_tables import Choice, Floats, Ints, between

PATIENTS_PER_BLOCK = 65_536
MOST_VISITS = 60
LONGEST_STAY = 180  # days
MONTHS = tuple(f"2025-{month:02d}" for month in range(1, 13))
ALL_CHAPTERS = "ALL"


class Chapter(NamedTuple):
    """A chapter of the ICD-10 and how it occurs.

    ``at`` is how often it occurs at the ages :data:`KNOTS`, ``women`` how much more often in women, ``stay``
    the median stay in days, ``day_case`` the share of visits without a night, ``winter`` how much more often
    in January than in July.
    """

    code: str
    name: str
    at: tuple[float, ...]
    women: float = 1.0
    stay: float = 3.0
    day_case: float = 0.3
    winter: float = 1.0


KNOTS = (0, 1, 10, 25, 45, 65, 85)
CHAPTERS = (
    Chapter("I", "Certain infectious and parasitic diseases", (6, 9, 4, 2, 2, 3, 5), 1, 4, 0.2, 1.2),
    Chapter("II", "Neoplasms", (0.5, 1, 1, 2, 8, 15, 9), 0.95, 3, 0.55),
    Chapter(
        "III",
        "Diseases of the blood and blood-forming organs and certain disorders involving the immune mechanism",
        (0.5, 1, 1, 1, 1, 2, 3), 1.1, 2, 0.5,
    ),
    Chapter("IV", "Endocrine, nutritional and metabolic diseases", (1, 1, 2, 2, 3, 4, 4), 1.2, 3, 0.35),
    Chapter("V", "Mental and behavioural disorders", (0, 0.2, 3, 9, 6, 3, 3), 0.95, 9, 0.25),
    Chapter("VI", "Diseases of the nervous system", (1, 2, 3, 3, 4, 4, 4), 1, 2, 0.45),
    Chapter("VII", "Diseases of the eye and adnexa", (0.3, 1, 1, 1, 2, 8, 8), 1.1, 1, 0.85),
    Chapter("VIII", "Diseases of the ear and mastoid process", (0.3, 3, 3, 0.7, 0.8, 1, 1), 1, 1, 0.7, 1.3),
    Chapter("IX", "Diseases of the circulatory system", (0.5, 0.4, 0.6, 2, 8, 18, 24), 0.8, 4, 0.25, 1.25),
    Chapter("X", "Diseases of the respiratory system", (14, 22, 10, 4, 4, 7, 12), 0.95, 3, 0.25, 2.2),
    Chapter("XI", "Diseases of the digestive system", (3, 6, 8, 8, 11, 10, 8), 0.95, 2, 0.45),
    Chapter("XII", "Diseases of the skin and subcutaneous tissue", (1, 2, 2, 3, 2, 2, 2), 0.95, 2, 0.45),
    Chapter(
        "XIII", "Diseases of the musculoskeletal system and connective tissue",
        (0.3, 1, 2, 4, 9, 10, 7), 1.1, 2, 0.5,
    ),
    Chapter("XIV", "Diseases of the genitourinary system", (2, 2, 3, 6, 7, 7, 7), 1.25, 2, 0.5),
    Chapter("XV", "Pregnancy, childbirth and the puerperium", (0, 0, 0, 32, 3, 0, 0), 1, 2, 0.15),
    Chapter(
        "XVI", "Certain conditions originating in the perinatal period",
        (50, 0, 0, 0, 0, 0, 0), 0.9, 5, 0.05,
    ),
    Chapter(
        "XVII", "Congenital malformations, deformations and chromosomal abnormalities",
        (6, 3, 1.5, 0.4, 0.2, 0.1, 0), 0.8, 3, 0.35,
    ),
    Chapter(
        "XVIII", "Symptoms, signs and abnormal clinical and laboratory findings, not elsewhere classified",
        (4, 6, 6, 7, 8, 8, 9), 1.05, 1, 0.5, 1.1,
    ),
    Chapter(
        "XIX", "Injury, poisoning and certain other consequences of external causes",
        (3, 8, 10, 10, 8, 8, 14), 0.85, 3, 0.35, 0.9,
    ),
    Chapter(
        "XX", "External causes of morbidity and mortality",
        (0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1), 0.9, 2, 0.5,
    ),
    Chapter(
        "XXI", "Factors influencing health status and contact with health services",
        (8, 3, 3, 6, 7, 8, 5), 1.2, 1, 0.75,
    ),
    Chapter("XXII", "Codes for special purposes", (0.2, 0.2, 0.1, 0.3, 0.4, 0.8, 1.5), 0.95, 5, 0.15, 1.6),
)  # fmt: skip
BIRTHS = next(i for i, chapter in enumerate(CHAPTERS) if chapter.code == "XV")
NEWBORNS = next(i for i, chapter in enumerate(CHAPTERS) if chapter.code == "XVI")
CHILDBEARING = (13, 50)  # ages


def _chapter_weights(female: bool) -> Floats:
    weights = np.stack([np.interp(AGES, KNOTS, chapter.at) for chapter in CHAPTERS], axis=1)
    if female:
        weights *= [chapter.women for chapter in CHAPTERS]
    else:
        weights[:, BIRTHS] = 0
    weights[: CHILDBEARING[0], BIRTHS] = 0
    weights[CHILDBEARING[1] + 1 :, BIRTHS] = 0
    weights[1:, NEWBORNS] = 0
    return weights


def _month_weights(winter: float) -> Floats:
    season = np.cos(2 * np.pi * np.arange(12) / 12)
    weights: Floats = np.exp(0.5 * np.log(winter) * season)
    return weights


_LIVING = SURVIVAL * (1.0 + 0.2 * between(AGES, 52, 66))
_age = Choice(
    _LIVING
    * (0.5 + 4.0 * np.exp(-AGES / 0.9) + 0.4 * between(AGES, 20, 38) + 1.6 * between(AGES, 70, 120, rise=8))
)
_COUNTS = np.arange(MOST_VISITS + 1.0)


def numbers_of_visits(*powers: float) -> Choice:
    """Return how often patients come: falling as a power of the number; a row for each power."""
    return Choice([np.where(_COUNTS < 1, 0, np.maximum(_COUNTS, 1) ** -power) for power in powers])


_visits = numbers_of_visits(2.5, 2.35, 2.2, 2.0, 1.85)  # by age
_chapter = Choice(np.concatenate([_chapter_weights(False), _chapter_weights(True)]), bits=12)
_month = Choice([_month_weights(chapter.winter) for chapter in CHAPTERS], bits=12)
_MEDIAN = np.log([chapter.stay for chapter in CHAPTERS])
_DAY_CASE = np.array([chapter.day_case for chapter in CHAPTERS])
_RETURNS = 0.55  # share of visits for the leading chapter


class Patients(NamedTuple):
    """A batch of patients, and their stays in hospital.

    ``age``, ``female`` and ``district`` are (patients,); ``patient`` is (stays,), ascending, and ``chapter``
    and ``month`` are those of each stay, in no order.
    """

    age: Ints
    female: NDArray[np.bool_]
    district: Ints
    patient: Ints
    chapter: Ints
    month: Ints


def district_reach(geography: Geography) -> Floats:
    """Return the share of all households in each district and those before it; (districts,)."""
    share = np.bincount(geography.district_of, geography.share, minlength=geography.districts)
    reach: Floats = np.cumsum(share)
    reach /= reach[-1]
    return reach


def draw_patients(rng: np.random.Generator, reach: Floats, visits: Choice = _visits) -> Patients:
    """Draw a block of patients who live where ``reach`` says, and what each of their stays is for."""
    age = _age.draw(rng, np.zeros(PATIENTS_PER_BLOCK, np.int64)).astype(np.int64)
    female = rng.random(PATIENTS_PER_BLOCK) < np.where(between(AGES, 20, 38)[age] > 0.5, 0.62, 0.50)
    district = np.searchsorted(reach, rng.random(PATIENTS_PER_BLOCK), side="right")
    number = visits.draw(rng, np.digitize(age, [18, 45, 60, 75])).astype(np.int64)
    patient = np.repeat(np.arange(PATIENTS_PER_BLOCK), number)
    chapter = _draw_chapters(rng, age + len(AGES) * female, patient)
    month = _month.draw(rng, chapter).astype(np.int64)
    return Patients(age, female, district, patient, chapter, month)


def health_blocks(rng: np.random.Generator, geography: Geography) -> Iterator[Block]:
    """Yield blocks of visits: whole patients, the visits of each by month, numbered from 1 on."""
    districts = tuple(geography.codes("district"))
    reach = district_reach(geography)
    codes = tuple(chapter.code for chapter in CHAPTERS)
    patients = visits = 0
    while True:
        age, female, district, patient, chapter, month = draw_patients(rng, reach)
        order = np.argsort(patient * len(MONTHS) + month, kind="stable")
        chapter, month = chapter[order], month[order]
        yield {
            "visit_id": np.arange(visits + 1, visits + len(patient) + 1),
            "patient_id": patient + (patients + 1),
            "age": age[patient],
            "sex": Coded(female[patient].astype(np.int64), SEXES),
            "district": Coded(district[patient], districts),
            "chapter": Coded(chapter, codes),
            "month": Coded(month, MONTHS),
            "stay": draw_stay(rng, chapter, age[patient]),
        }
        patients += PATIENTS_PER_BLOCK
        visits += len(patient)


def _draw_chapters(rng: np.random.Generator, profile: Ints, patient: Ints) -> Ints:
    """Draw the chapter of each visit: the patient's leading one, or another of the same age and sex."""
    leading = _chapter.draw(rng, profile)[patient]
    another = _chapter.draw(rng, profile[patient])
    return np.where(rng.random(len(patient)) < _RETURNS, leading, another).astype(np.int64)


def draw_stay(rng: np.random.Generator, chapter: Ints, age: Ints) -> Ints:
    """Draw the nights in hospital: none for a day case, else at least one; longer for the old."""
    nights = np.exp(_MEDIAN[chapter] + 0.006 * np.maximum(age - 50, 0) + 0.85 * rng.standard_normal(len(age)))
    stay = np.clip(np.rint(nights), 1, LONGEST_STAY).astype(np.int64)
    stay[rng.random(len(age)) < _DAY_CASE[chapter]] = 0
    return stay
