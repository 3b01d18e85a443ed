"""The experiments of Acs, Castelluccia and Chen, "Differentially private histogram publishing through lossy
compression", ICDM 2012, section VI.
"""

from __future__ import annotations

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

_LARGE = tuple(made_up_set(name) for name in ("location", "search_log", "nettrace"))
_ROCHDALE = made_up_set("rochdale")
_EFPA, _HP = Contender.of("EFPA", "efpa"), Contender.of("P-HP", "p_hpartition")
_SPA, _LPA, _MWEM = (
    Contender.of("SPA", "spa"),
    Contender.of("LPA", "identity"),
    Contender.of("MWEM", "mwem", workload="ranges"),
)
_BEYOND = Contender.of("denoise")

_TABLE_2 = {
    "location": (0.57, 1.01, 1.17, 1.40, 1.98),
    "search_log": (0.18, 0.27, 0.49, 2.30, 1.35),
    "nettrace": (2.49, 1.78, 4.96, 5.09, 5.11),
}
_TABLE_3 = {"EFPA": 1.76, "P-HP": 2.23, "MWEM": 3.02, "PrivH-Struct": 4.47, "PrivH-Noise": 3.14}

SUITE = Suite(
    "acs-2012",
    "Acs, Castelluccia and Chen 2012: publishing through lossy compression",
    "The paper's code of EFPA and SPA publishes the phase of each coefficient without noise and is not "
    "private; its figures for the two cannot be reached by a private mechanism. The data here are made up to "
    "resemble the paper's.",
    (
        Experiment(
            "Table II",
            "Divergence of the release from the truth at ε = 0.01, counts with their bins.",
            _LARGE,
            (_EFPA, _HP, _SPA, _LPA, _MWEM, _BEYOND),
            epsilons("0.01"),
            ("KL", "mean |error|"),
            published={
                (data, label, "1/100"): figure
                for data, figures in _TABLE_2.items()
                for label, figure in zip(("EFPA", "P-HP", "SPA", "LPA", "MWEM"), figures, strict=True)
            },
        ),
        Experiment(
            "Table III",
            "The same on the smallest set, with the mechanisms of Xu et al. beside them.",
            (_ROCHDALE,),
            (
                _EFPA,
                _HP,
                _MWEM,
                Contender.of("PrivH-Struct", "structure_first", largest_count=64),
                Contender.of("PrivH-Noise", "noise_first", penalty="paper"),
                Contender.of("noise_first"),
                _BEYOND,
            ),
            epsilons("0.01"),
            ("KL", "mean |error|"),
            runs=100,
            published={("rochdale", label, "1/100"): figure for label, figure in _TABLE_3.items()},
        ),
        Experiment(
            "Figure 4",
            "Divergence when only the list of counts matters, not which bin has which.",
            (*_LARGE, _ROCHDALE),
            (
                Contender.of("EFPA", "efpa", unattributed=True),
                Contender.of("P-HP", "p_hpartition", unattributed=True),
                Contender.of("SPA", "spa", unattributed=True),
                Contender.of("BoostMM", "sorted_isotonic"),
                Contender.of("privhist"),
            ),
            epsilons("0.01", "0.02", "0.05", "0.1"),
            ("KL, sorted",),
            runs=4,
        ),
        Experiment(
            "Figure 5",
            "Mean squared error of the sum of neighbouring bins, over all ranges of each length.",
            (*_LARGE, _ROCHDALE),
            (
                _EFPA,
                _HP,
                _SPA,
                _LPA,
                _MWEM,
                Contender.of("Privelet", "privelet"),
                Contender.of("Boost", "boost", branching=2, root=True),
                _BEYOND,
            ),
            epsilons("0.1", "0.01"),
            ("squared by range",),
            runs=4,
        ),
    ),
)
