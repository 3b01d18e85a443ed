"""The smallest change that invariants allow, where what is measured follows from what is counted."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest

from tabularium.validations.release_spec.exact_facts import neighbours
from tests.validations.release_spec.spec_samples import load

AGES, PAYS = range(4), range(2)
SPEC = """\
product: small
dataset: people
period: "2026"
source: {path: people.csv, max_rejected: "100%"}
privacy: {unit: record, budget: "1"}
columns:
  years: {from: age, integer: {from: 0, to: 3, width: WIDTH}EXTRA}
  sex: {categories: [f, m]}
tables:
  - {name: t, dimensions: [years, sex]MEASURES}
invariants:
  - {name: i1, dimensions: [years], values: i1.csv, reason: public}
  - {name: i2, dimensions: [sex], values: i2.csv, reason: public}
"""
MEAN = ", measures: {m: {mean: age, from: 0, to: 3}}"
PAY = ", measures: {m: {sum: pay, from: 0, to: 1}}"
WEIGHED = ", measures: {m: {sum: age, from: 0, to: 3, weight: {column: pay, to: 1}}}"
SIZES = 'histograms: [{name: sizes, of: age, share: "1/4"}]\n'
TOTAL = "invariants: [{name: i0, count: 3, reason: public}]\n"


def units(folder: Path, measures: str, *, width: int = 1, extra: str = "", more: str = "") -> int | None:
    cells = ["0", "1", "2", "3"] if width == 1 else ["0-1", "2-3"] if width == 2 else ["0-3"]
    cells += ["?"] if extra else []
    lists = {"i1.csv": "years,count\n" + "".join(f"{cell},2\n" for cell in cells)}
    lists["i2.csv"] = f"sex,count\nf,{len(cells)}\nm,{len(cells)}\n"
    text = SPEC.replace("WIDTH", str(width)).replace("MEASURES", measures).replace("EXTRA", extra) + more
    if more.startswith("invariants"):
        text = text[: text.index("invariants")] + more
    loaded = load(folder, text, lists)
    return neighbours(loaded.spec, loaded.domains).units


def smallest(*, pay: bool, width: int = 1) -> int:
    """The fewest records that two inputs of three records differ in, of those with the same marginals.

    Only inputs are compared of which not all that is measured is the same.
    """
    known: dict[tuple[object, ...], list[Counter[tuple[object, ...]]]] = {}
    for records in combinations_with_replacement(product(AGES, "fm", PAYS if pay else [0]), 3):
        told = tuple(sorted(age // width for age, _, _ in records)), tuple(sorted(s for _, s, _ in records))
        known.setdefault(told, []).append(Counter(records))
    return min((a - b).total() for alike in known.values() for a in alike for b in alike if a != b)


def test_a_value_that_its_cell_tells_is_not_free(tmp_path: Path) -> None:
    assert units(tmp_path, "") == units(tmp_path, MEAN) == smallest(pay=False) == 2
    assert units(tmp_path, "", more=SIZES) == 2


@pytest.mark.parametrize("measures", [PAY, WEIGHED])
def test_a_value_that_no_cell_tells_is_free(tmp_path: Path, measures: str) -> None:
    assert units(tmp_path, measures) == smallest(pay=True) == 1


@pytest.mark.parametrize("more", ["", SIZES])
@pytest.mark.parametrize(("width", "extra"), [(2, ""), (1, ', nulls: other, invalid: other, other: "?"')])
def test_of_a_cell_with_several_values_no_number_is_given(
    tmp_path: Path, width: int, extra: str, more: str
) -> None:
    assert units(tmp_path, "" if more else MEAN, width=width, extra=extra, more=more) is None


def test_where_a_total_is_fixed_any_record_can_be_any_other(tmp_path: Path) -> None:
    for width in (1, 4):
        assert units(tmp_path, MEAN, width=width, more=TOTAL) == 1


@pytest.mark.parametrize(
    ("extra", "found"),
    [("", 2), (', nulls: other, other: "?"', 2), (', nulls: other, invalid: other, other: "?"', 1)],
)
def test_nulls_of_a_column_of_the_source_may_be_told_by_a_cell(
    tmp_path: Path, extra: str, found: int
) -> None:
    """``age`` itself is not declared: years are made of it, and the nulls of it are rejected or counted."""
    assert units(tmp_path, ', measures: {m: {percent: "age is null"}}', extra=extra) == found


def test_where_values_cannot_occur_together_no_number_is_given(tmp_path: Path) -> None:
    """An exchange may need a cell that nobody can be in."""
    more = 'impossible: [{cells: {years: ["0"], sex: [f]}, reason: public}]\n'
    assert units(tmp_path, "", more=more) is None
