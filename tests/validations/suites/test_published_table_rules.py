"""Cells that fail a check are named, the first twenty of them, and the others counted."""

from __future__ import annotations

import numpy as np
import pytest

from tabularium.validations.release_spec.publication import PostProcessing
from tabularium.validations.suites.published_tables import (
    MOST,
    NEGATIVE,
    NO_MARGIN,
    NO_NUMBER,
    NOT_INTEGERS,
    NOT_THE_SUM,
    Fault,
    table_faults,
)

# 0 ── 1 ── 3, 4;  0 ── 2
PARENTS = np.array([-1, 0, 0, 1, 1])
GOOD = np.array([[6, 9], [4, 5], [2, 4], [1, 0], [3, 5]])


def codes(node: int, cell: int) -> dict[str, str]:
    return {"area": "NABCD"[node], "sex": "fm"[cell]}


def found(table: np.ndarray, margins: np.ndarray | None = None, **promised: bool) -> list[Fault]:
    return table_faults("people", PARENTS, table, codes, promised=PostProcessing(**promised), margins=margins)


def test_a_good_table_has_none() -> None:
    assert found(GOOD, margins=np.ones((5, 2))) == []
    assert found(GOOD.astype(float)) == []
    assert table_faults("one", np.array([-1]), np.zeros((1, 3)), codes, promised=PostProcessing()) == []


def test_a_sum_that_does_not_add_up_is_named_at_its_parent() -> None:
    table = GOOD.copy()
    table[3, 1] += 1
    (only,) = found(table)
    assert only == Fault("people", NOT_THE_SUM, ({"area": "A", "sex": "m"},), 1)
    assert list(only.lines()) == ["table people: area A, sex m: not the sum of its parts"]
    assert found(table, consistency=False) == []


def test_every_check_names_its_own_cells() -> None:
    table = GOOD.astype(float)
    table[3] = [-1.0, 0.5]
    table[4] = [5.0, np.nan]
    margins = np.ones((5, 2))
    margins[2, 0] = np.inf
    by_check = {each.check: each.cells for each in found(table, margins=margins)}
    assert by_check == {
        NO_NUMBER: ({"area": "D", "sex": "m"},),
        NOT_INTEGERS: ({"area": "C", "sex": "m"},),
        NEGATIVE: ({"area": "C", "sex": "f"},),
        NOT_THE_SUM: ({"area": "A", "sex": "m"},),
        NO_MARGIN: ({"area": "B", "sex": "f"},),
    }


@pytest.mark.parametrize("count", [MOST, MOST + 1, 1000])
def test_no_more_than_twenty_are_named(count: int) -> None:
    (only,) = table_faults(
        "wide",
        np.array([-1]),
        np.full((1, count), -1),
        lambda _, cell: {"cell": str(cell)},
        promised=PostProcessing(),
    )
    assert (only.count, len(only.cells)) == (count, MOST)
    lines = list(only.lines())
    assert lines[MOST - 1] == "table wide: cell 19: negative"
    assert lines[MOST:] == ([f"table wide: {count - MOST:,} cells more: negative"] if count > MOST else [])
