"""Where a channel's noise comes from: exact samplers over a stream of words, or (in an audit) a script."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise.keystream import KeyStream
from mechanisms.transcript import Event

Integers = NDArray[np.int64]


class Source(Protocol):
    """What stands behind a channel. Every call is already paid for and described by its event."""

    insecure: bool

    def laplace(self, values: Integers, event: Event) -> Integers:
        """Return ``values`` plus discrete Laplace noise of the event's scale."""

    def gaussian(self, values: Integers, event: Event) -> Integers:
        """Return ``values`` plus discrete Gaussian noise, σ² = the event's squared scale."""

    def pick(self, gaps: Integers, rate: Fraction, event: Event) -> int:
        """Return one index, with the event's primitive and probabilities built on exp(-rate·gap)."""


class Sampler:
    """The real thing: exact samplers reading a key stream of their own."""

    def __init__(self, seed: str | None = None) -> None:
        self._stream = KeyStream(seed)
        self.insecure = self._stream.insecure

    def laplace(self, values: Integers, event: Event) -> Integers:
        """See ``mechanisms.noise.laplace``."""
        from mechanisms.noise.laplace import add_laplace

        scale = event.scale
        assert isinstance(scale, Fraction)  # noqa: S101 - a Laplace event's squared scale is a square
        return add_laplace(self._stream, values, scale)

    def gaussian(self, values: Integers, event: Event) -> Integers:
        """See ``mechanisms.noise.gaussian``."""
        from mechanisms.noise.gaussian import add_gaussian

        return add_gaussian(self._stream, values, event.scale_squared)

    def pick(self, gaps: Integers, rate: Fraction, event: Event) -> int:
        """See ``mechanisms.noise.choice``."""
        from mechanisms.noise.choice import exponential, permute_and_flip

        choose = exponential if event.primitive == "exponential" else permute_and_flip
        return choose(self._stream, gaps, rate)
