"""The digest of a spec: what changes it, and what the published spec says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import measurement_plan, spec_digest
from tabularium.validations.release_spec.model import ReleaseSpec
from tests.validations.release_spec.spec_samples import AREAS, SPEC, TINY, block, changed, load

SAME = [
    ("where the data lie", SPEC.replace("nowhere/persons.csv", "../elsewhere/2026.csv")),
    ("where releases lie", SPEC + "publication: {folder: out}\n"),
    ("the workspace", SPEC + "workspace: {keep: true}\n"),
    ("comments and blank lines", "# persons\n\n" + SPEC),
    ("a default written out", SPEC.replace("relation: add-remove, ", "").replace('nulls: [""], ', "")),
    ("more defaults", SPEC + "postprocessing: {rounding: true}\npublication: {formats: [csv, parquet]}\n"),
    ("the spelling of fractions", SPEC.replace('budget: "1"', "budget: 1").replace('"1/2"', '"50%"')),
    ("the order of keys", block("columns", "") + SPEC[SPEC.index("columns:") : SPEC.index("tables:")]),
    ("targets, which a run ignores", SPEC + "targets: [{table: sex_status, margin: 50}]\n"),
    (
        "sizes, which a run ignores",
        "size: 600\n" + SPEC.replace("[sex, status]", "[sex, status]\n    size: 99"),
    ),
    ("labels of a plain list", SPEC.replace("[single, married,", "[{code: single, label: single}, married,")),
]


OTHER = [
    ("the product", SPEC.replace("product: persons", "product: people")),
    ("the account", SPEC.replace("dataset: census", "dataset: census2")),
    ("the period", SPEC.replace('"2026"', '"2027"')),
    ("the budget", SPEC.replace('budget: "1"', 'budget: "2"')),
    ("the relation", SPEC.replace("add-remove", "replace")),
    ("the unit", SPEC.replace("unit: record", "unit: {column: id}, max_contributions: 1")),
    ("what is null", SPEC.replace('nulls: [""]', 'nulls: ["", NA]')),
    ("the reject limit", SPEC.replace('"1%"', '"2%"')),
    ("a bin", SPEC.replace("[5, 18, 65]", "[5, 18, 66]")),
    ("a label", SPEC.replace("female", "women")),
    ("the order of categories", SPEC.replace('"1": male, "2": female', '"2": female, "1": male')),
    ("a level's name", SPEC.replace("place", "town")),
    ("a share", SPEC.replace('"2/3"', '"1/2"').replace('share: "1/3"', 'share: "1/2"')),
    ("a dimension", SPEC.replace("[sex, status]", "[status, sex]")),
    ("a rule", SPEC.replace("min: 10", "min: 11")),
    ("post-processing", SPEC + "postprocessing: {rounding: false}\n"),
    ("confidence", SPEC + 'publication: {confidence: "0.95"}\n'),
    ("a review", SPEC + "publication: {review: officer}\n"),
    ("what it was tuned on", SPEC + f"tuning: {{release: r, certificate: {'0d' * 32}}}\n"),
    ("withholding", SPEC + "publication: {measurements: {withhold: because}}\n"),
]


@pytest.mark.parametrize(("what", "text"), SAME, ids=[what for what, _ in SAME])
def test_what_does_not_change_the_digest(tmp_path: Path, what: str, text: str) -> None:
    assert text != SPEC
    assert load(tmp_path, text).digest == load(tmp_path).digest


@pytest.mark.parametrize(("what", "text"), OTHER, ids=[what for what, _ in OTHER])
def test_what_changes_the_digest(tmp_path: Path, what: str, text: str) -> None:
    assert text != SPEC
    assert load(tmp_path, text).digest != load(tmp_path).digest


def test_a_code_list_changes_the_digest_by_its_content_and_not_by_its_folder(tmp_path: Path) -> None:
    here = load(tmp_path / "a").digest
    (tmp_path / "b/lists").mkdir(parents=True)
    moved = SPEC.replace("areas.csv", "lists/areas.csv")
    assert load(tmp_path / "b", moved, {"lists/areas.csv": AREAS}).digest == here
    assert load(tmp_path / "c", SPEC, {"areas.csv": AREAS.replace("Northport", "Port")}).digest != here


def test_what_a_measure_is_called_and_what_is_wanted_can_be_mended_without_measuring_again(
    tmp_path: Path,
) -> None:
    sums = "dimensions: [sex, status]\n    measures: {ages: {sum: age, from: 0, to: 99}}"
    first = load(tmp_path, changed("dimensions: [sex, status]", sums))
    more = f"targets: [{{table: area_age, margin: 50}}]\ntuning: {{release: r, certificate: {'0d' * 32}}}\n"
    mended = sums.replace("99}", '99, title: Sum of ages, unit: "years"}')
    other = load(tmp_path, changed("dimensions: [sex, status]", mended) + more)
    assert other.digest != first.digest
    plans = [measurement_plan(each.spec, each.public_files) for each in (first, other)]
    assert plans[0] == plans[1]


def test_public_figures_can_be_corrected_without_measuring_again(tmp_path: Path) -> None:
    """Their numbers and reason are divided by afterwards; what a rate is over stands with the rate."""
    rate = 'dimensions: [sex, status]\n    measures: {old: {rate: "age > 64", over: all}}'
    text = changed("dimensions: [sex, status]", rate)
    figures = "figures: [{name: all, dimensions: [sex], values: %s, reason: %s}]\n"
    plans = []
    for name, number, reason in (("old.csv", 10, "register"), ("new.csv", 11, "mended")):
        numbers = f"sex,count\n1,{number}\n2,{number}\n"
        made = load(tmp_path / name[:3], text + figures % (name, reason), {"areas.csv": AREAS, name: numbers})
        plans.append((made.digest, measurement_plan(made.spec, made.public_files)))
    assert plans[0][0] != plans[1][0]
    assert plans[0][1] == plans[1][1]
    assert list(plans[0][1]["code_lists"]) == ["areas.csv"]


def test_the_digest_does_not_change_from_version_to_version(tmp_path: Path) -> None:
    """It names releases that were paid for. If this fails, a re-run of an old release would pay again."""
    assert load(tmp_path, TINY).digest == "dcc9a7ba0ed6d662ced0c2dfd81fbdd30a704dea5d85efd9ab19e04cdcfb29a3"
    assert load(tmp_path).digest == "e7b5f0922d8af812fc5ffee2e8baff1f1a17a31a51f14db95777395ec7c48bca"


def test_the_published_spec_says_all_and_nothing_about_this_machine(tmp_path: Path) -> None:
    text = "size: 987654\n" + changed("hierarchy: areas.csv", f"hierarchy: {tmp_path}/areas.csv")
    text = text.replace("[sex, status]", "[sex, status]\n    size: 987655")
    text += (
        "publication: {folder: secret-place, measurements: {withhold: because}}\nworkspace: {keep: true}\n"
    )
    loaded = load(tmp_path, text)
    written = json.dumps(loaded.published_spec, allow_nan=False)
    for place in (str(tmp_path), "nowhere", "persons.csv", "secret-place", "workspace", "null,", "98765"):
        assert place not in written
    assert loaded.published_spec["privacy"] == {
        "unit": "record",
        "max_contributions": 1,
        "relation": "add-remove",
        "definition": "pure",
        "budget": "1",
    }
    assert loaded.published_spec["tables"][0]["levels"] == {"nation": "1/6", "region": "1/3", "place": "1/2"}
    assert loaded.published_spec["source"]["max_rejected"] == "1%"
    assert loaded.published_spec["columns"]["sex"]["categories"][0] == {"code": "1", "label": "male"}
    assert loaded.published_spec["publication"]["measurements"] == {"withhold": "because"}


UNITS = [
    "unit: {column: id}, max_contributions: 1",
    "unit: {entity: home, column: id, population: all}, max_contributions: 2",
    "unit: {entity: home}",
]


@pytest.mark.parametrize("text", [TINY, SPEC, *(SPEC.replace("unit: record", unit) for unit in UNITS)])
def test_a_reviewer_can_recompute_the_digest_from_the_certificate(tmp_path: Path, text: str) -> None:
    loaded = load(tmp_path, text)
    published = json.loads(json.dumps(loaded.published_spec, sort_keys=True))  # as a certificate keeps it
    spec = ReleaseSpec.model_validate(published)
    assert spec_digest(spec, loaded.public_files) == loaded.digest
    assert spec.tables == loaded.spec.tables
    assert spec.rules == loaded.spec.rules
