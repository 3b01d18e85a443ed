"""Histograms in specs: names, shares, parameters, and what `check` says of them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import load_spec, spec_digest
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.summary import check
from tests.validations.release_spec.spec_samples import SPEC, problems_of, write_spec


def with_histograms(*lines: str) -> str:
    return SPEC + "histograms:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


GOOD = 'name: sizes, of: household_id, share: "1/4"'


@pytest.mark.parametrize(
    ("lines", "field", "what", "hint"),
    [
        ([GOOD.replace("sizes", "sex_status")], "histograms[0].name", "table 2 has this name", "own name"),
        ([GOOD, GOOD], "histograms[1].name", "histogram 1 has this name", "own name"),
        ([GOOD.replace("1/4", "1")], "histograms[0].share", "nothing for the tables", "less than 1"),
        (
            [GOOD.replace("1/4", "1/2"), 'name: more, of: x, share: "1/2"'],
            "histograms[1].share",
            "add to 1,",
            "less than 1",
        ),
        ([f"{GOOD}, parameters: {{form: counts}}"], "histograms[0].parameters.form", "no parameter", ""),
        ([f"{GOOD}, parameters: {{tide: true}}"], "histograms[0].parameters.tide", "no parameter", "`tied`?"),
        (
            [f"{GOOD}, parameters: {{tied: 1}}"],
            "histograms[0].parameters.tied",
            "must be true or false",
            "use true",
        ),
        (["name: sizes, of: household_id"], "histograms[0].share", "missing", ""),
        ([f"{GOOD}, mechanism: identity"], "histograms[0].mechanism", "", ""),
    ],
)
def test_mistakes(tmp_path: Path, lines: list[str], field: str, what: str, hint: str) -> None:
    (problem,) = problems_of(tmp_path, with_histograms(*lines))
    assert problem.field == field
    assert what in problem.what
    assert hint in problem.hint
    assert problem.line is not None


def test_what_they_leave_is_the_tables(tmp_path: Path) -> None:
    text = with_histograms(GOOD, 'name: others, of: place_id, share: "1/4"')
    loaded = load_spec(write_spec(tmp_path, text))
    spec = loaded.spec
    assert spec.table_budget == spec.privacy.record_budget / 2
    summary = check(tmp_path / "release.yaml").summary or check(loaded.path).summary
    assert summary is not None
    tables = sum((level.loss for table in summary.tables for level in table.levels), Fraction())
    assert tables + sum(each.loss for each in summary.histograms) == spec.privacy.record_budget
    assert [each.of for each in summary.histograms] == ["household_id", "place_id"]
    assert summary.as_json()["histograms"][0]["share"] == "1/4"


def test_they_are_part_of_what_names_a_release(tmp_path: Path) -> None:
    plain = load_spec(write_spec(tmp_path / "a", SPEC))
    more = load_spec(write_spec(tmp_path / "b", with_histograms(GOOD)))
    assert plain.digest != more.digest
    assert plain.digest == spec_digest(
        plain.spec.model_copy(update={"histograms": ()}), plain.public_files
    )  # a spec without histograms has the name that it had before there were any
    read_back = ReleaseSpec.model_validate({**more.published_spec, "source": {"path": "x.csv"}})
    assert read_back.histograms == more.spec.histograms
