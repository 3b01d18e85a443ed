"""Every mechanism on sets of several kinds: the errors that a user chooses a mechanism by."""

from __future__ import annotations

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

EPSILONS = epsilons("0.01", "0.1", "1")
CONTENDERS = tuple(
    Contender.of(name)
    for name in (
        *("identity", "denoise", "noise_first", "ahp", "dawa"),
        *("efpa", "p_hpartition", "kd_tree", "sreb_gca", "boost"),
    )
)
DATA = tuple(made_up_set(name) for name in ("location", "social_network", "rochdale"))
MEASURES = ("mean |error|", "KL", "absolute by range", "absolute by size")

SUITE = Suite(
    "general",
    "Mechanisms beside each other",
    "What a user chooses by: the error of single cells, of ranges, and of small and large counts.",
    (Experiment("Errors", "Means over the runs.", DATA, CONTENDERS, EPSILONS, MEASURES, runs=5),),
)
