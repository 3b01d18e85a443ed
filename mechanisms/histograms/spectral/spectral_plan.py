"""How much noise the slow waves of a table need: the sensitivities behind ``fpa``, ``spa`` and ``efpa``.

Coordinates are those of an orthonormal real transform of the table, from slow to fast (see
``tabularium.mechanisms.histograms.spectral.transforms``). The first z of them get noise on a lattice; the
others are dropped.

What one record changes: one cell by 1, hence the coordinate vector by one column of the transform. Counts are
first cut off at the public ``count_cap``, which cannot bring two tables further apart; with ``unattributed``
they are sorted, and then one record still changes one cell of the sorted table by 1 (the last of the equal
ones). A column, cut down to the first z coordinates, where these are all coordinates up to some radius:

- **dft.** A frequency that is its own mirror contributes ±1/√N, since its phase at any cell is a multiple
  of π. A pair contributes √(2/N)·cos t and √(2/N)·sin t: 2/√N at most in L1, √(2/N) in L2. Together
  Δ1 <= z/√N and Δ2 = √(z/N), in any number of dimensions, Nyquist lines included.
- **dct.** The first cell is the worst one: Δ1 = Σ b(0) and Δ2 = √(Σ b(0)²), b(0) > 0 the values of the kept
  waves at that cell. On one axis, cell j has the values cos(kqφ), φ = π/2n, q = 2j+1, and for every z <= n
  the first z terms satisfy Σ|cos kqφ| <= Σ cos kφ and Σ cos² kqφ <= Σ cos² kφ; see below. In more dimensions
  the waves up to a radius form a set that holds, with a wave, all slower ones: a sum over it is a sum of such
  sums over one axis, and the axes go to their first cells one after the other.
- ``sensitivity="paper"``: Δ1 = √z and Δ2 = 1, from Δ1 <= √z·Δ2 and the isometry.

Where Δ1 > 1 (from about √N kept coefficients on) Laplace noise is better put on the cells themselves, whose
sensitivity is 1: the first z coordinates of the noisy table have the noise of sensitivity 1 each, and the
others are dropped afterwards. ``sensitivity="tight"`` does so, under pure privacy; Gaussian noise is the same
in every orthonormal basis.

Proof for an axis. *Absolute values.* Let g = gcd(q, n), n = g·n', q = g·q', α = gφ. The residues k·q' mod 2n'
of n' successive k have different distances to the multiples of 2n': 0 to n'-1 for the first n' of them
(and the third, ...), 1 to n', beginning with n', for the second (and the fourth, ...). With
C(i) = Σ_{d<i} cos dα, C(n') = (1 + cot(α/2))/2, the first t·n' + i terms, 1 <= i <= n', therefore sum to at
most t/2·cot(α/2) + C(i) for even t, and for odd t to at most that less 1/2. Written out with y = (i - 1/2)α,
this is at most Σ_{k<tn'+i} cos kφ if

    t·cos(α/2) + sin y <= R·sin((tπ/2 + y)/g),    R = sin(α/2)/sin(φ/2) <= g,  0 <= t <= g-1.

The left side is linear in t and the right side concave, so two values of t decide. At t = 0 it says
C(i) <= Σ_{k<i} cos kφ, true term by term. At t = g-1, with y' = π/2 - y in [α/2, π/2), it says
(g-1)·cos(α/2) + cos y' <= R·cos(y'/g): true at y' = α/2, since g·tan(φ/2) <= tan(gφ/2), and as y' grows the
left side falls faster than the right.

*Squares.* Σ_{k<z} cos² kθ = z/2 + 1/4 + sin(mθ)/(4 sin θ), m = 2z-1, and as q is odd m may be replaced by
2n - m: let m <= n. Then sin(mθ)/sin θ falls up to θ = π/m, and beyond it is at most 1/sin(π/m), which is
below its value at π/2m >= φ.

The noise. z coordinates rounded down to a lattice of width g have the L1 sensitivity Δ1/g + z (L2: Δ2/g + √z)
in steps: g is the power of two below 2^-10·Δ1/z (2^-10·Δ2/√z), so that rounding costs 0.1 %. All together
they are computed with an error of at most E = ``double_fourier.relative_error``·cap·√N in L2, for any counts,
hence √z·E in L1: the channel is told the error E/√z of each. A table for which that is over 1 % is refused
before anything is drawn. A coordinate is cut off at 2^52 steps, which tables with up to 2^38 records do not
reach.

Cost: O(N log N).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.exact_roots import root_above, rounded_up
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.errors import MechanismError

if TYPE_CHECKING:
    from tabularium.mechanisms.histograms.spectral.transforms import Layout

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SENSITIVITIES = ("tight", "paper")
LARGEST_INFLATION = Fraction(1, 100)
_FINENESS = 10
_FEW = 1 << 12  # plans of tables up to this size are kept


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is known before the counts are seen.

    Attributes
    ----------
    layout
        Of the transform.
    definition, sensitivity
        ``"pure"`` (Laplace noise, L1) or ``"zcdp"`` (Gaussian noise, L2); ``"tight"`` or ``"paper"``.
    cap
        Counts are cut off there.
    error
        E: how far all computed coordinates together may lie from the exact ones, in L2.
    """

    layout: Layout
    definition: Definition
    sensitivity: str
    cap: int
    error: Fraction

    @property
    def ends(self) -> Places:
        """Shape (m,): how many coordinates the first 1, 2, ... radii have."""
        return self.layout.ends

    @cached_property
    def on_cells(self) -> NDArray[np.bool_]:
        """Whether the noise for the first 1, 2, ... radii is put on the cells, shape (m,)."""
        return (self.bounds > 1) & (self.definition == "pure") & (self.sensitivity == "tight")

    @property
    def largest_norm(self) -> Fraction:
        """Above the L2 norm of any table."""
        return self.cap * root_above(self.layout.size)

    @cached_property
    def bounds(self) -> Floats:
        """Δ of the coordinates of the first 1, 2, ... radii, shape (m,), as floats."""
        kept = self.ends.astype(np.float64)
        pure = self.definition == "pure"
        if self.sensitivity == "paper":
            return np.sqrt(kept) if pure else np.ones(kept.size)
        if self.layout.transform == "dft":
            return kept / np.sqrt(self.layout.size) if pure else np.sqrt(kept / self.layout.size)
        from tabularium.mechanisms.histograms.spectral.transforms import corner

        waves = corner(self.layout)
        sums = np.cumsum(waves if pure else waves * waves)[self.ends - 1]
        return sums if pure else np.asarray(np.sqrt(sums), dtype=np.float64)

    def bound(self, radii: int) -> Fraction:
        """Return Δ of the coordinates of the first ``radii`` radii, rounded up."""
        kept, size, pure = int(self.ends[radii - 1]), self.layout.size, self.definition == "pure"
        if self.sensitivity == "paper":
            return root_above(kept) if pure else Fraction(1)
        if self.layout.transform == "dft":
            return kept * root_above(Fraction(1, size)) if pure else root_above(Fraction(kept, size))
        # Every rounding, up to the running sum over N < 2^31 positive terms, is within 2^-53 of what it is
        # applied to: 2^-21 of the result in all.
        return rounded_up(Fraction(float(self.bounds[radii - 1])) * (1 + Fraction(1, 1 << 21)))

    @cached_property
    def widths(self) -> Places:
        """The exponent of the lattice width for the first 1, 2, ... radii, shape (m,)."""
        kept = self.ends.astype(np.float64)
        each = self.bounds / (kept if self.definition == "pure" else np.sqrt(kept))
        return np.frexp(each)[1].astype(np.int64) - 1 - _FINENESS

    def spreads(self, loss: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the standard deviation of the noise on a coordinate, and whether it can be drawn.

        Both of shape (m,), for noise that costs ``loss`` on the first 1, 2, ... radii. To weigh candidates
        by: approximate, computed from public numbers.
        """
        kept, width = self.ends.astype(np.float64), np.ldexp(1.0, self.widths)
        if self.definition == "pure":
            steps = np.where(self.on_cells, 1.0, self.bounds / width + kept) / float(loss)
            return np.sqrt(2.0) * steps * np.where(self.on_cells, 1.0, width), steps < float(1 << 39)
        spreads = (self.bounds + np.sqrt(kept) * width) / np.sqrt(2 * float(loss))
        return spreads, spreads / width < float(1 << 25)


def plan_for(
    shape: tuple[int, ...], transform: str, sensitivity: str, definition: Definition, cap: int, where: str
) -> Plan:
    """Return the plan for a table, or refuse it.

    Raises
    ------
    MechanismError
        The error of the transform would add more than 1 % to the noise, or there are 2^31 cells or more.
    """
    small = prod(shape) <= _FEW
    return (_small_plan if small else _plan)(shape, transform, sensitivity, definition, cap, where)


def _plan(
    shape: tuple[int, ...], transform: str, sensitivity: str, definition: Definition, cap: int, where: str
) -> Plan:
    from tabularium.mechanisms.histograms.spectral.double_fourier import relative_error
    from tabularium.mechanisms.histograms.spectral.transforms import layout

    size = prod(shape)
    if size >= 1 << 31:
        raise MechanismError("the table has 2^31 cells or more", where=where, mend="use fewer cells")
    root = root_above(size)
    error = rounded_up(relative_error(shape) * cap * root)
    if 2 * error * root > LARGEST_INFLATION:  # no Δ1/√z, no Δ2 is below 1/√N
        raise refusal("the coefficients", where)
    return Plan(layout(shape, transform), definition, sensitivity, cap, error)


_small_plan = lru_cache(maxsize=16)(_plan)


def refusal(what: str, where: str) -> MechanismError:
    """Return the error for a cap that is too high for the precision of the computation."""
    return MechanismError(
        f"at this count_cap and number of cells the error of {what} could add more than 1 % to the noise",
        where=where,
        mend="lower count_cap, or use fewer cells",
    )
