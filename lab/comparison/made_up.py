"""Made-up data sets by name: the look-alikes, and what the papers' experiments derive from such data.

Everything here is generated from a fixed seed: the same counts on every machine, none of them anyone's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.comparison.lookalikes import LIKENESSES, lookalike
from tabularium.mechanisms.noise.synthetic import generator

Counts = NDArray[np.int64]

_PARITY = (1, 0, 1, 1, 0, 0, 1)  # which attributes count
_PARITY_NOISE = 0.1  # share of records whose last attribute says the wrong parity


def series(size: int) -> Counts:
    """Return made-up counts of shape (size,): plateaus of random height, some of them empty, and bursts."""
    rng = generator(size)
    plateaus = max(4, size // 64)
    heights = np.where(rng.random(plateaus) < 0.4, 0, rng.pareto(1.2, plateaus) * 5)
    edges = np.sort(rng.integers(0, size, plateaus))
    levels = heights[np.searchsorted(edges, np.arange(size)) % plateaus]
    return rng.poisson(np.minimum(levels, 4000)).astype(np.int64)


def values_of(name: str) -> Counts:
    """Return how often each count from 1 to the largest occurs in a look-alike (Xu et al. 2013, section 7).

    Shape (largest count,): bin i holds the number of the look-alike's bins whose count is i + 1.
    """
    return np.bincount(lookalike(name).reshape(-1))[1:].astype(np.int64)


def census(records: int = 1_000_000) -> Counts:
    """Return counts by age (79) and income class (100) of made-up people (Xiao et al. 2010, section 5).

    Ages thin out towards the old; incomes rise to the age of 50 and are log-normal about that, with a tenth
    of the people in class 0.
    """
    rng = generator(79)
    ages = np.minimum(rng.gamma(2.2, 16.0, records).astype(np.int64), 78)
    middle = 18 + 22 * np.exp(-(((ages - 35) / 22.0) ** 2))
    incomes = np.minimum(rng.lognormal(np.log(middle), 0.55).astype(np.int64), 99)
    incomes[rng.random(records) < 0.1] = 0
    table = np.bincount(ages * 100 + incomes, minlength=7900)
    return table.reshape(79, 100).astype(np.int64)


def parity(records: int = 20_000) -> Counts:
    """Return counts of shape (2,) * 8: the last attribute is the parity of four others, wrong for a tenth."""
    rng = generator(44)
    attributes = rng.integers(0, 2, (records, len(_PARITY)))
    label = (attributes @ np.array(_PARITY) + (rng.random(records) < _PARITY_NOISE)) % 2
    shape = (2,) * (len(_PARITY) + 1)
    places = np.ravel_multi_index(tuple(np.column_stack([attributes, label]).T), shape)
    return np.bincount(places, minlength=2 ** len(shape)).reshape(shape).astype(np.int64)


@dataclass(frozen=True)
class MadeUp:
    """A made-up data set: how it is made, and what it stands for."""

    make: Callable[[], Counts]
    says: str


MADE_UP: dict[str, MadeUp] = {
    name: MadeUp(partial(lookalike, name), f"made up, like the set described in {likeness.source}")
    for name, likeness in LIKENESSES.items()
}
for _name, _records in (("search_log", 32_768), ("nettrace", 65_536), ("social_network", 11_342)):
    MADE_UP[f"{_name}_values"] = MadeUp(
        partial(values_of, _name),
        f"number of bins by count in the made-up {_name} ({_records:,} records are declared)",
    )
MADE_UP["census"] = MadeUp(census, "made-up people by age and income class, as in Xiao et al. 2010")
MADE_UP["one_query"] = MadeUp(lambda: np.array([census().sum()]), "the answer to one counting query, made up")
MADE_UP["parity"] = MadeUp(
    parity, "made-up records of eight yes-or-no attributes, one the parity of four others"
)
for _power in range(10, 21, 2):
    MADE_UP[f"series_{1 << _power}"] = MadeUp(
        partial(series, 1 << _power), "a made-up time series with plateaus"
    )


@lru_cache(maxsize=8)
def made_up(name: str) -> Counts:
    """Return the made-up counts of that name, read-only."""
    counts = MADE_UP[name].make()
    counts.setflags(write=False)
    return counts
