"""Hospital visits, and stays with dates: patients, how often they come, what brings them and where they lie.

Diagnoses are chapters and blocks of the ICD-10 (World Health Organization, version 2019). How often one
occurs at an age was set by hand to look plausible; it is no estimate of any country. A patient has a leading
chapter and comes back for it more often than for anything else; the number of visits has a heavy tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.blocks import (
    Block,
    Blocks,
    Choice,
    Coded,
    Days,
    Floats,
    Geography,
    Holed,
    Ints,
    between,
)
from tabularium.lab.sample.households import AGES, SEXES, SURVIVAL
from tabularium.lab.sample.population import with_oddities

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


# The commoner blocks by chapter: code, name, how often one occurs in its chapter, and ``M`` or ``F`` where
# only men or only women have it.

BLOCKS: dict[str, tuple[tuple[str, str, float, str], ...]] = {
    "I": (
        ("A00-A09", "Intestinal infectious diseases", 40, ""),
        ("A30-A49", "Other bacterial diseases", 32, ""),
        ("B00-B09", "Viral infections of skin and mucous membranes", 8, ""),
        ("B25-B34", "Other viral diseases", 20, ""),
    ),
    "II": (
        ("C15-C26", "Malignant neoplasms of digestive organs", 22, ""),
        ("C30-C39", "Malignant neoplasms of respiratory and intrathoracic organs", 12, ""),
        ("C43-C44", "Melanoma and other malignant neoplasms of skin", 10, ""),
        ("C50-C50", "Malignant neoplasm of breast", 14, "F"),
        ("C51-C58", "Malignant neoplasms of female genital organs", 6, "F"),
        ("C60-C63", "Malignant neoplasms of male genital organs", 10, "M"),
        ("C64-C68", "Malignant neoplasms of urinary tract", 9, ""),
        ("C81-C96", "Malignant neoplasms of lymphoid, haematopoietic and related tissue", 12, ""),
        ("D10-D36", "Benign neoplasms", 22, ""),
    ),
    "III": (
        ("D50-D53", "Nutritional anaemias", 40, ""),
        ("D60-D64", "Aplastic and other anaemias", 35, ""),
        ("D65-D69", "Coagulation defects, purpura and other haemorrhagic conditions", 25, ""),
    ),
    "IV": (
        ("E00-E07", "Disorders of thyroid gland", 18, ""),
        ("E10-E14", "Diabetes mellitus", 42, ""),
        ("E65-E68", "Obesity and other hyperalimentation", 15, ""),
        ("E70-E90", "Metabolic disorders", 25, ""),
    ),
    "V": (
        ("F00-F09", "Organic, including symptomatic, mental disorders", 14, ""),
        ("F10-F19", "Mental and behavioural disorders due to psychoactive substance use", 30, ""),
        ("F20-F29", "Schizophrenia, schizotypal and delusional disorders", 16, ""),
        ("F30-F39", "Mood [affective] disorders", 24, ""),
        ("F40-F48", "Neurotic, stress-related and somatoform disorders", 16, ""),
    ),
    "VI": (
        ("G20-G26", "Extrapyramidal and movement disorders", 12, ""),
        ("G40-G47", "Episodic and paroxysmal disorders", 62, ""),
        ("G50-G59", "Nerve, nerve root and plexus disorders", 26, ""),
    ),
    "VII": (
        ("H25-H28", "Disorders of lens", 65, ""),
        ("H30-H36", "Disorders of choroid and retina", 20, ""),
        ("H40-H42", "Glaucoma", 15, ""),
    ),
    "VIII": (
        ("H65-H75", "Diseases of middle ear and mastoid", 55, ""),
        ("H80-H83", "Diseases of inner ear", 45, ""),
    ),
    "IX": (
        ("I10-I15", "Hypertensive diseases", 9, ""),
        ("I20-I25", "Ischaemic heart diseases", 28, ""),
        ("I26-I28", "Pulmonary heart disease and diseases of pulmonary circulation", 4, ""),
        ("I30-I52", "Other forms of heart disease", 32, ""),
        ("I60-I69", "Cerebrovascular diseases", 15, ""),
        ("I80-I89", "Diseases of veins, lymphatic vessels and lymph nodes", 12, ""),
    ),
    "X": (
        ("J00-J06", "Acute upper respiratory infections", 16, ""),
        ("J09-J18", "Influenza and pneumonia", 30, ""),
        ("J20-J22", "Other acute lower respiratory infections", 16, ""),
        ("J30-J39", "Other diseases of upper respiratory tract", 16, ""),
        ("J40-J47", "Chronic lower respiratory diseases", 22, ""),
    ),
    "XI": (
        ("K20-K31", "Diseases of oesophagus, stomach and duodenum", 20, ""),
        ("K35-K38", "Diseases of appendix", 10, ""),
        ("K40-K46", "Hernia", 22, ""),
        ("K50-K52", "Noninfective enteritis and colitis", 10, ""),
        ("K55-K64", "Other diseases of intestines", 20, ""),
        ("K80-K87", "Disorders of gallbladder, biliary tract and pancreas", 18, ""),
    ),
    "XII": (
        ("L00-L08", "Infections of the skin and subcutaneous tissue", 60, ""),
        ("L60-L75", "Disorders of skin appendages", 15, ""),
        ("L80-L99", "Other disorders of the skin and subcutaneous tissue", 25, ""),
    ),
    "XIII": (
        ("M00-M25", "Arthropathies", 50, ""),
        ("M40-M54", "Dorsopathies", 28, ""),
        ("M60-M79", "Soft tissue disorders", 16, ""),
        ("M80-M94", "Osteopathies and chondropathies", 6, ""),
    ),
    "XIV": (
        ("N17-N19", "Renal failure", 24, ""),
        ("N20-N23", "Urolithiasis", 16, ""),
        ("N30-N39", "Other diseases of urinary system", 24, ""),
        ("N40-N51", "Diseases of male genital organs", 24, "M"),
        ("N60-N64", "Disorders of breast", 6, ""),
        ("N70-N77", "Inflammatory diseases of female pelvic organs", 8, "F"),
        ("N80-N98", "Noninflammatory disorders of female genital tract", 30, "F"),
    ),
    "XV": (
        ("O00-O08", "Pregnancy with abortive outcome", 14, "F"),
        ("O20-O29", "Other maternal disorders predominantly related to pregnancy", 16, "F"),
        (
            "O30-O48",
            "Maternal care related to the fetus, amniotic cavity and possible delivery problems",
            22,
            "F",
        ),
        ("O60-O75", "Complications of labour and delivery", 28, "F"),
        ("O80-O84", "Delivery", 20, "F"),
    ),
    "XVI": (
        ("P05-P08", "Disorders related to length of gestation and fetal growth", 45, ""),
        ("P20-P29", "Respiratory and cardiovascular disorders specific to the perinatal period", 35, ""),
        ("P50-P61", "Haemorrhagic and haematological disorders of fetus and newborn", 20, ""),
    ),
    "XVII": (
        ("Q20-Q28", "Congenital malformations of the circulatory system", 40, ""),
        ("Q35-Q37", "Cleft lip and cleft palate", 15, ""),
        ("Q65-Q79", "Congenital malformations of the musculoskeletal system", 45, ""),
    ),
    "XVIII": (
        ("R00-R09", "Symptoms and signs involving the circulatory and respiratory systems", 38, ""),
        ("R10-R19", "Symptoms and signs involving the digestive system and abdomen", 32, ""),
        ("R50-R69", "General symptoms and signs", 30, ""),
    ),
    "XIX": (
        ("S00-S09", "Injuries to the head", 24, ""),
        ("S50-S59", "Injuries to the elbow and forearm", 14, ""),
        ("S70-S79", "Injuries to the hip and thigh", 18, ""),
        ("S80-S89", "Injuries to the knee and lower leg", 18, ""),
        ("T36-T50", "Poisoning by drugs, medicaments and biological substances", 8, ""),
        ("T80-T88", "Complications of surgical and medical care", 18, ""),
    ),
    "XX": (("W00-W19", "Falls", 70, ""), ("V01-V99", "Transport accidents", 30, "")),
    "XXI": (
        ("Z00-Z13", "Persons encountering health services for examination and investigation", 30, ""),
        ("Z30-Z39", "Persons encountering health services in circumstances related to reproduction", 20, ""),
        ("Z40-Z54", "Persons encountering health services for specific procedures and health care", 50, ""),
    ),
    "XXII": (("U00-U49", "Provisional assignment of new diseases of uncertain etiology", 1, ""),),
}


YEAR = np.datetime64("2025-01-01")
DAYS = 365
ADMISSIONS = ("emergency", "planned", "maternity", "birth")
LEFT = ("home", "transferred", "care", "died")
DIED = LEFT.index("died")
DIAGNOSES = tuple(code for chapter in CHAPTERS for code, *_ in BLOCKS[chapter.code])
_FIRST = np.cumsum([0, *(len(BLOCKS[chapter.code]) for chapter in CHAPTERS)])[:-1]
_WIDEST = max(len(blocks) for blocks in BLOCKS.values())
_NEAR, _FAR = 0.8, 0.05  # shares of stays in the nearest hospital, and anywhere in the nation
_COST_OF_A_CASE, _COST_OF_A_NIGHT = 900, 620


def _block_weights(sex: str) -> list[list[float]]:
    rows = []
    for chapter in CHAPTERS:
        weights = [weight * (only in {"", sex}) for *_, weight, only in BLOCKS[chapter.code]]
        rows.append([*(weights if any(weights) else [1.0] * len(weights)), *[0.0] * (_WIDEST - len(weights))])
    return rows


_block = Choice(_block_weights("M") + _block_weights("F"), bits=12)
_often = numbers_of_visits(3.2, 3.0, 2.9, 2.75, 2.6)  # by age: the sick stay longer and come less often
_left = Choice([[96, 2, 1, 1], [90, 5, 3, 2], [70, 9, 14, 7]])  # under 60, under 80, older
_MONTH_STARTS = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def hospital_blocks(rng: np.random.Generator, geography: Geography) -> Iterator[Blocks]:
    """Yield blocks of stays: whole patients, the stays of each one after the other, numbered from 1 on."""
    districts = tuple(geography.codes("district"))
    reach = district_reach(geography)
    where = hospital_districts(geography)
    codes = hospital_codes(geography)
    emergency = np.array([1 - 0.9 * chapter.day_case for chapter in CHAPTERS])
    patients = stays = 0
    while True:
        age, female, district, patient, chapter, month = draw_patients(rng, reach, _often)
        length = _MONTH_STARTS[month + 1] - _MONTH_STARTS[month]
        day = _MONTH_STARTS[month] + (rng.random(len(patient)) * length).astype(np.int64)
        order = np.lexsort((day, patient))
        chapter, day = chapter[order], day[order]
        first = np.diff(patient, prepend=-1) != 0
        nights = _nights(draw_stay(rng, chapter, age[patient]), day, first)
        there = day + nights >= DAYS  # at the end of the year
        block = _FIRST[chapter] + _block.draw(rng, chapter + len(CHAPTERS) * female[patient]).astype(np.int64)
        outcome = _left.draw(rng, np.digitize(age[patient], [60, 80])).astype(np.int64)
        outcome[:-1][~first[1:] & (outcome[:-1] == DIED)] = 0  # not who comes again
        kind = np.where(rng.random(len(patient)) < emergency[chapter], 0, 1)
        kind[chapter == BIRTHS] = ADMISSIONS.index("maternity")
        kind[first & (chapter == NEWBORNS)] = ADMISSIONS.index("birth")
        noise = np.exp(0.35 * rng.standard_normal(len(patient)))
        cost = with_oddities(rng, np.rint((_COST_OF_A_CASE + _COST_OF_A_NIGHT * nights) * noise), 0.01)
        yield (
            {
                "stay_id": np.arange(stays + 1, stays + len(patient) + 1),
                "patient_id": patient + (patients + 1),
                "sex": Coded(female[patient].astype(np.int64), SEXES),
                "born": _birthdays(rng, age, day[first], chapter[first])[patient],
                "district": Coded(district[patient], districts),
                "hospital": Coded(_hospitals(rng, geography, where, district[patient]), codes),
                "admission": Coded(kind, ADMISSIONS),
                "admitted": YEAR + day,
                "discharged": np.where(there, np.datetime64("NaT", "D"), YEAR + day + nights),
                "nights": Holed(nights, there),
                "diagnosis": Coded(block, DIAGNOSES),
                "outcome": Coded(np.where(there, -1, outcome), LEFT),
                "cost": Holed(cost.values, cost.missing | there),
            },
        )
        patients += PATIENTS_PER_BLOCK
        stays += len(patient)


def _nights(drawn: Ints, day: Ints, first: NDArray[np.bool_]) -> Ints:
    """Return the nights of each stay: as drawn, but nobody is admitted again before being discharged."""
    until = np.full(len(day), 10 * DAYS)
    until[:-1] = np.where(first[1:], 10 * DAYS, day[1:])
    return np.minimum(drawn, until - day)


def _birthdays(rng: np.random.Generator, age: Ints, day: Ints, chapter: Ints) -> Days:
    """Return the days of birth of patients who have these ages on the day of the first stay; a few null."""
    since = np.ceil(age * 365.25).astype(np.int64) + rng.integers(0, 364, len(age))
    since[chapter == NEWBORNS] = 0
    born: Days = YEAR + (day - since)
    born[rng.random(len(age)) < 0.002] = np.datetime64("NaT")
    return born


def hospital_districts(geography: Geography) -> Ints:
    """Return the district of each hospital: the largest of every region, and all of more than middle size."""
    share = np.bincount(geography.district_of, geography.share, minlength=geography.districts)
    largest = [
        int(np.flatnonzero(geography.region_of == region)[np.argmax(share[geography.region_of == region])])
        for region in range(geography.regions)
    ]
    return np.unique(np.concatenate([largest, np.flatnonzero(share > np.median(share))])).astype(np.int64)


def hospital_codes(geography: Geography) -> tuple[str, ...]:
    """Return the codes of the hospitals, in the order of their districts."""
    return tuple(f"H{number:03d}" for number in range(1, len(hospital_districts(geography)) + 1))


def _hospitals(rng: np.random.Generator, geography: Geography, where: Ints, home: Ints) -> Ints:
    """Return the hospital of each stay: the nearest mostly, else the region's largest, else any."""
    share = np.bincount(geography.district_of, geography.share, minlength=geography.districts)
    region = geography.region_of[where]
    central = np.array(
        [
            int(np.flatnonzero(region == code)[np.argmax(share[where[region == code]])])
            for code in range(geography.regions)
        ]
    )[geography.region_of]  # (districts,)
    near = central.copy()
    near[where] = np.arange(len(where))
    chance = rng.random(len(home))
    weight: Floats = np.cumsum(share[where]) / share[where].sum()
    hospital = np.where(chance < _NEAR, near[home], central[home])
    far = np.flatnonzero(chance > 1 - _FAR)
    hospital[far] = np.searchsorted(weight[:-1], rng.random(len(far)), side="right")
    return hospital


def hospital_list(geography: Geography) -> list[tuple[str, str, str]]:
    """Return (code, label, parent) of the nation, its regions and their hospitals."""
    rows = [row for row in geography.code_list("district") if row[0][0] in "NR"]
    regions = geography.codes("region")
    for code, district in zip(hospital_codes(geography), hospital_districts(geography).tolist(), strict=True):
        name = f"{geography.district_names[district]} Hospital"
        rows.append((code, name, regions[geography.region_of[district]]))
    return rows


def diagnosis_list() -> list[tuple[str, str, str]]:
    """Return (code, label, parent) of every diagnosis: all, chapters, blocks."""
    rows = [(ALL_CHAPTERS, "All diagnoses", "")]
    rows += [(chapter.code, chapter.name, ALL_CHAPTERS) for chapter in CHAPTERS]
    return rows + [
        (code, name, chapter.code) for chapter in CHAPTERS for code, name, *_ in BLOCKS[chapter.code]
    ]
