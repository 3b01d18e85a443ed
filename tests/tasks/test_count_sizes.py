"""Histograms are counted as they should be: sizes of items, bounded contributions, nothing told by names."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.count.count_files import CountsHandle, read_sizes
from tabularium.tasks.ingest.ingest import ingest_source
from tests.tasks import front

HEADER = (*front.HEADER, "household")
HOUSEHOLDS: list[str | None] = ["h,1", "h,1", None, "h2", "h,1", "h 3"]
ROWS = [(*row, household) for row, household in zip(front.ROWS, HOUSEHOLDS, strict=True)]
HISTOGRAMS = """histograms:
  - {name: sizes, of: household, share: "1/4"}
  - {name: ages, of: age, share: "1/4"}
"""
KEYS = [f"{number:032x}" for number in range(4)]


def counted(
    folder: Path, path: str = "people.csv", bounding: str = front.BOUNDING, **options: Any
) -> CountsHandle:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    loaded = front.spec(folder, path, edit=lambda text: text + HISTOGRAMS, **options)
    handle = ingest_source(loaded, front.SECRET, scratch)
    return count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=bounding)


def sizes(handle: CountsHandle, name: str) -> list[list[int]]:
    found: list[list[int]] = read_sizes(handle.histograms[name], front.SECRET).tolist()
    return found


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_sizes_worked_by_hand(tmp_path: Path, kind: str) -> None:
    """h,1 has three records, h2 and h 3 one each, and one record has no household. Six ages, one each."""
    write = front.write_csv if kind == "csv" else front.write_parquet
    write(tmp_path / f"people.{kind}", ROWS, HEADER)
    handle = counted(tmp_path, f"people.{kind}")
    assert sizes(handle, "sizes") == [[3, 1], [1, 2], [0, 0]]
    assert sizes(handle, "ages") == [[1, 6], [0, 0]]
    assert front.arrays(handle)["sexes", ""] == [3, 3]  # the tables count the record without a household


def test_no_item_at_all(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv", [(*row, None) for row in front.ROWS], HEADER)
    assert sizes(counted(tmp_path), "sizes") == [[0, 0]]


def test_a_unit_adds_no_more_records_than_it_may(tmp_path: Path) -> None:
    """p has eight records in eight households of its own: two of them are counted, in tables and sizes."""
    rows = [("p", "A1", "17", "f", f"own{n}") for n in range(8)] + [("q", "A1", "17", "f", "other")]
    front.write_csv(tmp_path / "people.csv", rows, HEADER)
    for key in KEYS[:2]:
        handle = counted(tmp_path, bounding=key, unit="{column: person}", most=2)
        assert sizes(handle, "sizes") == [[1, 3], [0, 0]]
        assert sizes(handle, "ages") == [[3, 1], [0, 0]]
        assert front.arrays(handle)["sexes", ""] == [3, 0]


def test_which_records_of_a_unit_are_counted_depends_on_their_items(tmp_path: Path) -> None:
    """Four records that differ in their household alone: with other keys, others of them are left out."""
    rows = [("p", "A1", "17", "f", household) for household in "abcd"]
    rows += [("q", "A1", "18", "f", household) for household in "aab"]
    front.write_csv(tmp_path / "people.csv", rows, HEADER)
    seen = set()
    for key in KEYS:
        handle = counted(tmp_path, bounding=key, unit="{column: person}", most=3)
        seen.add(tuple(map(tuple, sizes(handle, "sizes"))))
    # One of p's households is left out: a (2 + 2 + 1 + 1), b (3 + 1 + 1 + 1), c or d (3 + 2 + 1).
    assert seen <= {
        ((2, 2), (1, 2), (0, 0)),
        ((3, 1), (1, 3), (0, 0)),
        ((3, 1), (2, 1), (1, 1), (0, 0)),
    }
    assert len(seen) > 1


def test_the_handle_tells_nothing_of_the_data(tmp_path: Path) -> None:
    """How many distinct sizes there are depends on the data: handles of other sizes look the same."""
    handles = []
    cases: list[list[str | None]] = [HOUSEHOLDS, ["a"] * 6]
    for place, households in enumerate(cases):
        folder = tmp_path / str(place)
        folder.mkdir()
        rows = [(*row, household) for row, household in zip(front.ROWS, households, strict=True)]
        front.write_csv(folder / "people.csv", rows, HEADER)
        handles.append(counted(folder))
    for handle in handles:
        about = asdict(handle.histograms["sizes"])
        assert set(about) == {"path", "digest"}
        assert Path(about["path"]).stat().st_mode & 0o777 == 0o600
    assert handles[0].histograms["sizes"].digest != handles[1].histograms["sizes"].digest


def test_altered_sizes_are_refused(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv", ROWS, HEADER)
    handle = counted(tmp_path)
    np.save(handle.histograms["sizes"].path, np.array([[2, 2]]))
    with pytest.raises(InputError, match="altered"):
        sizes(handle, "sizes")


def test_the_column_must_be_there(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    with pytest.raises(InputError, match="lacks the column 'household'"):
        counted(tmp_path)
