"""The audit catches EFPA when it is broken, whichever way.

EFPA, each time broken in one way. Unbroken, every twin is the registered class.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np
import pytest

from tabularium.mechanisms.channel import Channel, replay
from tabularium.mechanisms.histograms.spectral import Efpa
from tests.audit.cases import Case, Counts
from tests.audit.replays import NotPrivateError, audit, judge
from tests.audit.twins.twin import Drawn


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


CHANGED = {LengthOfTheColumn: 2, InnerCell: 0}
OPTIONS = {LengthOfTheColumn: {"share": "1/10"}, InnerCell: {"share": "1/10", "transform": "dct"}}


def pair(kind: type[EfpaTwin]) -> tuple[Counts, Counts]:
    """Sixteen cells, of which one gains a record: one at which the kept waves are large."""
    counts = np.arange(16) * 100
    more = counts.copy()
    more[CHANGED[kind]] += 1
    return counts, more


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: type[EfpaTwin]) -> None:
    with pytest.raises(NotPrivateError):
        if kind in CHANGED:
            twin = kind(**OPTIONS[kind], broken=True)
            judge(twin, *pair(kind), budget=Fraction(1, 2), definition="pure", force=second)
        else:
            audit(kind(broken=True), kind.case, "pure", shrink=False)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: type[EfpaTwin]) -> None:
    audit(kind(broken=False), kind.case, "pure", examples=10)


def second(event, inputs, drawn):  # type: ignore[no-untyped-def]
    """The two slowest radii are kept."""
    return 1 if event.primitive == "permute_and_flip" else drawn


def test_what_too_small_a_sensitivity_loses() -> None:
    """Noise for √(z/N) loses √z as much; cosines at the first cell lose 3/2 of two thirds."""
    for kind, folds in ((LengthOfTheColumn, 3**0.5), (InnerCell, 1.5)):
        broken, sound = (lost_by_noise(kind, broken) for broken in (True, False))
        assert broken == pytest.approx(folds * sound, rel=0.01)
        assert sound == pytest.approx(0.9, rel=0.01)


def lost_by_noise(kind: type[EfpaTwin], broken: bool) -> float:
    """What the coefficients lose, of a budget of 1."""
    found = replay(kind(**OPTIONS[kind], broken=broken), *pair(kind), 1, 0, force=second)
    return found.losses[1][1]


def test_the_bare_phase_loses_little_and_gives_all_away() -> None:
    """Its draws are within budget; only the comparison of the results catches it."""
    counts = np.arange(16) ** 2
    more = counts.copy()
    more[5] += 1
    found = replay(BarePhase(), counts, more, Fraction(1, 10), 1, force=second)
    assert found.loss == np.inf
    assert "results differ in" in found.reason
    assert replay(BarePhase(broken=False), counts, more, Fraction(1, 10), 1, force=second).loss < 0.1
