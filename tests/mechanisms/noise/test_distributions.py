"""The noise has the scale it says, to the tails, and no memory; error rates are stated in ``goodness``."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.noise import discrete_gaussian as gaussian
from tabularium.mechanisms.noise import discrete_laplace as laplace
from tabularium.mechanisms.noise.bernoulli_exp import bernoulli_exp_each
from tabularium.mechanisms.noise.choice import below, exponential, permute_and_flip
from tabularium.mechanisms.noise.discrete_laplace import geometric
from tabularium.mechanisms.noise.keystream import KeyStream
from tests.mechanisms.noise.goodness import FALSE_ALARM, SAMPLES, WRONG_BY, draws, fit, merged, tail

SCALES = [Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(10), Fraction(100), Fraction(1000, 3)]
LARGE = [Fraction(5000), Fraction(10**7, 3)]
KINDS = ["laplace", "gaussian"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES + LARGE, ids=str)
def test_the_right_scale_passes(kind: str, scale: Fraction) -> None:
    if kind == "gaussian" and scale > 10**6:
        pytest.skip("its reference distribution is too wide to sum")
    assert fit(kind, draws(kind, scale, SAMPLES, f"right {scale}"), float(scale)) > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("factor", [WRONG_BY, 1 / WRONG_BY], ids=["too wide", "too narrow"])
def test_a_scale_30_percent_off_is_rejected(kind: str, scale: Fraction, factor: float) -> None:
    sample = draws(kind, scale * Fraction(factor), SAMPLES, f"wrong {scale}")
    assert fit(kind, sample, float(scale)) < FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(1000, 3)], ids=str)
@pytest.mark.parametrize("factor", [1.0, WRONG_BY, 1 / WRONG_BY], ids=["right", "too wide", "too narrow"])
def test_tails(kind: str, scale: Fraction, factor: float) -> None:
    """What lies beyond the last point that one draw in 10^4 passes, on each side, among a million draws.

    At least 100 are expected. A Laplace scale 30 % too wide gives about eight times as many, one 30 % too
    narrow about a twelfth: both are far outside what 10^-6 allows.
    """
    count = 1_000_000
    points = np.arange(1, int(float(scale) * 20) + 20, dtype=np.float64)
    place = int(np.argmax(tail(kind, points, float(scale)) < 1.0e-4)) - 1
    beyond = float(tail(kind, points, float(scale))[place])
    sample = draws(kind, scale * Fraction(factor), count, f"tails {scale}")
    for side in (sample, -sample):
        seen = int((side >= points[place]).sum())
        plausible = stats.binomtest(seen, count, beyond).pvalue > FALSE_ALARM
        assert plausible == (factor == 1.0)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(40)], ids=str)
def test_draws_beyond_the_table_keep_the_distribution(
    scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a table that ends after one scale, a draw in three goes on by exact trials."""
    monkeypatch.setattr(laplace, "_TAIL_FOLDS", 1)
    sampler = laplace._Laplace(scale)
    block = np.zeros(6_000, dtype=np.int64)
    sampler.add(KeyStream("tails"), block)
    assert fit("laplace", block, float(scale)) > FALSE_ALARM
    assert (np.abs(block) > 2 * scale).mean() > 0.05


def test_roots_too_large_for_a_machine_word_keep_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "_LARGEST_ROOT", 3)
    assert fit("gaussian", draws("gaussian", Fraction(6), 4_000, "roots"), 6.0) > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(100)], ids=str)
def test_neighbouring_draws_are_independent(kind: str, scale: Fraction) -> None:
    sample = draws(kind, scale, SAMPLES, "memory")
    assert independent(sample[:-1], sample[1:])
    assert independent(sample[:-7], sample[7:])


def test_calls_are_independent() -> None:
    channel = SeededChannel(2, seed=11)
    first, second = (channel.laplace(np.zeros(SAMPLES, np.int64), 1, purpose=name) for name in "ab")
    assert independent(first, second)
    assert not np.array_equal(first, second)


def test_dependence_would_be_seen() -> None:
    sample = draws("laplace", Fraction(10), SAMPLES, "copy")
    leaning = np.where(np.arange(SAMPLES) % 20 == 0, sample, draws("laplace", Fraction(10), SAMPLES, "other"))
    assert not independent(sample, leaning)


def independent(one: np.ndarray, other: np.ndarray) -> bool:
    """Chi-square on the table of thirds of one by thirds of the other, and on the parities."""
    checks = []
    for cut in (lambda x: np.digitize(x, np.quantile(x, [1 / 3, 2 / 3]) + 0.5), lambda x: x & 1):
        table = np.zeros((3, 3))
        np.add.at(table, (cut(one), cut(other)), 1)
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        checks.append(stats.chi2_contingency(table).pvalue > FALSE_ALARM)
    return all(checks)


@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(2), Fraction(1, 20)])
def test_geometric(rate: Fraction) -> None:
    stream = KeyStream("geometric")
    sample = np.array([geometric(stream, rate) for _ in range(1000)])
    mean = 1 / np.expm1(float(rate))
    error = np.sqrt(np.exp(-float(rate))) / -np.expm1(-float(rate)) / np.sqrt(sample.size)
    assert abs(sample.mean() - mean) < 5 * error


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 3)])
def test_coins(rate: Fraction) -> None:
    for folds in (1, 5, 300, 70_000):
        coins = bernoulli_exp_each(KeyStream(f"{rate}{folds}"), np.full(SAMPLES, folds), rate)
        probability = float(np.exp(-float(rate) * folds))
        if probability < 1e-15:
            assert not coins.any()
            continue
        assert stats.binomtest(int(coins.sum()), SAMPLES, probability).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 2**40 + 1])
def test_uniform_below(bound: int) -> None:
    sample = below(KeyStream("below"), bound, 50_000)
    assert sample.min() >= 0
    assert sample.max() < bound
    bins = min(bound, 50)
    observed = np.bincount(
        sample * bins // bound if bound < 2**40 else sample // (bound // bins + 1), minlength=bins
    )
    if bins > 1 and bound < 2**40:
        shares = np.bincount(np.arange(bound) * bins // bound, minlength=bins) / bound
        assert stats.chisquare(observed, shares * sample.size).pvalue > FALSE_ALARM


GAPS = np.array([3, 0, 1, 1, 6, 12, 0])
ONE = np.array([0])  # all candidates are one group


@pytest.mark.parametrize("method", ["permute_and_flip", "exponential"])
def test_choices_have_their_probabilities(method: str) -> None:
    """Against sums over all subsets (permute-and-flip) and the softmax (exponential)."""
    rate, count = Fraction(1, 3), 20_000
    stream = KeyStream(method)
    if method == "exponential":
        chosen = np.concatenate([exponential(stream, GAPS, rate) for _ in range(count)])
    else:
        chosen = np.concatenate([permute_and_flip(stream, GAPS, ONE, rate) for _ in range(count)])
    observed = np.bincount(chosen, minlength=GAPS.size)
    right, wrong = (choice_probabilities(method, GAPS, float(rate) * factor) for factor in (1.0, WRONG_BY))
    assert stats.chisquare(*reversed(merged(right * count, observed))).pvalue > FALSE_ALARM
    assert stats.chisquare(*reversed(merged(wrong * count, observed))).pvalue < FALSE_ALARM


def test_choices_in_groups_have_the_probabilities_of_choices_alone() -> None:
    """Groups of one, two and seven candidates, many times over in one draw; and the groups are independent."""
    rate, count = Fraction(1, 3), 20_000
    groups = [np.array([0]), np.array([2, 0]), GAPS]
    sizes = np.tile([group.size for group in groups], count)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    gaps = np.tile(np.concatenate(groups), count)
    chosen = permute_and_flip(KeyStream("groups"), gaps, starts, rate).reshape(count, 3)
    for column, group in enumerate(groups):
        observed = np.bincount(chosen[:, column], minlength=group.size)
        assert observed.size == group.size
        if group.size > 1:
            right = choice_probabilities("permute_and_flip", group, float(rate)) * count
            assert stats.chisquare(*reversed(merged(right, observed))).pvalue > FALSE_ALARM
    together = stats.contingency.crosstab(chosen[:, 1], np.isin(chosen[:, 2], [1, 6])).count
    assert stats.chi2_contingency(together).pvalue > FALSE_ALARM


def choice_probabilities(method: str, gaps: np.ndarray, rate: float) -> np.ndarray:
    weights = np.exp(-rate * gaps)
    if method == "exponential":
        return np.asarray(weights / weights.sum())
    return np.array([weights[r] * mean_over_orders(np.delete(weights, r)) for r in range(gaps.size)])


def mean_over_orders(others: np.ndarray) -> float:
    """∫₀¹ Π(1 - t·p) dt by expanding the product: coefficient of t^k over k + 1."""
    polynomial = np.array([1.0])
    for weight in others:
        polynomial = np.convolve(polynomial, [1.0, -weight])
    return float((polynomial / np.arange(1, polynomial.size + 1)).sum())


def test_the_best_candidate_always_wins_when_the_others_are_hopeless() -> None:
    stream = KeyStream("sure")
    gaps = np.array([10**6, 0, 2**60])
    assert {int(permute_and_flip(stream, gaps, ONE, Fraction(1))[0]) for _ in range(50)} == {1}
    assert {int(exponential(stream, gaps, Fraction(1))[0]) for _ in range(50)} == {1}
