"""Which measurements hold counts plus independent noise of a known distribution, and nothing else.

Besides ``identity`` and ``gaussian`` those are mechanisms that measure every cell before they merge or group
what they measured: for sums over many cells that first measurement is far better than what came of it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from mechanisms.accounting import Event
from mechanisms.inference.arrays import Bools, Indices
from mechanisms.measured import Measured
from mechanisms.noise_distributions import gaussian_variance, laplace_variance
from mechanisms.queries.answer_sources import Measurement

NOISY_CELLS = {
    "identity": ("cells", "cells"),
    "gaussian": ("cells", "cells"),
    "bounded_sums": ("cells", "cells"),
    "noise_first": ("cells", "cells"),
    "denoise": ("cells", "cells"),
    "per_region": ("cells", "cells"),
    "kd_tree": ("cells", "cells"),
    "ahp": ("cells", "order"),
    "sreb_gca": ("cells", "order"),
}
"""Mechanism -> its array of noisy counts, and the last word of the purpose of the event that drew them."""


def noisy_cells(
    measured: Measured, nodes: Indices, shape: tuple[int, ...], possible: Bools | None = None
) -> Measurement | None:
    """Return the noisy counts in a measurement, or None where there are none of a known distribution.

    Parameters
    ----------
    measured
        What a mechanism drew.
    nodes
        (m,) the nodes that were measured.
    shape
        Of the other axes.
    possible
        (m, *shape) which cells were measured; the others are exactly 0. None where all were.
    """
    cells = len(nodes) * prod(shape) if possible is None else int(possible.sum())
    found = drawn_cells(measured, cells)
    if found is None:
        return None
    array, event = found
    values = measured.arrays[array]
    if possible is not None:
        whole = np.zeros(possible.shape, values.dtype)
        whole[possible] = values.ravel()
        values = whole
    table = values.reshape(len(nodes), *shape)
    if event.primitive == "discrete_laplace":
        scale = float(event.scale)
        return Measurement(nodes, table, laplace_variance(scale), scale)
    return Measurement(nodes, table, gaussian_variance(float(event.scale_squared)))


def drawn_cells(measured: Measured, cells: int) -> tuple[str, Event] | None:
    """Return the array that holds a noisy count of each of so many cells, and the event that drew them.

    None where there is no such array, or the distribution of its noise is not known. The numbers in the array
    are not looked at.
    """
    array, purpose = NOISY_CELLS.get(measured.mechanism, ("", ""))
    values = measured.arrays.get(array)
    events = [event for event in measured.transcript if event.purpose.rpartition("/")[2] == purpose]
    if values is None or len(events) != 1 or values.size != cells:
        return None
    event = events[0]
    plain = event.width == 1 and not event.branches and prod(event.shape) == values.size
    known = event.primitive in ("discrete_laplace", "discrete_gaussian")
    return (array, event) if plain and known else None
