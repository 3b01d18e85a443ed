"""How an estimate correlates with the noise in what it was made from: E[Z·f(x + Z)], without knowing x.

For noise in whole numbers, and any f whatever, it is Σ_{m ≥ 1} w(m)·E[f(x + Z + m) - f(x + Z - m)], where
2·Σ w(m)·sin(mθ) = -(ln φ)'(θ) and φ is the characteristic function of Z. For discrete Laplace noise
w(m) = exp(-m/s); for discrete Gaussian noise a few steps of about σ/2 fulfil it to within 2.2 %. The sum is
drawn on probes, single cells that are moved up and down, or known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, expm1, floor, log2, pi, prod, sqrt

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.boxes import Layout, Tile
from tabularium.mechanisms.histograms.denoise.wavelet import Covariance
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

_SEED = 2006
_LEAST, _MOST = 256, 4096
_EFFORT = 1 << 21


@dataclass(frozen=True, eq=False)
class Probes:
    """Cells to be changed, up and down, by steps drawn as ``draw_steps`` says.

    The sum of E[Z·f] over all cells is the mean over probes of weight·(f(Y + m) - f(Y - m)). Half of the
    probes are spread evenly over the cells, half over those that stand out of the noise, as an estimate
    follows the noise of few others; weights make up for that.

    Attributes
    ----------
    places
        Shape (rows, count, 1 + d): table and cell.
    steps
        Shape (count,): the same for all rows.
    weights
        Shape (rows, count).
    """

    places: Integers
    steps: Floats
    weights: Floats

    @classmethod
    def of(cls, tables: Floats, layout: Layout, noise: Noise, shifts: int) -> Probes:
        """Return probes of ``tables`` (rows, tables, sides...), always the same.

        Fewer where each is a lot of work; only a row itself decides which of its cells they fall on.
        """
        around = prod(ceil(log2(side)) + 2 for side in layout.sides)
        affordable = _EFFORT // (shifts * around * max(1, len(layout.sides)))
        count = max(_LEAST, min(affordable, _MOST, 4 * tables[0].size))
        rng = generator(_SEED)
        ranks = (np.arange(count) + rng.random(count)) / count
        steps, weights = draw_steps(noise, count, rng)
        chances = _chances(tables.reshape(*tables.shape[:2], -1), noise)
        cells = np.stack([np.searchsorted(np.cumsum(row), ranks, side="right") for row in chances])
        cells = np.minimum(cells, tables[0].size - 1)
        places = np.stack(np.unravel_index(cells, tables.shape[1:]), axis=2)
        weights = weights / np.take_along_axis(chances, cells, axis=1)
        return cls(np.ascontiguousarray(places, dtype=np.int64), steps, weights)

    @classmethod
    def none(cls, axes: int) -> Probes:
        """Return no probes, for one row of tables of so many axes."""
        return cls(np.zeros((1, 0, 1 + axes), dtype=np.int64), np.zeros(0), np.zeros((1, 0)))

    def within(self, tile: Tile) -> tuple[Integers, Integers]:
        """Return which probes of the one row lie in a tile, and their places relative to it."""
        (places,) = self.places
        low = np.array([part.start for part in tile])
        high = np.array([part.stop for part in tile])
        inside = np.flatnonzero(((places >= low) & (places < high)).all(axis=1))
        return inside, np.ascontiguousarray(places[inside] - low)


def _chances(tables: Floats, noise: Noise) -> Floats:
    """Return with what chance a probe falls on each cell, (rows, tables·cells); they sum to 1 in each row."""
    rows, cells = len(tables), tables[0].size
    outside = np.abs(tables - np.median(tables, axis=2, keepdims=True)) / sqrt(noise.variance)
    stands_out = (np.clip(outside / 2 - 1, 0.0, 1.0) + 1e-3).reshape(rows, cells)
    return np.asarray(0.5 / cells + 0.5 * stands_out / stands_out.sum(axis=1, keepdims=True))


_FINE = 2.0  # σ: below, whole numbers are coarse
_RIDGE = 0.05
_SURE = 64  # scales: p to that power is nothing


def draw_steps(noise: Noise, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return steps m and weights, shape (count,) each: E[Z·f] is the mean of weight·(f(Y + m) - f(Y - m)).

    Steps are drawn in proportion to |w(m)|, evenly over their distribution (stratified).
    """
    ranks = (np.arange(count) + rng.random(count)) / count
    rng.shuffle(ranks)
    if noise.family == "laplace":
        rate = 1 / noise.scale
        steps = 1 + np.floor(np.log1p(-ranks) / -rate)
        return steps, np.full(count, exp(-rate) / -expm1(-rate))
    steps, weights = gaussian_weights(noise.scale)
    size = np.cumsum(np.abs(weights) * steps)
    drawn = np.minimum(np.searchsorted(size, ranks * size[-1], side="right"), steps.size - 1)
    return steps[drawn], np.sign(weights[drawn]) * size[-1] / steps[drawn]


@lru_cache(maxsize=128)
def gaussian_weights(sigma: float) -> tuple[Floats, Floats]:
    """Return steps m and weights w(m) for discrete Gaussian noise; see above.

    With f(Y) = exp(iθY) the identity reads φ(θ)·2·Σ w(m)·sin(mθ) = -φ'(θ).
    """
    width, count = (floor(sigma / 2), 3) if sigma >= _FINE else (1, 6)
    angles = np.linspace(0.0, min(pi, 7 / sigma), 400)[1:]
    if sigma < _FINE:
        k = np.arange(1, 40)
        density = np.exp(-(k**2) / (2 * sigma**2))
        phi = 1 + 2 * np.cos(np.outer(angles, k)) @ density
        wanted = 2 * np.sin(np.outer(angles, k)) @ (density * k)
    else:
        phi = np.exp(-((sigma * angles) ** 2) / 2)
        wanted = sigma**2 * angles * phi
    steps = width * np.arange(1.0, count + 1)
    # In units of the largest value; the last rows keep weights small that do nearly nothing.
    equations = phi[:, None] * 2 * np.sin(np.outer(angles, steps)) / wanted.max()
    small = np.diag(_RIDGE * steps * angles[0] / wanted[0])
    rows, values = np.vstack([equations, small]), np.append(wanted / wanted.max(), np.zeros(count))
    weights = np.linalg.lstsq(rows, values, rcond=None)[0]
    return steps, weights * (wanted[0] / (equations[0] @ weights * wanted.max()))  # a straight line's exactly


def ramp_covariance(height: Floats, noise: Noise) -> Floats:
    """Return estimates of E[Z·max(Y - t, 0)], given the heights Y - t (t a number that is held fixed)."""
    if noise.family == "gaussian":
        moved = [
            weight * (np.maximum(height + m, 0.0) - np.maximum(height - m, 0.0))
            for m, weight in zip(*gaussian_weights(noise.scale), strict=True)
        ]
        return np.asarray(np.sum(moved, axis=0))
    height = np.minimum(height, _SURE * noise.scale)  # V from there on; large numbers would cancel
    up = _geometric(noise.scale, np.maximum(1.0, np.floor(-height) + 1), height)
    down = _geometric(noise.scale, np.ones_like(height), height)
    down -= _geometric(noise.scale, np.maximum(1.0, np.floor(height) + 1), height)
    # Σ p^m·(h - m) over 1 <= m <= h is 2h·Σ p^m - Σ p^m·(h + m) there.
    steps_down = np.maximum(np.floor(height), 0.0)
    weight = exp(-1 / noise.scale) * np.expm1(-steps_down / noise.scale) / expm1(-1 / noise.scale)
    return np.asarray(up - (2 * height * weight - down))


def _geometric(scale: float, first: Floats, d: Floats) -> Floats:
    """Return Σ p^m·(d + m) over m >= first, p = exp(-1/scale)."""
    rest = exp(-1 / scale) / expm1(-1 / scale) ** 2
    return np.asarray(np.exp(-first / scale) * ((d + first) / -expm1(-1 / scale) + rest))


def threshold_covariance(noise: Noise) -> Covariance:
    """Return the estimate of E[Z·g] for a coefficient g after a hard threshold; see ``haar_shrinkage``."""
    return _laplace(noise.scale) if noise.family == "laplace" else _gaussian(noise)


def _laplace(scale: float) -> Covariance:
    """Sum p^m·(g(D + m) - g(D - m)) in closed form: D whole numbers, g(D) = D where |D| >= k, else 0."""
    p = exp(-1 / scale)
    variance = 2 * p / expm1(-1 / scale) ** 2

    def covariance(coefficients: Floats, threshold: float, cells: int) -> Floats:
        if threshold <= 0:
            return np.full(coefficients.shape, variance / cells)
        k = floor(threshold * cells) + 1.0
        d = np.minimum(np.abs(coefficients) * cells, k + np.ceil(_SURE * scale))
        above = _geometric(scale, np.maximum(1.0, k - d), d) + _geometric(scale, k + d, -d)
        passed = np.maximum(d - k, 0.0)  # steps down from -d + 1 to -k, if there are any
        below = _geometric(scale, np.ones_like(d), -d) - _geometric(scale, passed + 1, -d)
        return np.asarray((above + np.where(d > k, below, 0.0)) / cells)

    return covariance


def _gaussian(noise: Noise) -> Covariance:
    def covariance(coefficients: Floats, threshold: float, cells: int) -> Floats:
        if threshold <= 0:
            return np.full(coefficients.shape, noise.variance / cells)
        # All cells of a coefficient are alike: E[Z·g] is a share of that for their sum, which is normal too.
        spread = sqrt(noise.variance * cells)
        steps, weights = gaussian_weights(spread if spread >= _FINE else noise.scale)
        if spread >= _FINE:
            weights = weights / cells
        d = np.abs(coefficients)
        result = np.zeros_like(d)
        for step, weight in zip(steps / cells, weights, strict=True):
            up, down = d + step, d - step
            result += weight * np.where(up > threshold, up, 0.0)
            result -= weight * np.where(np.abs(down) > threshold, down, 0.0)
        return result

    return covariance
