"""What goes with a sample: its code lists, and a release spec that is ready to run."""

from __future__ import annotations

import json
import re
from typing import Literal

from flows.sample.census import SEX_LABELS, SEXES
from flows.sample.geography import LEVELS, Geography
from flows.sample.health import ALL_CHAPTERS, CHAPTERS, LONGEST_STAY, MONTHS
from flows.sample.households import OLDEST
from flows.sample.people import STATUS_LABELS, STATUSES

Kind = Literal["census", "health"]
KINDS: tuple[Kind, ...] = ("census", "health")
CodeRows = list[tuple[str, str, str]]
AGE_BANDS = list(range(5, 90, 5))
PERIOD = "2025"


def code_lists(kind: Kind, geography: Geography) -> dict[str, CodeRows]:
    """Return the (code, label, parent) rows of each code list that a sample needs, by name."""
    if kind == "census":
        return {"areas": geography.code_list("meshblock")}
    chapters = [(ALL_CHAPTERS, "All chapters", "")]
    chapters += [(chapter.code, chapter.name, ALL_CHAPTERS) for chapter in CHAPTERS]
    return {"areas": geography.code_list("district"), "chapters": chapters}


def release_spec(kind: Kind, stem: str, data: str, lists: dict[str, str]) -> str:
    """Return the YAML of a release spec.

    Parameters
    ----------
    kind
        Of the sample.
    stem
        Of the file; the product and the ledger account take their name from it.
    data
        Name of the data file, in the folder of the spec.
    lists
        File name of each code list, in the folder of the spec.
    """
    product = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63].strip("-") or f"sample-{kind}"
    write = _census if kind == "census" else _health
    return write(product, json.dumps(data, ensure_ascii=False), {k: json.dumps(v) for k, v in lists.items()})


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
