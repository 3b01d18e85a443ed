"""The measurement store: whole, private, never replaced, every byte checked."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tabularium.ledger import BadValue, Head, MeasurementDamaged, MeasurementExists, StorageFailed
from tabularium.ledger.measurement.store import MeasurementStore, Payload

HEAD = Head(7, "ab" * 32)
ARRAYS = {"cells": np.arange(-3, 3, dtype=np.int64).reshape(2, 3), "scale": np.array(0.5)}
META = {"mechanism": "identity", "loss": "1/10", "n": [1, 2, {"x": None}]}


@pytest.fixture
def store(tmp_path: Path) -> MeasurementStore:
    return MeasurementStore(tmp_path / "a" / "measurements")


def write(store: MeasurementStore, fence: int = 1, release_id: str = "r1", **arrays: Any) -> str:
    """Write a measurement of one part, whose name is the attempt's."""
    name = str(fence)
    part = store.write_part(release_id, fence, HEAD, name, Payload.of(META, arrays or ARRAYS))
    return store.write(release_id, fence, HEAD, {name: part})


def test_what_was_written_is_read_back(store: MeasurementStore) -> None:
    other = store.write_part("r1", 1, HEAD, "ages/place", Payload.of({}, {}))
    own = store.write_part("r1", 2, HEAD, "all", Payload.of(META, ARRAYS))
    digest = store.write("r1", 2, HEAD, {"ages/place": other, "all": own})
    stored = store.read("r1", 2, digest=digest)
    assert (stored.release_id, stored.fence, stored.head, stored.digest) == ("r1", 2, HEAD, digest)
    assert list(stored.parts) == ["ages/place", "all"]
    assert (stored.parts["ages/place"].digest, stored.parts["ages/place"].arrays) == (other, {})
    part = stored.parts["all"]
    assert (part.name, part.fence, part.head, part.meta, part.digest) == ("all", 2, HEAD, META, own)
    assert list(part.arrays) == ["cells", "scale"]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(part.arrays[name], array)
        assert part.arrays[name].dtype == array.dtype
        with pytest.raises(ValueError, match="read-only"):
            part.arrays[name][...] = 0
    assert store.complete("r1", 2) == digest


def test_the_digest_is_that_of_the_whole_file(store: MeasurementStore) -> None:
    from hashlib import sha256

    digest = store.write_part("r1", 1, HEAD, "all", Payload.of(META, ARRAYS))
    data = store.part_path("r1", "all").read_bytes()
    assert sha256(data).hexdigest() == digest
    assert data.startswith(b'tabularium measurement 1\n{"arrays":[{"dtype":"<i8","name":"cells","offset":0')
    assert data.endswith(sha256(data[:-65]).hexdigest().encode() + b"\n")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        arrays_of.arrays(
            st.sampled_from(["<i8", ">i4", "<f8", "<f4", "|b1", "|u1"]),
            arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
        ),
        max_size=3,
    )
)
def test_any_numbers_are_read_back(tmp_path: Path, arrays: list[Any]) -> None:
    store = MeasurementStore(tempfile.mkdtemp(dir=tmp_path))
    named = {f"a{i}": array for i, array in enumerate(arrays)}
    store.write_part("r", 1, HEAD, "part", Payload.of({}, named))
    stored = store.read_part("r", "part").arrays
    assert len(stored) == len(arrays)
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(stored[f"a{i}"], array)
        assert stored[f"a{i}"].dtype == array.dtype.newbyteorder("<")


def test_arrays_in_any_memory_order_are_read_back(store: MeasurementStore) -> None:
    table = np.arange(24.0).reshape(4, 6)
    write(store, f=np.asfortranarray(table), t=table.T, s=table[::2, ::-3])
    stored = store.read_part("r1", "1").arrays
    np.testing.assert_array_equal(stored["f"], table)
    np.testing.assert_array_equal(stored["t"], table.T)
    np.testing.assert_array_equal(stored["s"], table[::2, ::-3])


@pytest.mark.parametrize(
    ("meta", "arrays", "named"),
    [
        ({"x": float("nan")}, {}, "meta"),
        ({"x": {1, 2}}, {}, "meta"),
        ({"x": np.int64(1)}, {}, "meta"),
        ({}, {"a": np.array([None])}, "array a"),
        ({}, {"a": np.array(["text"])}, "array a"),
        ({}, {"a": [1, 2]}, "array a"),
        ({}, {"": np.zeros(1)}, "array name"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    meta: Any, arrays: Any, named: str
) -> None:
    with pytest.raises(BadValue) as refused:
        Payload.of(meta, arrays)
    assert str(refused.value).startswith(f"{named}: ")


def test_a_file_is_never_replaced(store: MeasurementStore) -> None:
    digest = write(store)
    with pytest.raises(MeasurementExists):
        write(store, cells=np.zeros(3))
    with pytest.raises(MeasurementExists):
        store.write("r1", 1, HEAD, {})
    assert store.complete("r1", 1) == digest
    assert len([*(store.folder / "r1").iterdir()]) == 2


def test_files_and_folders_are_private(store: MeasurementStore, tmp_path: Path) -> None:
    write(store)
    for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize("of_part", [False, True])
def test_changed_bytes_and_cuts_are_refused_everywhere(store: MeasurementStore, of_part: bool) -> None:
    digest = write(store)
    path = store.part_path("r1", "1") if of_part else store.path("r1", 1)
    whole = path.read_bytes()
    for place in {*range(0, len(whole), 3), *range(len(whole) - 70, len(whole))}:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(MeasurementDamaged):
            store.read("r1", 1)
        path.write_bytes(whole[:place])
        assert store.complete("r1", 1) is None
    path.write_bytes(whole + b"\n")
    assert store.complete("r1", 1) is None
    path.write_bytes(whole)
    assert store.read("r1", 1, digest=digest).digest == digest


def test_the_wrong_file_is_refused_though_it_is_whole(store: MeasurementStore) -> None:
    digest = write(store)
    write(store, 2, cells=np.zeros(3))
    write(store, 1, "r2")
    with pytest.raises(MeasurementDamaged, match="not the one that the ledger holds"):
        store.read("r1", 2, digest=digest)
    own, part = (store.path("r1", 1), "release or attempt"), (store.part_path("r1", "1"), "release or part")
    exchange(store, "r1", 2, store.path("r1", 2), *own)
    exchange(store, "r2", 1, store.path("r2", 1), *own)
    exchange(store, "r1", 1, store.path("r1", 1), part[0], own[1])
    exchange(store, "r1", 2, store.part_path("r1", "2"), *part)
    exchange(store, "r2", 1, store.part_path("r2", "1"), *part)
    with pytest.raises(MeasurementDamaged, match="missing"):
        store.read("r3", 1)
    part[0].unlink()
    with pytest.raises(MeasurementDamaged, match="missing"):
        store.read("r1", 1)
    store.write_part("r1", 1, HEAD, "1", Payload.of({}, {}))
    with pytest.raises(MeasurementDamaged, match="not the one that the measurement names"):
        store.read("r1", 1)


def exchange(
    store: MeasurementStore, release_id: str, fence: int, path: Path, other: Path, told: str
) -> None:
    """See that ``other`` in the place of ``path`` is refused."""
    own = path.read_bytes()
    path.write_bytes(other.read_bytes())
    with pytest.raises(MeasurementDamaged, match=f"another {told}"):
        store.read(release_id, fence)
    path.write_bytes(own)


def test_older_attempts_are_destroyed_and_later_ones_and_parts_never(store: MeasurementStore) -> None:
    for fence in (1, 2, 3, 10):
        store.write("r1", fence, HEAD, {})
    write(store, 1, "r2")
    folder = store.folder / "r1"
    for name in (".draft-2-aa", ".draft-3-bb", ".draft-4-cc", "part-aa", "notes.txt"):
        (folder / name).write_text("unread")
    (folder / "1").chmod(0)  # nothing is read
    store.destroy_older_fences("r1", 3)
    left = [".draft-4-cc", "10", "3", "notes.txt", "part-aa"]
    assert sorted(path.name for path in folder.iterdir()) == left
    store.remove("r1", 10)
    store.remove("r1", 11)
    store.destroy_older_fences("r9", 3)
    left.remove("10")
    assert sorted(path.name for path in folder.iterdir()) == left
    assert store.complete("r2", 1)


def test_heads_are_those_of_all_whole_headers(store: MeasurementStore) -> None:
    assert list(store.heads()) == []
    write(store)
    later, third = Head(9, "cd" * 32), Head(11, "ef" * 32)
    store.write("r1", 2, later, {})
    (store.folder / "r2").mkdir()
    (store.folder / "r2" / "2").write_bytes(b"tabularium measurement 1\n{")
    (store.folder / "r2" / ".draft-3-aa").write_bytes(b"")
    assert sorted(store.heads()) == [HEAD, later]
    store.write_part("r3", 1, third, "a", Payload.of({}, {}))
    assert sorted(store.heads()) == [HEAD, later, third], "what was cut off has its parts' heads"


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="release r1: the measurement file could not be written"):
        write(MeasurementStore(tmp_path / "file"))


@pytest.mark.parametrize("release_id", ["../x", "", "a/b", ".hidden"])
def test_nothing_is_written_outside_the_store(store: MeasurementStore, release_id: str) -> None:
    with pytest.raises(BadValue, match="release_id"):
        write(store, 1, release_id)
    with pytest.raises(BadValue, match="fence"):
        write(store, 0)
