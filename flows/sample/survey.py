"""A labour force survey: the persons of sampled households, with weights, work, hours and pay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tabularium.flows.sample.census import SEXES
from tabularium.flows.sample.columns import Blocks, Coded, Holed
from tabularium.flows.sample.geography import Geography
from tabularium.flows.sample.jobs import INDUSTRIES, OCCUPATIONS
from tabularium.flows.sample.people import ADULT, STATUSES
from tabularium.flows.sample.population import WORKS, draw_places, draw_population, spread, with_oddities
from tabularium.flows.sample.quantile_tables import Choice, Ints

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
