"""What stays open from one stage of a run to the next: the snapshot of a database, the session of an engine.

Handles that travel between stages name such things by a word that tells nothing. They live in this process
alone and end with the run.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tabularium.mechanisms.errors import InputError


class Closing(Protocol):
    """Anything that is closed at the end."""

    def close(self) -> None:
        """End it."""


_kept: dict[str, tuple[Path, Closing]] = {}


def keep(place: Path, thing: Closing) -> str:
    """Keep ``thing`` open for the run whose workspace holds ``place``; return the word that names it."""
    word = uuid.uuid4().hex
    _kept[word] = (place.resolve(), thing)
    return word


def kept(
    word: str,
    gone: str = "the view of the records that the run began with is gone",
    where: str = "source.engine",
) -> Any:
    """Return what was kept under a word; ``gone`` and ``where`` say what it was if it is there no more.

    Raises
    ------
    InputError
        If it was closed, or lives in another process.
    """
    if word not in _kept:
        raise InputError(gone, where=where, hint="run again: it starts over, and nothing is lost")
    return _kept[word][1]


def close_within(folder: Path) -> None:
    """Close whatever is kept for places inside ``folder``."""
    inside = folder.resolve()
    for word, (place, thing) in list(_kept.items()):
        if place.is_relative_to(inside):
            del _kept[word]
            with suppress(Exception):  # a connection that broke is closed too
                thing.close()
