"""Margins hold near bounds, among the narrowest, and among what is shown of nearly empty cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.bench_shown import Tally, loaded_for, tallies
from tests.sizes import runs

Tallies = Mapping[str, Tally]
RATIOS = ("average", "share_ill", "ill_of_all")
PAIRS = runs(1200, 8000)


@pytest.fixture(autouse=True)
def few_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Margins of counts take most of the time, and are no matter here."""
    monkeypatch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 4)


def published(folder: Path, epsilon: str, place: str, size: str) -> Tallies:
    return tallies(loaded_for(epsilon, 400, folder), place, size, PAIRS)


@pytest.mark.parametrize(("place", "size"), [("rare", "51-500"), ("near the bound", "51-500")])
def test_the_narrowest_margins_hold_near_a_bound(tmp_path: Path, place: str, size: str) -> None:
    """Before negative parts were lifted, 65 to 75 in a hundred of the narrowest tenth held."""
    found = published(tmp_path, "1/4", place, size)
    for name in ("average", "share_ill", "ill_of_all"):
        tally = found[name]
        assert tally.surest >= PAIRS / 10
        assert tally.held / tally.pairs >= 0.88, name
        assert tally.surest_held / tally.surest >= 0.85, name  # at most 120 pairs at usual size


def test_of_nearly_empty_cells_hardly_any_is_shown_and_none_without_records(tmp_path: Path) -> None:
    """Half of all such means were shown, one in eight of a cell without any record."""
    found = published(tmp_path, "8", "middle", "0-4")
    shown = 0
    for name in RATIOS:
        tally = found[name]
        shown += tally.pairs
        # A share of at most .01 on average; of few pairs four more are still no wonder.
        assert tally.without <= 0.01 * (tally.pairs + tally.without) + 4, name
        assert tally.pairs < 100 or tally.held / tally.pairs >= 0.87, name
    assert shown
