"""Suites of experiments: which mechanisms, on which data, at which ε, judged how; most from a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from tabularium.lab.comparison.data_sets import MADE_UP, DataSet, made_up_set
from tabularium.lab.comparison.error_measures import CATALOGUE, Measure
from tabularium.mechanisms.errors import InputError

Published = Mapping[tuple[str, str, str], float]
"""What a paper prints, by data set, label of the mechanism, and ε as text."""


@dataclass(frozen=True)
class Contender:
    """A mechanism by its name in the registry and parameters, under the ``label`` of tables and plots."""

    label: str
    name: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, label: str, name: str | None = None, **parameters: Any) -> Contender:
        """Return the contender ``label``, which is also its registered name unless another is given."""
        return cls(label, name or label, tuple(parameters.items()))


@dataclass(frozen=True)
class Experiment:
    """One table or figure: ``name`` as the paper calls it, and how to read it.

    ``contenders`` are a mapping where they differ by data set; ``published`` are the paper's figures for the
    first measure.
    """

    name: str
    says: str
    data: tuple[DataSet, ...]
    contenders: tuple[Contender, ...] | Mapping[str, tuple[Contender, ...]]
    epsilons: tuple[Fraction, ...]
    measures: tuple[str, ...]
    runs: int = 10
    published: Published = field(default_factory=dict)

    def taking_part(self, data: DataSet) -> tuple[Contender, ...]:
        """Return the mechanisms that are run on ``data``."""
        return self.contenders[data.name] if isinstance(self.contenders, Mapping) else self.contenders

    def judged_by(self) -> tuple[Measure, ...]:
        """Return the measures."""
        return tuple(CATALOGUE[name] for name in self.measures)


@dataclass(frozen=True)
class Suite:
    """Experiments that belong together, such as those of a paper."""

    name: str
    title: str
    says: str
    experiments: tuple[Experiment, ...]


def epsilons(*texts: str) -> tuple[Fraction, ...]:
    """Return exact values of ε."""
    return tuple(Fraction(text) for text in texts)


def _general() -> Suite:
    """Every mechanism on sets of several kinds: the errors that a user chooses a mechanism by."""
    budgets = epsilons("0.01", "0.1", "1")
    contenders = tuple(
        Contender.of(name)
        for name in (
            *("identity", "denoise", "noise_first", "ahp", "dawa"),
            *("efpa", "p_hpartition", "kd_tree", "sreb_gca", "boost"),
        )
    )
    data = tuple(made_up_set(name) for name in ("location", "social_network", "rochdale"))
    measures = ("mean |error|", "KL", "absolute by range", "absolute by size")

    return Suite(
        "general",
        "Mechanisms beside each other",
        "What a user chooses by: the error of single cells, of ranges, and of small and large counts.",
        (Experiment("Errors", "Means over the runs.", data, contenders, budgets, measures, runs=5),),
    )


def _ranges() -> Suite:
    """Every mechanism on sums: over random ranges and boxes, over short ones, and what cells pay for it."""
    budgets = epsilons("0.01", "0.1", "1")
    measures = ("rectangles", "short rectangles", "mean |error|", "absolute by range")
    trees = (
        Contender.of("denoise, ranges", "denoise", workload="ranges"),
        Contender.of("denoise, ranges to 64", "denoise", workload="ranges", longest=64),
        Contender.of("dawa, ranges", "dawa", workload="ranges"),
        *(Contender.of(name) for name in ("boost", "privelet", "kd_tree", "p_hpartition")),
    )
    cells = tuple(
        Contender.of(name) for name in ("identity", "denoise", "noise_first", "ahp", "dawa", "efpa")
    )
    queries = Contender.of("mwem, ranges", "mwem", workload="ranges")
    small = tuple(made_up_set(name) for name in ("location", "rochdale", "social_network", "age"))
    large = tuple(made_up_set(name) for name in ("search_log", "nettrace"))

    return Suite(
        "ranges",
        "Sums over ranges",
        "What a user chooses by who adds up cells: 2 000 random ranges (boxes of tables), and short ones.",
        (
            Experiment(
                "Ranges", "Means over the runs.", small, (*trees, *cells, queries), budgets, measures, 5
            ),
            Experiment(
                "Long rows",
                "The same, without MWEM, which is slow there.",
                large,
                (*trees, *cells),
                budgets,
                measures,
                5,
            ),
        ),
    )


def _acs_2012() -> Suite:
    """Acs, Castelluccia and Chen, "Differentially private histogram publishing through lossy compression",
    ICDM 2012, section VI.
    """
    large = tuple(made_up_set(name) for name in ("location", "search_log", "nettrace"))
    rochdale = made_up_set("rochdale")
    efpa, hp = Contender.of("EFPA", "efpa"), Contender.of("P-HP", "p_hpartition")
    spa, lpa, mwem = (
        Contender.of("SPA", "spa"),
        Contender.of("LPA", "identity"),
        Contender.of("MWEM", "mwem", workload="ranges"),
    )
    beyond = Contender.of("denoise")

    table_2 = {
        "location": (0.57, 1.01, 1.17, 1.40, 1.98),
        "search_log": (0.18, 0.27, 0.49, 2.30, 1.35),
        "nettrace": (2.49, 1.78, 4.96, 5.09, 5.11),
    }
    table_3 = {"EFPA": 1.76, "P-HP": 2.23, "MWEM": 3.02, "PrivH-Struct": 4.47, "PrivH-Noise": 3.14}

    return Suite(
        "acs-2012",
        "Acs, Castelluccia and Chen 2012: publishing through lossy compression",
        "The paper's code of EFPA and SPA publishes the phase of each coefficient without noise and is not "
        "private; its figures for the two cannot be reached by a private mechanism. The data here are made "
        "up to resemble the paper's.",
        (
            Experiment(
                "Table II",
                "Divergence of the release from the truth at ε = 0.01, counts with their bins.",
                large,
                (efpa, hp, spa, lpa, mwem, beyond),
                epsilons("0.01"),
                ("KL", "mean |error|"),
                published={
                    (data, label, "1/100"): figure
                    for data, figures in table_2.items()
                    for label, figure in zip(("EFPA", "P-HP", "SPA", "LPA", "MWEM"), figures, strict=True)
                },
            ),
            Experiment(
                "Table III",
                "The same on the smallest set, with the mechanisms of Xu et al. beside them.",
                (rochdale,),
                (
                    efpa,
                    hp,
                    mwem,
                    Contender.of("PrivH-Struct", "structure_first", largest_count=64),
                    Contender.of("PrivH-Noise", "noise_first", penalty="paper"),
                    Contender.of("noise_first"),
                    beyond,
                ),
                epsilons("0.01"),
                ("KL", "mean |error|"),
                runs=100,
                published={("rochdale", label, "1/100"): figure for label, figure in table_3.items()},
            ),
            Experiment(
                "Figure 4",
                "Divergence when only the list of counts matters, not which bin has which.",
                (*large, rochdale),
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
                (*large, rochdale),
                (
                    efpa,
                    hp,
                    spa,
                    lpa,
                    mwem,
                    Contender.of("Privelet", "privelet"),
                    Contender.of("Boost", "boost", branching=2, root=True),
                    beyond,
                ),
                epsilons("0.1", "0.01"),
                ("squared by range",),
                runs=4,
            ),
        ),
    )


def _xu_2013() -> Suite:
    """Xu, Zhang, Xiao, Yang, Yu and Winslett, "Differentially private histogram publication", VLDB Journal
    22, 2013, section 7.

    Histograms of how often each count occurs, with the numbers of records that the paper declares:
    StructureFirst's F is 10^4 · records / bins with *these* public numbers, never with one from the data.
    """
    records = {
        "age": 100_078_675,
        "search_log_values": 32_768,
        "nettrace_values": 65_536,
        "social_network_values": 32_768,
    }
    sizes = {"age": 101, "search_log_values": 496, "nettrace_values": 1423, "social_network_values": 1678}
    sets = tuple(made_up_set(name) for name in records)
    budgets = epsilons("0.01", "0.1", "1")

    # Average squared errors of single bins (table 2) and average absolute errors (table 3), by mechanism,
    # data set and ε = 0.01, 0.1, 1.
    table_2: dict[str, tuple[float, ...]] = {
        "Dwork": (18_865, 187, 2.38, 19_986, 204, 1.98, 19_927, 204, 1.99, 20_153, 198, 2.05),
        "Boost": (730_466, 7_666, 76, 1_264_010, 12_037, 127, 1_774_689, 16_956, 178, 1_701_026, 17_769, 172),
        "Privelet": (360_774, 4_745, 42, 678_763, 6_975, 62, 978_884, 9_987, 91, 972_103, 9_426, 92),
        "Median-NF": (19_438, 203, 2.10, 5_081, 60, 1.44, 3_475, 35, 0.56, 4_102, 50, 0.76),
        "Mean-NF": (21_178, 205, 1.98, 12_231, 131, 1.48, 13_198, 95, 1.34, 12_677, 135, 1.40),
        "Median-SF": (327_525, 2_876, 32, 863_095, 8_742, 77, 1_283_316, 12_465, 122, 1_252_283, 12_725, 127),
        "Mean-SF": (598_750, 5_541, 58, 854_311, 8_353, 90, 1_156_542, 12_154, 129, 1_245_424, 12_819, 123),
    }
    table_3: dict[str, tuple[float, ...]] = {
        "Dwork": (99, 9.99, 1.04, 100, 10, 1, 101, 10, 1, 100, 9.97, 1),
        "Boost": (653, 67, 7, 851, 83, 8, 1008, 99, 10, 991, 102, 10),
        "Privelet": (453, 51, 4.90, 615, 62, 5.89, 732, 74, 7.16, 730, 73, 7.21),
        "Median-NF": (100, 10, 0.99, 28, 3.51, 0.74, 21, 2.06, 0.31, 24, 3.04, 0.40),
        "Mean-NF": (104, 10, 0.96, 62, 6.86, 0.83, 63, 6.32, 0.67, 62, 6.50, 0.71),
        "Median-SF": (427, 40, 4.25, 665, 66, 6.23, 807, 81, 8.04, 800, 81, 8.08),
        "Mean-SF": (535, 56, 5.59, 662, 65, 6.80, 763, 79, 8.20, 798, 81, 8.08),
    }

    def printed(table: dict[str, tuple[float, ...]]) -> dict[tuple[str, str, str], float]:
        places = [(data, str(epsilon)) for data in records for epsilon in budgets]
        return {
            (data, label, epsilon): figure
            for label, figures in table.items()
            for (data, epsilon), figure in zip(places, figures, strict=True)
        }

    def structure_first(label: str, data: str, centre: str, bins: int | None = None) -> Contender:
        # for Age the largest count that the mechanism takes is far below the paper's F: its own bound then
        largest = min(10**4 * records[data] // sizes[data], 1 << 24)
        given = {"largest_count": largest, "centre": centre, "boost": True, "structure_share": "1/2"}
        return Contender.of(label, "structure_first", **given, **({} if bins is None else {"bins": bins}))

    dwork, boost, privelet = (
        Contender.of("Dwork", "identity"),
        Contender.of("Boost", "boost", branching=2, root=True),
        Contender.of("Privelet", "privelet"),
    )
    noise = (
        Contender.of("Median-NF", "noise_first", centre="median", penalty="paper"),
        Contender.of("Mean-NF", "noise_first", penalty="paper"),
    )
    ours = (Contender.of("noise_first"), Contender.of("denoise"))
    structure = {
        data: (structure_first("Median-SF", data, "median"), structure_first("Mean-SF", data, "mean"))
        for data in records
    }

    def effect_of_k(data: DataSet, centre: str) -> tuple[Contender, ...]:
        size = sizes[data.name]
        wanted = {
            "k = 1": 1,
            "k = n/15": size // 15,
            "k = n/10": size // 10,
            "k = n/5": size // 5,
            "k = n": size,
        }
        return tuple(structure_first(label, data.name, centre, bins) for label, bins in wanted.items())

    def experiment(name: str, says: str, contenders: Any, *measures: str, **published: Any) -> Experiment:
        return Experiment(name, says, sets, contenders, budgets, measures, **published)

    methods = {data.name: (dwork, boost, privelet, *noise, *structure[data.name], *ours) for data in sets}

    return Suite(
        "xu-2013",
        "Xu et al. 2013: NoiseFirst and StructureFirst",
        "StructureFirst is given the numbers of records that the paper declares, so that nothing of the data "
        "enters F. The rows noise_first and denoise are this package's defaults, which the paper does not "
        "have.",
        (
            experiment(
                "Table 2",
                "Average squared error of single bins.",
                methods,
                "mean squared",
                published=printed(table_2),
            ),
            experiment(
                "Table 3",
                "Average absolute error of single bins.",
                methods,
                "mean |error|",
                published=printed(table_3),
            ),
            experiment(
                "Figures 6 to 9",
                "The effect of the number of bins k on StructureFirst with means: squared error by range "
                "length.",
                {data.name: effect_of_k(data, "mean") for data in sets},
                "squared by range",
            ),
            experiment(
                "Figures 10 to 13",
                "The effect of the number of bins k on StructureFirst with medians: absolute error by range "
                "length.",
                {data.name: effect_of_k(data, "median") for data in sets},
                "absolute by range",
            ),
            experiment(
                "Figure 14",
                "NoiseFirst with means against medians: squared error by range length.",
                noise,
                "squared by range",
            ),
            experiment(
                "Figure 15",
                "StructureFirst with means against medians: squared error by range length.",
                structure,
                "squared by range",
            ),
            experiment(
                "Figures 16 to 18",
                "All methods: squared, absolute and relative error by range length.",
                {
                    data.name: (dwork, boost, privelet, noise[0], structure[data.name][0], ours[1])
                    for data in sets
                },
                *("squared by range", "absolute by range", "relative by range"),
            ),
        ),
    )


def _xiao_2010() -> Suite:
    """Xiao, Xiong and Yuan, "Differentially private data release through multidimensional partitioning",
    SDM 2010, section 5, and the parity example of section 4.4.
    """
    census = made_up_set("census")
    alphas = epsilons("0.01", "0.02", "0.05", "0.1", "0.2", "0.5")
    tree, cells = Contender.of("kd-tree", "kd_tree"), Contender.of("cells")
    paper_tree = Contender.of("kd-tree, paper", "kd_tree", combine=False)
    hierarchical = Contender.of("hierarchical kd-tree", "hierarchical_kd_tree")

    return Suite(
        "xiao-2010",
        "Xiao, Xiong and Yuan 2010: multidimensional partitioning",
        "The paper prints no numbers beside its plots but one: a mean error of 62.2 for cells on "
        "one-dimensional queries. What can be compared is the order of the methods.",
        (
            Experiment(
                "Figures 13 and 14",
                "Error of random rectangles of age and income against ε, absolute and relative.",
                (census,),
                (tree, paper_tree, hierarchical, cells, Contender.of("denoise")),
                alphas,
                ("rectangles", "relative rectangles"),
            ),
            Experiment(
                "Figures 15 and 16",
                "The interactive model: q queries share ε = 0.05 and each is answered with ε/q, here for "
                "q = 1, 2, 4, …, 32. From the q on where this error passes the kd-tree's at 0.05 above, the "
                "release is better.",
                (made_up_set("one_query"),),
                (Contender.of("interactive", "identity"),),
                tuple(Fraction(1, 20 * queries) for queries in (1, 2, 4, 8, 16, 32)),
                ("mean |error|",),
                runs=400,
            ),
            Experiment(
                "Figures 9 and 10",
                "The effect of the height on the hierarchical kd-tree.",
                (census,),
                tuple(
                    Contender.of(f"height {height}", "hierarchical_kd_tree", height=height)
                    for height in (3, 5, 7, 9, 11, 13)
                ),
                epsilons("0.05"),
                ("rectangles", "relative rectangles"),
            ),
            Experiment(
                "Parity, section 4.4",
                "Share of runs in which the parity learnt from the release is the wrong one.",
                (made_up_set("parity"),),
                (cells, tree),
                epsilons("0.0001", "0.001", "0.003", "0.01", "0.1"),
                ("parity missed",),
                runs=50,
            ),
        ),
    )


def _chen_2024() -> Suite:
    """Chen et al., "A histogram publishing method under differential privacy that involves balancing
    small-bin availability first", Algorithms 17 (2024) 293, section 5.
    """
    sets = tuple(made_up_set(name) for name in ("location", "search_log", "nettrace", "social_network"))
    budgets = epsilons("1", "0.1", "0.01")
    base, sreb, ahp = (
        Contender.of("DP_BASE", "identity"),
        Contender.of("SReB_GCA", "sreb_gca"),
        Contender.of("AHP", "ahp"),
    )
    table_2 = {
        "AHP": (0.018, 0.203, 0.467, 0.054, 0.103, 0.189, 0.153, 0.572, 1.229, 0.071, 0.309, 0.825),
        "SReB_GCA": (0.0004, 0.056, 0.171, 0.0001, 0.009, 0.099, 0.004, 0.092, 0.252, 0.0001, 0.003, 0.099),
    }
    places = [(data.name, str(epsilon)) for data in sets for epsilon in budgets]

    return Suite(
        "chen-2024",
        "Chen et al. 2024: small bins first",
        "The pseudo-code draws noise for every bin of a group and so spends its second budget once per bin; "
        "one draw per group is private and cannot reach the paper's divergences.",
        (
            Experiment(
                "Table 2",
                "Divergence of the release from the truth.",
                sets,
                (ahp, sreb, base, Contender.of("denoise")),
                budgets,
                ("KL", "mean relative"),
                published={
                    (data, label, epsilon): figure
                    for label, figures in table_2.items()
                    for (data, epsilon), figure in zip(places, figures, strict=True)
                },
            ),
            Experiment(
                "Figure 4",
                "Mean relative error of single bins by the size of their true count.",
                sets,
                (sreb, base, ahp, Contender.of("noise_first"), Contender.of("denoise")),
                budgets,
                ("relative by size",),
                runs=5,
            ),
            Experiment(
                "Figure 5",
                "Relative error of ranges by their length.",
                sets,
                (sreb, base),
                budgets,
                ("relative by range",),
                runs=5,
            ),
        ),
    )


def _suresh_2019() -> Suite:
    """Suresh, "Differentially private anonymized histograms", 2019: PrivHist, and Hay's sorted histogram."""
    return Suite(
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


def _speed() -> Suite:
    """Seconds of a run against the number of bins, for the mechanisms that run in near-linear time."""
    names = (
        *("identity", "efpa", "p_hpartition", "noise_first", "sreb_gca", "denoise"),
        *("kd_tree", "privhist", "boost", "privelet", "ahp", "dawa"),
    )

    return Suite(
        "speed",
        "Seconds of a run",
        "Median processor time of a run on made-up series, noise included; see the plot at the end.",
        (
            Experiment(
                "Sizes",
                "From 1 024 to 1 048 576 bins.",
                tuple(made_up_set(name) for name in MADE_UP if name.startswith("series_")),
                (
                    *(Contender.of(name) for name in names),
                    Contender.of("structure_first", largest_count=5000),
                ),
                epsilons("0.1"),
                ("total |error|, sorted",),
                runs=3,
            ),
        ),
    )


SUITES: dict[str, Callable[[], Suite]] = {
    "general": _general,
    "ranges": _ranges,
    "acs-2012": _acs_2012,
    "xu-2013": _xu_2013,
    "xiao-2010": _xiao_2010,
    "chen-2024": _chen_2024,
    "suresh-2019": _suresh_2019,
    "speed": _speed,
}


def suite_called(name: str) -> Suite:
    """Return the suite of that name.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in SUITES:
        close = get_close_matches(name, SUITES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            "there is no suite of that name",
            where=f"--suite {name}",
            hint=f"{guess}known are {', '.join(SUITES)}",
        )
    return SUITES[name]()
