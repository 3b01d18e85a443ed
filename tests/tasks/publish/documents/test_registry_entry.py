"""The entry for the registry of deployments."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.publish.documents.registry_entry import registry_entry
from validations.spec.load import published
from validations.spec.model import ReleaseSpec

# What the registry's schema has, section by section; it allows nothing else.
FIELDS = {
    "basic": "name data_curators description intended_use data_product_type data_product_region "
    "data_product_sector publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions actors release_type "
    "release_type_details data_source_type data_source_type_details access_type access_type_details",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing "
    "justification utility additional_information",
    "administrative": "evidence_sources status registry_authors tier",
}
SPEC = {
    "product": "visits",
    "dataset": "visits",
    "period": "2026-Q1",
    "source": {"path": "x.csv"},
    "privacy": {"unit": {"entity": "patient", "column": "id"}, "max_contributions": 3, "budget": "1/4"},
    "columns": {"sex": {"categories": ["M", "F"]}, "age": {"integer": {"from": 0, "to": 9}}},
    "tables": [
        {"name": "sexes", "dimensions": ["sex", "age"], "share": 1, "levels": {}, "mechanism": "identity"}
    ],
}


@pytest.fixture
def told() -> dict[str, Any]:
    spec = published(ReleaseSpec.model_validate(SPEC))
    return {
        "release_id": "r1",
        "product": "visits",
        "period": "2026-Q1",
        "created": "2026-05-06T07:08:09+00:00",
        "outside_the_guarantee": [
            {"kind": "release", "name": "release", "what": "that this release exists"},
            {"kind": "rule", "name": "row_count", "what": "row_count: at least 1 rows"},
            {"kind": "operators", "name": "operators", "what": "for the operators"},
        ],
        "privacy": {
            "definition": "pure",
            "unit": {"entity": "patient", "population": "patients of 2026", "column": "id"},
            "relation": "add-remove",
            "max_contributions": 3,
            "epsilon": "1/4",
            "reading": ["It is so."],
        },
        "tallies": [],
        "transcript": [{"primitive": "discrete_laplace", "purpose": "sexes/cells"}],
        "spec": spec,
        "spec_digest": "ab",
        "tables": {"sexes": {"mechanism": "identity"}},
        "confidence": "9/10",
        "margins": {"exact": "Analytic."},
        "software": {"python": "3.11.7", "tabularium-dp": "0.1.0"},
    }


def entry(told: dict[str, Any], last: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(registry_entry(Path(), told, last))
    return found


def test_only_fields_of_the_registry(told: dict[str, Any]) -> None:
    found = entry(told)
    assert found["url_slug"] == "visits-2026-q1"
    assert found.keys() == {"url_slug", "deployment"}
    assert found["deployment"].keys() == FIELDS.keys()
    for name, part in found["deployment"].items():
        assert part.keys() <= set(FIELDS[name].split()), name


def test_what_the_certificate_says_is_in_it(told: dict[str, Any]) -> None:
    found = entry(told)["deployment"]
    assert found["basic"]["publication_date"] == "2026-05-06"
    assert found["dp_variant"]["variant_name"] == "Pure DP"
    assert found["dp_variant"]["unprotected_quantities"] == (
        "- that this release exists\n- row_count: at least 1 rows\n"
    )
    assert found["privacy_loss"]["privacy_unit"] == "patient"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.25}
    assert (
        "one has or lacks one patient, of which at most 3 records"
        in found["privacy_loss"]["privacy_unit_details"]
    )
    assert "sexes: epsilon = 1/12 for one record" in found["implementation"]["composition"]
    assert "drawing discrete laplace" in found["implementation"]["mechanisms"]


def test_concentrated_privacy_has_rho_and_what_it_implies(told: dict[str, Any]) -> None:
    changed = copy.deepcopy(told)
    privacy = changed["privacy"]
    privacy["definition"] = changed["spec"]["privacy"]["definition"] = "zcdp"
    privacy["rho"] = privacy.pop("epsilon")
    privacy["epsilon_delta"] = [{"epsilon": 4.123456, "delta": "1/1000000000"}]
    changed["spec"]["privacy"]["delta"] = "1/1000000000"
    found = entry(changed)["deployment"]
    assert found["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"rho": 0.25}
    assert "epsilon = 4.123 at delta = 1/1000000000" in found["privacy_loss"]["privacy_parameters_details"]


def test_nothing_is_made_up(told: dict[str, Any]) -> None:
    """What is not known is left out; what the registry then lacks is said, for a person to fill in."""
    text = registry_entry(Path(), told, None).decode()
    found = yaml.safe_load(text)["deployment"]
    assert not found["basic"].keys() & {"data_curators", "description", "intended_use", "data_product_region"}
    assert "release_type" not in found["deployment_model"]
    assert text.splitlines()[0].endswith(
        "by hand: data_curators, description, intended_use, data_product_region, registry_authors, tier."
    )
    assert entry(told, Path("last"))["deployment"]["deployment_model"]["release_type"] == "Many releases"


def test_what_the_spec_tells_about_the_product(told: dict[str, Any]) -> None:
    told["spec"]["about"] = {
        "title": "Visits: all",
        "description": "Visits.",
        "curator": {"name": "The Agency"},
        "region": {"code": "NZ", "label": "New Zealand"},
        "url": "https://example.org/visits",
    }
    text = registry_entry(Path(), told, None).decode()
    found = yaml.safe_load(text)["deployment"]
    assert found["basic"]["name"] == "Visits: all, 2026-Q1"
    assert found["basic"]["data_curators"] == [{"data_curator_name": "The Agency"}]
    assert found["basic"]["data_product_region"] == "New Zealand"
    assert (
        found["administrative"]["evidence_sources"]["data_product"]["misc"]["url"]
        == "https://example.org/visits"
    )
    assert "data_curator_type, intended_use, registry_authors, tier." in text.splitlines()[0]
