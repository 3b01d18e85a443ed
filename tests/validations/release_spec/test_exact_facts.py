"""What a release reveals exactly, and what the budget means beside it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.validations.release_spec.exact_facts import (
    Neighbours,
    exact_facts,
    facts_of_release,
    neighbours,
)
from tests.validations.release_spec.spec_samples import SPEC, block, changed, load
from tests.validations.release_spec.test_invariant_checks import LISTS, REGION, SEX, TOTAL, spec

FIXED = "  - {rule: row_count, min: 600, max: 600}\n"
ALL = 'name: all, dimensions: [area, age, sex], values: all.csv, reason: "registry"'


def near(folder: Path, text: str) -> Neighbours:
    loaded = load(folder, text, LISTS)
    return neighbours(loaded.spec, loaded.domains)


def test_every_rule_that_held_is_said_in_words_with_its_numbers(tmp_path: Path) -> None:
    rules = (
        'rules:\n  - {rule: row_count, min: 600, max: 600, change_from_last: "20%"}\n'
        '  - {rule: nulls, column: age, at_most: "2%", severity: warn}\n'
        '  - {rule: nulls, column: sex, at_most: "2%"}\n'
        '  - {rule: invalid, column: sex, at_most: "0%"}\n'
        "  - {rule: range, column: age, min: 0, max: 97}\n"
        "  - {rule: unique, columns: [person_id, area]}\n"
    )
    said = [fact.what for fact in exact_facts(load(tmp_path, block("rules", rules)).spec)]
    assert said == [
        "max_rejected: at most 1 % of the records were rejected",
        "row_count: at least 600 and at most 600 rows; the total differs from the one published for the "
        "period before, if there is one, by at most 20 % of it; where that is less than one row it fixes the "
        "total, and then nothing can be added or removed by itself",
        "nulls(sex): at most 2 % of the rows are null",
        "invalid(sex): at most 0 % of the rows lie outside the domain",
        "range(age): all values are at least 0 and at most 97",
        "unique(person_id, area): no two rows agree in these columns",
    ]


def test_a_noisy_rule_and_a_limit_that_is_none_are_no_facts(tmp_path: Path) -> None:
    text = block("rules", 'rules:\n  - {rule: row_count, min: 10, noisy: {share: "1/100"}}\n')
    assert exact_facts(load(tmp_path, changed('max_rejected: "1%"', 'max_rejected: "100%"', text)).spec) == []


def test_what_is_true_of_any_release(tmp_path: Path) -> None:
    plain = load(tmp_path, SPEC).spec
    first = facts_of_release(plain, 1)
    assert (
        "of the charges of its account before it, published or not, how many there are and what they cost"
        in (first[0].what)
    )
    assert [fact.kind for fact in first][:3] == ["release", "source", "attempts"]
    assert "attempts × ε = 3" in next(f.what for f in facts_of_release(plain, 3) if f.kind == "attempts")
    assert not any(fact.kind == "revision" for fact in first)
    revised = load(tmp_path, SPEC + "revises: late returns\n").spec
    assert any("late returns" in fact.what for fact in facts_of_release(revised, 1))


def test_where_nothing_is_fixed_the_budget_is_read_as_it_is(tmp_path: Path) -> None:
    assert near(tmp_path, SPEC).as_dict() == {
        **{"fixed": None, "change": "add-remove", "units": 1},
        "epsilon": "1",
    }


@pytest.mark.parametrize(
    "rules",
    [
        FIXED,
        "  - {rule: row_count, max: 0}\n",
    ],
)
def test_a_fixed_number_of_rows_leaves_the_replacement_of_one(tmp_path: Path, rules: str) -> None:
    found = near(tmp_path, block("rules", "rules:\n" + rules))
    assert (found.fixed, found.change, found.units, found.loss.amount) == ("total", "replace", 1, Fraction(2))
    for other in (
        "  - {rule: row_count, min: 600, max: 601}\n",
        FIXED.replace("600}", "600, severity: warn}"),
    ):
        assert near(tmp_path, block("rules", "rules:\n" + other)).fixed is None


def test_the_cost_under_replace_and_under_zcdp(tmp_path: Path) -> None:
    text = block("rules", "rules:\n" + FIXED)
    assert near(tmp_path, changed("add-remove", "replace", text)).loss.amount == 1
    zcdp = changed('budget: "1"', 'budget: "1", definition: zcdp, delta: "1/1000000"', text)
    assert near(tmp_path, zcdp).as_dict() == {
        **{"fixed": "total", "change": "replace", "units": 1},
        "rho": "4",
    }


def test_invariants_leave_the_smallest_change_that_keeps_them(tmp_path: Path) -> None:
    """Status and age are free beside marginals of sex and region; crossed marginals leave two at once."""
    assert near(tmp_path, spec(TOTAL)).fixed == "total"
    found = near(tmp_path, spec(SEX, REGION))
    assert (found.fixed, found.units, found.loss.amount) == ("marginals", 1, Fraction(2))
    one = block(
        "tables", "tables:\n  - {name: t, dimensions: [area, sex], levels: {region: 1}}\n", spec(SEX, REGION)
    )
    assert near(tmp_path, one).units == 0, "what lies below the regions is counted nowhere"
    area = 'name: areas, dimensions: [area], level: region, values: region.csv, reason: "r"'
    lists = {**LISTS, "region.csv": "area,count\nN,3\nS,7\n"}
    text = block(
        "tables", "tables:\n  - {name: t, dimensions: [area, sex], levels: {region: 1}}\n", spec(SEX, area)
    )
    loaded = load(tmp_path, text, lists)
    crossed = neighbours(loaded.spec, loaded.domains)
    assert (crossed.units, crossed.loss.amount) == (2, Fraction(4))
    several = changed("unit: record,", "unit: {column: person_id}, max_contributions: 3,", text)
    loaded = load(tmp_path, several, lists)
    unknown = neighbours(loaded.spec, loaded.domains)
    assert (unknown.units, unknown.loss.amount) == (None, Fraction(2))
    privacy = load(tmp_path, text, lists).spec.privacy
    assert Neighbours.of(crossed.change, crossed.units, crossed.fixed, privacy) == crossed


def test_sizes_leave_an_item_free(tmp_path: Path) -> None:
    """Whose household somebody is in is no cell of an invariant."""
    one = block(
        "tables", "tables:\n  - {name: t, dimensions: [area, sex], levels: {region: 1}}\n", spec(SEX, REGION)
    )
    found = near(tmp_path, one + 'histograms: [{name: sizes, of: household, share: "1/4"}]\n')
    assert found.units == 1


def test_a_measure_leaves_its_values_free(tmp_path: Path) -> None:
    """What somebody earns is no cell of an invariant, nor is an age within its group."""
    measures = "measures: {ages: {sum: age, from: 0, to: 99}}"
    one = block(
        "tables",
        f"tables:\n  - {{name: t, dimensions: [area, sex], levels: {{region: 1}}, {measures}}}\n",
        spec(SEX, REGION),
    )
    assert near(tmp_path, one).units == 1
