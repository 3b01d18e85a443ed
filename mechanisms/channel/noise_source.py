"""Where a channel's noise comes from: exact samplers over a stream of words, or (in an audit) a script."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from tabularium.mechanisms.accounting.transcript import GAUSSIANS, Event
from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.channel.least_noisy_partition import least_partition
from tabularium.mechanisms.noise.choice import exponential, permute_and_flip
from tabularium.mechanisms.noise.discrete_gaussian import add_gaussian
from tabularium.mechanisms.noise.discrete_laplace import add_laplace
from tabularium.mechanisms.noise.keystream import KeyStream


class Source(Protocol):
    """What stands behind a channel. Every call is already paid for and described by its event."""

    insecure: bool
    label: str
    """Distinct from other sources' labels, but for seeded ones: it numbers the parallel scopes."""

    def noise(self, values: Integers, event: Event) -> Integers:
        """Return ``values`` plus the event's noise: discrete Gaussian, or Laplace, of its scale."""

    def pick(self, gaps: Integers, starts: Integers, rate: Fraction, event: Event) -> Integers:
        """Return one place in each group, with the event's primitive and coins of exp(-rate·gap)."""

    def partition(
        self, costs: Integers, starts: Integers, stops: Integers, cells: int, event: Event
    ) -> Integers:
        """Return the intervals of the partition that is cheapest under noise of the event's scale."""


class Sampler:
    """The real thing: exact samplers reading a key stream of their own."""

    def __init__(self, seed: str | None = None) -> None:
        self._stream = KeyStream(seed)
        self.insecure = self._stream.insecure
        self.label = self._stream.label

    def noise(self, values: Integers, event: Event) -> Integers:
        """See ``tabularium.mechanisms.noise``, ``discrete_laplace`` and ``discrete_gaussian``."""
        if event.primitive in GAUSSIANS:
            return add_gaussian(self._stream, values, event.scale_squared)
        scale = event.scale
        assert isinstance(scale, Fraction)  # noqa: S101 - a Laplace event's squared scale is a square
        return add_laplace(self._stream, values, scale)

    def pick(self, gaps: Integers, starts: Integers, rate: Fraction, event: Event) -> Integers:
        """See ``tabularium.mechanisms.noise.choice``."""
        if event.primitive == "exponential":
            return exponential(self._stream, gaps, rate)
        return permute_and_flip(self._stream, gaps, starts, rate)

    def partition(
        self, costs: Integers, starts: Integers, stops: Integers, cells: int, event: Event
    ) -> Integers:
        """See ``tabularium.mechanisms.channel.least_noisy_partition``."""
        return least_partition(self.noise(costs, event), starts, stops, cells)
