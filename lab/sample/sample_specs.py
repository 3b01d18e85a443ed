"""Samples of each kind: code lists, a release spec that is ready to run, and the labour force survey."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tabularium.lab.sample.census import SEX_LABELS, SEXES, census_blocks
from tabularium.lab.sample.columns import Block, Blocks, Coded, Holed
from tabularium.lab.sample.geography import LEVELS, Geography
from tabularium.lab.sample.health import ALL_CHAPTERS, CHAPTERS, LONGEST_STAY, MONTHS, health_blocks
from tabularium.lab.sample.hospital import diagnosis_list, hospital_blocks, hospital_list
from tabularium.lab.sample.households import OLDEST
from tabularium.lab.sample.jobs import INDUSTRIES, OCCUPATIONS, industry_list, occupation_list
from tabularium.lab.sample.people import ADULT, STATUS_LABELS, STATUSES
from tabularium.lab.sample.population import (
    WORKS,
    draw_places,
    draw_population,
    population_blocks,
    spread,
    with_oddities,
)
from tabularium.lab.sample.quantile_tables import Choice, Ints

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


Kind = Literal["census", "health", "households", "labour", "hospital"]
CodeRows = list[tuple[str, str, str]]
AGE_BANDS = list(range(5, 90, 5))
PERIOD = "2025"
EXAMPLES = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class SampleKind:
    """How the rows of a kind are drawn, and what is written with them.

    ``code_lists`` are by name; ``beside`` names the files beside the first one. ``example`` is the spec under
    ``examples`` that a sample comes with; without one, it is ``spec`` of product, data and code lists.
    """

    blocks: Callable[[np.random.Generator, Geography], Iterator[Blocks]]
    code_lists: dict[str, Callable[[Geography], CodeRows]]
    beside: tuple[str, ...] = ()
    example: str = ""
    spec: Callable[[str, str, dict[str, str]], str] | None = None


def release_spec(kind: Kind, stem: str, ending: str) -> str:
    """Return the YAML of a release spec.

    Parameters
    ----------
    kind
        Of the sample.
    stem, ending
        Of the data file, in the folder of the spec; the product and the ledger account take their name from
        the stem, as the code lists do.
    """
    product = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63].strip("-") or f"sample-{kind}"
    made = KINDS[kind]
    if made.spec is not None:
        lists = {name: json.dumps(f"{stem}-{name}.csv") for name in made.code_lists}
        return made.spec(product, json.dumps(stem + ending, ensure_ascii=False), lists)
    text = (EXAMPLES / f"{made.example}.yaml").read_text(encoding="utf-8")

    def file(found: re.Match[str]) -> str:
        name = f"{stem}{found[1] or ''}{ending if found[2] == '.parquet' else found[2]}"
        plain = re.fullmatch(r"[A-Za-z][\w.-]*", name, re.ASCII)
        return name if plain else json.dumps(name, ensure_ascii=False)

    text = re.sub(rf"\b{made.example}(-[a-z]+)?(\.parquet|\.csv|\.yaml)\b", file, text)
    return re.sub(rf"((?:product:|dataset:|ledger open) ){made.example}\b", rf"\g<1>{product}", text)


def _alone(
    blocks: Callable[[np.random.Generator, Geography], Iterator[Block]],
) -> Callable[[np.random.Generator, Geography], Iterator[Blocks]]:
    """Return the blocks of a kind that is one file, as those of several are."""
    return lambda rng, geography: ((block,) for block in blocks(rng, geography))


def _areas(lowest: str) -> Callable[[Geography], CodeRows]:
    return lambda geography: geography.code_list(lowest)


def _chapters(_: Geography) -> CodeRows:
    chapters = [(ALL_CHAPTERS, "All chapters", "")]
    return chapters + [(chapter.code, chapter.name, ALL_CHAPTERS) for chapter in CHAPTERS]


def _categories(codes: tuple[str, ...], labels: tuple[str, ...]) -> str:
    return ", ".join(f'"{code}": {label}' for code, label in zip(codes, labels, strict=True))


_TAIL = """\
postprocessing: {consistency: true, nonnegativity: true, rounding: true}
publication:
  formats: [csv, parquet]
  confidence: "0.9"
"""


def _head(what: str, product: str, data: str, unit: str) -> str:
    return f"""\
# {what}
# Open an account once, then publish:
#   tabularium ledger open {product} --cap 10 --unit {unit} --relation add-remove
#   tabularium run THIS_FILE
product: {product}
dataset: {product}        # the ledger account
period: "{PERIOD}"
source: {{path: {data}}}
"""


def _census(product: str, data: str, lists: dict[str, str]) -> str:
    return f"""{_head("Synthetic census: no real person is in it.", product, data, "record")}\
privacy:
  unit: record          # one person is one record
  max_contributions: 1
  relation: add-remove
  budget: "1"
columns:
  meshblock: {{hierarchy: {lists["areas"]}, levels: [{", ".join(LEVELS)}]}}
  age: {{integer: {{from: 0, to: {OLDEST}, edges: {AGE_BANDS}}}}}
  sex: {{categories: {{{_categories(SEXES, SEX_LABELS)}}}}}
  status: {{categories: {{{_categories(STATUSES, STATUS_LABELS)}}}}}
  income: {{integer: {{from: 0, to: 10}}}}   # tenths from lowest to highest; 0: no income
tables:
  - name: age_by_sex
    dimensions: [meshblock, age, sex]
    share: "3/4"
    levels: {{nation: "1/10", region: "1/5", district: "3/10", meshblock: "2/5"}}
  - name: status_by_income
    dimensions: [status, income]
    share: "1/4"
rules:
  - {{rule: row_count, min: 1}}
  - {{rule: range, column: age, min: 0, max: {OLDEST}}}
  - {{rule: unique, columns: [person_id]}}
  - {{rule: nulls, column: income, at_most: "0%"}}
{_TAIL}"""


def _health(product: str, data: str, lists: dict[str, str]) -> str:
    months = ", ".join(f'"{month}"' for month in MONTHS)
    levels = ", ".join(LEVELS[:-1])
    return f"""{_head("Synthetic hospital visits: no real patient is in it.", product, data, "patient")}\
privacy:
  unit: {{entity: patient, column: patient_id}}
  max_contributions: 5  # visits of one patient that count; which ones is left to chance
  relation: add-remove
  budget: "1"
columns:
  district: {{hierarchy: {lists["areas"]}, levels: [{levels}]}}
  chapter: {{hierarchy: {lists["chapters"]}, levels: [all, chapter]}}
  age: {{integer: {{from: 0, to: {OLDEST}, edges: {AGE_BANDS}}}}}
  sex: {{categories: {{{_categories(SEXES, SEX_LABELS)}}}}}
  month: {{categories: [{months}]}}
  stay: {{integer: {{from: 0, to: {LONGEST_STAY}, edges: [1, 2, 4, 8, 15, 31]}}}}   # nights
tables:
  - name: visits_by_place
    dimensions: [district, age, sex]
    share: "1/2"
    levels: {{nation: "1/5", region: "3/10", district: "1/2"}}
  - name: visits_by_chapter
    dimensions: [chapter, age, sex]
    share: "1/4"
    levels: {{all: "1/4", chapter: "3/4"}}
  - name: month_by_stay
    dimensions: [month, stay]
    share: "1/4"
rules:
  - {{rule: row_count, min: 1}}
  - {{rule: range, column: age, min: 0, max: {OLDEST}}}
  - {{rule: unique, columns: [visit_id]}}
  - {{rule: nulls, column: chapter, at_most: "0%"}}
{_TAIL}"""


_WORK: dict[str, Callable[[Geography], CodeRows]] = {
    "areas": _areas("district"),
    "occupations": lambda _: occupation_list(),
    "industries": lambda _: industry_list(),
}
KINDS: dict[Kind, SampleKind] = {
    "census": SampleKind(_alone(census_blocks), {"areas": _areas("meshblock")}, spec=_census),
    "health": SampleKind(
        _alone(health_blocks), {"areas": _areas("district"), "chapters": _chapters}, spec=_health
    ),
    "households": SampleKind(population_blocks, _WORK, beside=("households",), example="census"),
    "labour": SampleKind(survey_blocks, _WORK, example="labour-force"),
    "hospital": SampleKind(
        hospital_blocks,
        {
            "areas": _areas("district"),
            "hospitals": hospital_list,
            "diagnoses": lambda _: diagnosis_list(),
        },
        example="hospital",
    ),
}
