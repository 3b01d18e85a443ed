"""Every mechanism on sums: over random ranges and boxes, over short ones, and what cells pay for it."""

from __future__ import annotations

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

_EPSILONS = epsilons("0.01", "0.1", "1")
_MEASURES = ("rectangles", "short rectangles", "mean |error|", "absolute by range")
_TREES = (
    Contender.of("denoise, ranges", "denoise", workload="ranges"),
    Contender.of("denoise, ranges to 64", "denoise", workload="ranges", longest=64),
    Contender.of("dawa, ranges", "dawa", workload="ranges"),
    *(Contender.of(name) for name in ("boost", "privelet", "kd_tree", "p_hpartition")),
)
_CELLS = tuple(Contender.of(name) for name in ("identity", "denoise", "noise_first", "ahp", "dawa", "efpa"))
_QUERIES = Contender.of("mwem, ranges", "mwem", workload="ranges")
_SMALL = tuple(made_up_set(name) for name in ("location", "rochdale", "social_network", "age"))
_LARGE = tuple(made_up_set(name) for name in ("search_log", "nettrace"))

SUITE = Suite(
    "ranges",
    "Sums over ranges",
    "What a user chooses by who adds up cells: 2 000 random ranges (boxes of tables), and short ones.",
    (
        Experiment(
            "Ranges", "Means over the runs.", _SMALL, (*_TREES, *_CELLS, _QUERIES), _EPSILONS, _MEASURES, 5
        ),
        Experiment(
            "Long rows",
            "The same, without MWEM, which is slow there.",
            _LARGE,
            (*_TREES, *_CELLS),
            _EPSILONS,
            _MEASURES,
            5,
        ),
    ),
)
