"""The JSON Schema that editors use agrees with the loader."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tabularium.validations.release_spec.json_schema import json_schema, schema_text
from tabularium.validations.release_spec.model import SpecFile
from tests.validations.release_spec.spec_samples import SPEC, block, changed
from tests.validations.release_spec.test_spec_digest import OTHER, SAME

ROOT = Path(__file__).parents[3]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def complaints(text: str) -> list[str]:
    errors = VALIDATOR.iter_errors(yaml.safe_load(text))
    return [each.json_path for error in errors for each in (error, *error.context)]


def test_the_exported_schema_is_up_to_date() -> None:
    """If this fails: `python -m tabularium.validations.release_spec.json_schema > s.json; mv s.json validations/release_spec/release.schema.json`."""
    assert (files("tabularium.validations.release_spec") / "release.schema.json").read_text(
        encoding="utf-8"
    ) == schema_text()


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert '"null"' not in schema_text()
    assert "``" not in schema_text()


@pytest.mark.parametrize(("what", "text"), [("the sample", SPEC), *SAME, *OTHER])
def test_good_specs(what: str, text: str) -> None:
    assert complaints(text) == []


def test_the_examples() -> None:
    for path in sorted((ROOT / "deploy" / "examples").glob("*.yaml")):
        assert complaints(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (changed('budget: "1"', "budget: 0.1"), "$.privacy.budget"),
        (changed('budget: "1"', 'budget: "10%"'), "$.privacy.budget"),
        (changed('budget: "1"', 'budget: "1e-3"'), "$.privacy.budget"),
        (changed('share: "1/3"', "share: 0.33"), "$.tables[1].share"),
        (changed("product: persons", "product: Persons"), "$.product"),
        (changed("product: persons", "prodct: persons"), "$"),
        (changed("relation:", "relatoin:"), "$.privacy"),
        (changed("unit: record", "unit: person_id"), "$.privacy.unit"),
        (changed("rule: nulls", "rule: null"), "$.rules[1]"),
        (changed('at_most: "5%"', "at_most: 0.05"), "$.rules[1]"),
        (changed("dimensions: [sex, status]", "dimensions: sex"), "$.tables[1].dimensions"),
        (changed("nulls: other, ", "nulls: drop, "), "$.columns.status.nulls"),
        (block("workspace", "workspace: {keep: 1}"), "$.workspace.keep"),
        (block("publication", "publication: {measurements: no}"), "$.publication.measurements"),
        (block("publication", "publication: {review: nobody}"), "$.publication.review"),
        (block("publication", "publication: {review: {criteria: []}}"), "$.publication.review"),
    ],
)
def test_bad_specs(text: str, path: str) -> None:
    found = complaints(text)
    assert any(complaint.startswith(path) for complaint in found), found


def test_every_field_says_what_it_is() -> None:
    schema = json_schema()
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    for part in parts:
        for name, value in part.get("properties", {}).items():
            if name == "rule":
                continue
            said = (
                value.get("description")
                or schema["$defs"][value.get("$ref", "/").split("/")[-1]]["description"]
            )
            assert said.endswith((".", ".)"))
    assert set(schema["properties"]) == set(SpecFile.model_fields)
