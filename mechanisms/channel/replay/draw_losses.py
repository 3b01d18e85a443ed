"""What one draw gives away of which of two inputs it had."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tabularium.mechanisms.accounting.transcript import CHOICES, GAUSSIANS
from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.channel.least_noisy_partition import weight_of_change
from tabularium.mechanisms.channel.replay.choice_probabilities import log_ratios
from tabularium.mechanisms.channel.replay.replay_findings import Draw


def loss_of(draw: Draw, inputs: Integers) -> Fraction:
    """Return what one draw loses between two inputs, in the unit of its channel."""
    event = draw.event
    if event.primitive in CHOICES:
        pure = Fraction(sum(_loss_of_choice(*pair, draw) for pair in _groups_apart(draw, inputs)))
    elif event.primitive == "least_noisy_partition":
        ends = np.array(draw.starts), np.array(draw.stops)
        weight = weight_of_change(inputs - draw.inputs, *ends, draw.cells)
        pure = 2 * Fraction(weight) / Fraction(event.scale)
    else:
        apart = np.flatnonzero(draw.inputs.reshape(-1) != inputs.reshape(-1))
        pairs = zip(draw.inputs.reshape(-1)[apart].tolist(), inputs.reshape(-1)[apart].tolist(), strict=True)
        distances = [abs(one - other) for one, other in pairs]
        if event.primitive in GAUSSIANS:
            return Fraction(sum(distance**2 for distance in distances)) / (2 * event.scale_squared)
        pure = sum(distances) / Fraction(event.scale)
    return pure if event.definition == "pure" else pure**2 / 2


def _groups_apart(draw: Draw, inputs: Integers) -> list[tuple[Integers, Integers]]:
    """Return the gaps, in the two runs, of each group in which they differ."""
    groups = zip(np.split(draw.inputs, draw.starts[1:]), np.split(inputs, draw.starts[1:]), strict=True)
    return [(one, other) for one, other in groups if not np.array_equal(one, other)]


def _loss_of_choice(gaps: Integers, others: Integers, draw: Draw) -> float:
    """Return the largest |ln P/P'| over all candidates of a group."""
    return float(np.abs(log_ratios(gaps, others, draw.rate, draw.event.primitive)).max())
