"""Arrays of measures: noise for what is declared, and no record that changes more than is declared."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.histograms.bounded_sums import BoundedSums
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.validations.spec.load import Loaded
from tests.audit.estimates import FEWER_RUNS, loss_from_outputs
from tests.audit.replays import NotPrivateError, judge, losses_of
from tests.sizes import runs
from tests.tasks import front

BUDGET = Fraction(1, 2)
#: What one record of a sum, a mean and a histogram may add, where Δ is 12.
SUM = np.array([[0, -40], [7, 3]]), np.array([[0, -52], [7, 3]])
MEAN = np.array([[30, 18], [0, 0]]), np.array([[35, 25], [0, 0]])
WEIGHTS = np.array([[0, 0, 100], [5, 0, 0]]), np.array([[0, 12, 100], [5, 0, 0]])


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("pair", [SUM, MEAN, WEIGHTS], ids=["sum", "mean", "weights"])
def test_a_record_that_changes_what_is_declared_loses_no_more_than_is_paid(
    pair: Any, definition: Definition
) -> None:
    for one, other in (pair, pair[::-1]):
        found = judge(BoundedSums(12), one, other, budget=BUDGET, definition=definition)
        assert found.loss > 0


def test_the_noise_is_not_larger_than_it_need_be() -> None:
    pairs = (SUM, SUM[::-1])
    found = [loss for pair in pairs for loss in losses_of(BoundedSums(12), pair, BUDGET, "pure", seeds=8)]
    assert max(found) >= 0.8 * float(BUDGET)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_record_that_changes_more_would_be_noticed(definition: Definition) -> None:
    """The width of the bounds alone, where a sum may lie on either side of zero or far from it."""
    with pytest.raises(NotPrivateError):
        losses_of(BoundedSums(6), SUM, BUDGET, definition, seeds=20)


#: What a record of weight 5 or less may add on two levels of a tree.
TREE = np.array([[3, 0, 2, 1, 0, 0]]), np.array([[8, 0, 2, 6, 0, 0]])


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_record_is_paid_for_on_every_level_of_a_tree(definition: Definition) -> None:
    found = losses_of(BoundedSums(5, 2), TREE, BUDGET, definition, seeds=8)
    assert max(found) >= 0.8 * float(BUDGET) * (definition == "pure")
    with pytest.raises(NotPrivateError):
        losses_of(BoundedSums(5, 1), TREE, BUDGET, definition, seeds=20)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_the_outputs_give_no_more_away_than_the_budget(definition: Definition) -> None:
    budget = {"pure": Fraction(1), "zcdp": Fraction(1, 2)}[definition]
    one, other = np.array([20]), np.array([32])
    held = loss_from_outputs(BoundedSums(12), one, other, budget, definition, runs=FEWER_RUNS)
    assert held <= budget
    broken = loss_from_outputs(BoundedSums(3), one, other, budget, definition, runs=FEWER_RUNS)
    assert broken > budget


MEASURES = """
    measures:
      sums: {sum: income, from: -300, to: 500, step: 50}
      means: {mean: income, from: -300, to: 500, step: 50}
      weighted: {mean: income, from: 0, to: 500, step: 50, weight: {column: weight, to: 7}}
      medians: {median: income, from: 0, to: 500, step: 100, weight: {column: weight, to: 7}}
      fine: {quantile: income, at: "1/4", from: 0, to: 500, step: 5, weight: {column: weight, to: 7}}
      chosen: {median: income, from: 0, to: 500, step: 5, method: choice}
      rates: {rate: "income is not null and (sex = f or age < 65)", weight: {column: weight, to: 7}}
      parts: {percent: "age < 65", over: sexes}
"""
#: Sensitivity of each: the larger bound in steps, the width of the bounds, the same times a weight; of what
#: counts records 1, or a weight, on each level of a tree.
DECLARED = {"sums": 10, "means": 16, "weighted": 70, "medians": 7, "fine": 14, "chosen": 1} | {
    "rates": 7,
    "parts": 1,
}
HEADER = (*front.HEADER, "income", "weight")
ODD = ["-1e9", "900", "inf", "", "nan", "77.7", "x", "-inf", "1e2", "499.99"]


def loaded(folder: Path, most: int) -> Loaded:
    def with_measures(text: str) -> str:
        last = "  - {name: sexes, dimensions: [sex]}\n"
        return text.replace(last, "  - name: sexes\n    dimensions: [sex]" + MEASURES)

    unit = "{entity: person, column: person}"
    return front.spec(folder, unit=unit, most=most, edit=with_measures)


def arrays(folder: Path, rows: list[tuple[str, ...]], most: int) -> dict[str, Any]:
    folder.mkdir()
    front.write_csv(folder / "people.csv", rows, HEADER)
    spec = loaded(folder, most)
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(spec, front.SECRET, scratch)
    counted = count_tables(spec, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return {name: np.load(levels[""].path) for name, levels in counted.tables.items() if name != "people"}


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.audit), 2])
def test_taking_any_unit_away_changes_no_array_by_more_than_is_declared(tmp_path: Path, most: int) -> None:
    rows = [
        (f"p{i // 2}", "A1", str(20 + i), "fm"[i % 2], ODD[i % len(ODD)], str(i * 5 % 11)) for i in range(10)
    ]
    whole = arrays(tmp_path / "all", rows, most)
    changes: dict[str, int] = dict.fromkeys(DECLARED, 0)
    for unit in sorted({row[0] for row in rows})[: runs(2, 5)]:  # the first two change most
        without = arrays(tmp_path / unit, [row for row in rows if row[0] != unit], most)
        for name, bound in DECLARED.items():
            change = int(np.abs(whole[f"sexes-{name}"] - without[f"sexes-{name}"]).sum())
            assert change <= most * bound
            changes[name] = max(changes[name], change)
    assert changes["means"] == most * DECLARED["means"]  # no more is declared than is needed
    assert changes["rates"] > (most - 1) * DECLARED["rates"]
    assert changes["sums"] > (most - 1) * DECLARED["sums"]


def test_the_declared_changes_are_those_of_the_spec(tmp_path: Path) -> None:
    found = {each.name: each.measured for each in loaded(tmp_path, 1).spec.arrays}
    assert {name: found[f"sexes-{name}"].sensitivity for name in DECLARED} == DECLARED  # type: ignore[union-attr]
