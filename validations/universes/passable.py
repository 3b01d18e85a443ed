"""Whether any record can pass the tests of a universe, all of them together."""

from __future__ import annotations

import numpy as np

from tabularium.validations.universes.universe import Mask, Universe

_MOST = 10_000
"""Ways through alternatives that are tried; where none of them passed, one is taken to."""


def can_pass(universe: Universe) -> bool:
    """Whether some cells, one of each column or its null, pass all tests."""
    left = [_MOST]
    return _passes((universe,), {}, left)


def _passes(wanted: tuple[Universe, ...], found: dict[str, Mask], left: list[int]) -> bool:
    """Whether cells among those found, where a column has any, pass all that is wanted."""
    left[0] -= 1
    if left[0] < 0:
        return True
    masks = dict(found)
    for each in wanted:
        for name in each.columns:
            mask = np.append(each.columns[name], each.nulls.get(name, False))
            masks[name] = masks[name] & mask if name in masks else mask
    if not all(mask.any() for mask in masks.values()):
        return False
    choices = [either for each in wanted for either in each.alternatives]
    return _chosen(choices, masks, left)


def _chosen(choices: list[tuple[Universe, ...]], masks: dict[str, Mask], left: list[int]) -> bool:
    if not choices:
        return True
    first, *rest = choices
    later = Universe({}, tuple(rest))
    return any(_passes((option, later), masks, left) for option in first)
