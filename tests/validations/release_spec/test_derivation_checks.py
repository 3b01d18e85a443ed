"""Columns made from columns in a spec: what is wrong gets one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.summary import summarise
from tests.validations.release_spec.spec_samples import load, problems_of

SPEC = """\
product: persons
dataset: census
period: "2026"
source: {{path: persons.csv, nulls: ["", "9"]}}
privacy: {{unit: record, budget: "1"}}
columns:
  age: {{from: AGEP, integer: {{from: 0, to: 99}}}}
  fives: {{from: AGEP, integer: {{from: 0, to: 99, width: 5}}}}
  sevens: {{from: AGEP, integer: {{from: 0, to: 99, width: 7}}}}
  kind: {{cases: [{{when: age < 5, then: a}}], else: b, categories: [a, b]}}
  other: {{{other}}}
tables:
  - {{name: t, dimensions: [age, other]}}
  - {{name: u, dimensions: [fives, kind]}}
"""
AB = "categories: [a, b]"


@pytest.mark.parametrize(
    ("other", "field", "said"),
    [
        (f"map: {{x: a, y: c}}, {AB}", "map.y", "`c` is not one of the codes; codes: `a` and `b`"),
        (f"map: {{}}, {AB}", "map", "is empty"),
        (f'map: {{"9": a}}, {AB}', "map.9", "`9` is null in the source, so nobody can have it"),
        ("map: {x: three}, integer: {from: 0, to: 9}", "map.x", "`three` is no number of the range"),
        ('map: {x: "10"}, integer: {from: 0, to: 9}', "map.x", "`10` is no number of the range"),
        (f"map: {{x: a}}, date: {{part: year}}, {AB}", "", "is made by `map` and `date`; keep one"),
        (f"else: a, {AB}", "else", "there are no cases"),
        ("date: {part: age}, integer: {from: 0, to: 9}", "date", "`at` is missing; write the date"),
        (
            'date: {part: age, at: "2026-02-30"}, integer: {from: 0, to: 9}',
            "date.at",
            "`2026-02-30` is no date",
        ),
        (
            'date: {part: year, at: "2026-02-03"}, integer: {from: 0, to: 9}',
            "date.at",
            "only an age is at a date",
        ),
        (
            "date: {part: year, zone: Europe/Roma}, integer: {from: 0, to: 9}",
            *("date.zone", "there is no time zone `Europe/Roma`; did you mean `Europe/Rome`?"),
        ),
        (
            "date: {part: year, zone: localtime}, integer: {from: 0, to: 9}",
            *("date.zone", "there is no time zone `localtime`"),
        ),
        (
            "date: {part: year}, integer: {from: 0, to: 9, edges: [0.5]}",
            *("integer", "a part of a date is a whole number"),
        ),
        ('map: {x: "1.25"}, integer: {from: 0, to: 9, edges: [0.5]}', "map.x", "`1.25` is no number"),
        ("date: {part: week}, integer: {from: 0, to: 9}", "date.part", "`week` is not one of the choices"),
        (
            'date: {part: age, at: "20260203"}, integer: {from: 0, to: 9}',
            *("date.at", "`20260203` is no date; write it as"),
        ),
        (
            'date: {part: month}, categories: ["01", "12", "?"], nulls: other, other: "?"',
            *("categories", "`01` is never made; write `1`"),
        ),
        (
            'date: {part: quarter}, categories: ["1", Q2]',
            *("categories", "`Q2` is never made: of a quarter there are 1 to 4; remove"),
        ),
        (
            'date: {part: year}, categories: ["2025", now]',
            "categories",
            "`now` is never made: it is no whole",
        ),
        (
            "date: {part: iso_week}, integer: {from: 1, to: 54}",
            *("integer.to", "54 is never made: of a iso_week there are 1 to 53; write 53"),
        ),
        (f"cases: [], {AB}", "cases", "is empty"),
        (
            f"from: x, cases: [{{when: age < 5, then: a}}], {AB}",
            "from",
            "cases are made from declared columns",
        ),
        (f"cases: [{{when: age < 5, then: c}}], {AB}", "cases[0].then", "`c` is not one of the codes"),
        (f"cases: [{{when: age < 5, then: a}}], else: c, {AB}", "else", "`c` is not one of the codes"),
        (
            f"cases: [{{when: ag < 5, then: a}}], {AB}",
            "cases[0].when",
            "there is no attribute `ag`; did you mean",
        ),
        (f"cases: [{{when: kind = a, then: a}}], {AB}", "cases[0].when", "`kind` is made by cases itself"),
        (f"cases: [{{when: fives < 7, then: a}}], {AB}", "cases[0].when", "`7` lies inside the bin `5-9`"),
        (f"cases: [{{when: age < 0, then: a}}], {AB}", "cases[0].when", "no record can pass these tests"),
        (
            "cases: [{when: age < 5, then: 1}], integer: {from: 0, to: 1}",
            "integer",
            "cases give codes, not numbers",
        ),
    ],
)
def test_what_is_wrong_gets_one_line(other: str, field: str, said: str, tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, SPEC.format(other=other))
    assert found.field == ".".join(filter(None, ("columns.other", field)))
    assert said in str(found)


def test_check_says_what_agrees(tmp_path: Path) -> None:
    text = SPEC.format(other=AB)
    said = summarise(load(tmp_path / "a", text)).advice
    assert "age, fives are nested codings of AGEP: tables agree on the coarser one" in said
    assert "no table and no rule uses `sevens`" in said, "age is used, by a case too"
    said = summarise(load(tmp_path / "b", text.replace("[age, other]", "[sevens, other]"))).advice
    assert "tables do not agree on sevens, fives, codings of AGEP that are not nested" in said
    said = summarise(load(tmp_path / "d", text.replace("[age, other]", "[age, fives]"))).advice
    assert "tables do not agree on age, fives, codings of AGEP that are crossed in one table" in said
    assert load(tmp_path / "a", text).digest != load(tmp_path / "c", text.replace("AGEP", "AGE")).digest


def test_a_unique_rule_is_about_columns_of_the_source(tmp_path: Path) -> None:
    rules = "rules: [{rule: unique, columns: [person, age]}, {rule: unique, columns: [kind]}]\n"
    found = problems_of(tmp_path, SPEC.format(other=AB) + rules)
    assert [(each.field, each.what, each.hint) for each in found] == [
        ("rules[0].columns", "`age` is made of other columns", "name `AGEP`, which it comes from"),
        ("rules[1].columns", "`kind` is made of other columns", "name columns of the source"),
    ]
