"""Impossible cells in a spec: what is wrong gets one line, what is right is said and is part of the digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.summary import summarise
from tests.validations.release_spec.spec_samples import AREAS, SPEC, load, problems_of, write_spec

TODDLERS = 'cells: {age: [0-4], status: [married]}, reason: "the marriage act"'


def with_facts(*facts: str, text: str = SPEC) -> str:
    return text + "impossible:\n" + "".join(f"  - {{{fact}}}\n" for fact in facts)


@pytest.mark.parametrize(
    ("facts", "field", "said"),
    [
        (['cells: {}, reason: "r"'], "cells", "is empty"),
        (['cells: {age: []}, reason: "r"'], "cells.age", "is empty; name at least one value"),
        (['cells: {agee: [0-4]}, reason: "r"'], "cells.agee", "no column `agee`"),
        (['cells: {age: [0-5]}, reason: "r"'], "cells.age[0]", "`0-5` is no value of `age`; did you mean"),
        (['cells: {age: [0-4, 0-4]}, reason: "r"'], "cells.age[1]", "is here twice"),
        (['cells: {area: [N9]}, reason: "r"'], "cells.area[0]", "`N9` is no value of `area`"),
        (['cells: {sex: ["1", "2"]}, reason: "r"'], "cells", "names every value of its columns"),
        (["cells: {age: [0-4]}"], "reason", "is missing"),
        ([f"{TODDLERS}, records: {{sex: '1'}}"], "records.sex", "none of the columns under `cells`"),
        ([f"{TODDLERS}, records: {{status: wed}}"], "records.status", "`wed` is no cell of `status`"),
        ([f"{TODDLERS}, records: {{status: married}}"], "records.status", "one of the impossible values"),
        ([f"{TODDLERS}, records: {{}}"], "records", "is not one `column: code`"),
        (
            ['cells: {area: [N], age: [0-4]}, reason: "r", records: {area: S}'],
            "records.area",
            "`S` is no cell",
        ),
    ],
)
def test_what_is_wrong_gets_one_line(facts: list[str], field: str, said: str, tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, with_facts(*facts))
    assert found.field == f"impossible[0].{field}"
    assert said in str(found)


def test_a_record_may_not_end_where_it_was_said_that_none_is(tmp_path: Path) -> None:
    single = 'cells: {age: [0-4], status: [single], sex: ["1"]}, reason: "r"'
    moved = f"{TODDLERS}, records: {{status: single}}"
    (found,) = problems_of(tmp_path, with_facts(single, moved))
    assert found.field == "impossible[1].records" and "impossible[0]" in found.what
    assert not problems_of(tmp_path, with_facts(moved, single))  # then the second fact sees them
    other = 'cells: {age: [5-17], status: [single]}, reason: "r"'
    assert not problems_of(tmp_path, with_facts(other, moved))


def test_a_column_with_other_codings_is_not_changed(tmp_path: Path) -> None:
    text = SPEC.replace("  sex:", "  years: {from: age, integer: {from: 0, to: 99}}\n  sex:")
    moved = 'cells: {age: [0-4], status: [married]}, reason: "r", records: {age: 5-17}'
    (found,) = problems_of(tmp_path, with_facts(moved, text=text))
    assert found.field == "impossible[0].records.age" and "`years` would still say" in found.what


@pytest.mark.parametrize(("mechanism", "fits"), [("identity", True), ("kd_tree", False), ("boost", False)])
def test_mechanisms_that_look_at_whole_tables_are_refused(mechanism: str, fits: bool, tmp_path: Path) -> None:
    text = SPEC.replace("dimensions: [sex, status]", f"dimensions: [sex, status]\n    mechanism: {mechanism}")
    found = problems_of(tmp_path, with_facts('cells: {sex: ["1"], status: [other]}, reason: "r"', text=text))
    assert [each.field for each in found] == ([] if fits else ["tables[1].mechanism"])
    assert not problems_of(tmp_path, with_facts(TODDLERS, text=text))  # it is not in that table


def test_a_table_of_nothing_is_refused(tmp_path: Path) -> None:
    facts = [f'cells: {{sex: ["{sex}"], status: [single, married, other]}}, reason: "r"' for sex in "12"]
    (found,) = problems_of(tmp_path, with_facts(*facts))
    assert found.field == "tables[1].dimensions" and "every cell" in found.what


@pytest.mark.parametrize(("level", "wrong"), [("place", 1), ("region", 0)])
def test_an_invariant_above_zero_there_is_refused(level: str, wrong: int, tmp_path: Path) -> None:
    axes = {"place": ("N1", "N2", "S1"), "region": ("N", "S")}[level]
    rows = "".join(f"{area},{sex},7\n" for area in axes for sex in "12")
    known = (
        "invariants:\n  - {name: known, dimensions: [area, sex], values: known.csv, "
        f'level: {level}, reason: "the registry"}}\n'
    )
    text = with_facts('cells: {area: [N1], sex: ["2"]}, reason: "r"', text=SPEC + known)
    path = write_spec(tmp_path, text, {"areas.csv": AREAS, "known.csv": f"area,sex,count\n{rows}"})
    from tabularium.validations.release_spec.load import examine

    found = [str(each) for each in examine(path).problems]
    assert len(found) == wrong
    assert all("invariants[0]: holds 1 cell above zero that `impossible` says is empty" in e for e in found)


def test_what_is_impossible_is_said_and_part_of_the_digest(tmp_path: Path) -> None:
    plain = load(tmp_path / "plain")
    nowhere = f"{TODDLERS}, records: {{status: other}}"
    made = load_spec(
        write_spec(tmp_path / "some", with_facts('cells: {area: [S], age: [0-4]}, reason: "r"', nowhere))
    )
    assert plain.digest != made.digest
    summary = summarise(made)
    assert [level.cells for level in summary.tables[0].levels] == [8, 14, 22]
    assert "4 of the 48 cells of table area_age are impossible: they are zero, and not measured" in (
        summary.advice
    )
    assert (
        "no table shows age 0-4 with status married, and records that say so are counted under status other "
        "all the same"
    ) in summary.advice
