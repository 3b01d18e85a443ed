"""Specs to break: a good one, and ways to write it to a folder."""

from __future__ import annotations

import re
from pathlib import Path

from tabularium.validations.release_spec.load import Loaded, examine, load_spec
from tabularium.validations.release_spec.problems import Problem

AREAS = (
    "code,label,parent\n0,Country,\nN,North,0\nS,South,0\nN1,Northport,N\nN2,Northfield,N\nS1,Southbridge,S\n"
)

SPEC = """\
product: persons
dataset: census
period: "2026"
source: {path: nowhere/persons.csv, nulls: [""], max_rejected: "1%"}
privacy: {unit: record, relation: add-remove, budget: "1"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, region, place]}
  age: {integer: {from: 0, to: 99, edges: [5, 18, 65]}}
  sex: {categories: {"1": male, "2": female}}
  status: {categories: [single, married, other], nulls: other, other: other}
tables:
  - name: area_age
    dimensions: [area, age, sex]
    share: "2/3"
    levels: {nation: "1/6", region: "1/3", place: "1/2"}
  - name: sex_status
    dimensions: [sex, status]
    share: "1/3"
rules:
  - {rule: row_count, min: 10, change_from_last: "20%"}
  - {rule: nulls, column: status, at_most: "5%"}
"""


def write_spec(folder: Path, text: str = SPEC, lists: dict[str, str] | None = None) -> Path:
    """Write a spec and its code lists to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (lists if lists is not None else {"areas.csv": AREAS}).items():
        (folder / name).write_text(content, encoding="utf-8")
    path = folder / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def changed(old: str, new: str, text: str = SPEC) -> str:
    """Replace ``old``, which stands once in ``text``."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def block(key: str, new: str, text: str = SPEC) -> str:
    """Replace the top-level block of ``key`` by ``new``, or append it."""
    pattern = re.compile(rf"^{key}:.*\n(?:[ #].*\n|\n)*", re.MULTILINE)
    new = new if new.endswith("\n") or not new else f"{new}\n"
    return pattern.sub(lambda _: new, text, count=1) if pattern.search(text) else text + new


def problems_of(folder: Path, text: str, lists: dict[str, str] | None = None) -> tuple[Problem, ...]:
    """Return everything that is wrong with a spec."""
    return examine(write_spec(folder, text, lists)).problems


TINY = """\
product: p
dataset: d
period: 2026
source: {path: p.csv}
privacy: {unit: record, budget: 1}
columns: {a: {categories: [x, y]}}
tables: [{name: t, dimensions: [a]}]
"""


def load(folder: Path, text: str = SPEC, lists: dict[str, str] | None = None) -> Loaded:
    return load_spec(write_spec(folder, text, lists))
