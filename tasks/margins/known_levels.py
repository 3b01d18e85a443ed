"""What is known of each measured level of a table: its numbers, and how far they lie from the truth.

Of a table that is drawn towards an earlier release, or towards the level above, the finest measured level is
not what was measured, but what came of drawing it (:mod:`mechanisms.inference.prior_table`); the levels above
it are left as they are, and settle sums.

*Why the finest alone.* What is believed of sums follows from the finest cells and from the measurements of
sums; to draw sums towards the prior as well would count the same belief twice.

*How much the drawn cells say of sums.* Errors of drawn cells are no independent noise: where a whole region
grew, all its cells lie below the truth. How far their sums lie off is seen at the measured level above: the
noisy sum minus that of drawn cells has the variance of the noise and of that error. By as much as the error
is larger than that of independent cells, the drawn cells count for less when levels are made to agree. Where
nothing is measured above, they count as they were measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference.margins_of_error.half_widths import quantile
from mechanisms.inference.prior_table import Drawn, draw_towards, expected_below
from mechanisms.noise_distributions import noise_in
from tasks.margins.error_model import LevelError, level_error
from tasks.postprocess.prior_numbers import prior_numbers
from tasks.postprocess.table_layout import Layout
from validations.domains.prior_tables import PriorTable
from validations.spec.load import Loaded
from validations.spec.parts.table_parts import ABOVE

if TYPE_CHECKING:
    from tasks.measure import Finished

Known = dict[str, tuple[NDArray[Any], LevelError]]
"""Level -> (released values in the layout of counting, error)."""


@dataclass(frozen=True, eq=False)
class KnownLevels:
    """The levels of one table.

    Attributes
    ----------
    prior, above
        What the certificate says of drawing it towards an earlier release, or the level above, if it was.
    mean_squares
        Level -> mean squared error of its cells, where that is not what they count by.
    """

    levels: Known
    prior: dict[str, Any] = field(default_factory=dict)
    above: dict[str, Any] = field(default_factory=dict)
    mean_squares: dict[str, float] = field(default_factory=dict)

    @property
    def errors(self) -> dict[str, LevelError]:
        """Level -> error."""
        return {level: error for level, (_, error) in self.levels.items()}


def known_levels(loaded: Loaded, layout: Layout, parts: Mapping[str, Finished]) -> KnownLevels:
    """Return what is known of the levels of a table, drawn if the spec says so.

    Parameters
    ----------
    parts
        Level -> what was measured.

    Raises
    ------
    PublicationError
        What it is to be drawn towards is missing, or not what it was.
    """
    known: Known = as_measured(parts)
    prior = loaded.priors.get(layout.table.name)
    finest, to_above = layout.finest, layout.table.prior == ABOVE
    if to_above:
        expected = _expected_by_above(layout, parts, float(loaded.spec.publication.confidence))
    elif prior is not None:
        expected = prior_numbers(prior, layout, finest)
    else:
        return KnownLevels(known)
    level = float(loaded.spec.publication.confidence)
    drawn = _drawn(expected, layout, finest, parts[finest], level)
    shape, there = layout.shape(finest), _there(layout, finest)
    values, spread, reach = np.zeros((3, *shape))
    values[there], spread[there] = drawn.values, drawn.variances
    reach[there] = (drawn.half / quantile(level)) ** 2
    worth = _variance_in_sums(layout, known, values, spread)
    known[finest] = values, LevelError("above" if prior is None else "prior", worth, reach.reshape(-1))
    return KnownLevels(
        known,
        {} if prior is None else _told(prior, drawn),
        {} if prior is not None else _told_of_above(layout, drawn),
        {finest: float(drawn.variances.mean())},
    )


def _variance_in_sums(
    layout: Layout, known: Known, values: NDArray[np.float64], spread: NDArray[np.float64]
) -> float | NDArray[np.float64]:
    """Return the variance by which drawn cells count in sums: one for all, or each in the shape of the level.

    Parameters
    ----------
    known
        The levels as they were measured.
    values, spread
        Drawn cells and their mean squared errors, in the shape of the finest level.
    """
    *above, finest = layout.cuts
    if not above:
        return known[finest][1].variance
    noisy, error = known[above[-1]]
    nodes, at = layout.cuts[above[-1]], _rows_above(layout, above[-1], finest)
    sums, expected = np.zeros((2, len(nodes), layout.cells))
    np.add.at(sums, at, values.reshape(len(at), -1))
    np.add.at(expected, at, spread.reshape(len(at), -1))
    of = expected > 0
    square = (np.asarray(noisy, np.float64).reshape(sums.shape) - sums)[of] ** 2
    chance = square.std() / np.sqrt(len(square))
    found = float(square.mean() + chance - error.mean) / float(expected[of].mean())
    return max(1.0, found) * spread


def as_measured(parts: Mapping[str, Finished]) -> Known:
    """Return what is known of levels as they were measured."""
    return {level: (part.release.values, level_error(part)) for level, part in parts.items()}


def _drawn(
    expected: NDArray[np.float64], layout: Layout, level: str, part: Finished, confidence: float
) -> Drawn:
    there = _there(layout, level)
    noisy = np.asarray(part.release.values, np.float64).reshape(there.shape)
    return draw_towards(
        noisy[there],
        expected.reshape(there.shape)[there],
        noise_in(part.measured.transcript[0]),
        confidence,
    )


def _expected_by_above(
    layout: Layout, parts: Mapping[str, Finished], confidence: float
) -> NDArray[np.float64]:
    """Return what the finest level is expected to hold after the levels above, (nodes, cells).

    From the top down each level is drawn towards the one above it, so that of the last but one, which says
    how the finest nodes are made up, as much noise is gone as may be.
    """
    *above, finest = layout.cuts
    known = _noisy(layout, above[0], parts)
    for upper, level in pairwise(layout.cuts):
        rows, noisy = _rows_above(layout, upper, level), _noisy(layout, level, parts)
        noise = noise_in(parts[level].measured.transcript[0])
        expected = expected_below(noisy, known, rows, noise.variance)
        if level != finest:
            drawn = _drawn(expected, layout, level, parts[level], confidence)
            known = np.zeros(layout.shape(level))
            known[_there(layout, level)] = drawn.values
            known = known.reshape(noisy.shape)
    return expected


def _noisy(layout: Layout, level: str, parts: Mapping[str, Finished]) -> NDArray[np.float64]:
    """Return the noisy counts of a level, (nodes, cells), not a number where nothing can be."""
    values = np.asarray(parts[level].release.values, np.float64).reshape(layout.shape(level))
    return np.where(_there(layout, level), values, np.nan).reshape(-1, layout.cells)


def _there(layout: Layout, level: str) -> NDArray[np.bool_]:
    """Return which cells of a level can hold anything, in its shape."""
    possible = layout.possible(level)
    return np.ones(layout.shape(level), bool) if possible is None else possible


def _rows_above(layout: Layout, above: str, level: str) -> NDArray[np.int64]:
    """Return for each node of a level its row among those of a level above."""
    nodes = layout.cuts[above]
    place = np.full(layout.nodes, -1)
    place[nodes] = np.arange(len(nodes))
    nodes = layout.cuts[level]
    while (place[nodes] < 0).any():  # one step down the tree at a time
        place = np.where(place < 0, np.append(place, -1)[layout.parents], place)
    rows: NDArray[np.int64] = place[nodes]
    return rows


def _told(prior: PriorTable, drawn: Drawn) -> dict[str, Any]:
    """Return what the certificate says of it; four digits, as more would be more than an estimate knows."""
    return {
        "release": prior.release,
        "certificate": prior.certificate,
        "file": prior.file,
        "sha256": prior.digest,
        "cells": drawn.cells,
        "scale": float(f"{drawn.scale:.4g}"),
        "changes": [{"change": change, "shown": float(f"{shown:.3g}")} for change, shown in drawn.shown],
    }


def _told_of_above(layout: Layout, drawn: Drawn) -> dict[str, Any]:
    *_, above, _ = layout.cuts
    told = [{"difference": apart, "shown": float(f"{shown:.3g}")} for apart, shown in drawn.shown]
    return {"level": above, "cells": drawn.cells, "differences": told}
