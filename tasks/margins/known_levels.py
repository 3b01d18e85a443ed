"""What is known of each measured level of a table: its numbers, and how far they lie from the truth.

Of a table that is drawn towards an earlier release the finest measured level is not what was measured, but
what came of drawing it (:mod:`mechanisms.inference.prior_table`); the levels above it are left as they are,
and settle sums.

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference.margins_of_error.half_widths import quantile
from mechanisms.inference.prior_table import Drawn, draw_towards
from mechanisms.noise_distributions import noise_in
from tasks.margins.error_model import LevelError, level_error
from tasks.postprocess.prior_numbers import prior_numbers
from tasks.postprocess.table_layout import Layout
from validations.domains.prior_tables import PriorTable
from validations.spec.load import Loaded

if TYPE_CHECKING:
    from tasks.measure import Finished

Known = dict[str, tuple[NDArray[Any], LevelError]]
"""Level -> (released values in the layout of counting, error)."""


@dataclass(frozen=True, eq=False)
class KnownLevels:
    """The levels of one table.

    Attributes
    ----------
    prior
        What the certificate says of drawing it, if it was drawn.
    mean_squares
        Level -> mean squared error of its cells, where that is not what they count by.
    """

    levels: Known
    prior: dict[str, Any] = field(default_factory=dict)
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
    if prior is None:
        return KnownLevels(known)
    finest = layout.finest
    level = float(loaded.spec.publication.confidence)
    drawn = _drawn(prior, layout, finest, parts[finest], level)
    shape, possible = layout.shape(finest), layout.possible(finest)
    there = np.ones(shape, bool) if possible is None else possible
    values, spread, reach = np.zeros((3, *shape))
    values[there], spread[there] = drawn.values, drawn.variances
    reach[there] = (drawn.half / quantile(level)) ** 2
    worth = _variance_in_sums(layout, known, values, spread)
    known[finest] = values, LevelError("prior", worth, reach.reshape(-1))
    return KnownLevels(known, _told(prior, drawn), {finest: float(drawn.variances.mean())})


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
    nodes = layout.cuts[above[-1]]
    place = np.full(layout.nodes, -1)
    place[nodes] = np.arange(len(nodes))
    for node in range(layout.nodes):  # parents come first
        if place[node] < 0 and layout.parents[node] >= 0:
            place[node] = place[layout.parents[node]]
    at = place[layout.cuts[finest]]
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


def _drawn(prior: PriorTable, layout: Layout, level: str, part: Finished, confidence: float) -> Drawn:
    before = prior_numbers(prior, layout, level).reshape(layout.shape(level))
    noisy = np.asarray(part.release.values, np.float64)
    possible = layout.possible(level)
    if possible is not None:
        before, noisy = before[possible], noisy[possible]
    return draw_towards(
        noisy.reshape(-1), before.reshape(-1), noise_in(part.measured.transcript[0]), confidence
    )


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
