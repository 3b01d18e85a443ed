"""Traps for randomness that does not come through a channel."""

from __future__ import annotations

import os
import random
import secrets
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

PLACES: list[tuple[Any, str]] = [
    *(
        (np.random, name)
        for name in dir(np.random)
        if not name.startswith("_") and callable(getattr(np.random, name))
    ),
    *((random, name) for name in random.__all__),
    *((secrets, name) for name in secrets.__all__),
    *((uuid, name) for name in ("uuid1", "uuid4")),
    (os, "urandom"),
    *(((os, "getrandom"),) if hasattr(os, "getrandom") else ()),
]


class OtherRandomnessError(AssertionError):
    """Something drew a random number outside the channel."""


@contextmanager
def trapped() -> Iterator[None]:
    """Make every other random generator raise. A seeded channel needs none of them."""
    with ExitStack() as stack:
        for place, name in PLACES:
            stack.enter_context(mock.patch.object(place, name, _trap(name)))
        yield


def _trap(name: str) -> Any:
    def caught(*arguments: Any, **options: Any) -> Any:
        raise OtherRandomnessError(f"{name} was called: randomness comes through the channel only")

    return caught
