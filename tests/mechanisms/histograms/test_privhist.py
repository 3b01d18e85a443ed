"""PrivHist: its boundaries, blocks and list from their definitions, and the histogram made of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import ceil, exp, floor, inf, log, prod, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import difference_between, record
from tabularium.mechanisms.channel.replay.replay_findings import Draw
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms import histogram_properties as properties
from tabularium.mechanisms.histograms.histogram_properties import (
    Estimated,
    distance_to_uniformity,
    entropy,
    renyi_entropy,
    support_coverage,
    support_size,
)
from tabularium.mechanisms.histograms.privhist import (
    AnonymizedRelease,
    block_sums,
    boundaries_of,
    excess,
    excess_length,
    expand,
    histogram,
    merged,
    prevalences,
)
from tabularium.mechanisms.inference.isotonic import isotonic, whole
from tabularium.mechanisms.noise.synthetic import generator

COUNTS = st.lists(st.one_of(st.integers(0, 6), st.integers(0, 300)), min_size=1, max_size=25)


def draws_of(
    counts: Any, budget: Any, force: Callable[..., Any] | None = None, **parameters: Any
) -> tuple[list[Draw], AnonymizedRelease]:
    definition: Definition = parameters.pop("definition", "pure")
    found = record(build("privhist", **parameters), counts, budget, 0, definition=definition, force=force)
    release = found.run.release
    assert isinstance(release, AnonymizedRelease)
    return found.draws, release


def no_noise(event: Any, inputs: Any, drawn: Any) -> Any:
    return inputs


# --- what is measured -------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(COUNTS, st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 12))
def test_blocks_and_excess_from_their_definitions(sizes: list[int], widths: list[int], length: int) -> None:
    runs = prevalences(np.array(sizes))
    boundaries = np.cumsum([0, *widths])
    pairs = list(zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True))
    blocks = [sum(min(max(size - low, 0), high - low) for size in sizes) for low, high in pairs]
    assert block_sums(runs, boundaries).tolist() == blocks
    top = int(boundaries[-1])
    over = sorted((max(size - top, 0) for size in sizes), reverse=True)[:length]
    assert excess(runs, top, length).tolist() == over + [0] * (length - len(over))


@pytest.mark.parametrize("epsilon", [0.001, 0.04, 0.3, 1.0])
@pytest.mark.parametrize("total", [1, 7, 1000, 186471, 10**8])
def test_boundaries_for_small_budgets(total: int, epsilon: float) -> None:
    q = sqrt(2 * max(log(2 / epsilon), 1) / (total * epsilon))
    s = [0]
    while s[-1] < sqrt(total / epsilon):
        s.append(s[-1] + max(1, floor(q * s[-1])))
    assert boundaries_of(total, epsilon).tolist() == s


@pytest.mark.parametrize("total", [1, 2, 4, 5, 10**6, 2**32])
def test_boundaries_for_large_budgets(total: int) -> None:
    """Every count up to the root of the total, rounded up."""
    assert boundaries_of(total, 1.5).tolist() == list(range(ceil(sqrt(total)) + 1))


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 9.0])
def test_there_is_a_limit_to_what_is_drawn(epsilon: float) -> None:
    for total in (2**36, 2**48, 2**61):
        boundaries = boundaries_of(total, epsilon)
        assert (np.diff(boundaries) >= 1).all()
        assert boundaries.size < 1_500_000
        assert excess_length(total, int(boundaries[-1])) <= 2**17 + 1


def test_two_draws_and_what_they_cost() -> None:
    counts = np.array([30, 0, 4, 4])
    (first, second), release = draws_of(counts, 2, no_noise)
    assert first.inputs.tolist() == [38]
    assert (first.event.loss, second.event.loss) == (Fraction(1, 5), Fraction(9, 5))
    # ⌈√38⌉ = 7 blocks of one count each, and a list of ⌈38/7⌉ + 1.
    assert second.inputs.tolist() == [3, 3, 3, 3, 1, 1, 1, 23, 0, 0, 0, 0, 0, 0]
    assert second.event.sensitivity == 1
    assert release.values.tolist() == [[30, 1], [4, 2]]
    assert release.total == 38


def test_no_records_no_histogram() -> None:
    """The noise says so: the histogram is empty, whatever is there, and the rest measures n again."""
    force = lambda event, inputs, drawn: inputs - 8 * event.purpose.endswith("records")  # noqa: E731
    draws, release = draws_of(np.array([2, 1, 5]), "1/2", force)
    assert [draw.event.purpose for draw in draws] == ["records", "records again"]
    assert [draw.event.loss for draw in draws] == [Fraction(1, 20), Fraction(9, 20)]
    assert release.values.shape == (0, 2)
    assert release.values.dtype == np.int64
    assert release.total == 8
    assert release.expand().tolist() == []


# --- what is made of it -----------------------------------------------------------------------------


def slow_histogram(boundaries: Any, blocks: Any, listed: Any, tied: bool) -> list[int]:
    """Step 5 as it reads, item by item; the g of ``tied`` by trying all of them."""
    widths = np.diff(boundaries)
    f = isotonic(blocks / widths, widths**2, increasing=False)
    e = isotonic(listed, increasing=False)
    if tied:
        tries = []
        for g in range(listed.size + 1):
            bound, head = np.maximum(f, g), np.maximum(isotonic(listed[:g], increasing=False), 0)
            over = np.append(head, np.zeros(listed.size - g))
            left = ((blocks - widths * bound) ** 2).sum() + ((listed - over) ** 2).sum()
            tries.append((round(float(left), 6), g, bound, over))
        _, _, f, e = min(tries, key=lambda each: each[:2])
    reach, over = whole(f), whole(e)
    items = max(int(reach[0]), over.size)
    sizes = [
        int((widths * (reach >= j)).sum() + (over[j - 1] if j <= over.size else 0))
        for j in range(1, items + 1)
    ]
    return [size for size in sizes if size]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.data(),
    st.booleans(),
)
def test_the_histogram_is_that_of_the_definition(widths: list[int], data: st.DataObject, tied: bool) -> None:
    boundaries = np.cumsum([0, *widths])
    number = st.one_of(st.integers(-5, 40), st.integers(0, 12))
    blocks = np.array(data.draw(st.lists(number, min_size=len(widths), max_size=len(widths))))
    listed = np.array(data.draw(st.lists(number, min_size=1, max_size=6)))
    runs = histogram(boundaries, blocks, listed, tied=tied)
    assert expand(runs).tolist() == slow_histogram(boundaries, blocks, listed, tied)
    assert (np.diff(runs[:, 0]) < 0).all()


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.sampled_from(["1/50", "1/3", "1", "3"]), st.booleans())
def test_without_noise_small_counts_come_back(sizes: list[int], budget: str, tied: bool) -> None:
    """For ε > 1 all of them; for ε <= 1 those in wider blocks move, and the number of records is kept."""
    if not sum(sizes):
        return
    _, release = draws_of(np.array(sizes), budget, no_noise, tied=tied)
    if budget == "3":
        assert release.values.tolist() == prevalences(np.array(sizes)).tolist()
    fine = boundaries_of(sum(sizes), float(Fraction(budget)))
    if (np.diff(fine) == 1).all():
        assert release.expand().tolist() == sorted(filter(None, sizes), reverse=True)


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.integers(0, 1000), st.sampled_from(["1/50", "1/3", "2"]), st.sampled_from(["pure", "zcdp"]))
def test_releases_are_in_order(sizes: list[int], seed: int, budget: str, definition: Definition) -> None:
    release = build("privhist").release(sizes, SeededChannel(budget, seed=seed, definition=definition))
    assert release.values.dtype == np.int64
    assert (release.values > 0).all()
    assert (np.diff(release.values[:, 0]) < 0).all()
    assert release.diagnostics["items"] == release.values[:, 1].sum()
    assert release.diagnostics["total"] >= 0


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_much_budget_gives_the_truth(definition: Definition) -> None:
    counts = np.array([[3, 1, 0, 9], [1, 1, 77, 3]])
    release = build("privhist").release(counts, SeededChannel(5000, seed=1, definition=definition))
    assert release.values.tolist() == [[77, 1], [9, 1], [3, 2], [1, 3]]


def test_a_list_of_noise_is_not_released() -> None:
    """400 items of 50 at ε = 0.1: T is 447, so that any excess is noise. Alone, the list shows some of it."""
    counts = np.full(400, 50)
    largest = {
        tied: max(
            int(build("privhist", tied=tied).release(counts, SeededChannel("1/10", seed=s)).values[0, 0])
            for s in range(8)
        )
        for tied in (True, False)
    }
    assert largest[False] > largest[True]


def test_a_large_item_among_small_ones_is_kept() -> None:
    counts = np.append(np.full(2000, 3), 50_000)
    for seed in range(5):
        release = build("privhist").release(counts, SeededChannel("1/10", seed=seed))
        assert abs(int(release.values[0, 0]) - 50_000) < 2000


def test_it_is_closer_than_sorted_counts() -> None:
    """The paper's claim, on 5 000 items of geometric sizes: less than half of the baseline's error."""
    sizes = generator(8).geometric(0.05, 5000)
    truth = np.sort(sizes)[::-1]

    def far(released: np.ndarray) -> float:
        both = np.zeros((2, max(released.size, truth.size)))
        both[0, : released.size], both[1, : truth.size] = released, truth
        return float(np.abs(both[0] - both[1]).sum())

    for budget in ("1/10", "1"):
        errors = {
            name: np.mean(
                [
                    far(np.sort(_listed(build(name).release(sizes, SeededChannel(budget, seed=s))))[::-1])
                    for s in range(4)
                ]
            )
            for name in ("privhist", "sorted_isotonic")
        }
        assert errors["privhist"] < errors["sorted_isotonic"] / 2, budget


def _listed(release: Any) -> np.ndarray:
    return release.expand() if isinstance(release, AnonymizedRelease) else release.values


# --- forms of input ---------------------------------------------------------------------------------


def test_prevalences_in_any_order() -> None:
    counts = np.array([5, 1, 1, 5, 0, 2])
    given_as = (
        prevalences(counts),
        np.array([[1, 1], [5, 2], [2, 1], [1, 1]]),
        np.array([[2, 1], [0, 7], [5, 1], [1, 2], [9, 0], [5, 1]]),
    )
    expected = build("privhist").release(counts, SeededChannel(1, seed=4))
    for pairs in given_as:
        found = build("privhist", form="prevalences").release(pairs, SeededChannel(1, seed=4))
        assert found.values.tolist() == expected.values.tolist()
        assert found.transcript == expected.transcript


def test_a_hundred_million_items_in_a_second() -> None:
    sizes = np.arange(1, 20_001)
    pairs = np.stack([sizes, 10**8 // sizes**2 + 1], axis=1)
    mechanism = build("privhist", form="prevalences")
    for budget in ("1/10", "2"):
        mechanism.release(pairs, SeededChannel(budget, seed=1))
        start = time.process_time()
        release = mechanism.release(pairs, SeededChannel(budget, seed=1))
        assert time.process_time() - start < 10
        assert release.diagnostics["items"] > 10**8
        assert isinstance(release, AnonymizedRelease)
        with pytest.raises(MechanismError, match="longer than the limit"):
            release.expand()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=9))
def test_pairs_are_merged(pairs: list[tuple[int, int]]) -> None:
    listed = Counter(size for size, items in pairs if size for _ in range(items))
    assert merged(np.array(pairs)).tolist() == [list(pair) for pair in sorted(listed.items())[::-1]]
    assert prevalences(expand(np.array(pairs)).tolist() or [0]).tolist() == merged(np.array(pairs)).tolist()


@pytest.mark.parametrize("pairs", [[1, 2], [[1, 2, 3]], [[1.0, 2.0]], [[2, -1]]])
def test_only_pairs_are_expanded(pairs: Any) -> None:
    with pytest.raises(MechanismError, match="not pairs"):
        expand(pairs)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_more_records_than_64_bits_hold(definition: Definition) -> None:
    """The number of records and each block are cut off at 2^60, and counts at 2^40."""
    low = [3, LARGEST_COUNT]
    measured = [
        build("privhist", form="prevalences").measure(given, SeededChannel(1, seed=1, definition=definition))
        for given in ([[1 << 50, 1 << 41], low], [[LARGEST_COUNT, 1 << 41], low])
    ]
    assert abs(int(measured[0].arrays["total"][0]) - (1 << 60)) < 1000
    assert difference_between(*measured) is None
    blocks = measured[0].arrays["blocks"]
    assert abs(int(blocks[0]) - (1 << 41) - LARGEST_COUNT) < 1000
    assert (blocks <= (1 << 60) + 1000).all()


def test_sums_in_pythons_integers_are_the_same() -> None:
    runs = np.array([[90, 3], [7, 2], [1, 40]])
    boundaries = boundaries_of(324, 0.5)
    assert block_sums(runs.astype(object), boundaries).tolist() == block_sums(runs, boundaries).tolist()
    assert excess(runs.astype(object), 20, 5).tolist() == excess(runs, 20, 5).tolist()


# --- Symmetric properties: by hand, on distributions whose properties are known, and from private releases ---


METHODS = ("plug_in", "miller_madow", "chao_shen")
UNIFORM = 1000  # symbols
RATE = 0.02  # of the geometric distribution p_i = RATE·(1 - RATE)^i
GEOMETRIC_ENTROPY = -(log(RATE) + (1 - RATE) / RATE * log(1 - RATE))
GEOMETRIC_RENYI = -log(RATE / (2 - RATE))


def uniform(records: int, seed: int) -> np.ndarray:
    return prevalences(generator(seed).multinomial(records, np.full(UNIFORM, 1 / UNIFORM)))


def geometric(records: int, seed: int) -> np.ndarray:
    return prevalences(np.bincount(generator(seed).geometric(RATE, records)))


def mean(estimate: Callable[[np.ndarray], Estimated], draw: Callable[[int, int], Any], records: int) -> float:
    return float(np.mean([estimate(draw(records, seed)).value for seed in range(20)]))


# --- by hand ----------------------------------------------------------------------------------------


def test_entropy_by_hand() -> None:
    """Shares 1/2, 1/4, 1/4: 1.5·ln 2; three symbols in eight records: + 2/16."""
    runs = [[4, 1], [2, 2]]
    assert entropy(runs, method="plug_in").value == pytest.approx(1.5 * log(2))
    assert entropy(runs).value == pytest.approx(1.5 * log(2) + 1 / 8)
    # Chao-Shen without singletons: full coverage, each share over its chance to be seen.
    shares = [1 / 2, 1 / 4, 1 / 4]
    expected = -sum(p * log(p) / (1 - (1 - p) ** 8) for p in shares)
    assert entropy(runs, method="chao_shen").value == pytest.approx(expected)


def test_rarefaction_is_the_mean_over_all_subsets() -> None:
    symbols = [0, 0, 0, 1, 1, 2]
    for size in range(1, 7):
        subsets = list(combinations(range(6), size))
        seen = np.mean([len({symbols[i] for i in each}) for each in subsets])
        assert support_coverage([[3, 1], [2, 1], [1, 1]], size).value == pytest.approx(seen)


def test_power_sums_are_unbiased() -> None:
    """Over all samples of three records from (1/2, 1/3, 1/6): E Σ (r)_2/(n)_2 = Σ p²."""
    chances = (1 / 2, 1 / 3, 1 / 6)
    power = 0.0
    for sample in product(range(3), repeat=3):
        runs = prevalences(np.bincount(sample))
        found = renyi_entropy(runs, 2).value
        power += prod(chances[i] for i in sample) * (0 if found == inf else exp(-found))
    assert power == pytest.approx(sum(p**2 for p in chances))


def test_chebyshev_weights_by_hand() -> None:
    """Degree 1: -T_1(ψ(x))/T_1(ψ(0)) is a line through -1 at 0 and 0 in the middle of [l, r]."""
    support, records = 30.0, 20.0
    low, high = 1 / support, 0.5 * log(support) / records
    middle = (low + high) / 2
    found = properties._chebyshev_weights(support, records)
    assert found.tolist() == pytest.approx([-1, 1 / (middle * records)])


def test_distance_by_hand() -> None:
    """3/6, 2/6, 1/6 against 1/5 each, two of them unseen: 0.3 + 2/15 + 1/30 + 2/5."""
    found = distance_to_uniformity([[3, 1], [2, 1], [1, 1]], 5)
    assert found.value == pytest.approx(0.3 + 2 / 15 + 1 / 30 + 2 / 5)
    assert distance_to_uniformity([[7, 4]], 4).value == pytest.approx(0)


# --- known distributions ----------------------------------------------------------------------------


def test_entropy_of_the_uniform_distribution() -> None:
    truth = log(UNIFORM)
    bias = {m: mean(partial(entropy, method=m), uniform, 3000) - truth for m in METHODS}
    assert bias["plug_in"] == pytest.approx(-999 / 6000, abs=0.04)
    assert abs(bias["miller_madow"]) < 0.03
    assert 0 < bias["chao_shen"] < 0.12  # where hardly a symbol is missing it is too high


def test_entropy_of_the_geometric_distribution() -> None:
    for method in ("miller_madow", "chao_shen"):
        found = mean(partial(entropy, method=method), geometric, 5000)
        assert found == pytest.approx(GEOMETRIC_ENTROPY, abs=0.02)


def test_entropy_of_a_sample_that_misses_most() -> None:
    """One record for two symbols: what Chao and Shen's estimator is for."""
    found = [mean(partial(entropy, method=m), uniform, 500) for m in METHODS]
    errors = [abs(value - log(UNIFORM)) for value in found]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.15


def test_support_of_the_uniform_distribution() -> None:
    for records in (1000, 2000):
        assert mean(support_size, uniform, records) == pytest.approx(UNIFORM, rel=0.05)
    known = mean(lambda runs: support_size(runs, least_probability=1 / UNIFORM), uniform, 1000)
    seen = mean(lambda runs: Estimated(float(runs[:, 1].sum()), "", ""), uniform, 1000)
    assert abs(known - UNIFORM) < abs(seen - UNIFORM) / 3
    enough = support_size(uniform(20_000, 1), least_probability=1 / UNIFORM)
    assert enough.value == pytest.approx(UNIFORM, abs=1)


@pytest.mark.parametrize(("ahead", "near"), [(0.3, 0.01), (1.0, 0.02), (2.0, 0.02), (4.0, 0.05)])
def test_coverage_of_the_uniform_distribution(ahead: float, near: float) -> None:
    samples = round(1000 * ahead)
    truth = UNIFORM * (1 - (1 - 1 / UNIFORM) ** samples)
    found = mean(lambda runs: support_coverage(runs, samples), uniform, 1000)
    assert found == pytest.approx(truth, rel=near)


def test_coverage_of_the_geometric_distribution() -> None:
    p = RATE * (1 - RATE) ** np.arange(3000)
    for samples in (100, 1000, 3000, 8000):
        truth = float(-np.expm1(samples * np.log1p(-p)).sum())
        found = mean(partial(support_coverage, samples=samples), geometric, 1000)
        assert found == pytest.approx(truth, rel=0.04)


def test_renyi_entropies() -> None:
    assert mean(lambda r: renyi_entropy(r, 2), uniform, 2000) == pytest.approx(log(UNIFORM), abs=0.03)
    assert mean(lambda r: renyi_entropy(r, 2), geometric, 2000) == pytest.approx(GEOMETRIC_RENYI, abs=0.01)
    third = -log(RATE**3 / (1 - (1 - RATE) ** 3)) / 2
    assert mean(lambda r: renyi_entropy(r, 3), geometric, 2000) == pytest.approx(third, abs=0.02)
    half = 2 * log(RATE**0.5 / (1 - (1 - RATE) ** 0.5))
    assert mean(lambda r: renyi_entropy(r, 0.5), geometric, 50_000) == pytest.approx(half, abs=0.1)


def test_distance_to_uniformity() -> None:
    assert 0 < mean(lambda r: distance_to_uniformity(r, UNIFORM), uniform, 100_000) < (UNIFORM / 1e5) ** 0.5
    p = np.append(RATE * (1 - RATE) ** np.arange(299), (1 - RATE) ** 299)
    truth = float(np.abs(p - 1 / 300).sum())

    def folded(records: int, seed: int) -> np.ndarray:
        return prevalences(np.bincount(np.minimum(generator(seed).geometric(RATE, records), 300)))

    found = mean(lambda r: distance_to_uniformity(r, 300), folded, 20_000)
    assert found == pytest.approx(truth, abs=(300 / 20_000) ** 0.5)


# --- from a private release -------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["1/2", "2"])
def test_they_hold_for_releases(budget: str) -> None:
    """20 000 records of the geometric distribution: noise adds little to what the sample errs."""
    counts = np.bincount(generator(5).geometric(RATE, 20_000))
    for seed in range(3):
        release = build("privhist").release(counts, SeededChannel(budget, seed=seed))
        assert isinstance(release, AnonymizedRelease)
        assert entropy(release.values).value == pytest.approx(GEOMETRIC_ENTROPY, abs=0.05)
        assert renyi_entropy(release.values, 2).value == pytest.approx(GEOMETRIC_RENYI, abs=0.05)
        assert release.total == pytest.approx(20_000, abs=500)  # noise of scale 20: 25 of them
        again = entropy(release.values, total=release.total, method="plug_in").value
        assert again == pytest.approx(entropy(release.values, method="plug_in").value, abs=0.1)
    counts = generator(6).multinomial(20_000, np.full(UNIFORM, 1 / UNIFORM))
    release = build("privhist").release(counts, SeededChannel(budget, seed=1))
    assert support_size(release.values).value == pytest.approx(UNIFORM, rel=0.05)
    assert distance_to_uniformity(release.values, UNIFORM).value < 2 * (UNIFORM / 20_000) ** 0.5


# --- what they refuse -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "where"),
    [
        (lambda: entropy(np.zeros((0, 2), dtype=int)), "properties"),
        (lambda: entropy([[1, 2]], method="best"), "method"),
        (lambda: entropy([[1, 2]], total=0), "total"),
        (lambda: entropy([1, 2]), "run lengths"),
        (lambda: support_size([[1, 2]], least_probability=0), "least_probability"),
        (lambda: support_coverage([[1, 2]], 0), "samples"),
        (lambda: renyi_entropy([[1, 2]], 1), "order"),
        (lambda: renyi_entropy([[1, 2]], -2), "order"),
        (lambda: renyi_entropy([[1, 2]], inf), "order"),
        (lambda: distance_to_uniformity([[1, 2]], 0), "symbols"),
    ],
)
def test_what_they_refuse(ask: Callable[[], Any], where: str) -> None:
    with pytest.raises(MechanismError) as raised:
        ask()
    assert raised.value.where == where


def test_edges() -> None:
    assert renyi_entropy([[1, 4]], 2).value == inf
    assert entropy([[9, 1]]).value == 0
    assert np.isfinite(entropy([[1, 6]], method="chao_shen").value)
    assert support_size([[3, 2]]).value == 2
    assert support_coverage([[1, 5]], 10**6).value <= 10**6
    assert support_size([[1, 5]], least_probability=1).value >= 1


def test_each_names_its_source() -> None:
    runs = [[2, 3], [1, 4]]
    found = [
        *(entropy(runs, method=method) for method in METHODS),
        support_size(runs),
        support_size(runs, least_probability=0.01),
        *(support_coverage(runs, samples) for samples in (5, 15, 40)),
        renyi_entropy(runs, 2),
        renyi_entropy(runs, 0.5),
        distance_to_uniformity(runs, 9),
    ]
    assert len({each.estimator for each in found}) == 9  # three are plain shares
    assert all(each.source for each in found)
