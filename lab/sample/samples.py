"""Samples of each kind: a file of synthetic microdata, its code lists, and a release spec that fits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from tabularium.lab.sample.blocks import (
    LEVELS,
    MOST_MESHBLOCKS,
    Block,
    Blocks,
    Geography,
    default_meshblocks,
    draw_geography,
    first_rows,
    split_ending,
    write_code_list,
    write_rows,
)
from tabularium.lab.sample.hospital import (
    ALL_CHAPTERS,
    CHAPTERS,
    LONGEST_STAY,
    MONTHS,
    diagnosis_list,
    health_blocks,
    hospital_blocks,
    hospital_list,
)
from tabularium.lab.sample.households import (
    OLDEST,
    SEX_LABELS,
    SEXES,
    STATUS_LABELS,
    STATUSES,
    census_blocks,
)
from tabularium.lab.sample.population import industry_list, occupation_list, population_blocks, survey_blocks
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.written_aside import written_aside

Kind = Literal["census", "health", "households", "labour", "hospital"]
CodeRows = list[tuple[str, str, str]]
AGE_BANDS = list(range(5, 90, 5))
PERIOD = "2025"
EXAMPLES = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class SampleKind:
    """How the rows of a kind are drawn, and what is written with them.

    ``code_lists`` are by name; ``others`` names files next to the first one. ``example`` is the spec under
    ``examples`` that a sample comes with; without one, it is ``spec`` of product, data and code lists.
    """

    blocks: Callable[[np.random.Generator, Geography], Iterator[Blocks]]
    code_lists: dict[str, Callable[[Geography], CodeRows]]
    others: tuple[str, ...] = ()
    example: str = ""
    spec: Callable[[str, str, dict[str, str]], str] | None = None


def release_spec(kind: Kind, stem: str, ending: str) -> str:
    """Return the YAML of a release spec for a data file ``stem + ending``.

    Product, ledger account and code lists take their names from the stem.
    """
    product = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63].strip("-") or f"sample-{kind}"
    made = KINDS[kind]
    if made.spec is not None:
        lists = {name: json.dumps(f"{stem}-{name}.csv") for name in made.code_lists}
        return made.spec(product, json.dumps(stem + ending, ensure_ascii=False), lists)
    text = (EXAMPLES / f"{made.example}.yaml").read_text(encoding="utf-8")

    def file(match: re.Match[str]) -> str:
        name = f"{stem}{match[1] or ''}{ending if match[2] == '.parquet' else match[2]}"
        plain = re.fullmatch(r"[A-Za-z][\w.-]*", name, re.ASCII)
        return name if plain else json.dumps(name, ensure_ascii=False)

    text = re.sub(rf"\b{made.example}(-[a-z]+)?(\.parquet|\.csv|\.yaml)\b", file, text)
    return re.sub(rf"((?:product:|dataset:|ledger open) ){made.example}\b", rf"\g<1>{product}", text)


def _single_file(
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
    "census": SampleKind(_single_file(census_blocks), {"areas": _areas("meshblock")}, spec=_census),
    "health": SampleKind(
        _single_file(health_blocks), {"areas": _areas("district"), "chapters": _chapters}, spec=_health
    ),
    "households": SampleKind(population_blocks, _WORK, others=("households",), example="census"),
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


@dataclass(frozen=True)
class SampleFiles:
    """What was written: the microdata, each code list by name, the release spec, other files."""

    data: Path
    code_lists: dict[str, Path]
    spec: Path
    others: dict[str, Path] = field(default_factory=dict)


def write_sample(
    kind: Kind,
    rows: int,
    out: Path,
    *,
    seed: int = 1,
    meshblocks: int | None = None,
    progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> SampleFiles:
    """Write synthetic microdata of any size, without holding more than a block of it.

    Parameters
    ----------
    kind
        ``"census"``: persons in households. ``"health"``: hospital visits, several per patient.
        ``"households"``: persons with work and income, and their households in a second file. ``"labour"``: a
        labour force survey with weights. ``"hospital"``: hospital stays with dates and diagnoses.
    rows
        Number of records, exactly; of persons, for ``"households"``.
    out
        File to write; ``.parquet``, ``.csv`` or ``.csv.gz``. With it come the code lists, such as
        ``<stem>-areas.csv``, the spec ``<stem>.yaml``, and for households ``<stem>-households`` with the
        same ending.
    seed
        The same seed and number of meshblocks give the same records, in every format; a shorter sample is
        the beginning of a longer one.
    meshblocks
        Number of smallest areas; by default one for every hundred rows, between 40 and 100 000. The
        others know districts only, whose number grows with the square root.
    progress
        Called from time to time with the number of rows written so far.

    Raises
    ------
    InputError
        If an argument is out of range, a file exists, or the folder cannot be written to.
    """
    _check(kind, rows, seed, meshblocks)
    out = Path(out)
    stem, ending = split_ending(out)
    made = KINDS[kind]
    files = SampleFiles(
        out,
        {name: out.with_name(f"{stem}-{name}.csv") for name in made.code_lists},
        out.with_name(f"{stem}.yaml"),
        {name: out.with_name(f"{stem}-{name}{ending}") for name in made.others},
    )
    targets = [*files.code_lists.values(), files.data, *files.others.values(), files.spec]
    with written_aside(targets, overwrite=overwrite) as aside:
        list_files, (*data_files, spec_file) = aside[: len(made.code_lists)], aside[len(made.code_lists) :]
        for_places, for_records = generator(seed).spawn(2)
        geography = draw_geography(for_places, meshblocks or default_meshblocks(rows))
        for path, codes in zip(list_files, made.code_lists.values(), strict=True):
            write_code_list(path, codes(geography))
        blocks = made.blocks(for_records, geography)
        write_rows(data_files, ending, first_rows(blocks, rows), progress or _silent)
        spec_file.write_text(release_spec(kind, stem, ending), encoding="utf-8")
    return files


def _check(kind: str, rows: int, seed: int, meshblocks: int | None) -> None:
    if kind not in KINDS:
        raise InputError(
            "there is no such kind of sample", where="kind", hint=f"choose one of {', '.join(KINDS)}"
        )
    if not _is_integer(rows) or rows < 1:
        raise InputError("the number of rows is not positive", where="rows", hint="ask for at least 1")
    if not _is_integer(seed) or seed < 0:
        raise InputError("the seed is not a whole number from 0", where="seed", hint="choose 0, 1, 2, ...")
    if meshblocks is not None and not (_is_integer(meshblocks) and 1 <= meshblocks <= MOST_MESHBLOCKS):
        raise InputError(
            "the number of meshblocks is out of range",
            where="meshblocks",
            hint=f"choose 1 to {MOST_MESHBLOCKS}",
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _silent(rows: int) -> None:
    """Report nothing."""
