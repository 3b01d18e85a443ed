"""The experiments of Chen et al., "A histogram publishing method under differential privacy that involves
balancing small-bin availability first", Algorithms 17 (2024) 293, section 5.
"""

from __future__ import annotations

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

_DATA = tuple(made_up_set(name) for name in ("location", "search_log", "nettrace", "social_network"))
_EPSILONS = epsilons("1", "0.1", "0.01")
_BASE, _SREB, _AHP = (
    Contender.of("DP_BASE", "identity"),
    Contender.of("SReB_GCA", "sreb_gca"),
    Contender.of("AHP", "ahp"),
)
_TABLE_2 = {
    "AHP": (0.018, 0.203, 0.467, 0.054, 0.103, 0.189, 0.153, 0.572, 1.229, 0.071, 0.309, 0.825),
    "SReB_GCA": (0.0004, 0.056, 0.171, 0.0001, 0.009, 0.099, 0.004, 0.092, 0.252, 0.0001, 0.003, 0.099),
}
_PLACES = [(data.name, str(epsilon)) for data in _DATA for epsilon in _EPSILONS]

SUITE = Suite(
    "chen-2024",
    "Chen et al. 2024: small bins first",
    "The pseudo-code draws noise for every bin of a group and so spends its second budget once per bin; one "
    "draw per group is private and cannot reach the paper's divergences.",
    (
        Experiment(
            "Table 2",
            "Divergence of the release from the truth.",
            _DATA,
            (_AHP, _SREB, _BASE, Contender.of("denoise")),
            _EPSILONS,
            ("KL", "mean relative"),
            published={
                (data, label, epsilon): figure
                for label, figures in _TABLE_2.items()
                for (data, epsilon), figure in zip(_PLACES, figures, strict=True)
            },
        ),
        Experiment(
            "Figure 4",
            "Mean relative error of single bins by the size of their true count.",
            _DATA,
            (_SREB, _BASE, _AHP, Contender.of("noise_first"), Contender.of("denoise")),
            _EPSILONS,
            ("relative by size",),
            runs=5,
        ),
        Experiment(
            "Figure 5",
            "Relative error of ranges by their length.",
            _DATA,
            (_SREB, _BASE),
            _EPSILONS,
            ("relative by range",),
            runs=5,
        ),
    ),
)
