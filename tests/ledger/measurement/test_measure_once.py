"""Drawing once: what each state leads to, and how a draw that fails ends."""

from __future__ import annotations

import pickle
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.ledger import (
    Head,
    Ledger,
    LedgerError,
    MeasurementDamaged,
    MechanismFailed,
    ReadOnly,
    StorageFailed,
    UnknownRelease,
    WrongState,
)
from tabularium.ledger.measurement.measure_once import measure_once
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.measurement.store import MeasurementStore, Payload
from tabularium.mechanisms.accounting import TabulariumError
from tests.ledger.measurement.drawing_scene import (
    SECRET,
    Draws,
    ForeignError,
    charge,
    files,
    never,
    raises,
    run,
    whole,
)
from tests.ledger.scene import both, open_books, reserve, witness_file


@pytest.fixture
def store(place: Path) -> MeasurementStore:
    return MeasurementStore(place / "measurements")


@both
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
    np.testing.assert_array_equal(again.parts["only"].arrays["cells"], stored.parts["only"].arrays["cells"])
    books.published("r1", 1, digest="p")
    assert run(books, store, never).digest == stored.digest
    assert draws.count == 1


def test_a_release_must_be_held_and_reserved(books: Ledger, store: MeasurementStore) -> None:
    with pytest.raises(WrongState, match="not held"):
        measure_once(books, store, "r1", {"only": never})
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
    digest = whole(store, books, 1)
    (store.folder / "r1" / ".draft-1-aa").write_bytes(b"a draft that was cut off")
    stored = run(books, store, never)
    found = charge(books)
    assert (found.state, found.fence, found.measurement_digest) == ("measured", 1, digest)
    assert stored.digest == digest
    assert files(store) == ["1"]


def test_the_file_of_an_older_fence_is_destroyed_and_its_parts_are_adopted(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)
    books.drawing("r1")
    whole(store, books, 1)
    part = store.read_part("r1", "only")
    books.drawing("r1")
    stored = run(books, store, never)
    assert (stored.fence, files(store)) == (3, ["3"])
    assert stored.parts["only"].digest == part.digest


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_resumed_attempt_draws_only_the_parts_that_are_not_stored(
    books: Ledger, store: MeasurementStore, kept: int
) -> None:
    reserve(books)
    names = ["a", "b", "c"]

    def die() -> None:
        raise KeyboardInterrupt

    first = {name: Draws(die if place == kept else lambda: None) for place, name in enumerate(names)}
    with hold(books, "r1"), suppress(KeyboardInterrupt):
        measure_once(books, Dies(store.folder, kept == 3), "r1", first, asked_to_stop=lambda: True)
    before = {name: store.read_part("r1", name) for name in names[:kept]}
    again = {name: Draws() for name in names}
    with hold(books, "r1"):
        stored = measure_once(books, store, "r1", again)
    assert [again[name].count for name in names] == [0] * kept + [1] * (3 - kept)
    assert (list(stored.parts), stored.fence, charge(books).attempts) == (names, 2, 2)
    for name, part in before.items():
        assert stored.parts[name].digest == part.digest
        np.testing.assert_array_equal(stored.parts[name].arrays["cells"], part.arrays["cells"])


class Dies(MeasurementStore):
    """A real store; whoever uses it dies before it has named the parts, if ``at_last``."""

    def __init__(self, folder: Path, at_last: bool) -> None:
        super().__init__(folder)
        self.at_last = at_last

    def write(self, *args: Any) -> str:
        if self.at_last:
            raise KeyboardInterrupt
        return super().write(*args)


def test_a_part_that_is_stored_and_cannot_be_read_is_not_drawn_again(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)
    books.drawing("r1")
    whole(store, books, 1)
    path = store.part_path("r1", "only")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(MeasurementDamaged, match="will not be drawn again"):
        run(books, store, never)
    assert charge(books).state == "drawing"


def test_what_raises_after_some_parts_are_stored_ends_the_release(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)
    with pytest.raises(MechanismFailed):
        run(books, store, raises(ForeignError(SECRET)), first=Draws())
    assert charge(books).state == "abandoned"
    assert store.has_part("r1", "first")
    assert files(store) == []
    with pytest.raises(WrongState, match="abandoned"):
        run(books, store, never, first=never)


def test_word_is_left_after_drawing_is_committed_and_before_anything_is_drawn(
    books: Ledger, store: MeasurementStore
) -> None:
    reserve(books)
    told: list[str] = []

    def fail() -> None:
        told.append(charge(books).state)
        raise StorageFailed("no word can be left", where="here", hint="mend it")

    with hold(books, "r1"), pytest.raises(StorageFailed):
        measure_once(books, store, "r1", {"only": never}, announce=fail)
    assert (told, charge(books).state) == (["drawing"], "drawing")
    with hold(books, "r1"):
        measure_once(books, store, "r1", {"only": Draws()}, announce=lambda: told.append("word"))
        measure_once(books, store, "r1", None, announce=fail)
    assert told == ["drawing", "word"]


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("how", ["lost", "altered", "exchanged"])
@pytest.mark.parametrize("of_part", [False, True])
def test_a_lost_or_altered_measurement_stops_and_is_never_drawn_again(
    books: Ledger, store: MeasurementStore, of_part: bool, how: str, published: bool
) -> None:
    reserve(books)
    run(books, store, Draws())
    if published:
        books.published("r1", 1, digest="p")
    path = store.part_path("r1", "only") if of_part else store.path("r1", 1)
    good = path.read_bytes()
    if how == "altered":
        path.write_bytes(good[:-1] + b"#")
    else:
        path.unlink()
    if how == "exchanged" and of_part:
        store.write_part("r1", 1, books.head(), "only", Payload.of({}, {"cells": np.arange(3)}))
    elif how == "exchanged":
        store.write("r1", 1, books.head(), {})
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
    store.write("r1", 1, Head(books.head().seq, "0" * 64), {})
    with pytest.raises(MeasurementDamaged, match="old copy"):
        run(books, store, never)
    with open_books(place, known_heads=store.heads()) as again, pytest.raises(ReadOnly):
        reserve(again, "r2")


def test_a_part_from_a_forgotten_history_is_not_adopted(books: Ledger, store: MeasurementStore) -> None:
    reserve(books)
    books.drawing("r1")
    store.write_part("r1", 1, Head(books.head().seq, "0" * 64), "only", Payload.of({}, {}))
    with pytest.raises(MeasurementDamaged, match="old copy"):
        run(books, store, never)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ForeignError(SECRET), MechanismFailed),
        (MemoryError(SECRET), MechanismFailed),
        (TabulariumError("the mechanism met a domain it cannot hold"), TabulariumError),
        (KeyboardInterrupt(SECRET), KeyboardInterrupt),
        (SystemExit(SECRET), SystemExit),
        (GeneratorExit(SECRET), MechanismFailed),
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

    with pytest.raises(MechanismFailed):
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
