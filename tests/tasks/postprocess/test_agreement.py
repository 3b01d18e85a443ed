"""What tables of a spec share, worked by hand on a country of two regions and three places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.validations.release_spec.load import load_spec
from tests.validations.release_spec.spec_samples import SPEC, block, write_spec

TWO = """\
tables:
  - {name: by_sex, dimensions: [area, sex], levels: {nation: "1/2", place: "1/2"}}
  - {name: by_age, dimensions: [area, age], levels: {region: "1"}}
"""
KNOWN = 'invariants:\n  - {name: people, count: 60, reason: "registry"}\n'


def agreement(folder: Path, text: str) -> Agreement:
    return Agreement.of(load_spec(write_spec(folder, text)))


def by_sex(places: list[list[float]]) -> np.ndarray:
    """(country, 2 regions, 3 places) x sex from the places N1, N2 and S1."""
    low = np.array(places)
    return np.vstack((low.sum(axis=0), low[:2].sum(axis=0), low[2], low))


def test_differences_are_counted_per_shared_number(tmp_path: Path) -> None:
    made = agreement(tmp_path, block("tables", TWO) + KNOWN)
    assert not made.alone
    good = {
        "by_sex": by_sex([[10, 5], [5, 10], [20, 10]]),
        "by_age": np.array([[20, 20, 20, 0], [10, 10, 10, 0], [10, 10, 10, 0]]),
    }
    assert made.differences(good) == 0
    moved = {**good, "by_age": np.array([[20, 20, 20, 0], [11, 10, 10, 0], [9, 10, 10, 0]])}
    assert made.differences(moved) == 2, "both regions; the nation still agrees"
    fewer = {**good, "by_sex": by_sex([[10, 5], [5, 10], [20, 9]])}
    assert made.differences(fewer) == 2, "region S with by_age, and the total with the invariant"
    large = {name: table * 10**9 for name, table in good.items()}
    large["by_age"][0, 0] += 1
    large["by_age"][1, 0] += 1  # what the two tables share is the regions
    assert made.differences(large) == 3, "one in a billion, and both totals"


def test_a_hierarchy_that_is_flat_elsewhere_is_named_and_left_out(tmp_path: Path) -> None:
    text = block(
        "tables",
        "tables:\n  - {name: one, dimensions: [area, sex]}\n"
        "  - {name: other, dimensions: [work, area], along: work}\n",
    ).replace("  age:", "  work: {hierarchy: work.csv, levels: [all, kind]}\n  age:")
    folder = write_spec(tmp_path, text).parent
    (folder / "work.csv").write_text("code,label,parent\n0,All,\n1,One,0\n2,Two,0\n")
    made = Agreement.of(load_spec(folder / "spec.yaml"))
    assert made.apart == ("area",)
    assert [str(link.marginal) for link in made.overlap.links] == ["total"]


def test_one_table_takes_the_short_way_to_the_same_answer(tmp_path: Path) -> None:
    """The long way, by way of an invariant that says what the short way found."""
    one = block("tables", TWO.replace(TWO.splitlines(keepends=True)[2], ""), SPEC)
    values = np.array([[30.0, 31.0], [0, 0], [0, 0], [9, 5], [6, -4], [21, 12]])
    spread = np.array([[2.0], [np.inf], [np.inf], [4.0], [4.0], [4.0]])
    short = agreement(tmp_path / "short", one)
    measured = {"by_sex": Estimate(values, spread)}
    finished = short.whole(short.nonnegative(short.consistent(measured).estimates).estimates)
    total = round(float(short.consistent(measured).estimates["by_sex"].values[0].sum()))
    long = agreement(tmp_path / "long", one + KNOWN.replace("60", str(total)))
    again = long.whole(long.nonnegative(long.consistent(measured).estimates).estimates)
    table = again.estimates["by_sex"].values
    assert table[0].sum() == total
    assert np.abs(table - finished.estimates["by_sex"].values).max() <= 1
    assert (table >= 0).all()
    assert long.differences({"by_sex": table.astype(np.int64)}) == 0
    assert again.notes["violations"] == {}


def test_exact_numbers_have_no_variance(tmp_path: Path) -> None:
    made = agreement(tmp_path, block("tables", TWO) + KNOWN)
    zeros = {
        "by_sex": Estimate(np.zeros((6, 2)), np.full((6, 1), 2.0)),
        "by_age": Estimate(np.zeros((3, 4)), np.full((3, 1), 2.0)),
    }
    found = made.consistent(zeros)
    sums = [table.values[0].sum() for table in found.estimates.values()]
    assert sums == pytest.approx([60, 60])
    assert set(found.estimates) == {"by_sex", "by_age"}, "the invariant is no table"
    rough = made.consistent(zeros, variances=False).estimates
    assert all(np.allclose(rough[name].values, found.estimates[name].values) for name in rough)
