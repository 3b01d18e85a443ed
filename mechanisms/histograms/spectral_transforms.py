"""Orthonormal real Fourier and cosine transforms of tables, coordinates ordered from slow waves to fast.

In any number of dimensions. Every frequency has a *radius*: the root of the sum, over the axes, of the
squared number of turns its wave makes along the axis. All coordinates of one radius come together, so that
"the first k radii" is a set of coordinates that depends on the shape alone.

- ``dft``: for F the discrete Fourier transform over √N, frequency w and its mirror -w give the two
  coordinates √2·Re F_w and √2·Im F_w; a frequency that is its own mirror (zero or half a turn a cell on every
  axis: the Nyquist lines of even axes) gives F_w alone, which is real.
- ``dct``: the type II cosine transform, one coordinate for each wave of 0, 1/2, 1, ... turns.

Both are isometries of R^N. The way there is exact to about 100 bits (``double_fourier``), since a privacy
proof rests on it; the way back acts on noisy numbers and is SciPy's. Cost: O(N log N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms import double_fourier
from tabularium.mechanisms.histograms.double_fourier import gathered, square_root

Places = NDArray[np.int64]
TRANSFORMS = ("dft", "dct")
_FEW = 1 << 12


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the coordinates of a transform of one shape lie.

    Attributes
    ----------
    shape, transform
        What it is the layout of.
    ends
        Shape (m,): how many coordinates have one of the first 1, 2, ... m radii. The last is N.
    places
        Shape (N,): for each coordinate, its place among the unscaled results: real parts of the half
        spectrum, then imaginary parts (dft); waves in C order (dct).
    kinds
        Shape (N,): the coordinate is the unscaled result times √(2^kind/N).
    mirrors
        Shape (2, r): places in the half spectrum that mirror each other, for the inverse.
    """

    shape: tuple[int, ...]
    transform: str
    ends: Places
    places: Places
    kinds: Places
    mirrors: Places

    @property
    def size(self) -> int:
        """N, the number of cells and of coordinates."""
        return prod(self.shape)


def layout(shape: tuple[int, ...], transform: str) -> Layout:
    """Return the layout of a transform. Its arrays are not to be written to: those of small tables are kept.

    Examples
    --------
    >>> layout((5,), "dft").ends
    array([1, 3, 5])
    >>> layout((2, 3), "dct").ends  # squared radii 0, 1, 1, 2, 4, 5 in half turns
    array([1, 3, 4, 5, 6])
    """
    return _few_cells(shape, transform) if prod(shape) <= _FEW else _layout(shape, transform)


def _layout(shape: tuple[int, ...], transform: str) -> Layout:
    return _waves(shape) if transform == "dct" else _frequencies(shape)


_few_cells = lru_cache(maxsize=16)(_layout)


def coordinates(counts: NDArray[np.int64], plan: Layout) -> Floats:
    """Return the coordinates of whole numbers, as double words (high, low) of shape (2, N).

    Their error is bounded by ``double_fourier.relative_error``.
    """
    values = np.zeros((2, *plan.shape))
    values[0] = counts.reshape(plan.shape)
    if plan.transform == "dct":
        unscaled = double_fourier.cosine_spectrum(values).reshape(2, -1)
    else:
        result = double_fourier.spectrum(values).reshape(2, 2, -1)
        unscaled = np.concatenate([result[0], result[1]], axis=1)
    scales = np.array([square_root(1 << kind, plan.size) for kind in range(int(plan.kinds.max()) + 1)]).T
    return gathered(unscaled, plan.places, plan.kinds, np.ascontiguousarray(scales))


def forward(values: NDArray[Any], plan: Layout) -> Floats:
    """Return the coordinates of noisy numbers, shape (N,), in plain floats."""
    table = np.asarray(values, dtype=np.float64).reshape(plan.shape)
    if plan.transform == "dct":
        return np.asarray(fft.dctn(table, type=2, norm="ortho"), dtype=np.float64).reshape(-1)[plan.places]
    half = fft.rfftn(table, norm="ortho").reshape(-1)
    return np.asarray(np.concatenate([half.real, half.imag])[plan.places] * np.sqrt(2.0) ** plan.kinds)


def inverse(values: Floats, plan: Layout) -> Floats:
    """Return the table whose first coordinates are ``values``, shape (z,), and whose others are zero."""
    kept = values.size
    half_spectrum = prod(plan.shape[:-1]) * (plan.shape[-1] // 2 + 1)
    unscaled = np.zeros(2 * half_spectrum if plan.transform == "dft" else plan.size)
    unscaled[plan.places[:kept]] = values
    if plan.transform == "dct":
        return np.asarray(fft.idctn(unscaled.reshape(plan.shape), type=2, norm="ortho"), dtype=np.float64)
    unscaled[plan.places[:kept]] *= np.sqrt(0.5) ** plan.kinds[:kept]
    half = unscaled[: unscaled.size // 2] + 1j * unscaled[unscaled.size // 2 :]
    half[plan.mirrors[1]] = half[plan.mirrors[0]].conj()
    half = half.reshape(*plan.shape[:-1], -1)
    return np.asarray(fft.irfftn(half, s=plan.shape, norm="ortho"), dtype=np.float64)


def corner(plan: Layout) -> Floats:
    """Return the values of the cosine waves at the first cell, shape (N,), all positive.

    That is Π √(1/n) for each axis without a wave and Π √(2/n)·cos(πk/2n) for the others.
    """
    values = np.ones(1)
    for size in plan.shape:
        wave = np.cos(np.pi * np.arange(size) / (2 * size)) * np.sqrt(2 / size)
        wave[0] = np.sqrt(1 / size)
        values = (values[:, None] * wave).reshape(-1)
    return values[plan.places]


def _waves(shape: tuple[int, ...]) -> Layout:
    radii, moving = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for size in shape:
        wave = np.arange(size, dtype=np.int64)
        radii = (radii[:, None] + wave**2).reshape(-1)
        moving = (moving[:, None] + (wave > 0)).reshape(-1)
    places = np.argsort(radii, kind="stable")
    ends = _ends(radii[places])
    return Layout(shape, "dct", ends, places, moving[places], np.zeros((2, 0), dtype=np.int64))


def _frequencies(shape: tuple[int, ...]) -> Layout:
    radii, mirror = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for size in (*shape[:-1], None):
        wave = np.arange(size or shape[-1] // 2 + 1, dtype=np.int64)
        opposite = wave if size is None else (-wave) % size
        radii = (radii[:, None] + (wave if size is None else np.minimum(wave, opposite)) ** 2).reshape(-1)
        mirror = (mirror[:, None] * wave.size + opposite).reshape(-1)
    last = np.arange(radii.size) % (shape[-1] // 2 + 1)
    inside = (last > 0) & (2 * last < shape[-1])  # their mirrors lie in the other half
    itself = np.arange(radii.size, dtype=np.int64)
    chosen = np.flatnonzero(inside | (itself <= mirror))
    chosen = chosen[np.argsort(radii[chosen], kind="stable")]
    paired = inside[chosen] | (mirror[chosen] > chosen)
    number = 1 + paired.astype(np.int64)
    first = np.cumsum(number) - number
    places = np.repeat(chosen, number)
    places[first[paired] + 1] += radii.size
    flat = chosen[paired & ~inside[chosen]]
    ends = _ends(np.repeat(radii[chosen], number))
    return Layout(shape, "dft", ends, places, np.repeat(number - 1, number), np.stack([flat, mirror[flat]]))


def _ends(radii: Places) -> Places:
    """Return how many entries of ascending ``radii`` are at most each of its values."""
    return np.append(np.flatnonzero(np.diff(radii)) + 1, radii.size)
