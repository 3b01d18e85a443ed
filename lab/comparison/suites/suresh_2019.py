"""PrivHist against Hay's sorted histogram: Suresh, "Differentially private anonymized histograms", 2019."""

from __future__ import annotations

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

SUITE = Suite(
    "suresh-2019",
    "Suresh 2019: anonymized histograms",
    "The paper has no experiments: it proves an expected total error of the order of √n where the sorted "
    "histogram with isotonic regression pays for every item. Both are run here.",
    (
        Experiment(
            "Total error",
            "Sum of |error| over the sorted counts.",
            tuple(
                made_up_set(name)
                for name in ("location", "search_log", "nettrace", "social_network", "rochdale")
            ),
            (
                Contender.of("privhist"),
                Contender.of("sorted_isotonic"),
                Contender.of("P-HP unattributed", "p_hpartition", unattributed=True),
            ),
            epsilons("0.01", "0.1", "1", "2"),
            ("total |error|, sorted",),
            runs=5,
        ),
    ),
)
