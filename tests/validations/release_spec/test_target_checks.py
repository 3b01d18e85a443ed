"""Targets of a spec: what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import examine, published
from tabularium.validations.release_spec.model import ReleaseSpec
from tests.validations.release_spec.spec_samples import SPEC, write_spec

GOOD = """\
targets:
  - {table: area_age, level: region, margin: 25}
  - {table: area_age, level: place, relative: "10%", at: 500}
  - {table: area_age, level: place, unreliable: "20%"}
  - {table: sex_status, margin: 40}
tuning: {release: r-1, certificate: CERTIFICATE}
publication: {quality: {unreliable: "30%"}}
""".replace("CERTIFICATE", '"' + "0" * 64 + '"')


def problems(folder: Path, more: str, spec: str = SPEC) -> list[tuple[str, str]]:
    return [(each.field, each.what) for each in examine(write_spec(folder, spec + more)).problems]


def test_good_targets(tmp_path: Path) -> None:
    found = examine(write_spec(tmp_path, SPEC + GOOD))
    assert found.loaded is not None
    assert [target.words for target in found.loaded.spec.targets] == [
        "±25",
        "10 % at 500",
        "at most 20 % unreliable",
        "±40",
    ]
    assert ReleaseSpec.model_validate(published(found.loaded.spec)).targets == found.loaded.spec.targets


@pytest.mark.parametrize(
    ("target", "field", "what"),
    [
        ("{table: area_ages, margin: 5}", "targets[0].table", "there is no table `area_ages`"),
        ("{table: sex_status, level: place, margin: 5}", "targets[0].level", "is a hierarchy"),
        ("{table: area_age, level: town, margin: 5}", "targets[0].level", "publishes no level `town`"),
        ("{table: area_age}", "targets[0]", "says no accuracy"),
        ('{table: area_age, margin: 5, relative: "1%", at: 50}', "targets[0]", "has `margin` and `relative`"),
        ('{table: area_age, relative: "1%"}', "targets[0].at", "`at` is missing"),
        ("{table: area_age, margin: 5, at: 50}", "targets[0].at", "is for a mean or rate"),
        ('{table: area_age, relative: "0%", at: 50}', "targets[0].relative", "no noise is as small"),
        ('{table: area_age, unreliable: "5%"}', "targets[0].unreliable", "nothing says when a cell"),
        ("{table: area_age, margin: 0}", "targets[0].margin", "must be 1 or more"),
        ("{table: area_age, margin: 0.5}", "targets[0].margin", "whole number"),
        ("{table: area_age, margins: 5}", "targets[0].margins", "there is no key"),
    ],
)
def test_bad_targets(tmp_path: Path, target: str, field: str, what: str) -> None:
    found = problems(tmp_path, f"targets:\n  - {target}\n")
    assert found
    assert found[0][0] == field
    assert what in found[0][1]


def test_a_level_below_the_published_ones(tmp_path: Path) -> None:
    upper = SPEC.replace('{nation: "1/6", region: "1/3", place: "1/2"}', '{region: "1"}')
    target = "targets:\n  - {table: area_age, level: LEVEL, margin: 5}\n"
    assert problems(tmp_path, target.replace("LEVEL", "nation"), upper) == []
    assert problems(tmp_path, target.replace("LEVEL", "place"), upper)[0][0] == "targets[0].level"
    apart = "postprocessing: {consistency: false}\n"
    assert problems(tmp_path, target.replace("LEVEL", "nation") + apart, upper)[0][0] == "targets[0].level"


MEASURES = """\
    share: "1/3"
    measures:
      total: {sum: income, from: 0, to: 900, step: 10}
      mean: {mean: income, from: 0, to: 900, step: 10}
      typical: {median: income, from: 0, to: 900, step: 10}
      men: {percent: "sex = 1"}
      of_all: {rate: "sex = 1", over: sex_status}
"""


@pytest.mark.parametrize(
    ("target", "field", "what"),
    [
        ("measure: total, margin: 500", "", ""),
        ('measure: total, relative: "10%", at: 90000', "", ""),
        ("measure: mean, margin: 5, at: 500", "", ""),
        ("measure: mean, margin: 5, at: 500, value: 900", "", ""),
        ("measure: totals, margin: 5", "targets[0].measure", "has no measure `totals`"),
        ("measure: typical, margin: 5", "targets[0].measure", "where the values lie"),
        ("measure: men, margin: 5, at: 500, value: 100", "", ""),
        ("measure: men, margin: 5, at: 500, value: 101", "targets[0].value", "beyond the bounds"),
        ("measure: men, margin: 5", "targets[0]", "how many records there are"),
        ("measure: of_all, margin: 5, at: 9", "targets[0].measure", "over other numbers"),
        ("measure: mean, margin: 5", "targets[0]", "how many records there are"),
        ('measure: mean, relative: "1%", at: 50', "targets[0].relative", "is for counts and sums"),
        ("measure: mean, margin: 5, at: 9, value: 901", "targets[0].value", "beyond the bounds"),
        ('measure: total, unreliable: "5%"', "targets[0].unreliable", "is for counts"),
        ("measure: total, margin: 5, value: 7", "targets[0].value", "is for a mean"),
        ("margin: 5, value: 7", "targets[0].value", "is for a mean"),
    ],
)
def test_targets_of_measures(tmp_path: Path, target: str, field: str, what: str) -> None:
    spec = SPEC.replace('    share: "1/3"\n', MEASURES)
    found = problems(tmp_path, f"targets:\n  - {{table: sex_status, {target}}}\n", spec)
    assert [each[0] for each in found] == ([field] if field else [])
    assert all(what in each[1] for each in found)
