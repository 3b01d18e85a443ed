"""Drawing once: holders that another attempt overtook, and what they drew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.ledger import (
    Ledger,
    MechanismFailed,
    StaleFence,
    WrongState,
)
from tabularium.ledger.measurement.store import MeasurementStore, Payload, Stored
from tests.ledger.measurement.drawing_scene import (
    SECRET,
    Draws,
    ForeignError,
    charge,
    files,
    never,
    run,
    whole,
)
from tests.ledger.scene import reserve


@pytest.fixture
def store(place: Path) -> MeasurementStore:
    return MeasurementStore(place / "measurements")


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
            digest = whole(store, books, 2)
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
    """A real store that lets something happen before a file is read and around what is written."""

    before_read: Callable[[], Any] = staticmethod(lambda: None)
    before_part: Callable[[], Any] = staticmethod(lambda: None)
    after_part: Callable[[], Any] = staticmethod(lambda: None)
    after_write: Callable[[], Any] = staticmethod(lambda: None)
    writes = 0

    def read(self, *args: Any, **kwargs: Any) -> Stored:
        self.before_read()
        return super().read(*args, **kwargs)

    def write_part(self, *args: Any) -> str:
        self.writes += 1
        self.before_part()
        digest = super().write_part(*args)
        self.after_part()
        return digest

    def write(self, *args: Any) -> str:
        digest = super().write(*args)
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


def test_a_late_writer_that_finds_the_part_there_takes_the_stored_one(books: Ledger, place: Path) -> None:
    store, other = WatchedStore(place / "measurements"), MeasurementStore(place / "measurements")
    reserve(books)
    stored = Payload.of({}, {"cells": np.arange(3)})
    store.before_part = lambda: other.write_part("r1", 1, books.head(), "only", stored)
    draws = Draws()
    found = run(books, store, draws)
    assert draws.count == 1
    np.testing.assert_array_equal(found.parts["only"].arrays["cells"], np.arange(3))


def test_a_late_writer_that_is_first_has_drawn_for_the_attempt_that_overtook_it(
    books: Ledger, place: Path
) -> None:
    store, other = WatchedStore(place / "measurements"), MeasurementStore(place / "measurements")
    reserve(books)
    first: list[Any] = []

    def overtaken() -> None:  # while the other attempt, which has the next fence, draws the same part
        fence = books.drawing("r1")
        first.append(other.read_part("r1", "only"))
        digest = other.write("r1", fence, books.head(), {"only": first[0].digest})
        books.measured("r1", fence, digest=digest)

    store.after_part = overtaken
    with pytest.raises(StaleFence):
        run(books, store, Draws())
    found = run(books, other, never)
    assert (found.fence, found.parts["only"].digest) == (2, first[0].digest)


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

    with pytest.raises(MechanismFailed):
        run(books, store, Draws(overtaken))
    assert (charge(books).state, charge(books).fence) == ("drawing", 2)
