"""The arrays of many measurements as few: stacked where they are of one shape, and end to end where not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tabularium.mechanisms.measured import Array

_SHAPES = "_shapes"


def joined(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the arrays of all parts by name: (parts, …), or flat, with their shapes beside them.

    Shapes are rows of the number of dimensions, and then the sides; -1 for an array that a part has not.
    """
    found: dict[str, Array] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        own = [part.get(name) for part in parts]
        there = [np.asarray(array) for array in own if array is not None]
        if len(there) == len(parts) and len({array.shape for array in there}) == 1:
            found[name] = np.stack(there)
            continue
        shapes = np.zeros((len(parts), 1 + max(array.ndim for array in there)), dtype=np.int64)
        for row, array in zip(shapes, own, strict=True):
            row[0] = -1 if array is None else array.ndim
            row[1 : 1 + max(0, row[0])] = () if array is None else array.shape
        found[name] = np.concatenate([array.reshape(-1) for array in there])
        found[name + _SHAPES] = shapes
    return found


def parted(arrays: Mapping[str, Array], parts: int) -> list[dict[str, Array]]:
    """Return the arrays of each part again."""
    found: list[dict[str, Array]] = [{} for _ in range(parts)]
    for name, array in arrays.items():
        if name.endswith(_SHAPES):
            continue
        if name + _SHAPES not in arrays:
            for part, own in zip(found, array, strict=True):
                part[name] = np.asarray(own)
            continue
        begun = 0
        for part, row in zip(found, arrays[name + _SHAPES].tolist(), strict=True):
            if row[0] >= 0:
                shape = tuple(row[1 : 1 + row[0]])
                size = int(np.prod(shape, dtype=np.int64))
                part[name] = array[begun : begun + size].reshape(shape)
                begun += size
    return found
