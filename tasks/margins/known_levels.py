"""What is known of each measured level of a table: its numbers, and how far they lie from the truth.

Of a table that is drawn towards an earlier release, or towards the level above, the finest measured level is
not what was measured, but what came of drawing it (``prior_shrinkage``); the
levels above it are left as they are, and settle sums.

*Why the finest alone.* What is believed of sums follows from the finest cells and from the measurements of
sums; to draw sums towards the prior as well would count the same belief twice.

*How much the drawn cells say of sums.* Errors of drawn cells are no independent noise: where a whole region
grew, all its cells lie below the truth. How far their sums lie off is seen at the measured level above: the
noisy sum minus that of drawn cells has the variance of the noise and of that error. By as much as the error
is larger than that of independent cells, the drawn cells count for less when levels are made to agree, but
never for less than they were measured: where the noise above is large, it hides their error. Where nothing
is measured above, they count as they were measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference.level_above import expected_below
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.prior_shrinkage import Shrunk, shrink_to_prior
from tabularium.mechanisms.noise_distributions import noise_in
from tabularium.tasks.margins.error_model import LevelError, level_error
from tabularium.tasks.postprocess.prior_numbers import prior_numbers
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.domains.domains import positions
from tabularium.validations.domains.known_marginals import PriorTable
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.tables import ABOVE

if TYPE_CHECKING:
    from tabularium.tasks.measure import Finished

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
    prior, finest = loaded.priors.get(layout.table.name), layout.finest
    level, above = float(loaded.spec.publication.confidence), layout.table.prior == ABOVE
    if above:
        expected = _expected_by_above(layout, parts, level)
    elif prior is not None:
        expected = prior_numbers(prior, layout, finest)
    else:
        return KnownLevels(known)
    drawn = _drawn(expected, layout, finest, parts[finest], level, scaled=not above)
    shape, there = layout.shape(finest), _there(layout, finest)
    values, spread, reach = np.zeros((3, *shape))
    values[there], spread[there] = drawn.values, drawn.variances
    reach[there] = (drawn.half / quantile(level)) ** 2
    worth = _variance_in_sums(layout, known, values, spread)
    mean = {finest: float(drawn.variances.mean())}
    if prior is None:
        known[finest] = values, LevelError("above", worth, reach.reshape(-1))
        return KnownLevels(known, above=_told_of_above(layout, drawn), mean_squares=mean)
    known[finest] = values, LevelError("prior", worth, reach.reshape(-1))
    return KnownLevels(known, prior=_told(prior, drawn), mean_squares=mean)


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
    if layout.along is None or not above or not spread.any():
        return known[finest][1].variance
    noisy, error = known[above[-1]]
    nodes, at = layout.cuts[above[-1]], positions(layout.along, layout.cuts[finest], above[-1])
    sums, expected = np.zeros((2, len(nodes), layout.cells))
    np.add.at(sums, at, values.reshape(len(at), -1))
    np.add.at(expected, at, spread.reshape(len(at), -1))
    of = expected > 0
    square = (np.asarray(noisy, np.float64).reshape(sums.shape) - sums)[of] ** 2
    chance = square.std() / np.sqrt(len(square))
    found = float(square.mean() + chance - error.mean) / float(expected[of].mean())
    most = known[finest][1].mean / float(spread[spread > 0].mean())
    return min(max(1.0, found), max(1.0, most)) * spread


def as_measured(parts: Mapping[str, Finished]) -> Known:
    """Return what is known of levels as they were measured."""
    return {level: (part.release.values, level_error(part)) for level, part in parts.items()}


def _drawn(
    expected: NDArray[np.float64],
    layout: Layout,
    level: str,
    part: Finished,
    confidence: float,
    *,
    scaled: bool,
) -> Shrunk:
    there = _there(layout, level)
    noisy = np.asarray(part.release.values, np.float64).reshape(there.shape)
    return shrink_to_prior(
        noisy[there],
        expected.reshape(there.shape)[there],
        noise_in(part.measured.transcript[0]),
        confidence,
        scaled=scaled,
    )


def _expected_by_above(
    layout: Layout, parts: Mapping[str, Finished], confidence: float
) -> NDArray[np.float64]:
    """Return what the finest level is expected to hold after the levels above, (nodes, cells).

    From the top down each level is drawn towards the one above it, so that of the last but one, which says
    how the finest nodes are made up, as much noise is gone as may be. A leaf that stands above a level is
    counted with it and with the one above, and has nothing above it: nothing is expected of it.
    """
    *above, finest = layout.cuts
    known = _noisy(layout, above[0], parts)
    for upper, level in pairwise(layout.cuts):
        assert layout.along is not None  # noqa: S101 - it has levels
        rows, noisy = positions(layout.along, layout.cuts[level], upper), _noisy(layout, level, parts)
        noise = noise_in(parts[level].measured.transcript[0])
        expected = expected_below(noisy, known, rows, noise.variance)
        expected[~below(layout, level)] = np.nan
        if level != finest:
            drawn = _drawn(expected, layout, level, parts[level], confidence, scaled=False)
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


def below(layout: Layout, level: str) -> NDArray[np.bool_]:
    """Return which nodes of a level lie below those of the measured level above it, (nodes,)."""
    levels = list(layout.cuts)
    upper = levels[levels.index(level) - 1]
    return np.isin(layout.cuts[level], layout.cuts[upper], invert=True)


def _told(prior: PriorTable, drawn: Shrunk) -> dict[str, Any]:
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


def _told_of_above(layout: Layout, drawn: Shrunk) -> dict[str, Any]:
    *_, above, _ = layout.cuts
    told = [{"difference": apart, "shown": max(0.0, float(f"{shown:.3g}"))} for apart, shown in drawn.shown]
    return {"level": above, "cells": drawn.cells, "differences": told}
