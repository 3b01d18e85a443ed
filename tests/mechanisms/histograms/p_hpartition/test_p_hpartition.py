"""P-HPartition: what it spends, what it chooses with which probability, and what it releases."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import epsilon_within, spent
from tabularium.mechanisms.channel import Channel, SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import log_probabilities
from tabularium.mechanisms.measured import Release
from tabularium.mechanisms.noise.synthetic import generator
from tests.mechanisms.histograms.p_hpartition.test_p_hpartition_deviations import deviation, rounded

STEPS = np.repeat([7, 0, 40, 2, 90, 91, 3], [5, 40, 8, 30, 20, 9, 16])
FINEST: dict[str, Any] = {"choice": 0, "balance": 1, "leave_whole": False}


def release(
    counts: Any, epsilon: Any = 1, *, seed: Any = 1, definition: Any = "pure", **parameters: Any
) -> Release:
    channel = SeededChannel(epsilon, seed=seed, definition=definition)
    made = build("p_hpartition", **parameters).release(counts, channel)
    assert channel.remaining == 0
    return made


# --- budget -------------------------------------------------------------------------------------------


def test_the_budget_is_divided_as_in_the_paper() -> None:
    """64 bins: 6 levels with ε/24 each, ε/4 for the partition, ε/2 for the sums."""
    events = release(generator(1).integers(0, 1000, 64), "3/10").transcript
    assert [event.loss for event in events] == [Fraction(1, 80)] * 6 + [Fraction(3, 40), Fraction(3, 20)]
    assert [event.sensitivity for event in events] == [2] * 7 + [1]
    assert [event.purpose for event in events] == [*(f"level {k}" for k in range(1, 7)), "partition", "sums"]
    assert events[0].shape == (1, 64)
    assert events[-2].shape == (1 + sum(cuts_per_level(64, "3/10")),)
    assert events[-1].scale == Fraction(20, 3)


def cuts_per_level(size: int, epsilon: str) -> list[int]:
    return list(release(generator(1).integers(0, 1000, size), epsilon).diagnostics["cuts_per_level"])


def test_levels_without_anything_to_cut_leave_their_budget_to_the_sums() -> None:
    """Two bins are cut or left at the first level: 9 of 10 levels are not drawn."""
    events = release([5, 1000], depth=10).transcript
    assert [event.purpose for event in events] == ["level 1", "partition", "sums"]
    assert [event.loss for event in events] == [Fraction(1, 40), Fraction(1, 4), Fraction(29, 40)]


def test_one_bin_is_simply_measured() -> None:
    only = release([12], "1/2")
    assert [event.loss for event in only.transcript] == [Fraction(1, 2)]
    assert only.diagnostics["parts"] == 1


def test_the_budget_under_zcdp() -> None:
    """ρ/4 over 6 levels: each choice may have ε = √(2ρ/24), more than a 6th of what ρ/4 would buy."""
    rho = Fraction(1, 2)
    events = release(generator(1).integers(0, 1000, 64), rho, definition="zcdp").transcript
    level = epsilon_within(rho / 24)
    assert [event.epsilon for event in events[:6]] == [level] * 6
    assert events[-2].epsilon == epsilon_within(rho / 4)
    assert spent(events) == rho
    assert events[-1].primitive == "discrete_gaussian"
    assert float(level) == pytest.approx(sqrt(1 / 24))


# --- what is chosen -----------------------------------------------------------------------------------

SMALL = np.array([3, 0, 9, 8, 1])


def level_one_scores(balance: int, leave_whole: bool, epsilon: Fraction, price: float) -> np.ndarray:
    """Scores of the first level by the definition, best 0 first candidate: no cut."""
    cuts = range(1, SMALL.size)
    scores = [-rounded(deviation(SMALL))] if leave_whole else []
    for cut in cuts:
        costs = rounded(deviation(SMALL[:cut])) + rounded(deviation(SMALL[cut:]))
        preferred = balance * np.log(2 * min(cut, SMALL.size - cut) / SMALL.size) * 4 / float(epsilon)
        scores.append(-costs - round(price) + round(preferred))
    if leave_whole and balance:
        scores[0] += round(balance * np.log(4 / 5) * 4 / float(epsilon))
    return np.array(scores)


@pytest.mark.parametrize(
    ("definition", "balance", "leave_whole"),
    [("pure", 0, True), ("pure", 2, False), ("zcdp", 1, True)],
)
def test_the_first_cut_has_the_stated_distribution(definition: str, balance: int, leave_whole: bool) -> None:
    """Permute-and-flip at ε/4 of 3 on scores of sensitivity 2, with λ = 1/sinh of what the sums get."""
    budget, runs = Fraction(3), 800
    share = budget / 4
    epsilon = share if definition == "pure" else epsilon_within(share)
    rest = float(budget / 2)
    price = 1 / np.sinh(rest) if definition == "pure" else np.sqrt(1 / (2 * rest)) * np.sqrt(2 / np.pi)
    scores = level_one_scores(balance, leave_whole, epsilon, price)
    wanted = np.exp(log_probabilities(scores.max() - scores, epsilon / 4, "permute_and_flip"))
    mechanism = build("p_hpartition", depth=1, balance=balance, leave_whole=leave_whole)
    counts = np.zeros(wanted.size, dtype=np.int64)
    for run in range(runs):
        channel = Watched(SeededChannel(budget, seed=run, definition=definition))  # type: ignore[arg-type]
        mechanism.measure(SMALL, channel)  # type: ignore[arg-type]
        counts[channel.chosen] += 1
    assert wanted.sum() == pytest.approx(1)
    assert chisquare(counts, wanted * runs).pvalue > 1e-4
    assert (counts > 20).sum() > 2


class Watched:
    """A channel that remembers what was chosen at the first level."""

    def __init__(self, channel: Channel) -> None:
        self._inner, self.chosen = channel, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def pick_each(self, *arguments: Any, **options: Any) -> Any:
        found = self._inner.pick_each(*arguments, **options)
        self.chosen = int(found[0])
        return found


def test_with_a_great_budget_every_step_is_found() -> None:
    """At ε = 10^6 the best cuts are made, and no noise is left."""
    for parameters in ({}, FINEST):
        assert release(STEPS, 10**6, **parameters).values.tolist() == STEPS.tolist()


def test_a_part_costs_its_noise() -> None:
    """Steps of 1000 are kept apart at ε = 100. Equal bins are cut for nothing: each part more is e^(1/8) times
    less likely to be chosen, as λ·ε/16 = 1/8, whatever ε."""
    assert release(np.arange(64) * 1000, 100, depth=20).diagnostics["parts"] == 64
    for epsilon in ("1/1000", "1"):
        flat = [release(np.full(500, 20), epsilon, seed=seed).diagnostics for seed in range(10)]
        assert min(sum(made["cuts_per_level"]) for made in flat) > 60
        assert 3 < np.mean([made["parts"] for made in flat]) < 20


# --- what is released ---------------------------------------------------------------------------------


def test_each_part_has_its_noisy_mean() -> None:
    mechanism = build("p_hpartition")
    measured = mechanism.measure(STEPS.reshape(2, -1), SeededChannel(1, seed=5))
    starts, sums = measured.arrays["starts"], measured.arrays["sums"]
    values = mechanism.finish(measured).values.reshape(-1)
    assert starts[0] == 0
    assert starts.size == sums.size > 3
    for part, (a, b) in enumerate(pairwise([*starts.tolist(), STEPS.size])):
        assert values[a:b] == pytest.approx(sums[part] / (b - a), rel=1e-15)


def finished(sums: list[int], sizes: list[int], **parameters: Any) -> np.ndarray:
    """What is released when these were the noisy sums of parts of these sizes."""
    mechanism = build("p_hpartition", **{"sign": "total", **parameters})
    measured = mechanism.measure(np.zeros(sum(sizes), dtype=np.int64), SeededChannel(1, seed=1))
    starts = np.cumsum(sizes) - sizes
    measured.arrays.update(starts=starts, levels=np.arange(len(sizes)), sums=np.array(sums))
    return mechanism.finish(measured).values


@pytest.mark.parametrize("sums", [[90, -40, 3, 20], [5, -1, -1, -1], [7, 0, 2, 1], [-4, 1, 2, -9]])
def test_sums_are_the_nearest_that_are_not_negative(sums: list[int]) -> None:
    """All sums have the same noise, so nearest is least squares: found here by trying what stays above zero."""
    sizes = [2, 3, 1, 7]
    made = [float(part.sum()) for part in np.split(finished(sums, sizes), np.cumsum(sizes)[:-1])]
    noisy, total = np.array(sums, dtype=np.float64), max(sum(sums), 0)
    tried = [np.zeros(4)] if not total else []
    for k in range(1, 16):
        above = np.array([k >> i & 1 for i in range(4)], dtype=bool)
        candidate = np.where(above, noisy + (total - noisy[above].sum()) / above.sum(), 0.0)
        if total and candidate.min() >= 0:
            tried.append(candidate)
    nearest = min(tried, key=lambda one: float(((one - noisy) ** 2).sum()))
    assert made == pytest.approx(nearest.tolist(), abs=1e-9)


def test_without_negative_sums_nothing_is_changed() -> None:
    sums, sizes = [7, 0, 1 << 40, 1], [2, 3, 1, 7]
    assert finished(sums, sizes).tolist() == finished(sums, sizes, sign="free").tolist()


def test_an_unattributed_release_below_zero_is_raised_in_order() -> None:
    """Means -2, 1, 5 of 3, 2 and 2 bins add up to 6: 5 and 1 less the same amount, as far as it goes."""
    made = finished([-6, 2, 10], [3, 2, 2], unattributed=True)
    assert made == pytest.approx([0] * 5 + [3, 3])


def test_small_budgets_are_no_worse_than_one_number() -> None:
    """Hardly anybody in 4 096 bins, ε = .001: parts of which half are below zero are worse than no parts."""
    counts = np.zeros(4096, dtype=np.int64)
    counts[[0, 700, 2100]] = 9000, 5000, 3000
    error = {
        sign: np.mean(
            [np.abs(release(counts, "1/1000", seed=k, sign=sign).values - counts).mean() for k in range(10)]
        )
        for sign in ("total", "free")
    }
    alone = 2 * counts.mean()  # what one mean for all bins errs by, to the thousandth part
    assert error["total"] < 1.1 * alone
    assert error["free"] > 1.3 * alone


def test_an_unattributed_release_ascends_and_knows_no_order() -> None:
    counts = generator(2).permutation(STEPS)
    for parameters in ({}, FINEST):
        one = release(counts, "1/2", unattributed=True, **parameters).values
        other = release(np.sort(counts)[::-1].copy(), "1/2", unattributed=True, **parameters).values
        assert one.tolist() == other.tolist()
        assert (np.diff(one) >= 0).all()


def test_pooling_keeps_the_weighted_mean() -> None:
    """Where noise turns neighbouring means round, they are pooled with weights 1/variance = size²."""
    mechanism = build("p_hpartition", unattributed=True)
    measured = mechanism.measure([1, 2, 3], SeededChannel(1, seed=1))
    measured.arrays.update(starts=np.array([0, 1]), levels=np.array([0, 1]), sums=np.array([11, 12]))
    assert mechanism.finish(measured).values == pytest.approx([(11 + 4 * 6) / 5] * 3)


def test_cuts_that_the_sums_speak_against_are_taken_back() -> None:
    flat = release(np.full(500, 20), "1/10", choice=0, leave_whole=False)
    assert flat.diagnostics["parts_measured"] > 50
    assert flat.diagnostics["parts"] < flat.diagnostics["parts_measured"] / 8
    assert sum(flat.diagnostics["cuts_per_level"]) + 1 == flat.diagnostics["parts_measured"]


def test_a_tiny_budget_does_not_overflow() -> None:
    assert release(STEPS, Fraction(1, 1 << 34), balance=8).values.shape == STEPS.shape
