"""The audit catches EFPA when it is broken, whichever way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.channel import replay
from tests.audit.cases import Counts
from tests.audit.replays import NotPrivateError, audit, judge
from tests.audit.twins_spectral import TWINS, BarePhase, EfpaTwin, InnerCell, LengthOfTheColumn

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
