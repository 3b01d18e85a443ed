"""Plans of specs: closed forms, what a unit pays, predictions against releases, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.noise_distributions import laplace_variance
from tabularium.tasks.forecast.forecast import forecast
from tabularium.tasks.plan.finished_plan import check_written, notes_on, planned_text
from tabularium.tasks.plan.planned_model import only_targeted
from tabularium.tasks.plan.planning import plan
from tabularium.tasks.plan.rehearsal import proposals
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.summary import summarise
from tabularium.validations.release_spec.tables import Impossible
from tabularium.validations.release_spec.targets import MarginTarget
from tests.sizes import runs
from tests.tasks.plan.planned_specs import (
    PURE,
    TARGETS,
    ZCDP,
    errors_of_releases,
    loaded,
    published,
    rows_of,
    true_counts,
)

LINEAR = "postprocessing: {nonnegativity: false, rounding: false}"


def test_the_plan_of_one_table_is_the_closed_form(tmp_path: Path) -> None:
    """And `check` says of the planned spec what the plan says."""
    made = loaded(tmp_path)
    table = made.spec.tables[1].model_copy(update={"share": Fraction(1)})
    targets = (MarginTarget(table=made.spec.targets[2].table, margin=40),)
    alone = replace(made, spec=made.spec.model_copy(update={"tables": (table,), "targets": targets}))
    found = plan(alone)
    exact = 2 * math.asinh(1.6448536 / 40 / math.sqrt(2))
    assert exact <= found.budget <= 1.006 * exact
    assert found.margins[0].margin == 40
    said = summarise(found.loaded).tables[0].levels[0]
    assert said.margin is not None
    assert abs(said.margin - 40) <= 1
    assert laplace_variance(said.scale or 0) == pytest.approx((40 / 1.6448536) ** 2, rel=0.02)


@pytest.mark.parametrize(("privacy", "more"), [(PURE, 2), (ZCDP, 4)])
def test_who_is_replaced_pays_for_two_records(tmp_path: Path, privacy: str, more: int) -> None:
    one = plan(loaded(tmp_path, privacy)).budget
    assert float(plan(loaded(tmp_path, privacy, relation="replace")).budget / one) == pytest.approx(
        more, rel=0.01
    )


def test_histograms_and_tallies_keep_their_parts_of_the_budget(tmp_path: Path) -> None:
    whole = 'histograms: [{name: sizes, of: household, share: "1/4"}]\n'
    whole += 'rules: [{rule: row_count, min: 1, noisy: {share: "1/4"}}]'
    alone = plan(loaded(tmp_path)).budget
    assert float(plan(loaded(tmp_path, more=whole)).budget / alone) == pytest.approx(2, rel=0.01)


def test_targets_are_met_by_the_exact_shares(tmp_path: Path) -> None:
    found = plan(loaded(tmp_path))
    spec = found.loaded.spec
    assert sum(table.share for table in spec.tables) == 1
    assert all(sum(table.levels.values()) == 1 for table in spec.tables if table.levels)
    assert all(each.wanted is None or each.margin <= each.wanted for each in found.margins)
    assert sum(each.part for each in found.margins) == 1
    assert not found.missed
    assert found.gap is None


def test_under_zcdp_the_plan_says_how_good_it_is(tmp_path: Path) -> None:
    gap = plan(loaded(tmp_path, ZCDP)).gap
    assert gap is not None
    assert gap < 2e-3


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_a_budget_scales_all_targets_alike(tmp_path: Path, privacy: str) -> None:
    made = loaded(tmp_path, privacy, more=LINEAR)
    smallest = plan(made)
    given = plan(made, budget=smallest.budget / 4)
    assert given.budget == smallest.budget / 4
    ratios = [
        each.margin / each.wanted for each in given.margins if each.wanted is not None and each.drives > 0.01
    ]
    np.testing.assert_allclose(ratios, 4 if privacy == PURE else 2, rtol=0.03)
    assert len(given.missed) == 3


def test_without_targets_a_budget_makes_the_widest_margin_narrow(tmp_path: Path) -> None:
    found = plan(loaded(tmp_path, targets="  []", more=LINEAR), budget=Fraction(1))
    assert [each.wanted for each in found.margins] == [None] * 4
    widths = [each.margin for each in found.margins if each.drives > 0.01]
    np.testing.assert_allclose(widths, max(widths), rtol=0.03)


def test_the_source_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not exist; nor would it be touched if it did."""
    made = loaded(tmp_path)
    opened = []
    true_open = Path.open

    def noted(path: Path, *words: Any, **options: Any) -> Any:
        opened.append(str(path))
        return true_open(path, *words, **options)

    monkeypatch.setattr(Path, "open", noted)
    assert not Path(made.source_uri).exists()
    plan(made)
    assert not [path for path in opened if "nowhere" in path]


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_linear_margins_are_those_of_releases(tmp_path: Path, privacy: str) -> None:
    """Of 200 releases at full size, nine errors in ten are within the margin, within 10 % of it."""
    made = plan(loaded(tmp_path, privacy, more=LINEAR))
    counts = true_counts(made.loaded, 20_000)
    errors = list(errors_of_releases(made.loaded, counts, runs(50, 200)))
    for each in made.margins:
        rows = rows_of(made.loaded, each.table, each.level)
        within = np.quantile([np.abs(error[each.table][rows]) for error in errors], 0.9)
        assert each.margin == pytest.approx(within, rel=0.1 if runs(0, 1) else 0.15), each


def test_margins_on_public_counts_are_those_of_releases(tmp_path: Path) -> None:
    """Small counts: non-negativity makes errors smaller, and the plan knows by how much."""
    targets = "  - {table: places, level: place, margin: 25}\n  - {table: ages, margin: 40}"
    made = loaded(tmp_path, targets=targets)
    counts = true_counts(made, 1_500)
    found, blind = plan(made, like=published(tmp_path / "like", made, counts)), plan(made)
    assert found.simulated
    assert found.tuning is not None
    assert (found.tuning.release, found.tuning.certificate) == ("r-1", "a" * 64)
    assert found.budget < blind.budget
    assert not found.missed
    errors = list(errors_of_releases(found.loaded, counts, runs(30, 200)))
    for each in found.margins:
        rows = rows_of(found.loaded, each.table, each.level)
        some = counts[each.table][rows] > 0
        apart = np.array([np.abs(error[each.table][rows][some]) for error in errors])
        wanted = max(np.quantile(apart, 0.9), 1.645 * np.sqrt((apart**2).mean()))
        assert each.margin == pytest.approx(wanted, rel=0.1 if runs(0, 1) else 0.2), each


def test_a_part_of_unreliable_cells_is_judged_by_counts(tmp_path: Path) -> None:
    quality = 'publication: {quality: {unreliable: "30%"}}'
    targets = '  - {table: places, level: place, unreliable: "20%"}\n  - {table: ages, margin: 30}'
    made = loaded(tmp_path, targets=targets, more=f"{quality}\n{LINEAR}")
    counts = true_counts(made, 60_000)
    found = plan(made, like=published(tmp_path / "like", made, counts))
    assert not found.simulated
    cells = counts["places"][rows_of(found.loaded, "places", "place")]
    margin = next(each.margin for each in found.margins if each.target.endswith("unreliable"))
    assert 0.15 <= np.mean(margin > 0.3 * cells) <= 0.2
    with pytest.raises(InputError, match="public counts must say"):
        plan(made)
    total = f"{quality}\ninvariants: [{{name: all, count: 76000, reason: a census}}]"
    even = plan(loaded(tmp_path, targets=targets, more=total))
    # 76 000 people evenly in 21 places and 8 ages.
    assert next(e.wanted for e in even.margins if e.target.endswith("unreliable")) == math.floor(
        0.3 * 76000 / 168
    )


SOME = TARGETS.rpartition("\n")[0]


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_tables_without_a_target_keep_their_share(tmp_path: Path, privacy: str) -> None:
    """A half each, as nothing else is written; then a quarter, which is written."""
    made = loaded(tmp_path, privacy, targets=SOME)
    alone = plan(only_targeted(made))
    found = plan(made)
    assert (found.rest, found.missed) == (("ages",), [])
    assert {each.name: each.share for each in found.loaded.spec.tables} == {
        "places": Fraction(1, 2),
        "ages": Fraction(1, 2),
    }
    # What the others add up to helps, so that twice is more than enough.
    assert alone.budget < found.budget <= 2 * alone.budget * Fraction(101, 100)
    assert any(
        "Without a target, with the share that is written: ages (50.0%" in note for note in notes_on(found)
    )
    text = made.path.read_text().replace("- name: places", '- name: places\n    share: "3/4"')
    made.path.write_text(text.replace("{name: ages,", '{name: ages, share: "1/4",'))
    less = plan(load_spec(made.path))
    assert [each.share for each in less.loaded.spec.tables] == [Fraction(3, 4), Fraction(1, 4)]
    assert less.budget < found.budget
    own = {each.where: each.margin for each in less.margins}
    assert own["ages"] == margin_of_check(less.loaded, "ages")
    made.path.write_text(planned_text(less))
    check_written(made.path, less)


def margin_of_check(made: Loaded, table: str) -> float:
    """Return what `check` expects of the counts of a table without a hierarchy."""
    (count,) = (each for each in forecast(made) if each.table == table)
    assert count.of_noise is not None
    return count.of_noise


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_with_a_budget_they_share_what_targets_leave(tmp_path: Path, privacy: str) -> None:
    more = '  - {name: sexes, dimensions: [sex], share: "1/10"}\ntargets:'
    made = loaded(tmp_path, privacy, targets=SOME)
    text = (
        made.path.read_text()
        .replace("targets:", more, 1)
        .replace("- name: places", '- name: places\n    share: "3/5"')
    )
    made.path.write_text(text.replace("{name: ages,", '{name: ages, share: "3/10",'))
    made = load_spec(made.path)
    need = plan(only_targeted(made)).budget
    budget = 2 * need
    found = plan(made, budget=budget)
    shares = {each.name: each.share for each in found.loaded.spec.tables}
    assert shares["places"] * budget >= need
    assert shares["places"] == pytest.approx(Fraction(1, 2), rel=0.006)
    assert shares["ages"] == 3 * shares["sexes"]
    assert (sum(shares.values()), found.budget, found.missed) == (1, budget, [])
    assert any(
        "Without a target, with what the targets leave: ages, sexes" in note for note in notes_on(found)
    )
    with pytest.raises(InputError, match="would leave nothing for table ages"):
        plan(made, budget=need)


def test_some_targets_can_be_judged_by_a_release(tmp_path: Path) -> None:
    """Also where public numbers are of a column that no table with a target has."""
    (tmp_path / "sexes.csv").write_text("sex,count\n1,1500\n2,1500\n")
    more = "invariants: [{name: sexes, dimensions: [sex], values: sexes.csv, reason: register}]"
    made = loaded(tmp_path, targets=SOME, more=more)
    found = plan(made, like=published(tmp_path / "like", made, true_counts(made, 3_000)))
    assert found.simulated
    assert [each.where for each in found.missed] == []
    assert {each.where for each in found.margins} >= {"ages", "places, place"}


def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    cases = {
        "has no targets to plan for": {"targets": "  []"},
        "no margin of error below 1": {"targets": TARGETS.replace("at: 400", "at: 4")},
    }
    for said, changes in cases.items():
        with pytest.raises(InputError, match=said):
            plan(loaded(tmp_path, **changes))
    made = loaded(tmp_path)
    text = made.path.read_text().replace("[age, sex]}", "[age, sex], mechanism: denoise}")
    made.path.write_text(text)
    with pytest.raises(InputError, match="the error of denoise depends on the data"):
        plan(load_spec(made.path))


def test_a_release_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    counts = true_counts(made, 100)
    like = published(tmp_path / "like", made, counts)
    (tmp_path / "like" / "ages.csv").write_text("age,count,margin\n" + "0,,1\n" * 16)
    with pytest.raises(InputError, match="left blank"):
        plan(made, like=like)
    wider = made.path.read_text().replace("to: 79", "to: 89")
    made.path.write_text(wider)
    with pytest.raises(InputError, match="no table with the columns, codes and records of table places"):
        plan(load_spec(made.path), like=like)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_large_budgets_have_right_margins_or_are_refused(tmp_path: Path, privacy: str) -> None:
    """Simulated noise that is zero in every cell is told from noise that cannot be anything else."""
    made = loaded(tmp_path, privacy)
    like = published(tmp_path / "like", made, true_counts(made, 2_000))
    found = plan(made, budget=Fraction(50), like=like)
    assert all(0 <= each.margin < 1 for each in found.margins)
    for budget in (300, 3_000_000):
        with pytest.raises(InputError, match="leaves no noise at all"):
            plan(made, budget=Fraction(budget), like=like)


def test_other_mechanisms_are_tried_on_public_counts(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    like = published(tmp_path / "like", made, true_counts(made, 500))
    tried = plan(made, like=like, mechanisms=True).proposals
    assert {(each.table, each.mechanism) for each in tried} >= {("places", "denoise"), ("ages", "denoise")}
    assert all(0 < each.error < 3 for each in tried)
    with pytest.raises(InputError, match="tried on public counts"):
        plan(made, mechanisms=True)


def test_other_mechanisms_are_not_tried_where_cells_are_impossible(tmp_path: Path) -> None:
    """They measure a table as a whole, which `check` refuses there."""
    made = loaded(tmp_path)
    tables = true_counts(made, 500)
    assert {each.table for each in proposals(made, tables)} >= {"places", "ages"}
    name = made.spec.tables[1].dimensions[0]
    code = made.domains[name].codes[0]
    fact = Impossible(cells={name: (code,)}, reason="r")
    less = replace(made, spec=made.spec.model_copy(update={"impossible": (fact,)}))
    assert made.spec.tables[1].name not in {each.table for each in proposals(less, tables)}
