"""How far a smoothed noisy table lies from the truth, estimated without the truth and without budget.

Let Y = x + Z be a noisy table with known, independent noise Z of mean 0 that is a sum of r equal parts (any
Laplace or Gaussian noise is). Add one part more, W. Given the sum Z + W, its r + 1 parts are exchangeable; so
for any function f, however it jumps, E<f(Y + W), Z> = r·E<f(Y + W), W>, and, since E<f(Y), W> = 0,

    E‖f(Y + W) - x‖² = E‖f(Y + W) - Y‖² - nV + 2r·E<f(Y + W) - f(Y), W>.

Everything on the right is computed from Y: an unbiased estimate of the squared error of f, at a noise
variance that is higher by 1/r (6 % with SHARE = 16). Nothing is assumed of f, so what it costs to choose a
structure on the noisy table, which Stein's formula for smooth functions misses, is in it.

Unbiased is not precise: Σz² differs from nV by chance, which no estimate escapes, and where the true error is
small against V/√n the estimate may come out negative. The standard error says how much to trust it.

Source: Oliveira, Lei, Tibshirani 2024 (coupled bootstrap, for Gaussian noise). By division into parts it is
exact for Laplace noise, in whole numbers too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import whole_number
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

SHARE = 16
MOST_RUNS = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Risk:
    """An estimate of the expected squared error per cell.

    Attributes
    ----------
    mean_squared_error
        The estimate; unbiased, hence sometimes below zero.
    standard_error
        Of the simulation, and of the noise in the residuals.
    runs
        Number of simulated tables.
    """

    mean_squared_error: float
    standard_error: float
    runs: int

    def diagnostics(self) -> dict[str, Any]:
        """Return JSON-able values: ``risk`` is the mean squared error per cell."""
        return {
            "risk": self.mean_squared_error,
            "risk_standard_error": self.standard_error,
            "risk_runs": self.runs,
        }


def check_runs(runs: object) -> int:
    """Return a number of simulations: 0 for none, or 2 to 1 000.

    Raises
    ------
    MechanismError
        It is not such a number.
    """
    checked = whole_number(runs, 0, MOST_RUNS, "risk_runs")
    if checked == 1:
        raise MechanismError(
            "one simulation does not say how far to trust it",
            where="risk_runs",
            mend=f"give 0 for none, or 2 to {MOST_RUNS}",
        )
    return checked


def estimate_risk(
    table: NDArray[Any],
    noise: Noise,
    smooth: Callable[[NDArray[Any]], Floats],
    *,
    runs: int,
    seed: int = 0,
) -> Risk:
    """Return an unbiased estimate of the squared error of ``smooth(table)``.

    Parameters
    ----------
    table
        Noisy cells of any shape.
    noise
        Its distribution in every cell.
    smooth
        Returns a table of the same shape; called ``runs + 1`` times.
    runs
        At least 2. Always the same simulations for the same ``seed``.
    """
    rng = generator(seed)
    smoothed = smooth(table)
    found, spread = np.empty(runs), np.empty(runs)
    for run in range(runs):
        more = noise.part(SHARE, table.size, rng).reshape(table.shape)
        again = smooth(table + more)
        rest = (again - table) ** 2
        found[run] = rest.mean() - noise.variance + 2 * SHARE * ((again - smoothed) * more).mean()
        spread[run] = rest.var()
    error = found.var(ddof=1) / runs + spread.mean() / table.size
    return Risk(float(found.mean()), float(sqrt(error)), runs)
