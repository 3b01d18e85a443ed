"""Universes in a spec: what is wrong gets one line, and what is right is said and is part of the digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.summary import summarise
from tests.validations.release_spec.spec_samples import SPEC, changed, load, problems_of

TABLE = "dimensions: [sex, status]"


def with_where(where: str, text: str = SPEC) -> str:
    return changed(TABLE, f"{TABLE}\n    where: '{where}'", text)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("agee >= 18", "character 1: there is no attribute `agee`; did you mean `age`?"),
        (
            "age >= 20",
            "character 8: `20` lies inside the bin `18-64`, which is published as one; write age >= 18",
        ),
        ("age >=", "character 7: the query ends too early; write what `age` is compared with"),
        ("sex < 2", "character 7: the values of `sex` are not numbers"),
        ("status = wed", "character 10: `status` has no value `wed`"),
        ("age < 5 and age >= 18", "no value of `age` passes its tests; correct them, or remove the table"),
        (
            "(sex = 1 or age < 5) and sex = 2 and age >= 18",
            "no record can pass all these tests together; correct them, or remove the table",
        ),
        ("(age < 5", "character 9: the query ends too early; close the bracket with )"),
        ("area < N", "character 8: the values of `area` have no order"),
    ],
)
def test_what_is_wrong_gets_one_line(where: str, said: str, tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, with_where(where))
    assert found.field == "tables[1].where"
    assert said in str(found)


def test_what_compares_totals_needs_a_table_of_all_records(tmp_path: Path) -> None:
    text = with_where("age < 5").replace(
        "dimensions: [area, age, sex]", "dimensions: [area, sex]\n    where: age < 5"
    )
    (found,) = problems_of(tmp_path, text)
    assert found.field == "rules[0].change_from_last" and "every table has a `where`" in found.what


def test_a_universe_is_part_of_the_digest_and_is_written_out(tmp_path: Path) -> None:
    plain, some = load(tmp_path / "a"), load(tmp_path / "b", with_where("age >= 18 and status != married"))
    assert plain.digest != some.digest
    assert some.published_spec["tables"][1]["where"] == "age >= 18 and status != married"
    assert "where" not in plain.published_spec["tables"][1]
    said = summarise(some).advice
    assert (
        "table sex_status counts only records where age >= 18 and status != married; a null passes no test"
        in said
    )
    assert "table sex_status leaves out the nulls of status, also where it counts its `other`" in said
    assert "table sex_status counts nobody but in 2 of 3 values of status: its other cells are zero" in said
    assert (
        "tables of different universes agree only where one is a union of cells of a table of the other"
        in said
    )
