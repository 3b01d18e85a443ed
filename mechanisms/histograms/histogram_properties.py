"""Symmetric properties of the distribution behind an anonymized histogram.

n records were drawn from an unknown distribution p over symbols (households, words, diagnoses); a property is
symmetric if it does not depend on the symbols' names. Its best estimators need no more than the prevalences
φ_r, how many symbols occur r times (Batu et al. 2000; Acharya et al. 2017): the pairs (count, multiplicity)
that ``privhist`` releases. All of this is post-processing and costs no budget.

The estimators are those for exact prevalences. Their own error is that of the sample; the noise of a release
comes on top, and touches most what rests on φ_1 and φ_2: ``support_size`` and ``support_coverage`` beyond n.
Each estimate names its estimator and its source.

``total`` is n, by default Σ r·φ_r of the pairs given, so that shares add up to 1; the noisy total of a
release may be given instead (Suresh 2019, section 3.2). Logarithms are natural: entropies are in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import acosh, cosh, floor, inf, isfinite, lgamma, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError

Runs = NDArray[np.int64]


@dataclass(frozen=True)
class Estimated:
    """A property and how it was estimated.

    Attributes
    ----------
    value
        The estimate.
    estimator, source
        By what, and where it is described.
    error
        What is known of its error, in a sentence.
    """

    value: float
    estimator: str
    source: str
    error: str = ""


def entropy(runs: ArrayLike, *, method: str = "miller_madow", total: int | None = None) -> Estimated:
    """Estimate the Shannon entropy -Σ p ln p.

    Parameters
    ----------
    runs
        Shape (k, 2): pairs (count, multiplicity).
    method
        ``"plug_in"``: of the empirical shares; too low by about (symbols - 1)/2n.
        ``"miller_madow"``: plus that, with the symbols seen. Good from some records per symbol on.
        ``"chao_shen"``: shares shrunk by the coverage 1 - φ_1/n, and each symbol weighted by its chance to be
        seen. For samples that miss many symbols.

    Examples
    --------
    >>> round(entropy([[5, 2]], method="plug_in").value, 4)  # two symbols, five records each: ln 2
    0.6931
    """
    counts, items, records = _sample(runs, total)
    shares = counts / records
    plain = float(-(items * shares * np.log(shares)).sum())
    if method == "plug_in":
        return Estimated(plain, "plug-in", "empirical shares")
    if method == "miller_madow":
        seen = float(items.sum())
        value = plain + (seen - 1) / (2 * records)
        error = "In nats; it is too low where many values have no record or only one."
        return Estimated(value, "Miller-Madow", "Miller 1955", error)
    if method == "chao_shen":
        once = float(items[counts == 1].sum())
        covered = max(1 - once / records, 1 / records)  # a sample of singletons would have none
        shrunk = covered * shares
        chance = -np.expm1(records * np.log1p(-np.minimum(shrunk, 1 - 1e-15)))
        value = float(-(items * shrunk * np.log(shrunk) / chance).sum())
        return Estimated(value, "Chao-Shen", "Chao, Shen 2003")
    raise MechanismError(
        "there is no such estimator", where="method", hint="use plug_in, miller_madow or chao_shen"
    )


def support_size(
    runs: ArrayLike, *, least_probability: float | None = None, total: int | None = None
) -> Estimated:
    """Estimate how many symbols have a positive probability, seen or not.

    Parameters
    ----------
    runs
        Shape (k, 2): pairs (count, multiplicity).
    least_probability
        A lower bound on every positive p, if one is known: then by Chebyshev polynomials, whose error is the
        least possible up to constants. Without one there is no upper bound on the support, and Chao's
        estimator estimates a lower bound.

    Examples
    --------
    >>> round(support_size([[2, 4], [1, 6]]).value, 3)  # 10 seen, and 13/14·6·5/(2·5) unseen
    12.786
    """
    counts, items, records = _sample(runs, total)
    seen = float(items.sum())
    if least_probability is None:
        once, twice = (float(items[counts == r].sum()) for r in (1, 2))
        unseen = (records - 1) / records * once * (once - 1) / (2 * (twice + 1))
        source = "Chao 1984; bias-corrected form, Chao 2005"
        error = (
            "It is a lower bound in expectation, made from the sizes 1 and 2, which noise touches most: "
            "use it at ε of about 1 or more, or with very many values."
        )
        return Estimated(seen + max(unseen, 0.0), "Chao1", source, error)
    if not 0 < least_probability <= 1:
        raise MechanismError("a probability lies between 0 and 1", where="least_probability")
    weights = _chebyshev_weights(1 / least_probability, records)
    small = counts < weights.size
    value = seen + float((items[small] * weights[counts[small]]).sum())
    value = min(max(value, seen), 1 / least_probability)
    return Estimated(value, "Chebyshev polynomial, c0 = 0.45, c1 = 0.5", "Wu, Yang 2019")


def support_coverage(runs: ArrayLike, samples: int, *, total: int | None = None) -> Estimated:
    """Estimate how many distinct symbols ``samples`` records would show, Σ 1 - (1 - p)^samples.

    Up to n, by thinning the sample out; unbiased. From n to 2n, by the Good-Toulmin series; beyond, by the
    series with a random number of terms, which is sound up to about n·ln n.

    ``runs``: Shape (k, 2): pairs (count, multiplicity). ``samples``: Number of records, at least 1.

    Examples
    --------
    >>> round(support_coverage([[2, 2]], 2).value, 3)  # of 6 pairs of records, 4 show both symbols
    1.667
    >>> support_coverage([[2, 4], [1, 6]], 21).value  # 10 seen, and 6·(1/2) - 4·(1/2)² more
    12.0
    """
    counts, items, records = _sample(runs, total)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise MechanismError("this must be a number of records, at least 1", where="samples")
    seen = float(items.sum())
    if samples <= records:
        missed = np.array([_missed(int(count), samples, records) for count in counts])
        source = "Hurlbert 1971; Good, Toulmin 1956"
        return Estimated(float((items * (1 - missed)).sum()), "rarefaction", source)
    ahead = samples / records - 1
    tails = _tails(ahead, records, int(counts.max()))
    near = counts < tails.size
    signs = -((-1.0) ** counts[near]) * np.exp(counts[near] * log(ahead))
    more = float((items[near] * signs * tails[counts[near]]).sum())
    value = min(max(seen + more, seen), float(samples))
    if ahead <= 1:
        return Estimated(value, "Good-Toulmin", "Good, Toulmin 1956")
    return Estimated(value, "smoothed Good-Toulmin, binomial 2/(2 + t)", "Orlitsky, Suresh, Wu 2016")


def renyi_entropy(runs: ArrayLike, order: float, *, total: int | None = None) -> Estimated:
    """Estimate the Rényi entropy ln(Σ p^order)/(1 - order).

    For whole orders from 2 on the power sum is estimated without bias, by falling factorials; for others from
    the empirical shares. Infinite if a whole order finds no symbol that often.

    ``runs``: Shape (k, 2): pairs (count, multiplicity). ``order``: Positive and not 1, which is ``entropy``.

    Examples
    --------
    >>> round(renyi_entropy([[3, 2]], 2).value, 4)  # -ln(2·(3·2)/(6·5))
    0.9163
    """
    counts, items, records = _sample(runs, total)
    if not (isfinite(order) and order > 0) or order == 1:
        raise MechanismError(
            "an order is positive and not 1",
            where="order",
            hint="for order 1 see entropy, for 0 support_size",
        )
    if order != int(order) or order < 2:
        power = float((items * (counts / records) ** order).sum())
        source = "empirical shares; Acharya, Orlitsky, Suresh, Tyagi 2014"
        return Estimated(log(power) / (1 - order), "plug-in", source)
    steps = np.arange(int(order))
    factors = np.maximum(counts[:, None] - steps, 0) / np.maximum(records - steps, 1.0)
    power = float((items * factors.prod(axis=1)).sum())
    value = log(power) / (1 - order) if power > 0 else inf
    return Estimated(value, "unbiased power sum", "Acharya, Orlitsky, Suresh, Tyagi 2014")


def distance_to_uniformity(runs: ArrayLike, symbols: int, *, total: int | None = None) -> Estimated:
    """Estimate Σ |p - 1/symbols| over a known number of symbols: between 0 and 2.

    From the empirical shares: too high by √(symbols/n) at most, in expectation.

    ``runs``: Shape (k, 2): pairs (count, multiplicity). ``symbols``: How many there are, seen or not; public.

    Examples
    --------
    >>> distance_to_uniformity([[5, 2]], 4).value  # two symbols of four have one half each
    1.0
    """
    counts, items, records = _sample(runs, total)
    if isinstance(symbols, bool) or not isinstance(symbols, int) or symbols < 1:
        raise MechanismError("this must be a number of symbols, at least 1", where="symbols")
    seen = float((items * np.abs(counts / records - 1 / symbols)).sum())
    unseen = max(symbols - float(items.sum()), 0.0) / symbols
    error = (
        f"The sample by itself makes it too high by {(symbols / records) ** 0.5:.2g} at most, in expectation."
    )
    return Estimated(seen + unseen, "plug-in", "empirical shares; Jiao, Han, Weissman 2018", error)


def _sample(runs: ArrayLike, total: int | None) -> tuple[NDArray[np.int64], Floats, float]:
    """Return counts, multiplicities and n; refuse a histogram without any record."""
    pairs = merged(pairs_of(runs))
    if not pairs.size:
        raise MechanismError(
            "the histogram is empty", where="properties", hint="there is nothing to estimate"
        )
    if total is not None and total < 1:
        raise MechanismError("there is no record in all", where="total", hint="leave it out")
    counts, items = pairs[:, 0], pairs[:, 1].astype(np.float64)
    return counts, items, float((counts * items).sum()) if total is None else float(total)


def _chebyshev_weights(support: float, records: float) -> Floats:
    """Return what a symbol that was seen j times counts beyond 1, for j = 0, 1, …

    a_j·j!/n^j with the coefficients of -T_L(ψ(x))/T_L(ψ(0)), where ψ takes [1/support, c1·ln(support)/n] to
    [-1, 1]. A symbol of probability p there then counts 1 - e^{-np}·T_L(ψ(p))/T_L(ψ(0)) in expectation.
    """
    degree = floor(0.45 * log(support))
    low, high = 1 / support, 0.5 * log(support) / records
    if degree < 1 or high <= low:
        return np.zeros(0)
    centre, half = (high + low) / (high - low), 2 / (high - low)
    # At 0 the argument is -centre, where |T_L| = cosh(L·arcosh(centre)).
    top = cosh(degree * acosh(centre)) * (-1) ** degree
    chebyshev = np.polynomial.chebyshev.cheb2poly([0] * degree + [1])
    line = np.polynomial.Polynomial([-centre, half / records])  # ψ(x) in units of x·n
    result = np.polynomial.Polynomial(chebyshev)(line).coef / -top
    return np.asarray(result * np.exp([lgamma(j + 1) for j in range(degree + 1)]))


def _missed(count: int, samples: int, records: float) -> float:
    """Return the chance that ``samples`` of the records hold none of ``count`` given ones."""
    if samples > records - count:
        return 0.0
    rest = records - count
    logs = lgamma(rest + 1) - lgamma(rest - samples + 1) - lgamma(records + 1) + lgamma(records - samples + 1)
    return float(np.exp(logs))


def _tails(ahead: float, records: float, largest: int) -> Floats:
    """Return the weights of the terms of the Good-Toulmin series: P(binomial >= r) for r = 0, 1, …"""
    if ahead <= 1:
        return np.ones(largest + 1)
    trials = max(1, floor(0.5 * log(records * ahead**2 / (ahead - 1)) / log(3)))
    chance = 2 / (2 + ahead)
    terms = [
        lgamma(trials + 1) - lgamma(j + 1) - lgamma(trials - j + 1)
        + j * log(chance) + (trials - j) * np.log1p(-chance)
        for j in range(trials + 1)
    ]  # fmt: skip
    return np.asarray(np.exp(terms)[::-1].cumsum()[::-1])


def merged(pairs: NDArray[np.int64]) -> Runs:
    """Return pairs (count, multiplicity) in order: counts positive, descending, and each there once.

    ``pairs``: shape (k, 2), not negative, in any order; a count of 0 or a multiplicity of 0 says nothing.
    """
    real = pairs[(pairs > 0).all(axis=1)]
    if (real[1:, 0] >= real[:-1, 0]).any():  # most are in order already
        real = real[np.argsort(-real[:, 0], kind="stable")]
    firsts = np.flatnonzero(np.append(True, real[1:, 0] != real[:-1, 0]))[: real.shape[0]]
    if not firsts.size:
        return np.zeros((0, 2), dtype=np.int64)
    return np.stack([real[firsts, 0], np.add.reduceat(real[:, 1], firsts)], axis=1)


def pairs_of(runs: ArrayLike) -> Runs:
    """Return pairs (count, multiplicity) as int64, shape (k, 2).

    Raises
    ------
    MechanismError
        Anything else.
    """
    pairs = np.asarray(runs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or (pairs < 0).any():
        raise MechanismError(
            "these are not pairs of count and multiplicity",
            where="run lengths",
            hint="give whole numbers from 0 up, shape (k, 2)",
        )
    return pairs.astype(np.int64)
