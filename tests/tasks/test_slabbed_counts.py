"""Cell numbers put aside by slab: counted as if they had been held, and readable by nobody else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.count import count_files
from tabularium.tasks.count.count_files import SlabbedCounts, Spill
from tabularium.tasks.runtime.workspace import close_all
from tabularium.validations.release_spec.checks import table_checks as large_tables
from tabularium.validations.release_spec.checks.table_checks import slabs

SHAPE = (7, 2, 3)  # 42 cells


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "SLAB", 12)  # two nodes
    monkeypatch.setattr(count_files, "_WAITING", 10)


def spilled(folder: Path, batches: list[list[int]]) -> SlabbedCounts:
    spill = Spill(folder / "slabs", SHAPE)
    for batch in batches:
        spill.add(np.array(batch, np.int64))
    return spill.close()


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 41), max_size=30), max_size=5),
    place=st.lists(st.integers(0, 3), min_size=7, max_size=7),
)
def test_slabs_and_levels_above_are_what_was_put_aside(
    batches: list[list[int]], place: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = spilled(tmp_path_factory.mktemp("spill"), batches)
    every = np.bincount([cell for batch in batches for cell in batch], minlength=42).reshape(SHAPE)
    for number, (first, last) in enumerate(slabs(SHAPE)):
        np.testing.assert_array_equal(found.slab(number), every[first:last])
    above = np.zeros((4, 2, 3), np.int64)
    np.add.at(above, place, every)
    np.testing.assert_array_equal(found.at(np.array(place), 1, 3), above[1:3])


def test_nothing_on_disk_tells_where_anybody_is(tmp_path: Path) -> None:
    """The same records twice: files of the same sizes that have nothing in common."""
    batches = [[0, 1, 2, 41], [3] * 40]
    one, other = spilled(tmp_path / "one", batches), spilled(tmp_path / "other", batches)
    for path in Path(one.folder).iterdir():
        again = Path(other.folder) / path.name
        assert np.array([3], np.uint32).tobytes() * 3 not in path.read_bytes()
        assert path.read_bytes() != again.read_bytes()


@pytest.mark.parametrize("damage", ["flipped", "cut", "swapped", "gone", "key"])
def test_counts_that_are_not_what_was_put_aside_are_refused(damage: str, tmp_path: Path) -> None:
    found = spilled(tmp_path, [[0, 1, 2], [12, 13, 14], [3, 4]])
    path = Path(found.folder) / "0"
    content = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(content[:-3])
    elif damage == "swapped":
        path.write_bytes((Path(found.folder) / "1").read_bytes())
    elif damage == "gone":
        path.unlink()
    else:
        close_all(tmp_path)
    with pytest.raises(InputError, match="run again"):
        found.slab(0)


def test_they_are_removed_in_the_end(tmp_path: Path) -> None:
    found = spilled(tmp_path, [[0]])
    found.discard()
    assert list(tmp_path.iterdir()) == []
