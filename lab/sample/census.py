"""Persons in households, block by block, without an end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tabularium.lab.sample.columns import Block, Coded
from tabularium.lab.sample.geography import Geography
from tabularium.lab.sample.households import draw_households
from tabularium.lab.sample.people import STATUSES, draw_income, draw_status

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
        place = np.searchsorted(reach, rng.random(HOUSEHOLDS_PER_BLOCK), side="right")
        people = draw_households(rng, geography.character[place])
        status = draw_status(rng, people)
        income = draw_income(rng, people, status, geography.prosperity[place])
        count = len(people.age)
        yield {
            "person_id": np.arange(persons + 1, persons + count + 1),
            "household_id": people.household + (households + 1),
            "meshblock": Coded(place[people.household], meshblocks),
            "age": people.age,
            "sex": Coded(people.female.astype(np.int64), SEXES),
            "status": Coded(status, STATUSES),
            "income": income,
        }
        persons += count
        households += HOUSEHOLDS_PER_BLOCK
