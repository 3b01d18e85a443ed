"""Invariants in specs: their files, the cells they must have, and what contradicts what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import load_spec, spec_digest
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.summary import check
from tests.validations.release_spec.spec_samples import AREAS, SPEC, block, problems_of, write_spec

TOTAL = 'name: people, count: 10, reason: "registry"'
SEX = 'name: by_sex, dimensions: [sex], values: sex.csv, reason: "registry"'
REGION = 'name: by_region, dimensions: [sex, area], level: region, values: region.csv, reason: "registry"'
LISTS = {
    "areas.csv": AREAS,
    "sex.csv": "count,sex\n4,1\n6,2\n",
    "region.csv": "area,sex,count\nN,1,1\nS,1,3\nN,2,2\nS,2,4\n",
}


def spec(*lines: str) -> str:
    return SPEC + "invariants:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


def test_the_numbers_are_read_in_the_order_of_the_cells(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path, spec(TOTAL, SEX, REGION), LISTS))
    total, sex, region = loaded.known
    assert (total.along, total.flat, total.values.tolist()) == (None, (), [[10]])
    assert (sex.along, sex.flat, sex.values.tolist()) == (None, ("sex",), [[4, 6]])
    assert (region.along, region.level, region.flat) == ("area", "region", ("sex",))
    assert region.nodes is not None
    assert region.nodes.tolist() == [1, 2]
    assert region.values.tolist() == [[1, 2], [3, 4]]
    assert set(loaded.public_files) == set(LISTS)
    assert ReleaseSpec.model_validate(loaded.published_spec).invariants[1].values == "sex.csv"


def test_they_name_the_release_and_check_says_that_they_are_not_protected(tmp_path: Path) -> None:
    plain = load_spec(write_spec(tmp_path, SPEC, LISTS))
    known = load_spec(write_spec(tmp_path, spec(SEX), LISTS))
    other = load_spec(write_spec(tmp_path, spec(SEX), {**LISTS, "sex.csv": "count,sex\n5,1\n6,2\n"}))
    assert len({plain.digest, known.digest, other.digest}) == 3
    assert spec_digest(plain.spec, {"areas.csv": "x"}) == spec_digest(plain.spec, {"areas.csv": "x"})
    summary = check(write_spec(tmp_path, spec(TOTAL, SEX), LISTS)).summary
    assert summary is not None
    assert summary.as_json()["invariants"] == {"people": 1, "by_sex": 2}
    assert [fact.name for fact in summary.exact if fact.kind == "invariant"] == ["people", "by_sex"]


@pytest.mark.parametrize(
    ("lines", "field", "what"),
    [
        (["name: people, count: 10"], "invariants[0].reason", "missing"),
        ([TOTAL.replace("people", "area_age")], "invariants[0].name", "table 1 has this name too"),
        ([TOTAL, TOTAL], "invariants[1].name", "invariant 1 has this name too"),
        (['name: a, reason: "r"'], "invariants[0]", "needs `values` or `count`"),
        ([f"{TOTAL}, values: sex.csv"], "invariants[0]", "has both `values` and `count`"),
        ([f"{TOTAL}, dimensions: [sex]"], "invariants[0].count", "one number for several"),
        ([TOTAL.replace("10", "-1")], "invariants[0].count", "must be 0 or more"),
        ([TOTAL.replace("10", "1099511627777")], "invariants[0].count", "above 2^40"),
        (['name: a, values: sex.csv, reason: "r"'], "invariants[0].values", "one number"),
        ([SEX.replace("[sex]", "[sex, sex]")], "invariants[0].dimensions[1]", "twice"),
        ([SEX.replace("[sex]", "[gender]")], "invariants[0].dimensions[0]", "no column"),
        ([SEX.replace("[sex]", "[area, status]")], "invariants[0].dimensions", "no table has all"),
        ([f"{SEX}, level: region"], "invariants[0].level", "no level"),
        ([REGION.replace("region,", "county,")], "invariants[0].level", "no level"),
        ([SEX, TOTAL.replace("10", "11")], "invariants[1]", "contradicts the invariant `by_sex`"),
    ],
)
def test_mistakes_in_the_spec(tmp_path: Path, lines: list[str], field: str, what: str) -> None:
    problems = problems_of(tmp_path, spec(*lines), LISTS)
    assert [problem.field for problem in problems if what in problem.what] == [field], problems


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("count,sex\n4,1\n", None, "1 cell has no row, first `2`"),
        ("count,sex\n4,1\n6,2\n6,2\n", 4, "is here twice"),
        ("count,sex\n4,1\n6,3\n", 3, "`3` is not one of the codes"),
        ("count,sex\n4,1\n6.5,2\n", 3, "not a whole number"),
        ("count,sex\n4,1\n-6,2\n", 3, "not a whole number"),
        ("count,sex\n4,1\n1099511627777,2\n", 3, "not a whole number"),
        ("count,sex\n4,1\n" + "9" * 5000 + ",2\n", 3, "not a whole number"),
        ("number,sex\n4,1\n6,2\n", 1, "the header does not fit"),
        ("count,sex\n4,1,1\n6,2\n", 2, "does not have 2 values"),
        ('count,sex\n"4,1\n6,2\n', 3, "not CSV"),
        ("", 1, "the header does not fit"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, line: int | None, what: str) -> None:
    problems = problems_of(tmp_path, spec(SEX), {**LISTS, "sex.csv": text})
    assert problems
    assert what in problems[0].what
    assert (problems[0].file, problems[0].line) == ("sex.csv", line)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (problem,) = problems_of(tmp_path, spec(SEX.replace("sex.csv", "pipe.csv")), LISTS)
    assert "a folder or a device" in problem.what


def test_a_hierarchy_is_compared_with_its_leaves(tmp_path: Path) -> None:
    """One invariant has the area at a level, the other, of a table along something else, at its leaves."""
    text = block(
        "tables",
        "tables:\n  - {name: one, dimensions: [area, sex]}\n"
        "  - {name: other, dimensions: [work, area], along: work}\n",
        spec(
            'name: regions, dimensions: [area, sex], level: region, values: region.csv, reason: "r"',
            'name: places, dimensions: [work, area], level: all, values: work-area.csv, reason: "r"',
        ),
    ).replace("  age:", "  work: {hierarchy: work.csv, levels: [all, kind]}\n  age:")
    lists = {**LISTS, "work.csv": "code,label,parent\n0,All,\n1,One,0\n2,Two,0\n"}
    good = "work,area,count\n0,N1,1\n0,N2,2\n0,S1,7\n"
    assert not problems_of(tmp_path, text, {**lists, "work-area.csv": good})
    wrong = good.replace("7", "6").replace("N2,2", "N2,3")
    (problem,) = problems_of(tmp_path, text, {**lists, "work-area.csv": wrong})
    assert "contradicts the invariant `regions`" in problem.what


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, spec(SEX), {"areas.csv": AREAS})
    assert "no such file" in problem.what


def test_levels_are_compared_at_the_one_nearer_to_the_root(tmp_path: Path) -> None:
    places = 'name: by_place, dimensions: [area], values: place.csv, reason: "registry"'
    text = "area,count\nN1,1\nN2,2\nS1,7\n"
    assert not problems_of(tmp_path, spec(REGION, places), {**LISTS, "place.csv": text})
    wrong = text.replace("7", "8").replace("N2,2", "N2,1")  # the same total, other regions
    (problem,) = problems_of(tmp_path, spec(REGION, places), {**LISTS, "place.csv": wrong})
    assert "contradicts the invariant `by_region`" in problem.what


def test_without_consistency_there_is_nothing_that_would_keep_them(tmp_path: Path) -> None:
    off = "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
    (problem,) = problems_of(tmp_path, block("postprocessing", off, spec(TOTAL)), LISTS)
    assert (problem.field, "consistency is off" in problem.what) == ("invariants", True)
