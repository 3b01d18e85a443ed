"""The entry for the registry of deployments."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import yaml

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.tasks.publish.certificate.sections import (
    SIDE_CHANNELS,
    domains,
    postprocessing,
    randomness,
    security,
    tuning,
    validation,
)
from tabularium.tasks.publish.certificate.spending import (
    allocation,
    audited,
    composition,
    conversion,
    measured,
)
from tabularium.tasks.report.registry_entry import registry_entry
from tabularium.validations.certificate import AtDelta, Certificate, Cumulative, Fact, Unit
from tabularium.validations.release_spec.load import published
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.publication import About
from tests.certificates import made_up

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
def told() -> Certificate:
    spec = ReleaseSpec.model_validate(SPEC)
    channel = SeededChannel(spec.losses["sexes", ""], seed=1)
    build("identity").measure(np.zeros((2, 10), np.int64), channel)
    events = [replace(each, purpose=f"sexes/{each.purpose}") for each in channel.transcript]
    certificate = made_up()
    privacy = {
        "unit": Unit(entity="patient", population="patients of 2026", column="id"),
        "max_contributions": 3,
        "epsilon": Fraction(1, 4),
        "conversion": conversion(spec),
    }
    account = {
        "name": "visits",
        "entity": "patient",
        "cap": Fraction(2),
        "cumulative": Cumulative(used=Fraction(3, 4), charges=3, releases_before=2),
    }
    return made_up(
        product="visits",
        period="2026-Q1",
        created="2026-05-06T07:08:09+00:00",
        outside_the_guarantee=(
            Fact(kind="release", name="release", what="that this release exists"),
            Fact(kind="rule", name="row_count", what="row_count: at least 1 rows"),
            Fact(kind="operators", name="operators", what="for the operators"),
        ),
        privacy=certificate.privacy.model_copy(update=privacy),
        account=certificate.account.model_copy(update=account),
        allocation=allocation(spec),
        composition=composition(spec, events),
        measured=measured(spec, events),
        audits={**audited(spec), "other": None},
        spec=published(spec),
        domains=domains(spec, {}),
        validation=validation(spec, 0),
        tuning=tuning(spec),
        postprocessing=postprocessing(spec, 1),
        randomness=randomness(events),
        side_channels=SIDE_CHANNELS,
        security=security(kept=False),
        margins={"exact": "Analytic."},
        software={"python": "3.11.7", "tabularium-dp": "0.1.0"},
        code=certificate.code.model_copy(update={"digest": "c" * 64, "commit": "e" * 40}),
    )


def entry(told: Certificate, *, earlier: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(registry_entry(told, earlier=earlier))
    return found


def test_only_fields_of_the_registry(told: Certificate) -> None:
    found = entry(told)
    assert found["url_slug"] == "visits-2026-q1"
    assert found.keys() == {"url_slug", "deployment"}
    assert found["deployment"].keys() == FIELDS.keys()
    for name, part in found["deployment"].items():
        assert part.keys() <= set(FIELDS[name].split()), name


def test_what_the_certificate_says_is_in_it(told: Certificate) -> None:
    found = entry(told)["deployment"]
    assert found["basic"]["publication_date"] == "2026-05-06"
    assert found["dp_variant"]["variant_name"] == "Pure DP"
    assert found["dp_variant"]["unprotected_quantities"] == (
        "- that this release exists\n- row_count: at least 1 rows\n"
    )
    assert found["privacy_loss"]["privacy_unit"] == "patient"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.25}
    assert (
        "one has or lacks one patient, and at most 3 of its records"
        in found["privacy_loss"]["privacy_unit_details"]
    )
    assert "sexes: epsilon = 1/12 for one record" in found["implementation"]["composition"]
    made = found["implementation"]
    assert "- sexes: mechanism identity, drawing discrete laplace" in made["mechanisms"]
    assert "Side channel, running time and memory: Seen only by operators" in made["mechanisms"]
    assert f"Tabularium 0.1.0, commit {'e' * 40} (SHA-256 {'c' * 64})" in made["mechanisms"]
    assert "At most 3 records of one patient are counted" in made["preprocessing_and_hyperparameter_tuning"]
    assert "- rounding: To whole numbers" in made["post_processing"]
    assert "identity: audited on 20" in made["justification"] and "other: no audit" in made["justification"]
    assert (
        "at most epsilon = 2; 3 charges, up to this one, cost 3/4"
        in (found["deployment_model"]["release_type_details"])
    )
    assert "ε is exact" in found["privacy_loss"]["privacy_parameters_details"]


def test_concentrated_privacy_has_rho_and_what_it_implies(told: Certificate) -> None:
    privacy = {
        "definition": "zcdp",
        "epsilon": None,
        "rho": Fraction(1, 4),
        "epsilon_delta": (AtDelta(epsilon=4.123456, delta=Fraction(1, 10**9)),),
    }
    changed = told.model_copy(update={"privacy": told.privacy.model_copy(update=privacy)})
    found = entry(changed)["deployment"]
    assert found["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"rho": 0.25}
    assert "epsilon = 4.124 at delta = 1/1000000000" in found["privacy_loss"]["privacy_parameters_details"]


def test_nothing_is_made_up(told: Certificate) -> None:
    """What is not known is left out; what the registry then lacks is said, for a person to fill in."""
    text = registry_entry(told).decode()
    found = yaml.safe_load(text)["deployment"]
    assert not found["basic"].keys() & {"data_curators", "description", "intended_use", "data_product_region"}
    assert "release_type" not in found["deployment_model"]
    assert text.splitlines()[0].endswith(
        "by hand: data_curators, description, intended_use, data_product_region, registry_authors, tier."
    )
    assert entry(told, earlier=True)["deployment"]["deployment_model"]["release_type"] == "Many releases"


def test_what_the_spec_tells_about_the_product(told: Certificate) -> None:
    about = About(
        title="Visits: all",
        description="Visits.",
        curator={"name": "The Agency"},
        region={"code": "NZ", "label": "New Zealand"},
        url="https://example.org/visits",
    )
    told = told.model_copy(update={"about": about})
    text = registry_entry(told).decode()
    found = yaml.safe_load(text)["deployment"]
    assert found["basic"]["name"] == "Visits: all, 2026-Q1"
    assert found["basic"]["data_curators"] == [{"data_curator_name": "The Agency"}]
    assert found["basic"]["data_product_region"] == "New Zealand"
    assert (
        found["administrative"]["evidence_sources"]["data_product"]["misc"]["url"]
        == "https://example.org/visits"
    )
    assert "data_curator_type, intended_use, registry_authors, tier." in text.splitlines()[0]
