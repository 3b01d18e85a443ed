"""P-HPartition: what it spends, what it chooses with which probability, and what it releases."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import ceil, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy.stats import chisquare

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import epsilon_within, spent
from tabularium.mechanisms.channel import Channel, SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import log_probabilities
from tabularium.mechanisms.histograms.p_hpartition import Frontier, bisection_costs, pruned, split_order
from tabularium.mechanisms.noise.synthetic import generator
from tests.mechanisms.histograms import measuring
from tests.mechanisms.histograms.without_privacy import hpartition_without_privacy
from tests.sizes import runs

STEPS = np.repeat([7, 0, 40, 2, 90, 91, 3], [5, 40, 8, 30, 20, 9, 16])
FINEST: dict[str, Any] = {"choice": 0, "balance": 1, "leave_whole": False}


release = partial(measuring.released, "p_hpartition")


# --- budget -------------------------------------------------------------------------------------------


def test_the_budget_under_zcdp() -> None:
    """ρ/4 over 6 levels: each choice may have ε = √(2ρ/24), more than a 6th of what ρ/4 would buy."""
    rho = Fraction(1, 2)
    made = release(generator(1).integers(0, 1000, 64), rho, definition="zcdp")
    events, level = made.transcript, epsilon_within(rho / 24)
    assert events[-2].shape == (1 + sum(made.diagnostics["cuts_per_level"]),)
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


# --- The kernels of P-HPartition: what bisections cost, the greedy search of the paper, and pruning ---


Integers = NDArray[np.int64]
FIGURE_3 = [21, 4, 4, 32, 30, 8]
LARGEST = 1 << 40


def deviation(bins: Integers) -> Fraction:
    """Σ|x - mean| = Σ|m·x - S|/m, by the definition."""
    return Fraction(sum(np.abs(bins.size * bins - bins.sum()).tolist()), bins.size)


def rounded(value: Fraction) -> int:
    return ceil(value - Fraction(1, 2))  # the nearest integer, halves downwards


def naive_costs(bins: Integers) -> list[int]:
    cuts = range(1, bins.size)
    whole = rounded(deviation(bins))
    return [whole, *(rounded(deviation(bins[:cut])) + rounded(deviation(bins[cut:])) for cut in cuts)]


def sorted_within(bins: Integers, sizes: Integers) -> tuple[Integers, Integers]:
    """The positions of each part in order of value, and where the parts begin."""
    starts = np.cumsum(sizes) - sizes
    parts = [
        start + np.argsort(bins[start : start + size], kind="stable")
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(parts), starts


def test_a_part_by_hand() -> None:
    """1 | 2 6: mean 3 of all, 4 of the right side; 1 2 | 6: mean 1.5 on the left."""
    bins, whole = np.array([1, 2, 6]), np.array([0])
    assert bisection_costs(bins, np.array([0, 1, 2]), whole, np.array([3])).tolist() == [6, 4, 1]


def test_thirds_are_rounded_to_the_nearest() -> None:
    """Around 1/3: 2·2/3 = 4/3; around 2/3 the same."""
    for bins in ([0, 0, 1], [1, 1, 0]):
        costs = bisection_costs(np.array(bins), np.argsort(bins, kind="stable"), np.array([0]), np.array([3]))
        assert costs[0] == 1


def test_every_cut_of_thousands_of_parts_costs_what_it_should() -> None:
    rng = generator(1)
    for largest in (1, 2, 9, 300, 10**6, LARGEST):
        sizes = rng.integers(1, 40, 500)
        bins = rng.integers(0, largest + 1, sizes.sum())
        order, starts = sorted_within(bins, sizes)
        wanted = [
            cost
            for start, size in zip(starts, sizes, strict=True)
            for cost in naive_costs(bins[start : start + size])
        ]
        assert bisection_costs(bins, order, starts, sizes).tolist() == wanted


@pytest.mark.parametrize("shape", ["shuffled", "ascending", "swinging", "two clusters"])
def test_long_parts_cost_what_they_should(shape: str) -> None:
    """More than 32² distinct counts, so that the tree has three levels; means that wander and that jump."""
    size, rng = 1200, generator(2)
    bins = rng.integers(0, LARGEST + 1, size)
    if shape == "ascending":
        bins = np.sort(bins)
    elif shape == "swinging":
        bins[1::4], bins[3::4] = 0, LARGEST
    elif shape == "two clusters":
        bins = np.where(np.arange(size) % 2, bins >> 20, LARGEST - (bins >> 20))
    found = bisection_costs(bins, np.argsort(bins, kind="stable"), np.array([0]), np.array([size]))
    assert found[0] == rounded(deviation(bins))
    assert found[1:].tolist() == (prefixes(bins) + prefixes(bins[::-1])[::-1]).tolist()


def prefixes(bins: Integers) -> Integers:
    """Rounded deviations of the first 1, …, m - 1 bins."""
    return np.array([rounded(deviation(bins[:size])) for size in range(1, bins.size)])


def test_the_largest_histogram_does_not_overflow() -> None:
    """2^21 bins, half of them at 2^40: each lies 2^39 from the mean, 2^60 in all; cut in two they are equal."""
    size = 1 << 21
    bins = np.repeat([0, LARGEST], size // 2)
    costs = bisection_costs(bins, np.arange(size), np.array([0]), np.array([size]))
    assert costs[0] == 1 << 60
    assert costs[size // 2] == 0
    # One bin at 2^40 among m - 1 zeros: 2·2^40·(1 - 1/m).
    ones = size // 2 + 1
    assert costs[ones] == rounded(2 * LARGEST * Fraction(ones - 1, ones))
    assert costs.min() == 0


@given(
    arrays.arrays(np.int64, st.integers(1, 24), elements=st.integers(0, 60)),
    st.integers(0, 23),
)
@settings(max_examples=runs(150, 600), deadline=None, derandomize=True, database=None)
def test_one_record_moves_a_cost_by_at_most_two(bins: Integers, place: int) -> None:
    more = bins.copy()
    more[place % bins.size] += 1
    costs = [Frontier(counts).costs() for counts in (bins, more) if counts.size > 1]
    if costs:
        assert np.abs(costs[0] - costs[1]).max() <= 2


def test_two_is_reached_in_both_directions_at_once() -> None:
    bins = np.array([*[0] * 24, 500_000, *[1_000_000] * 7])
    more = bins.copy()
    more[24] += 1
    moved = Frontier(more).costs() - Frontier(bins).costs()
    assert moved.min() == -2
    assert moved.max() == 2


# --- levels -------------------------------------------------------------------------------------------


def test_the_frontier_keeps_the_bins_of_each_part_sorted() -> None:
    """After each level the costs are those of parts that are sorted anew."""
    rng = generator(3)
    bins = rng.integers(0, 30, 400)
    frontier = Frontier(bins)
    for _ in range(8):
        wanted = [naive_costs(bins[a : a + m]) for a, m in zip(frontier.starts, frontier.sizes, strict=True)]
        assert frontier.costs().tolist() == [cost for part in wanted for cost in part]
        assert frontier.firsts.tolist() == np.cumsum([0, *map(len, wanted)]).tolist()[:-1]
        frontier.cut(rng.integers(0, frontier.sizes))
    assert frontier.starts.size > 20


def test_cuts_leave_out_parts_of_one_bin_and_parts_left_whole() -> None:
    frontier = Frontier(np.arange(10))
    frontier.cut(np.array([4]))
    assert (frontier.starts.tolist(), frontier.sizes.tolist()) == ([0, 4], [4, 6])
    frontier.cut(np.array([0, 1]))
    assert (frontier.starts.tolist(), frontier.sizes.tolist()) == ([5], [5])
    frontier.cut(np.array([0]))
    assert frontier.starts.size == frontier.sizes.size == 0
    assert Frontier(np.array([7])).starts.size == 0


def test_positions_are_divided_in_their_old_order() -> None:
    order = np.array([3, 1, 0, 2, 6, 4, 5])
    split_order(order, np.array([0, 4]), np.array([4, 3]), np.array([2, 1]))
    assert order.tolist() == [1, 0, 3, 2, 4, 6, 5]


# --- the paper's search -------------------------------------------------------------------------------


def test_the_worked_example_of_the_paper() -> None:
    """Acs, Castelluccia, Chen 2012, Example 1 and figure 3: λ = 1 ends at C5, λ = 3 at C4."""
    path = [[0], [0, 3], [0, 3, 5], [0, 1, 3, 5], [0, 1, 3, 4, 5]]
    assert [parts.tolist() for parts in hpartition_without_privacy(FIGURE_3, 1)] == path
    assert [parts.tolist() for parts in hpartition_without_privacy(FIGURE_3, 3)] == path[:4]
    errors = [deviation_of(FIGURE_3, parts) for parts in path]
    assert errors == [67, Fraction(160, 3), Fraction(74, 3), 2, 0]


def deviation_of(counts: list[int], starts: list[int]) -> Fraction:
    bins = np.array(counts)
    return sum((deviation(bins[a:b]) for a, b in pairwise([*starts, bins.size])), Fraction(0))


def test_each_step_is_the_best_one_and_the_last_was_worth_it() -> None:
    rng = generator(4)
    for _ in range(150):
        counts = rng.integers(0, 40, rng.integers(1, 14)).tolist()
        price = Fraction(int(rng.integers(1, 40)), 4)
        path = [parts.tolist() for parts in hpartition_without_privacy(counts, float(price))]
        for parts, after in pairwise(path):
            best, _ = best_step(counts, parts)
            assert deviation_of(counts, after) == best
            assert deviation_of(counts, parts) - best > price
        best, whole = best_step(counts, path[-1])
        assert whole - best <= price


def best_step(counts: list[int], parts: list[int]) -> tuple[Fraction, Fraction]:
    whole = deviation_of(counts, parts)
    steps = [sorted([*parts, cut]) for cut in range(1, len(counts)) if cut not in parts]
    return min((deviation_of(counts, step) for step in steps), default=whole), whole


# --- pruning ------------------------------------------------------------------------------------------


def test_pruning_is_optimal() -> None:
    """Against every pruning of a random tree, by the criterion in the module's words."""
    rng = generator(5)
    taken_back = 0
    for _ in range(400):
        cells = int(rng.integers(1, 16))
        starts, levels, tree = random_tree(cells, rng)
        sums = rng.integers(-50, 200, starts.size)
        price, variance = float(rng.uniform(1, 6)), float(rng.uniform(1, 300))
        kept = pruned(sums, starts, levels, cells, variance, price)
        costs = {
            parts: risk(parts, sums, starts, cells, variance, price) for parts in prunings(tree, 0, cells)
        }
        assert tuple(kept.tolist()) in costs
        assert costs[tuple(kept.tolist())] == pytest.approx(min(costs.values()))
        taken_back += kept.size < starts.size
    assert 100 < taken_back < 400


Tree = dict[tuple[int, int], int]


def random_tree(cells: int, rng: np.random.Generator) -> tuple[Integers, Integers, Tree]:
    """Random cuts, level after level; each part's cut by its first bin and its end."""
    level_of, tree = {0: 0}, {}
    parts = [(0, cells)]
    for level in range(1, 5):
        halves = []
        for a, b in parts:
            if b - a > 1 and rng.random() < 0.8:
                cut = int(rng.integers(a + 1, b))
                tree[a, b], level_of[cut] = cut, level
                halves += [(a, cut), (cut, b)]
        parts = halves
    starts = sorted(level_of)
    return np.array(starts), np.array([level_of[start] for start in starts]), tree


def prunings(tree: Tree, a: int, b: int) -> list[tuple[int, ...]]:
    """Every set of first bins that the tree can be pruned to."""
    whole: list[tuple[int, ...]] = [(a,)]
    if (a, b) not in tree:
        return whole
    cut = tree[a, b]
    return whole + [left + right for left in prunings(tree, a, cut) for right in prunings(tree, cut, b)]


def risk(
    parts: tuple[int, ...], sums: Integers, starts: Integers, cells: int, variance: float, price: float
) -> float:
    widths = np.diff(starts, append=cells)
    total = 0.0
    for a, b in pairwise([*parts, cells]):
        inside = (starts >= a) & (starts < b)
        y, w, size = sums[inside], widths[inside], b - a
        total += (y**2 / w).sum() - y.sum() ** 2 / size - variance * (1 / w).sum() + price * variance / size
    return total
