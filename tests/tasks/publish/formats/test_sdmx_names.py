"""Names in SDMX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.tasks.publish.formats.sdmx.cubes import (
    RESERVED,
    code_id,
    component_ids,
    original_code,
    time_period,
)
from tests.validations.release_spec.spec_samples import TINY, changed, problems_of


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True))
def test_no_two_codes_become_one_and_each_can_be_read_back(codes: list[str]) -> None:
    names = [code_id(code) for code in codes]
    assert all(re.fullmatch(r"[A-Za-z0-9_@$-]+", name) for name in names)
    assert [original_code(name) for name in names] == codes


def test_codes_by_hand() -> None:
    assert code_id("A1_b-@") == "A1_b-@"
    assert code_id("85+") == "85$2B"
    assert code_id("a$b ü") == "a$24b$20$C3$BC"


@given(st.lists(st.text(min_size=1), unique_by=str.casefold))
def test_components_have_ids_of_their_own(columns: list[str]) -> None:
    found = component_ids(columns)
    assert len(set(found.values())) == len(columns)
    assert not RESERVED & set(found.values())
    assert all(re.fullmatch("[A-Z][A-Z0-9_]*", name) for name in found.values())


def test_components_by_hand() -> None:
    beside = component_ids(["measure_m", "MEASURE_m_margin", "measure_n"], ["m"])
    assert list(beside.values()) == ["MEASURE_M_2", "MEASURE_M_MARGIN_2", "MEASURE_N"]
    columns = ["age", "Age group", "age-group", "2nd", "time_period", "größe"]
    assert component_ids(columns) == dict(
        zip(columns, ["AGE", "AGE_GROUP", "AGE_GROUP_2", "C_2ND", "TIME_PERIOD_2", "GR_SSE"], strict=True)
    )


@pytest.mark.parametrize(
    ("period", "written"),
    [
        ("2026", "2026"),
        ("2026-03", "2026-03"),
        ("2026-03-31", "2026-03-31"),
        ("2026-Q4", "2026-Q4"),
        ("2026-H2", "2026-S2"),
        ("2026-S2", "2026-S2"),
        ("2026-T3", "2026-T3"),
        ("2026-A1", "2026-A1"),
        ("2026-M12", "2026-M12"),
        ("2026-W53", "2026-W53"),
        ("2026-D366", "2026-D366"),
        *((wrong, None) for wrong in ("2026-13", "2026-00", "2026-02-30", "2026-Q5", "2026-H3", "26", "2026Q1")),
        *((wrong, None) for wrong in ("2026-W54", "2026-D000", "2026-D367", "2026-2027", "spring", "2026-03-01T10")),
    ],
)  # fmt: skip
def test_periods(period: str, written: str | None) -> None:
    assert time_period(period) == written


def test_a_period_that_sdmx_cannot_write_is_refused_where_sdmx_is_wanted(tmp_path: Path) -> None:
    odd = changed("period: 2026", "period: census-5", TINY)
    assert problems_of(tmp_path, odd, {}) == ()
    (problem,) = problems_of(tmp_path, odd + "publication: {formats: [csv, sdmx]}\n", {})
    assert (problem.line, problem.field) == (3, "period")
    assert "`census-5` is no period that SDMX can write" in str(problem)
    assert problems_of(tmp_path, TINY + "publication: {formats: [csv, sdmx]}\n", {}) == ()
