"""Private choices of quantiles: what a record may change at most, found by trying, and twins that lose more."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mechanisms.accounting.transcript import Definition
from mechanisms.channel import Channel
from mechanisms.histograms.quantile_choices import QuantileChoices
from mechanisms.mechanism import Counts
from tests.audit.estimates import FEWER_RUNS, loss_from_outputs
from tests.audit.replays import NotPrivateError, judge
from tests.audit.twins.twin import Drawn

BUDGET = Fraction(1, 2)
MEDIAN = QuantileChoices(margin_share="1/4")
#: All records lie in the first bin, and one joins in the last: each position misses by one more, or one less.
ENDS = np.array([[6, 0, 0, 0], [2, 0, 9, 0]]), np.array([[6, 0, 0, 1], [2, 0, 9, 0]])


@given(
    arrays(np.int64, (2, 6), elements=st.one_of(st.integers(0, 5), st.integers(0, 1 << 42))),
    st.integers(0, 11),
    st.integers(1, 3),
    st.sampled_from(["1/2", "1/10", "2/3", "999/1000"]),
    st.sampled_from(["pure", "zcdp"]),
    st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_no_pair_of_neighbours_loses_more_than_is_paid(
    counts: Counts, cell: int, weight: int, at: str, definition: Definition, seed: int
) -> None:
    other = counts.copy()
    other.flat[cell] += weight
    mechanism = QuantileChoices(at=at, heaviest=3, margin_share="1/3")
    for pair in ((counts, other), (other, counts)):
        judge(mechanism, *pair, budget=BUDGET, definition=definition, seed=seed)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_the_budget_is_used(definition: Definition) -> None:
    found = [
        judge(MEDIAN, *pair, budget=BUDGET, definition=definition, seed=seed).loss
        for seed in range(12)
        for pair in (ENDS, ENDS[::-1])
    ]
    assert max(found) >= 0.8 * float(BUDGET) * (definition == "pure")
    assert max(found) > 0


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
    with pytest.raises(NotPrivateError):
        for seed in range(20):
            for one, other in (pair, pair[::-1]):
                judge(twin(margin_share="1/4"), one, other, budget=BUDGET, definition="pure", seed=seed)


def test_the_outputs_give_no_more_away_than_the_budget() -> None:
    one, other = np.array([[3, 0]]), np.array([[0, 3]])  # three records taken away, three others added
    held = loss_from_outputs(MEDIAN, one, other, Fraction(1), "pure", runs=FEWER_RUNS)
    assert 0 < held <= 6
