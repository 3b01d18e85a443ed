"""Hospital stays with dates: patients who come once or again and again, where they lie, and with what.

Chapter of the diagnosis, number of stays and length go with age and sex as for the visits of ``health``; the
block within the chapter, the hospital, the days and the costs are drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.census import SEXES
from tabularium.lab.sample.columns import Blocks, Coded, Days, Holed
from tabularium.lab.sample.diagnosis_blocks import BLOCKS
from tabularium.lab.sample.geography import Geography
from tabularium.lab.sample.health import (
    ALL_CHAPTERS,
    BIRTHS,
    CHAPTERS,
    NEWBORNS,
    PATIENTS_PER_BLOCK,
    district_reach,
    draw_patients,
    draw_stay,
    numbers_of_visits,
)
from tabularium.lab.sample.population import with_oddities
from tabularium.lab.sample.quantile_tables import Choice, Floats, Ints

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
            int(np.flatnonzero(region == each)[np.argmax(share[where[region == each]])])
            for each in range(geography.regions)
        ]
    )[geography.region_of]  # (districts,)
    near = central.copy()
    near[where] = np.arange(len(where))
    chance = rng.random(len(home))
    weight: Floats = np.cumsum(share[where]) / share[where].sum()
    found = np.where(chance < _NEAR, near[home], central[home])
    far = np.flatnonzero(chance > 1 - _FAR)
    found[far] = np.searchsorted(weight[:-1], rng.random(len(far)), side="right")
    return found


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
