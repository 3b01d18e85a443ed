"""EFPA, each time broken in one way. Unbroken, every twin is the registered class."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np

from mechanisms.channel import Channel
from mechanisms.histograms.spectral.efpa import Efpa
from tests.audit.cases import Case, Counts
from tests.audit.twin import Drawn


@dataclass(frozen=True)
class EfpaTwin(Efpa):
    """Base: the registered draw, through a channel that is not what it should be."""

    broken: bool = True
    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (9,), (16,), (5, 5)), largest=1000)
    wrong: ClassVar[type[Any]]

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, self.wrong(channel) if self.broken else channel)


class _Wrapped:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class BarePhase(EfpaTwin):
    """As printed: noise on the magnitude of each coefficient, phases published as they are."""

    class wrong(_Wrapped):
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

    class wrong(_Wrapped):
        def lattice(self, values: Any, loss: Fraction, *, sensitivity: Fraction, **options: Any) -> Any:
            shorter = sensitivity / Fraction(isqrt(values.size << 40), 1 << 20)
            return self._channel.lattice(values, loss, sensitivity=shorter, **options)


class InnerCell(EfpaTwin):
    """The sensitivity of cosines at an average cell, 2/π·√2 of z/√N, instead of the first."""

    class wrong(_Wrapped):
        def lattice(self, values: Any, loss: Fraction, *, sensitivity: Fraction, **options: Any) -> Any:
            return self._channel.lattice(values, loss, sensitivity=sensitivity * Fraction(2, 3), **options)


class ScoreOfSquares(EfpaTwin):
    """Energies as scores, without the root: one record changes them by as much as twice its cell's count."""

    class wrong(_Wrapped):
        def pick(self, scores: Any, epsilon: Fraction, **options: Any) -> int:
            return self._channel.pick(-(scores**2), epsilon, **options)


class WavesOfTheCells(EfpaTwin):
    """Where the cells are measured, the coefficients that were computed on the way are published too."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = Efpa.draw(self, counts, channel)
        seen = counts if self.broken else arrays.get("cells", np.zeros(counts.shape))
        return arrays, {**meta, "slowest": float(np.sum(seen) / counts.size**0.5)}


TWINS: list[type[EfpaTwin]] = [
    BarePhase,
    LengthOfTheColumn,
    InnerCell,
    ScoreOfSquares,
    WavesOfTheCells,
]
