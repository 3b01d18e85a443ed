"""Drawing once: what each state leads to, and how a draw that fails ends."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledger import (
    DrawFailed,
    Ledger,
    LedgerError,
    MeasurementDamaged,
    ReadOnly,
    StaleFence,
    StorageFailed,
    UnknownRelease,
    WrongState,
)
from ledger.measurement.measure_once import measure_once
from ledger.measurement.release_lock import hold
from ledger.measurement.store import MeasurementStore, Stored
from mechanisms.accounting import TabulariumError
from tests.ledger.scene import open_books, reserve, witness_file


@pytest.fixture
def store(place: Path) -> MeasurementStore:
    return MeasurementStore(place / "measurements")


class Draws:
    """A draw that is never twice the same and counts how often it was called."""

    def __init__(self, inside: Callable[[], None] = lambda: None) -> None:
        self.count, self.inside = 0, inside

    def __call__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self.count += 1
        self.inside()
        return {"draw": self.count}, {"cells": np.frombuffer(os.urandom(64), np.int64)}


def run(books: Ledger, store: MeasurementStore, draw: Any) -> Stored:
    with hold(books, "r1"):
        return measure_once(books, store, "r1", draw)


def never() -> Any:
    raise AssertionError("nothing may be drawn")


def files(store: MeasurementStore) -> list[str]:
    return sorted(path.name for path in (store.folder / "r1").iterdir())


def charge(books: Ledger) -> Any:
    found = books.charge("r1")
    assert found is not None
    return found


def test_noise_is_drawn_after_drawing_is_committed_and_once(books: Ledger, store: MeasurementStore) -> None:
    reserve(books)
    draws = Draws(lambda: states.append((charge(books).state, charge(books).fence)))
    states: list[tuple[str, int]] = []
    stored = run(books, store, draws)
    assert states == [("drawing", 1)]
    found = charge(books)
    assert (found.state, found.fence, found.measurement_digest) == ("measured", 1, stored.digest)
    assert books.holds(stored.head)
    again = run(books, store, never)
    assert again.digest == stored.digest
    np.testing.assert_array_equal(again.arrays["cells"], stored.arrays["cells"])
    books.published("r1", 1, digest="p")
    assert run(books, store, never).digest == stored.digest
    assert draws.count == 1


def test_a_release_must_be_held_and_reserved(books: Ledger, store: MeasurementStore) -> None:
    with pytest.raises(WrongState, match="not held"):
        measure_once(books, store, "r1", never)
    with pytest.raises(UnknownRelease):
        run(books, store, never)


@pytest.mark.parametrize("end", ["voided", "abandoned"])
def test_what_has_ended_is_not_drawn(books: Ledger, store: MeasurementStore, end: str) -> None:
    reserve(books)
    if end == "voided":
        books.void("r1", "mistake")
    else:
        books.drawing("r1")
        books.abandon("r1", "lost")
    with pytest.raises(WrongState, match=end):
        run(books, store, never)


def test_a_dead_attempt_without_a_file_is_drawn_again_under_a_new_fence(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)
    books.drawing("r1")
    stored = run(books, store, Draws())
    assert (stored.fence, charge(books).attempts, files(store)) == (2, 2, ["2"])


def test_a_dead_attempt_with_a_whole_file_is_adopted(books: Ledger, store: MeasurementStore) -> None:
    reserve(books)
    books.drawing("r1")
    digest = store.write("r1", 1, books.head(), {}, {"cells": np.arange(3)})
    (store.folder / "r1" / ".part-1-aa").write_bytes(b"a draft that was cut off")
    stored = run(books, store, never)
    found = charge(books)
    assert (found.state, found.fence, found.measurement_digest) == ("measured", 1, digest)
    assert stored.digest == digest
    assert files(store) == ["1"]


def test_a_file_of_an_older_fence_is_destroyed_not_adopted(books: Ledger, store: MeasurementStore) -> None:
    reserve(books)
    books.drawing("r1")
    store.write("r1", 1, books.head(), {}, {})
    books.drawing("r1")
    draws = Draws()
    assert run(books, store, draws).fence == 3
    assert (draws.count, files(store)) == (1, ["3"])


def test_an_incomplete_file_is_not_adopted(books: Ledger, store: MeasurementStore) -> None:
    reserve(books)
    books.drawing("r1")
    store.write("r1", 1, books.head(), {}, {"cells": np.arange(30)})
    path = store.path("r1", 1)
    path.write_bytes(path.read_bytes()[:-9])
    assert run(books, store, Draws()).fence == 2
    assert files(store) == ["2"]


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("how", ["lost", "altered", "exchanged"])
def test_a_lost_or_altered_measurement_stops_and_is_never_drawn_again(
    books: Ledger, store: MeasurementStore, how: str, published: bool
) -> None:
    reserve(books)
    run(books, store, Draws())
    if published:
        books.published("r1", 1, digest="p")
    path = store.path("r1", 1)
    good = path.read_bytes()
    if how == "altered":
        path.write_bytes(good[:-1] + b"#")
    else:
        path.unlink()
    if how == "exchanged":
        store.write("r1", 1, books.head(), {}, {"cells": np.arange(3)})
    before = books.head()
    with pytest.raises(MeasurementDamaged, match="will not be drawn again; restore the file"):
        run(books, store, never)
    assert books.head() == before
    path.write_bytes(good)
    run(books, store, never)


def test_a_file_from_a_forgotten_history_is_not_adopted(
    books: Ledger, store: MeasurementStore, place: Path
) -> None:
    reserve(books)
    books.drawing("r1")
    head = books.head()
    store.write("r1", 1, type(head)(head.seq, "0" * 64), {}, {})
    with pytest.raises(MeasurementDamaged, match="old copy"):
        run(books, store, never)
    with open_books(place, known_heads=store.heads()) as again, pytest.raises(ReadOnly):
        reserve(again, "r2")


SECRET = "sentinel-4711"


class ForeignError(Exception):
    pass


def raises(error: BaseException) -> Callable[[], Any]:
    def draw() -> Any:
        hidden = SECRET
        try:
            raise ValueError(f"the count was {hidden}")
        except ValueError as cause:
            error.add_note(hidden)
            raise error from cause

    return draw


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ForeignError(SECRET), DrawFailed),
        (MemoryError(SECRET), DrawFailed),
        (TabulariumError("the mechanism met a domain it cannot hold"), TabulariumError),
        (KeyboardInterrupt(SECRET), KeyboardInterrupt),
        (SystemExit(SECRET), SystemExit),
        (GeneratorExit(SECRET), DrawFailed),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_whatever_the_draw_raises_abandons_the_charge_and_leaves_no_text(
    books: Ledger, store: MeasurementStore, error: BaseException, kind: type[BaseException]
) -> None:
    reserve(books)
    with pytest.raises(BaseException) as caught:
        run(books, store, raises(error))
    assert type(caught.value) is kind
    told = "".join(traceback.format_exception(caught.value, chain=True))
    told += repr(caught.value) + repr(caught.value.__dict__) + repr(pickle.dumps(caught.value))
    chain: BaseException | None = caught.value
    while chain is not None:
        told += str(chain)
        frames = [frame for frame, _ in traceback.walk_tb(chain.__traceback__)]
        assert "draw" not in [frame.f_code.co_name for frame in frames]
        told += "".join(repr(frame.f_locals) for frame in frames if "tests" not in frame.f_code.co_filename)
        chain = chain.__cause__ or chain.__context__
    assert SECRET not in told
    found = charge(books)
    assert (found.state, found.fence) == ("abandoned", 1)
    assert SECRET not in (found.reason or "")
    assert books.account("census").spent == found.amount
    with pytest.raises(WrongState, match="abandoned"):
        run(books, store, never)


@pytest.mark.parametrize(
    "returned", [None, ({}, {"a": np.array([object()])}), ({"x": float("nan")}, {}), ({}, {"a": 1}), 3]
)
def test_a_draw_that_cannot_be_stored_is_a_failed_draw(
    books: Ledger, store: MeasurementStore, returned: Any
) -> None:
    reserve(books)
    with pytest.raises(LedgerError):
        run(books, store, lambda: returned)
    assert charge(books).state == "abandoned"


def test_a_failed_draw_whose_abandoning_fails_stays_spent(
    books: Ledger, store: MeasurementStore, place: Path
) -> None:
    reserve(books)

    def fail() -> None:
        witness_file(place).rename(place / "witness")
        witness_file(place).write_bytes(b"#" * 8192)
        raise ForeignError(SECRET)

    with pytest.raises(DrawFailed):
        run(books, store, Draws(fail))
    (place / "witness").replace(witness_file(place))
    assert charge(books).state == "drawing"
    assert books.account("census").spent == charge(books).amount


def test_a_full_disk_after_the_draw_leaves_an_attempt_that_can_be_made_again(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)
    store.folder.parent.mkdir(exist_ok=True)
    store.folder.write_text("no folder can be made here")
    with pytest.raises(StorageFailed):
        run(books, store, Draws())
    assert charge(books).state == "drawing"
    store.folder.unlink()
    assert run(books, store, Draws()).fence == 2


@pytest.mark.parametrize("taken", ["new attempt", "abandoned", "finished"])
def test_a_holder_that_was_overtaken_while_drawing_writes_nothing(
    books: Ledger, store: MeasurementStore, taken: str
) -> None:
    reserve(books)

    def overtake() -> None:
        if taken == "abandoned":
            books.abandon("r1", "an officer gave it up")
        else:
            books.drawing("r1")
        if taken == "finished":
            digest = store.write("r1", 2, books.head(), {}, {"cells": np.arange(3)})
            books.measured("r1", 2, digest=digest)
            books.published("r1", 2, digest="p")
        heads.append(books.head())

    heads: list[Any] = []
    with pytest.raises(StaleFence):
        run(books, store, Draws(overtake))
    assert [books.head()] == heads
    assert not store.path("r1", 1).exists()
    if taken == "finished":
        assert files(store) == ["2"]
        assert run(books, store, never).fence == 2


class WatchedStore(MeasurementStore):
    """A real store that lets something happen before a file is read and after one is written."""

    before_read: Callable[[], Any] = staticmethod(lambda: None)
    after_write: Callable[[], Any] = staticmethod(lambda: None)
    writes = 0

    def read(self, *args: Any, **kwargs: Any) -> Stored:
        self.before_read()
        return super().read(*args, **kwargs)

    def write_payload(self, *args: Any) -> str:
        self.writes += 1
        digest = super().write_payload(*args)
        self.after_write()
        return digest


def test_an_overtaken_holder_does_not_even_begin_to_write(books: Ledger, place: Path) -> None:
    store = WatchedStore(place / "measurements")
    reserve(books)
    with pytest.raises(StaleFence):
        run(books, store, Draws(lambda: books.drawing("r1")))
    assert store.writes == 0


@pytest.mark.parametrize("taken", ["new attempt", "abandoned"])
def test_a_holder_that_was_overtaken_while_writing_takes_its_file_away(
    books: Ledger, place: Path, taken: str
) -> None:
    store = WatchedStore(place / "measurements")
    if taken == "abandoned":
        store.after_write = lambda: books.abandon("r1", "an officer gave it up")
    else:
        store.after_write = lambda: books.drawing("r1")
    reserve(books)
    with pytest.raises((StaleFence, WrongState)):
        run(books, store, Draws())
    assert (store.writes, files(store)) == (1, [])
    assert charge(books).measurement_digest is None


def test_a_holder_whose_file_another_has_adopted_goes_on(books: Ledger, place: Path) -> None:
    store = WatchedStore(place / "measurements")

    def adopt() -> None:
        digest = MeasurementStore(store.folder).complete("r1", 1)
        books.measured("r1", 1, digest=digest or "")
        books.published("r1", 1, digest="p")

    store.after_write = adopt
    reserve(books)
    assert run(books, store, Draws()).digest == charge(books).measurement_digest
    assert charge(books).state == "published"


def test_a_holder_that_was_overtaken_before_drawing_does_not_draw(books: Ledger, place: Path) -> None:
    store = WatchedStore(place / "measurements")
    store.before_read = lambda: books.drawing("r1")
    reserve(books)
    books.drawing("r1")
    with pytest.raises(StaleFence):
        run(books, store, never)
    assert (charge(books).state, charge(books).fence) == ("drawing", 2)


def test_an_overtaken_holder_that_fails_does_not_abandon_the_other(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)

    def overtaken() -> None:
        books.drawing("r1")
        raise ForeignError(SECRET)

    with pytest.raises(DrawFailed):
        run(books, store, Draws(overtaken))
    assert (charge(books).state, charge(books).fence) == ("drawing", 2)
