"""The example spec under deploy/examples."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

from tabularium.validations.domains.domains import HierarchyDomain, NumberDomain
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.summary import summarise

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"


def test_the_acs_example() -> None:
    loaded = load_spec(EXAMPLES / "acs.yaml")
    assert loaded.source_uri == str(EXAMPLES / "national2019.csv.gz")
    by_place, by_income = loaded.spec.tables
    assert loaded.leaf_shape(by_place) == (20, 11, 2)
    assert loaded.level_cells(by_place) == {"nation": 22, "state": 16 * 22, "puma": 20 * 22}
    assert loaded.leaf_shape(by_income) == (13, 11)
    assert loaded.spec.privacy.record_budget == Fraction(1)
    for name in ("EDU", "PINCP_DECILE"):
        domain = loaded.domains[name]
        assert (domain.nulls, domain.other, domain.codes[0]) == ("other", "N", "N")
    age = loaded.domains["AGEP"]
    assert isinstance(age, NumberDomain)
    assert (age.edges[0], age.edges[-1], age.labels[0], age.labels[-1]) == (0, 100, "0-4", "85-99")


def test_an_areas_state_is_the_prefix_of_its_code() -> None:
    puma = load_spec(EXAMPLES / "acs.yaml").domains["PUMA"]
    assert isinstance(puma, HierarchyDomain)
    for node in puma.leaves.tolist():
        state = int(puma.parents[node])
        assert puma.node_codes[node].split("-")[0] == puma.node_codes[state]
        assert puma.node_codes[int(puma.parents[state])] == "US"
    with (EXAMPLES / "puma.csv").open(encoding="utf-8", newline="") as file:
        assert all(row["label"] for row in csv.DictReader(file))


def test_the_zcdp_example() -> None:
    loaded = load_spec(EXAMPLES / "acs-zcdp.yaml")
    place, years = loaded.spec.tables
    assert (loaded.spec.privacy.definition, loaded.spec.privacy.record_budget) == ("zcdp", Fraction(1, 8))
    assert (place.mechanism, place.margin_share) == ("gaussian", None)
    assert (years.mechanism, years.margin_share) == ("noise_first", Fraction(1, 20))
    assert loaded.leaf_shape(years) == (2, 100)
    summary = summarise(loaded)
    said = (EXAMPLES / "acs-zcdp.yaml").read_text(encoding="utf-8")
    assert summary.epsilon <= 2.42 < summary.epsilon + 0.01
    assert "at most ε = 2.42 " in said
    assert "at most ε = 2.42 " in summary.price
