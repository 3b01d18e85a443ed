"""Bit-for-bit comparison of what two runs returned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tabularium.mechanisms.accounting.transcript import Event

Part = tuple[Any, Any, str]


def difference_between(one: Any, other: Any, where: str = "the result") -> str | None:
    """Return where two results differ in so much as one bit, or None.

    Arrays are compared by type, shape, order in memory and bytes (so that -0.0 differs from 0.0), mappings
    with the order of their keys, and everything inside everything.
    """
    if type(one) is not type(other):
        return where
    if isinstance(one, Event):  # the channel's own: numbers and texts
        return None if one == other else where
    parts = _parts(one, other, where)
    if parts is not None:
        found = (difference_between(*part) for part in parts)
        return next((difference for difference in found if difference is not None), None)
    return None if _same_leaf(one, other) else where


def _parts(one: Any, other: Any, where: str) -> Iterable[Part] | None:
    """Return pairs to compare instead of the two values, or None for values without parts."""
    if is_dataclass(one) and not isinstance(one, type):
        return _fields(one, other, where)
    if isinstance(one, dict):
        entries = ((one[key], other.get(key), f"{where}[{key!r}]") for key in one)
        return [(tuple(one), tuple(other), where), *entries]
    if isinstance(one, list | tuple):
        pairs = ((*pair, where) for pair in zip(one, other, strict=False))
        return [(len(one), len(other), where), *pairs]
    return None


def _fields(one: Any, other: Any, where: str) -> Iterator[Part]:
    for field in fields(one):
        yield getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}"


def _same_leaf(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.size > 1:  # strides of a single number or of none mean nothing, and change when it is copied
            alike = alike and one.strides == other.strides
        return bool(alike and one.tobytes() == other.tobytes())
    if isinstance(one, float):
        return bool(one.hex() == other.hex())
    return bool(one == other)
