"""Histograms of sizes as they are published: no size above the one that is publicly the largest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.tasks.publish.published_tables import histogram_table
from tests.validations.release_spec.spec_samples import block, changed, load

Runs = list[tuple[int, int]]


def table(runs: Runs, largest: int | None) -> Runs:
    frame = histogram_table(np.array(runs, np.int64).reshape(-1, 2), largest).whole()
    return list(zip(frame["size"].to_pylist(), frame["number"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("largest", "shown"),
    [
        (None, [(9, 1), (7, 2), (4, 5), (1, 8)]),
        (9, [(9, 1), (7, 2), (4, 5), (1, 8)]),
        (8, [(8, 1), (7, 2), (4, 5), (1, 8)]),
        (7, [(7, 3), (4, 5), (1, 8)]),
        (5, [(5, 3), (4, 5), (1, 8)]),
        (4, [(4, 8), (1, 8)]),
        (1, [(1, 16)]),
    ],
)
def test_sizes_stop_at_the_largest(largest: int | None, shown: Runs) -> None:
    assert table([(9, 1), (7, 2), (4, 5), (1, 8)], largest) == shown


@given(st.dictionaries(st.integers(1, 30), st.integers(1, 9)), st.integers(1, 30))
def test_no_item_is_lost(found: dict[int, int], largest: int) -> None:
    shown = table(sorted(found.items(), reverse=True), largest)
    assert sum(number for _, number in shown) == sum(found.values())
    assert all(size <= largest for size, _ in shown)
    assert shown == sorted(shown, reverse=True)
    assert len({size for size, _ in shown}) == len(shown)


@pytest.mark.parametrize(
    ("of", "words", "largest"),
    [
        ("person", "", 5),  # of units themselves, bounding leaves no more
        ("person", ", largest: 3", 3),
        ("person", ", largest: 8", 5),
        ("household", "", None),  # one unit may be in several items, and several units in one
        ("household", ", largest: 12", 12),
    ],
)
def test_which_size_is_publicly_the_largest(tmp_path: Path, of: str, words: str, largest: int | None) -> None:
    text = changed("unit: record,", "unit: {column: person}, max_contributions: 5,")
    text = block("histograms", f'histograms:\n  - {{name: sizes, of: {of}, share: "1/4"{words}}}\n', text)
    spec = load(tmp_path, text).spec
    assert spec.histograms[0].largest_size(spec.privacy) == largest
