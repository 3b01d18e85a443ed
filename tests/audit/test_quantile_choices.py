"""Private choices of quantiles: what a record may change at most, found by trying, and twins that lose more."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.accounting.transcript import CHOICES, Definition, Event
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.channel.replay.replay_audit import Audit
from tabularium.mechanisms.channel.replay.replay_findings import Output
from tabularium.mechanisms.histograms.quantile_choices import QuantileChoices
from tabularium.mechanisms.mechanism import Counts
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.estimates import FEWER_RUNS, loss_from_outputs
from tests.audit.replays import NotPrivateError, judge
from tests.audit.twins.twin import Drawn
from tests.sizes import runs

BUDGET = Fraction(1, 2)
MEDIAN = QuantileChoices(margin_share="1/4")
BESIDE = 2000
#: A record less in the last bin: the many positions behind the first one miss the median by one less, and the
#: bin before the last, if it is chosen, by one more.
ENDS = tuple(np.array([[5, *[0] * BESIDE, 3, 0, last]]) for last in (4, 3))


def neighbours(rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Two cells with few values or with very many, and the same with a record of weight 1 to 3 more."""
    largest = rng.choice([2, 6, 1 << 42])
    counts = rng.integers(0, largest, (2, 6))
    other = counts.copy()
    other.flat[rng.integers(12)] += rng.integers(1, 4)
    return counts, other


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("at", ["1/2", "1/10", "999/1000"])
def test_no_pair_of_neighbours_loses_more_than_is_paid(at: str, definition: Definition) -> None:
    mechanism, rng = QuantileChoices(at=at, heaviest=3, margin_share="1/3"), generator(len(at))
    with Audit(mechanism) as processes:
        for seed in range(runs(20, 500)):
            one, other = neighbours(rng)
            for pair in ((one, other), (other, one)):
                options: Any = {"budget": BUDGET, "definition": definition, "seed": seed}
                judge(mechanism, *pair, **options, processes=processes)


def before_the_last(event: Event, inputs: Counts, drawn: Output) -> Output:
    """Choices fall on the bin before the last."""
    return BESIDE + 2 if event.primitive in CHOICES else drawn


def test_the_budget_is_used() -> None:
    found = judge(MEDIAN, *ENDS, budget=BUDGET, definition="pure", force=before_the_last)
    assert found.loss >= 0.95 * float(BUDGET)


@dataclass(frozen=True)
class _Misjudged:
    """A channel that is told a part of a sensitivity."""

    channel: Channel
    draw: str

    def __getattr__(self, name: str) -> Any:
        given = getattr(self.channel, name)
        if name != self.draw:
            return given
        return lambda *values, sensitivity, **options: given(
            *values, sensitivity=Fraction(sensitivity) / 2, **options
        )


class ChoiceOfHalfTheChange(QuantileChoices):
    """The rank of a position is taken to change by half a record, without the scores being halves."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, _Misjudged(channel, "pick_each"))  # type: ignore[arg-type]


class CountsOfHalfTheChange(QuantileChoices):
    """The cells beside are taken to change by half of what they do."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, _Misjudged(channel, "laplace"))  # type: ignore[arg-type]


class BesideTheTrueQuantile(QuantileChoices):
    """The cells lie beside the true median, which shows which one it is."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        upto = np.cumsum(counts, axis=-1)
        arrays["chosen"] = (2 * upto < upto[..., -1:]).sum(axis=-1)
        return arrays, meta


#: The median is the first position, or the last with the record that joins.
TURNS = np.array([[6, 0, 0, 6]]), np.array([[6, 0, 0, 7]])


@pytest.mark.parametrize(
    ("twin", "pair"),
    [(ChoiceOfHalfTheChange, ENDS), (CountsOfHalfTheChange, ENDS), (BesideTheTrueQuantile, TURNS)],
)
def test_broken_ones_are_caught(twin: type[QuantileChoices], pair: Any) -> None:
    force = before_the_last if pair is ENDS else None
    with pytest.raises(NotPrivateError):
        for one, other in (pair, pair[::-1]):
            judge(twin(margin_share="1/4"), one, other, budget=BUDGET, definition="pure", force=force)


def test_the_outputs_give_no_more_away_than_the_budget() -> None:
    one, other = np.array([[3, 0]]), np.array([[0, 3]])  # three records taken away, three others added
    held = loss_from_outputs(MEDIAN, one, other, Fraction(1), "pure", runs=FEWER_RUNS)
    assert 0 < held <= 6
