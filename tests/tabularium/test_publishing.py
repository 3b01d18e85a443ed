"""Specs are loaded, checked and published by functions that raise what the command line says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tabularium as tb
from tests.flows.release.scene import write_scene


def test_asked_for_twice_it_is_paid_once(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    loaded = tb.load(spec, period="2030")
    assert (loaded.product, loaded.period, loaded.budget) == ("small", "2030", 1)
    first = tb.publish(loaded, home=home.path)
    again = tb.publish(spec, period="2030", home=home.path)
    assert (first.id, first.period) == (again.id, "2030")
    assert len(tb.open_ledger(home.path).history("people")) == 1


def test_what_whoever_runs_it_should_know_is_noted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec, home = write_scene(tmp_path, rules="[{rule: row_count, min: 100000, severity: warn}]")
    notes: list[str] = []
    tb.publish(spec, home=home.path, notes=notes.append)
    assert "the microdata break the rule row_count, which only warns" in notes
    assert not capfd.readouterr().err
    tb.publish(spec, home=home.path, period="2031", same_input=True)
    assert "break the rule row_count" in capfd.readouterr().err


def test_another_source_may_be_named(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    other = (tmp_path / "people.csv").rename(tmp_path / "others.csv")
    assert len(tb.publish(spec, source=other, home=home.path)) == 2


def test_a_spec_that_is_wrong_says_all_that_is(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    assert tb.check(spec)
    assert "area_age_sex" in repr(tb.check(tb.load(spec)))
    spec.write_text(spec.read_text().replace('share: "2/3"', 'share: "5/3"').replace("age: {", "aged: {"))
    checked = tb.check(spec)
    assert not checked
    with pytest.raises(tb.SpecError) as caught:
        tb.load(spec)
    assert caught.value.problems == checked.problems  # type: ignore[attr-defined]
    assert {each.line for each in checked.problems} >= {13}
    assert all(each.hint for each in checked.problems)


def test_what_cannot_be_paid_is_refused(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, cap="1/2")
    with pytest.raises(tb.BudgetExhausted):
        tb.publish(spec, home=home.path)


def test_data_that_break_a_rule_are_refused(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, rules="[{rule: row_count, min: 100000}]")
    with pytest.raises(tb.DataRefused):
        tb.publish(spec, home=home.path)


def test_a_mechanism_draws_the_same_noise_again() -> None:
    study = tb.mechanism("efpa")
    counts = np.arange(64)
    first, again, other = (study.release(counts, epsilon="1/10", seed=seed).values for seed in (7, 7, 8))
    assert (first == again).all()
    assert (first != other).any()
