"""Resources that stay open from one stage of a run to the next: a database's snapshot, an engine's session.

What travels between stages names them by a random handle. They live in this process alone, and end with the
run.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tabularium.mechanisms.errors import InputError


class Resource(Protocol):
    """Anything that is closed at the end."""

    def close(self) -> None:
        """End it."""


_open: dict[str, tuple[Path, Resource]] = {}


def register(place: Path, resource: Resource) -> str:
    """Keep a resource open for the run whose workspace holds ``place``; return its handle."""
    handle = uuid.uuid4().hex
    _open[handle] = (place.resolve(), resource)
    return handle


def get(
    handle: str,
    gone: str = "the view of the records that the run began with is gone",
    where: str = "source.engine",
) -> Any:
    """Return the resource of a handle; ``gone`` and ``where`` say what it was if it is there no more.

    Raises
    ------
    InputError
        If it was closed, or lives in another process.
    """
    if handle not in _open:
        raise InputError(gone, where=where, hint="run again: it starts over, and nothing is lost")
    return _open[handle][1]


def close_all(folder: Path) -> None:
    """Close the resources of places inside ``folder``."""
    inside = folder.resolve()
    for handle, (place, resource) in list(_open.items()):
        if place.is_relative_to(inside):
            del _open[handle]
            with suppress(Exception):  # a connection that broke is closed too
                resource.close()
