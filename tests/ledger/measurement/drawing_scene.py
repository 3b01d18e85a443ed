"""What the tests of drawing once share: a draw that counts, and a run of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tabularium.ledger import (
    Head,
    Ledger,
)
from tabularium.ledger.measurement.measure_once import measure_once
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.measurement.store import MeasurementStore, Payload, Stored


class Draws:
    """A draw that is never twice the same and counts how often it was called."""

    def __init__(self, inside: Callable[[], None] = lambda: None) -> None:
        self.count, self.inside = 0, inside

    def __call__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self.count += 1
        self.inside()
        return {"draw": self.count}, {"cells": np.frombuffer(os.urandom(64), np.int64)}


def run(books: Ledger, store: MeasurementStore, draw: Any, **others: Any) -> Stored:
    """Measure the part ``only``, and ``others`` before it."""
    with hold(books, "r1"):
        return measure_once(books, store, "r1", {**others, "only": draw})


def never() -> Any:
    raise AssertionError("nothing may be drawn")


def files(store: MeasurementStore) -> list[str]:
    """What stands in the release's folder beside its parts."""
    found = sorted(path.name for path in (store.folder / "r1").iterdir())
    return [name for name in found if not name.startswith("part-")]


def whole(store: MeasurementStore, books: Ledger, fence: int, *, head: Head | None = None) -> str:
    """Write a measurement, as an attempt does that dies before it records it."""
    head = head or books.head()
    part = store.write_part("r1", fence, head, "only", Payload.of({}, {"cells": np.arange(3)}))
    return store.write("r1", fence, head, {"only": part})


def charge(books: Ledger) -> Any:
    found = books.charge("r1")
    assert found is not None
    return found


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
