"""Bounds on the errors of count queries, and on what a release may tell of a person.

(ε, δ)-useful for a class of queries: with probability 1 - δ, *every* query of the class errs by ε at most
(Xiao, Xiong, Yuan 2010, Definition 3.3). To tell it from the privacy loss, that error is called t here, and
the privacy loss of the measured table ε. For β cells with discrete Laplace noise of scale 1/ε:

- the paper (Theorem 4.2): t = β·ln(β/δ)/ε. All β cells lie within ln(β/δ)/ε together, and a query sums at
  most β of them;
- a query of x cells known beforehand: the same with x for β;
- tight, one query of x cells: the quantile of the sum of x errors (``laplace_margin``);
- tight, every query at once: the worst query takes all cells with positive errors, or all with negative ones.
  The two sums have one distribution, that of Σ max(Z, 0), and the probability of either exceeding t is at
  most twice that of one. P(max(Z, 0) = 0) = 1/(1 + p), and p^k·(1 - p)/(1 + p) for k > 0; the distribution of
  the sum comes from its characteristic function.

Posterior. Theorem 3.3 says P_l <= P_0·exp(l·α) after l queries of loss α. Its proof lets a record's value
change one answer by the sensitivity. In a table of counts another value is another cell: two cells change,
and under add-remove the loss between two values is 2α. So the bounds given are on odds:
:func:`posterior_bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, expm1, log, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from tabularium.mechanisms.accounting import membership_bound, value_bound
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.cellwise import xiao_bound
from tabularium.mechanisms.inference import laplace_margin
from tabularium.mechanisms.registry import MECHANISMS

if TYPE_CHECKING:
    from tabularium.mechanisms.queries import Answer
    from tabularium.validations.certificate import Certificate

_LARGEST_GRID = 1 << 22


@dataclass(frozen=True)
class Usefulness:
    """Errors that are not exceeded with probability 1 - δ.

    Attributes
    ----------
    paper
        Any count query, Theorem 4.2.
    paper_cells
        The same for queries of the given number of cells.
    every_query
        Every count query at once, tight.
    one_query
        One count query of the given number of cells, exact.
    """

    delta: float
    paper: float
    paper_cells: float
    every_query: int
    one_query: int


def usefulness(epsilon: float, cells: int, query_cells: int, delta: float) -> Usefulness:
    """Return error bounds of count queries on a table with discrete Laplace noise of scale 1/ε.

    Parameters
    ----------
    epsilon
        Privacy loss of one record in the measurement of this table.
    cells
        β, of the table.
    query_cells
        x, of the query.
    delta
        Probability of a larger error.

    Raises
    ------
    MechanismError
        For impossible numbers.

    Examples
    --------
    The paper's own example (section 5.1): 100 cells, ε = δ = 0.05.

    >>> round(usefulness(0.05, 100, 100, 0.05).paper), usefulness(0.05, 100, 100, 0.05).one_query
    (15202, 555)
    """
    _check(epsilon, cells, query_cells, delta)
    return Usefulness(
        delta,
        xiao_bound(cells, epsilon, delta),
        xiao_bound(query_cells, epsilon, delta),
        every_query_margin(1 / epsilon, cells, delta),
        laplace_margin(1 / epsilon, 1 - delta, query_cells),
    )


def every_query_margin(scale: float, cells: int, delta: float) -> int:
    """Return a t that no count query over the cells exceeds with probability 1 - δ.

    The least t with 2·P(Σ max(Z_i, 0) > t) <= δ. For tables too large for a Fourier transform of that
    distribution, Chernoff's bound of the probability, which is a few percent wider.
    """
    mean = cells * exp(-1 / scale) / -expm1(-2 / scale)  # p/(1 - p²) for each cell
    reach = mean + scale * sqrt(cells) * 14 + 45 * (scale + 1)
    if reach > _LARGEST_GRID / 2:
        return ceil(_chernoff(scale, cells, delta / 2))
    size = 1 << ceil(log(2 * reach + 2, 2))
    turn = exp(-1 / scale) * np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    chances = np.fft.irfft(np.exp(cells * np.log(_moments(scale, turn))), size)
    tails = np.append(np.cumsum(chances[::-1])[::-1][1:], 0.0)
    return int(np.argmax(tails <= delta / 2))


def _moments(scale: float, turn: Any) -> Any:
    """Return E e^{s·max(Z, 0)} for turn = p·e^s, |turn| < 1: (1 + (1-p)·turn/(1 - turn))/(1 + p)."""
    decay = exp(-1 / scale)
    return (1 + (1 - decay) * turn / (1 - turn)) / (1 + decay)


def _chernoff(scale: float, cells: int, outside: float) -> float:
    """Return the least t with exp(cells·ln E e^{s·max(Z, 0)} - s·t) <= outside, over a fine grid of s."""
    tilt = np.geomspace(1e-6, 0.999, 2000) / scale
    turn = np.exp(tilt - 1 / scale)
    return float(((cells * np.log(_moments(scale, turn)) - log(outside)) / tilt).min())


def posterior_bounds(prior: float, epsilon: float, releases: int = 1) -> dict[str, float]:
    """Return bounds of the posterior probability, for the probability ``prior`` before.

    Parameters
    ----------
    prior
        P0.
    epsilon
        Pure loss of one release for the whole privacy unit, under add-remove.
    releases
        l, each of that loss.

    Returns
    -------
    ``paper``: P0·exp(l·ε), Theorem 3.3, at most 1; ``presence``: that the unit is in the data, exact;
    ``value``: that a unit known to be in it has a certain value, exact (e^{2lε} on the odds).

    Examples
    --------
    >>> {name: round(bound, 3) for name, bound in posterior_bounds(0.1, 1.0).items()}
    {'paper': 0.272, 'presence': 0.232, 'value': 0.451}
    """
    if releases < 1:
        raise MechanismError("there is at least one release", where="releases")
    total = releases * epsilon
    presence, value = membership_bound(prior, total), value_bound(prior, total)
    paper = 1.0 if prior > 0 and total >= -log(prior) else prior * exp(total)
    return {"paper": paper, "presence": presence, "value": value}


def _check(epsilon: float, cells: int, query_cells: int, delta: float) -> None:
    if not 0 < epsilon < float("inf") or not 0 < delta < 1:
        raise MechanismError("epsilon is not positive, or delta not between 0 and 1", where="usefulness")
    if not 1 <= query_cells <= cells:
        raise MechanismError("a query has between one cell and all of them", where="usefulness")


# --- what could be promised of a query before anything was drawn: errors (Xiao et al. 2010) and privacy

PRIOR = 0.1


def promised_error(certificate: Certificate, answer: Answer) -> dict[str, Any]:
    """Return errors of count queries that are not exceeded at the answer's level, over the noise.

    They are only those of the finest measurement of the answer's table, which must be discrete Laplace noise
    on every cell; what other levels add is left out.
    """
    events = [draw.event for draw in certificate.transcript]
    of_table = [
        event
        for event in events
        if event.primitive == "discrete_laplace" and event.purpose.split("/")[0] == answer.table
    ]
    table = certificate.tables[answer.table]
    levels = table.noise_variance
    mechanism = MECHANISMS.get(table.mechanism)
    plain = (
        mechanism is not None
        and mechanism.releases_noisy_cells
        and all(event.sensitivity == 1 and event.width == 1 and not event.branches for event in of_table)
    )
    if not levels or len(of_table) != len(levels) or not plain:
        return {"none": "the cells of this table are not counts plus discrete Laplace noise"}
    finest = max(of_table, key=lambda event: prod(event.shape))
    cells = prod(finest.shape)
    epsilon = float(finest.loss)
    promise = usefulness(epsilon, cells, min(answer.cells, cells), 1 - answer.level)
    return {
        "probability": answer.level,
        "epsilon": str(finest.loss),
        "table_cells": cells,
        "query_cells": min(answer.cells, cells),
        "any_query_paper": promise.paper,
        "this_query_paper": promise.paper_cells,
        "every_query_at_once": promise.every_query,
        "this_query": promise.one_query,
    }


def promised_privacy(certificate: Certificate) -> dict[str, Any]:
    """Return bounds of the posterior probability of a unit's values, 10 % before; pure ε only."""
    privacy = certificate.privacy
    if privacy.epsilon is None or privacy.neighbours.change != "add-remove":
        return {
            "none": "such a bound exists for pure ε where units can be added and removed; the certificate "
            "says what holds here"
        }
    bounds = posterior_bounds(PRIOR, float(privacy.epsilon))
    return {"prior": PRIOR, "epsilon": str(privacy.epsilon), **bounds}


def in_words(error: dict[str, Any], privacy: dict[str, Any]) -> list[str]:
    """Return both as sentences."""
    return [
        f"Usefulness: {error['none']}." if "none" in error else _of_errors(error),
        f"Privacy: {privacy['none']}." if "none" in privacy else _of_beliefs(privacy),
    ]


def _of_errors(promise: dict[str, Any]) -> str:
    asked = "1 cell" if promise["query_cells"] == 1 else f"{promise['query_cells']:,} cells"
    chance, together = f"{100 * promise['probability']:g} %", f"{promise['every_query_at_once']:,}"
    return (
        f"Usefulness, before anything was drawn, of {promise['table_cells']:,} cells measured at "
        f"ε = {promise['epsilon']}: with probability {chance} a count of {asked} errs by at most "
        f"{promise['this_query']:,}, and all counts at once by at most {together}. Xiao et al. 2010, "
        f"Theorem 4.2, promises {ceil(promise['any_query_paper']):,} for any count, "
        f"{ceil(promise['this_query_paper']):,} for {asked}."
    )


def _of_beliefs(beliefs: dict[str, Any]) -> str:
    prior, presence, value = (_percent(beliefs[name]) for name in ("prior", "presence", "value"))
    return (
        f"Privacy, ε = {beliefs['epsilon']}: who was {prior} sure that somebody is in the data is at most "
        f"{presence} sure afterwards; of a value of somebody known to be in it, at most {value}. "
        f"(Xiao et al. 2010, Theorem 3.3, states {_percent(beliefs['paper'])}, which in tables of counts "
        "holds for presence only.)"
    )


def _percent(probability: float) -> str:
    """Return a tenth of a percent, rounded up: it follows "at most"."""
    return f"{ceil(1000 * probability - 1e-9) / 10:g} %"
