"""EFPA, each time broken in one way."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.channel.replay.replay_findings import Output
from tabularium.mechanisms.histograms.spectral import Efpa
from tests.audit.cases import Counts
from tests.audit.twins.twin import Broken, Drawn, Wrapped, small


class EfpaTwin(Efpa):
    """Base: the registered draw, through a channel that is not what it should be."""

    wrong: ClassVar[type[Any]]

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, self.wrong(channel))


class BarePhase(EfpaTwin):
    """As printed: noise on the magnitude of each coefficient, phases published as they are."""

    class wrong(Wrapped):
        def lattice(self, values: Any, loss: Fraction, **options: Any) -> Any:
            pairs = np.append(values, 0.0)[1 : 2 * (values.size // 2) + 1].reshape(-1, 2)
            waves = pairs[:, 0] + 1j * pairs[:, 1]
            sizes = np.append(values[:1], np.abs(waves))
            noisy = self._channel.lattice(sizes, loss, **options)
            waves = noisy[1:] * np.exp(1j * np.angle(waves))
            parts = np.stack([waves.real, waves.imag], axis=1).reshape(-1)
            return np.append(noisy[:1], parts)[: values.size]


class LengthOfTheColumn(EfpaTwin):
    """Laplace noise for the Euclidean length of a column, √(z/N), in place of its L1 norm."""

    class wrong(Wrapped):
        def lattice(self, values: Any, loss: Fraction, *, sensitivity: Fraction, **options: Any) -> Any:
            shorter = sensitivity / Fraction(isqrt(values.size << 40), 1 << 20)
            return self._channel.lattice(values, loss, sensitivity=shorter, **options)


class InnerCell(EfpaTwin):
    """The sensitivity of cosines at an average cell, 2/π·√2 of z/√N, instead of the first."""

    class wrong(Wrapped):
        def lattice(self, values: Any, loss: Fraction, *, sensitivity: Fraction, **options: Any) -> Any:
            return self._channel.lattice(values, loss, sensitivity=sensitivity * Fraction(2, 3), **options)


class ScoreOfSquares(EfpaTwin):
    """Energies as scores, without the root: one record changes them by as much as twice its cell's count."""

    class wrong(Wrapped):
        def pick(self, scores: Any, epsilon: Fraction, **options: Any) -> int:
            return self._channel.pick(-(scores**2), epsilon, **options)


class WavesOfTheCells(Efpa):
    """Where the cells are measured, the coefficients that were computed on the way are published too."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        return arrays, {**meta, "slowest": float(counts.sum() / counts.size**0.5)}


def second(event: Event, inputs: Counts, drawn: Output) -> Output:
    """The two slowest radii are kept."""
    return 1 if event.primitive == "permute_and_flip" else drawn


def one_more_in(cell: int) -> tuple[Counts, Counts]:
    """Sixteen cells, of which one gains a record: one at which the kept waves are large."""
    return np.arange(16) * 100, np.arange(16) * 100 + (np.arange(16) == cell)


SHAPES = small((2,), (9,), (16,), (5, 5))
TWINS = [
    *(Broken(twin, SHAPES) for twin in (BarePhase(), ScoreOfSquares(), WavesOfTheCells())),
    Broken(LengthOfTheColumn(share="1/10"), pair=one_more_in(2), force=second),
    Broken(InnerCell(share="1/10", transform="dct"), pair=one_more_in(0), force=second),
]
