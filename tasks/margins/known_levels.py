"""What is known of each measured level of a table: its numbers, and how far they lie from the truth.

Of a table that is drawn towards an earlier release the finest measured level is not what was measured, but
what came of drawing it (:mod:`mechanisms.inference.prior_table`); the levels above it are left as they are,
and settle sums.

*Why the finest alone.* Changes of single cells may be taken for independent, and each sum then changes by
theirs: what is believed of sums follows from the finest cells and from the measurements of sums. To draw sums
towards the prior as well would count the same belief twice.
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
    """The levels of one table; ``prior`` is what the certificate says of drawing it, if it was drawn."""

    levels: Known
    prior: dict[str, Any] = field(default_factory=dict)

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
    values, shape = parts[finest].release.values, layout.shape(finest)
    possible = layout.possible(finest)
    spread, reach = np.zeros(shape), np.zeros(shape)
    there = np.ones(shape, bool) if possible is None else possible
    made = np.zeros(shape)
    made[there], spread[there] = drawn.values, drawn.variances
    reach[there] = (drawn.half / quantile(level)) ** 2
    known[finest] = made.reshape(values.shape), LevelError("prior", spread, reach.reshape(-1))
    return KnownLevels(known, _told(prior, drawn))


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
