"""Mechanisms in specs: definitions, parameters, and what a dry run finds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.mechanisms import MECHANISMS
from tabularium.mechanisms.histograms.cellwise import Identity
from tabularium.validations.release_spec.checks.table_checks import error_source, shrunk
from tabularium.validations.release_spec.load import load_spec, spec_digest
from tabularium.validations.release_spec.mechanism_parameters import parameters_of
from tabularium.validations.release_spec.summary import check
from tests.validations.release_spec.spec_samples import SPEC, changed, problems_of, write_spec

ZCDP = changed('budget: "1"', 'definition: zcdp, budget: "1/8", delta: "1/1000000"')


def table(words: str, text: str = SPEC) -> str:
    return changed("name: sex_status", f"name: sex_status\n    {words}", text)


@pytest.mark.parametrize(
    ("text", "field", "what", "hint"),
    [
        (changed('budget: "1"', 'definition: zcdp, budget: "1"'), "privacy.definition", "`delta` is missing", "1/1000000"),
        (changed('budget: "1"', 'budget: "1", delta: "1/10"'), "privacy.delta", "no δ", "zcdp"),
        (changed('budget: "1"', 'definition: zdcp, budget: "1"'), "privacy.definition", "zdcp", "pure or zcdp"),
        (changed('budget: "1"', 'definition: zcdp, budget: "1", delta: "1"'), "privacy.delta", "between zero and one", ""),
        (changed('budget: "1"', 'definition: zcdp, budget: "1", delta: 0.001'), "privacy.delta", "YAML float", ""),
        (table("mechanism: gaussian"), "tables[1].mechanism", "does not give pure", "such as identity"),
        (table("mechanism: identity", ZCDP), "tables[1].mechanism", "does not give zero-conc", "such as gaussian"),
        (table("mechanism: sreb_gca\n    parameters: {shares: 1}"), "tables[1].parameters.shares", "no parameter", "`share`?"),
        (table("parameters: {share: 1}"), "tables[1].parameters.share", "no parameter", "takes none"),
        (table("mechanism: structure_first"), "tables[1].mechanism", "largest_count", "whole number"),
        (table("mechanism: efpa\n    parameters: {unattributed: true}"), "tables[1].parameters.unattributed", "no longer belong", "false"),
        (table("mechanism: privhist"), "tables[1].mechanism", "not which cells have it", "for every cell"),
        (table("mechanism: sorted_isotonic"), "tables[1].mechanism", "not which cells have it", "for every cell"),
        (table('margin_share: "1/20"'), "tables[1].margin_share", "known exactly", "remove"),
        (table('mechanism: sreb_gca\n    margin_share: "2/3"'), "tables[1].margin_share", "one half", ""),
        (table("mechanism: fpa"), "tables[1].mechanism", "needs the parameter `k`", "{k: …}"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, field: str, what: str, hint: str) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert problem.field == field
    assert what in problem.what
    assert hint in problem.hint
    assert problem.line is not None


def test_levels_that_must_agree_need_a_known_error(tmp_path: Path) -> None:
    text = changed("name: area_age", "name: area_age\n    mechanism: sreb_gca\n    margin_share: 0")
    (problem,) = problems_of(tmp_path, text)
    assert problem.field == "tables[0].margin_share"
    off = "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
    assert problems_of(tmp_path, text + off) == ()


def test_a_mistake_in_privacy_hides_no_mistake_of_a_table(tmp_path: Path) -> None:
    text = table("mechanism: magic", changed('budget: "1"', 'definition: zcdp, budget: "no"'))
    assert {p.field for p in problems_of(tmp_path, text)} == {"privacy.budget", "tables[1].mechanism"}


def test_tables_without_a_mechanism_get_that_of_the_definition(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path, ZCDP))
    assert [t.mechanism for t in loaded.spec.tables] == ["gaussian", "gaussian"]
    assert loaded.published_spec["tables"][0]["mechanism"] == "gaussian"
    assert [t.mechanism for t in load_spec(write_spec(tmp_path)).spec.tables] == ["identity", "identity"]


def test_records_of_a_unit_share_rho_by_the_square(tmp_path: Path) -> None:
    text = changed("unit: record", "unit: {column: id}, max_contributions: 3", ZCDP)
    assert load_spec(write_spec(tmp_path, text)).spec.privacy.record_budget == Fraction(1, 72)
    replaced = changed("add-remove", "replace", text)
    assert load_spec(write_spec(tmp_path, replaced)).spec.privacy.record_budget == Fraction(1, 288)


def test_the_share_for_margins_is_written_out_and_no_one_elses(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path, table("mechanism: sreb_gca")))
    assert [t.margin_share for t in loaded.spec.tables] == [None, Fraction(1, 20)]
    assert loaded.published_spec["tables"][1]["margin_share"] == "1/20"
    own = load_spec(write_spec(tmp_path, table('mechanism: sreb_gca\n    margin_share: "10%"')))
    assert own.spec.tables[1].margin_share == Fraction(1, 10)
    assert own.digest != loaded.digest
    same = load_spec(write_spec(tmp_path, table('mechanism: sreb_gca\n    margin_share: "5%"')))
    assert same.digest == loaded.digest


def test_names_of_releases_made_before_these_fields_are_as_they_were(tmp_path: Path) -> None:
    """A field added later does not rename a release: the digest of this spec was taken before there were any."""
    loaded = load_spec(write_spec(tmp_path))
    assert loaded.digest == spec_digest(loaded.spec, loaded.public_files)
    assert loaded.digest == "e7b5f0922d8af812fc5ffee2e8baff1f1a17a31a51f14db95777395ec7c48bca"


def test_what_a_mechanism_tells_of_its_error() -> None:
    shapes = {"": (4, 5)}
    assert error_source("identity", {}, "pure", shapes) == "exact"
    assert error_source("gaussian", {}, "zcdp", shapes) == "exact"
    assert error_source("sreb_gca", {}, "pure", shapes) == "none"


@pytest.mark.parametrize("shape", [(), (1,), (300,), (2040000,), (17, 5, 101), (2,) * 16, (1, 100000, 3)])
def test_dry_runs_are_small(shape: tuple[int, ...]) -> None:
    small = shrunk(shape)
    assert len(small) == len(shape)
    assert all(1 <= new <= old for new, old in zip(small, shape, strict=True))
    product = 1
    for size in small:
        product *= size
    assert product <= 256


def test_a_parameter_that_fits_the_table_but_not_the_dry_run_is_no_mistake(tmp_path: Path) -> None:
    """More bins than the smaller table of the dry run has cells: it is tried on the whole one."""
    long = "  age: {integer: {from: 0, to: 999}}\n"
    text = changed("  age: {integer: {from: 0, to: 99, edges: [5, 18, 65]}}\n", long)
    words = "mechanism: noise_first\n    parameters: {bins: BINS}"
    both = changed("[sex, status]", "[age]", table(words, text))
    assert problems_of(tmp_path, both.replace("BINS", "300")) == ()
    (problem,) = problems_of(tmp_path, both.replace("BINS", "1001"))
    assert problem.field.startswith("tables[1].parameters")


def test_the_summary_under_zcdp(tmp_path: Path) -> None:
    summary = check(write_spec(tmp_path, ZCDP)).summary
    assert summary is not None
    levels = summary.tables[0].levels
    assert [level.loss for level in levels] == [Fraction(1, 72), Fraction(1, 36), Fraction(1, 24)]
    # σ² = 1/2ρ = 36: 6 · 1.645 = 9.87
    assert (levels[0].scale, levels[0].margin) == (pytest.approx(6), 10)
    privacy = summary.as_json()["privacy"]
    assert (privacy["rho"], privacy["delta"], privacy["definition"]) == ("1/8", "1/1000000", "zcdp")
    assert 2.25 < privacy["epsilon"] < 2.8
    assert summary.price.startswith("ρ = 1/8, which is at most ε = 2.")
    assert summary.advice == ()


def test_advice_on_rho_delta_and_margins(tmp_path: Path) -> None:
    text = ZCDP.replace('"1/8"', '"9"').replace("1/1000000", "1/100")
    text = table("mechanism: sreb_gca", text)
    summary = check(write_spec(tmp_path, text)).summary
    assert summary is not None
    assert ["hardly any protection" in summary.advice[0], "δ = 1/100" in summary.advice[1]] == [True, True]
    assert "5 % of its budget to measure its error" in summary.advice[2]


@pytest.mark.parametrize(("budget", "large"), [("10", True), ("99/10", False)])
def test_advice_begins_at_an_epsilon_of_ten(tmp_path: Path, budget: str, large: bool) -> None:
    summary = check(write_spec(tmp_path, changed('budget: "1"', f'budget: "{budget}"'))).summary
    assert summary is not None
    assert any("hardly any protection" in note for note in summary.advice) == large


def test_every_parameter_is_described() -> None:
    for name in MECHANISMS:
        for parameter in parameters_of(MECHANISMS[name]):
            assert parameter.meaning, f"the docstring of {name} says nothing of {parameter.name}"


def test_defaults_are_written_as_in_a_spec() -> None:
    defaults = {each.name: each.default for each in parameters_of(MECHANISMS["mwem"])}
    assert (defaults["total_share"], defaults["pick_share"], defaults["queries"]) == (
        '"1/20"',
        "auto",
        "32768",
    )
    assert [each.required for each in parameters_of(MECHANISMS["fpa"])] == [True, False, False, False, False]


def test_a_mechanism_without_parameters_has_none() -> None:
    assert parameters_of(Identity) == []
