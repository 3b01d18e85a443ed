"""Arrays of measures: noise for what is declared, and no record that changes more than is declared."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.bounded_sums import BoundedSums
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.audit.cases import MEAN, SUM, WEIGHTS
from tests.audit.estimates import FEWER_RUNS, loss_from_outputs
from tests.audit.replays import NotPrivateError, judge, losses_of
from tests.sizes import runs
from tests.tasks import front

BUDGET = Fraction(1, 2)


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


# --- Noise that differs by group: no record loses more than is paid, and the scale of another group is noticed ---


BOUNDS = [3, 40, 12]
#: Shape (2 nodes, 3 groups, 2 numbers): what one record of each group may change, by place of the group.
BEFORE = np.arange(12).reshape(2, 3, 2) * 5 - 20
PAIRS = {}
for place, bound in enumerate(BOUNDS):
    AFTER = BEFORE.copy()
    AFTER[1, place] += [bound - 1, 1]
    PAIRS[place] = BEFORE, AFTER


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("place", PAIRS)
def test_a_record_of_any_group_loses_no_more_than_is_paid(place: int, definition: Definition) -> None:
    mechanism = BoundedSums(40, by_group=BOUNDS, axis=1)
    pairs = PAIRS[place], PAIRS[place][::-1]
    found = [loss for pair in pairs for loss in losses_of(mechanism, pair, BUDGET, definition, seeds=6)]
    assert max(found) >= (0.8 if definition == "pure" else 0.1) * float(BUDGET), (
        "no more noise than is needed"
    )


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize(
    ("twin", "place"),
    [
        (BoundedSums(40, by_group=[3, 12, 40], axis=1), 1),  # the scale of another group
        (BoundedSums(40, by_group=[3, 3, 3], axis=1), 2),  # the smallest for all
        (BoundedSums(40, by_group=[3, 40], axis=2), 1),  # along another axis
    ],
)
def test_the_scale_of_another_group_would_be_noticed(
    twin: BoundedSums, place: int, definition: Definition
) -> None:
    with pytest.raises(NotPrivateError):
        losses_of(twin, PAIRS[place], BUDGET, definition, seeds=20)


def test_a_record_in_two_groups_would_be_noticed() -> None:
    """That groups are drawn in parallel rests on a record being in one of them."""
    both = BEFORE.copy()
    both[0, 0, 0] += 3
    both[0, 1, 0] += 40
    with pytest.raises(NotPrivateError):
        losses_of(BoundedSums(40, by_group=BOUNDS, axis=1), (BEFORE, both), BUDGET, "pure", seeds=20)


def test_the_outputs_of_each_group_give_no_more_away_than_the_budget() -> None:
    mechanism, budget = BoundedSums(12, by_group=[2, 12]), Fraction(1)
    one = np.array([20, 20])
    for place, bound in enumerate((2, 12)):
        other = one + np.eye(2, dtype=np.int64)[place] * bound
        held = loss_from_outputs(mechanism, one, other, budget, "pure", runs=FEWER_RUNS)
        assert held <= budget
    broken = loss_from_outputs(BoundedSums(12, by_group=[2, 2]), one, other, budget, "pure", runs=FEWER_RUNS)
    assert broken > budget


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"by_group": [1, 13]}, "from 1 to the largest"),
        ({"by_group": []}, "from 1 to the largest"),
        ({"by_group": [1, 2], "axis": -1}, "from 0"),
    ],
)
def test_bad_groups(options: dict[str, Any], what: str) -> None:
    with pytest.raises(MechanismError, match=what):
        BoundedSums(12, **options)
    with pytest.raises(MechanismError, match="there are 2 groups"):
        BoundedSums(12, by_group=[1, 2], axis=1).validated(np.zeros((2, 3), np.int64))


SPEC = """\
product: pay
dataset: survey
period: "2026"
source: {{path: people.csv}}
privacy: {{unit: {{entity: person, column: person}}, max_contributions: {most}, budget: "1"}}
columns:
  sex: {{categories: [f, m]}}
  sector: {{categories: [public, private, unknown], nulls: other, other: unknown}}
tables:
  - name: pay
    dimensions: [sex, sector]
    measures:
      sums: {{sum: pay, from: -20, to: {{by: sector, values: {{private: 300, unknown: 10, public: 100}}}}, step: 10}}
      means: {{mean: pay, step: 10, from: {{by: sector, values: {{public: 50, private: 0, unknown: 0}}}},
        to: {{by: sector, values: {{public: 100, private: 300, unknown: 10}}}}}}
      weighted: {{mean: pay, from: 0, to: {{by: sector, values: {{public: 100, private: 300, unknown: 10}}}},
        weight: {{column: weight, to: 4}}}}
"""
#: Δ of public, private and unknown.
OF_GROUPS = {"sums": (10, 30, 2), "means": (5, 30, 1), "weighted": (400, 1200, 40)}


def loaded_by_group(folder: Path, most: int) -> Loaded:
    folder.mkdir(exist_ok=True)
    (folder / "spec.yaml").write_text(SPEC.format(most=most))
    return load_spec(folder / "spec.yaml")


def people() -> pd.DataFrame:
    rows = [
        (
            f"p{i // 2}",
            "fm"[i % 2],
            ("public", "private", None)[i * i % 7 % 3],
            (-500, 900, 75.4, 4, None, 120)[i % 6],
            i % 7,
        )
        for i in range(16)
    ]
    return pd.DataFrame(rows, columns=["person", "sex", "sector", "pay", "weight"])


def arrays_by_group(folder: Path, records: pd.DataFrame, most: int) -> dict[str, Any]:
    spec = loaded_by_group(folder, most)
    records.to_csv(folder / "people.csv", index=False)
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(spec, front.SECRET, scratch)
    counted = count_tables(spec, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return {name: np.load(levels[""].path) for name, levels in counted.tables.items()}


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.audit), 2])
def test_a_unit_changes_each_group_by_no_more_than_its_own_bound(tmp_path: Path, most: int) -> None:
    records, worst = people(), {name: [0, 0, 0] for name in OF_GROUPS}
    whole = arrays_by_group(tmp_path / "all", records, most)
    for who in records.person.unique()[: runs(3, 8)]:  # the first have records of every group
        without = arrays_by_group(tmp_path / who, records[records.person != who], most)
        for name, bounds in OF_GROUPS.items():
            change = np.abs(whole[f"pay-{name}"] - without[f"pay-{name}"]).reshape(2, 3, -1).sum(axis=(0, 2))
            assert sum(change / bounds) <= most + 1e-12, (who, name)  # what its records cost together
            worst[name] = [max(each) for each in zip(worst[name], change.tolist(), strict=True)]
    assert worst["means"][1] >= 30, "no more is declared than is needed"


def test_the_declared_changes_are_those_of_the_spec_in_the_order_of_the_cells(tmp_path: Path) -> None:
    found = {each.name: each for each in loaded_by_group(tmp_path, 1).spec.arrays}
    for name, bounds in OF_GROUPS.items():
        array = found[f"pay-{name}"]
        assert array.parameters == {"largest": max(bounds), "by_group": list(bounds), "axis": 1, "levels": 1}


def test_each_record_is_clamped_to_the_bounds_of_its_group(tmp_path: Path) -> None:
    """By pandas alone, every record counted."""
    records = people()
    found = arrays_by_group(tmp_path / "all", records, 2)
    sector = records.sector.fillna("unknown")
    for name, low, high in (
        ("sums", -20, {"public": 100, "private": 300, "unknown": 10}),
        ("means", {"public": 50, "private": 0, "unknown": 0}, {"public": 100, "private": 300, "unknown": 10}),
    ):
        bottom = sector.map(low) if isinstance(low, dict) else low
        value = records.pay.clip(bottom, sector.map(high)).sub(bottom).div(10).round().mul(10).add(bottom)
        for cell, of in np.ndenumerate(np.array([[(s, g) for g in high] for s in "fm"], dtype="U7,U7")):
            own = (records.sex == of[0]) & (sector == of[1]) & value.notna()
            if name == "sums":
                assert found["pay-sums"][cell] * 10 == value[own].sum()
            else:
                above, below = found["pay-means"][cell] * 10
                shift = low[of[1]] if isinstance(low, dict) else low
                assert above == (value[own] - shift).sum()
                assert below == (high[of[1]] - value[own]).sum()
