"""Seconds of a run against the number of bins, for the mechanisms that run in near-linear time."""

from __future__ import annotations

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons
from tabularium.lab.comparison.made_up import MADE_UP

_NAMES = (
    *("identity", "efpa", "p_hpartition", "noise_first", "sreb_gca", "denoise"),
    *("kd_tree", "privhist", "boost", "privelet", "ahp", "dawa"),
)

SUITE = Suite(
    "speed",
    "Seconds of a run",
    "Median processor time of a run on made-up series, noise included; see the plot at the end.",
    (
        Experiment(
            "Sizes",
            "From 1 024 to 1 048 576 bins.",
            tuple(made_up_set(name) for name in MADE_UP if name.startswith("series_")),
            (
                *(Contender.of(name) for name in _NAMES),
                Contender.of("structure_first", largest_count=5000),
            ),
            epsilons("0.1"),
            ("total |error|, sorted",),
            runs=3,
        ),
    ),
)
