"""``per``: which dimension it may be, what then measures the counts, and that other specs stay as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.summary import check
from tests.validations.release_spec.spec_samples import SPEC, changed, problems_of, write_spec


def table(words: str, name: str = "area_age", text: str = SPEC) -> str:
    return changed(f"name: {name}", f"name: {name}\n    {words}", text)


@pytest.mark.parametrize(
    ("text", "field", "what", "hint"),
    [
        (table("mechanism: denoise\n    per: region"), "tables[0].per", "not a dimension", "`area`"),
        (table("mechanism: denoise\n    per: [area]"), "tables[0].per", "", ""),
        (
            changed("dimensions: [sex, status]", "dimensions: [sex]\n    mechanism: ahp\n    per: sex"),
            *("tables[1].per", "one cell only", "another dimension"),
        ),
        (
            table("mechanism: denoise\n    parameters: {categorical: [2]}\n    per: area"),
            *("tables[0].parameters.categorical", "2 dimensions", "number the axes"),
        ),
        (
            table('mechanism: boost\n    margin_share: "1/20"\n    per: age'),
            *("tables[0].margin_share", "error of boost is known exactly", "remove"),
        ),
        (table("mechanism: privhist\n    per: age"), "tables[0].mechanism", "which cells have it", ""),
    ],
)
def test_mistakes(tmp_path: Path, text: str, field: str, what: str, hint: str) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert problem.field == field
    assert what in problem.what and hint in problem.hint


@pytest.mark.parametrize(("per", "axis"), [("area", 0), ("age", 1), ("sex", 2)])
def test_the_counts_are_measured_by_one_mechanism_per_region(tmp_path: Path, per: str, axis: int) -> None:
    """The nodes of the hierarchy come first, as the cells are counted."""
    words = f"mechanism: denoise\n    parameters: {{sign: cut}}\n    per: {per}"
    loaded = load_spec(write_spec(tmp_path, table(words)))
    counts = loaded.spec.arrays[0]
    assert counts.mechanism == "per_region"
    assert counts.parameters == {
        "mechanism": "denoise",
        "parameters_of_each": {"sign": "cut"},
        "axis": axis,
    }
    assert loaded.spec.tables[0].mechanism == "denoise", "as it is written, and published"
    assert ReleaseSpec.model_validate(loaded.published_spec).arrays[0].parameters == counts.parameters
    summary = check(write_spec(tmp_path, table(words))).summary
    assert summary is not None and summary.tables[0].mechanism == f"denoise per {per}"


def test_noise_on_every_cell_is_the_same_per_region(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path, table("per: area")))
    assert loaded.spec.arrays[0].mechanism == "identity"


def test_measures_keep_their_own_mechanisms(tmp_path: Path) -> None:
    words = "mechanism: denoise\n    per: area\n    measures: {age_sum: {sum: age, from: 0, to: 99}}"
    counts, own, _ = load_spec(write_spec(tmp_path, table(words))).spec.arrays
    assert (counts.mechanism, own.mechanism) == ("per_region", "bounded_sums")
    assert counts.share + own.share == load_spec(write_spec(tmp_path, table(words))).spec.tables[0].share


def test_a_spec_without_it_is_the_same_release_as_before(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path))
    assert "per" not in str(loaded.published_spec["tables"]).replace("person", "")
    other = load_spec(write_spec(tmp_path, table("per: area")))
    assert loaded.digest != other.digest


def test_the_error_must_be_bought_where_the_mechanism_cannot_tell_it(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path, table("mechanism: sreb_gca\n    per: area")))
    assert loaded.spec.tables[0].margin_share is not None
    loaded = load_spec(write_spec(tmp_path, table("mechanism: denoise\n    per: area")))
    assert loaded.spec.tables[0].margin_share is None
