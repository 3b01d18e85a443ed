"""The experiments of Xu, Zhang, Xiao, Yang, Yu and Winslett, "Differentially private histogram publication",
VLDB Journal 22, 2013, section 7.

Histograms of how often each count occurs, with the numbers of records that the paper declares:
StructureFirst's F is 10^4 · records / bins with *these* public numbers, never with one read from the data.
"""

from __future__ import annotations

from typing import Any

from tabularium.lab.comparison.data_sets import DataSet, made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

_RECORDS = {
    "age": 100_078_675,
    "search_log_values": 32_768,
    "nettrace_values": 65_536,
    "social_network_values": 32_768,
}
_BINS = {"age": 101, "search_log_values": 496, "nettrace_values": 1423, "social_network_values": 1678}
_DATA = tuple(made_up_set(name) for name in _RECORDS)
_EPSILONS = epsilons("0.01", "0.1", "1")

# Average squared errors of single bins (table 2) and average absolute errors (table 3), by mechanism, data
# set and ε = 0.01, 0.1, 1.
_TABLE_2: dict[str, tuple[float, ...]] = {
    "Dwork": (18_865, 187, 2.38, 19_986, 204, 1.98, 19_927, 204, 1.99, 20_153, 198, 2.05),
    "Boost": (730_466, 7_666, 76, 1_264_010, 12_037, 127, 1_774_689, 16_956, 178, 1_701_026, 17_769, 172),
    "Privelet": (360_774, 4_745, 42, 678_763, 6_975, 62, 978_884, 9_987, 91, 972_103, 9_426, 92),
    "Median-NF": (19_438, 203, 2.10, 5_081, 60, 1.44, 3_475, 35, 0.56, 4_102, 50, 0.76),
    "Mean-NF": (21_178, 205, 1.98, 12_231, 131, 1.48, 13_198, 95, 1.34, 12_677, 135, 1.40),
    "Median-SF": (327_525, 2_876, 32, 863_095, 8_742, 77, 1_283_316, 12_465, 122, 1_252_283, 12_725, 127),
    "Mean-SF": (598_750, 5_541, 58, 854_311, 8_353, 90, 1_156_542, 12_154, 129, 1_245_424, 12_819, 123),
}
_TABLE_3: dict[str, tuple[float, ...]] = {
    "Dwork": (99, 9.99, 1.04, 100, 10, 1, 101, 10, 1, 100, 9.97, 1),
    "Boost": (653, 67, 7, 851, 83, 8, 1008, 99, 10, 991, 102, 10),
    "Privelet": (453, 51, 4.90, 615, 62, 5.89, 732, 74, 7.16, 730, 73, 7.21),
    "Median-NF": (100, 10, 0.99, 28, 3.51, 0.74, 21, 2.06, 0.31, 24, 3.04, 0.40),
    "Mean-NF": (104, 10, 0.96, 62, 6.86, 0.83, 63, 6.32, 0.67, 62, 6.50, 0.71),
    "Median-SF": (427, 40, 4.25, 665, 66, 6.23, 807, 81, 8.04, 800, 81, 8.08),
    "Mean-SF": (535, 56, 5.59, 662, 65, 6.80, 763, 79, 8.20, 798, 81, 8.08),
}


def _published(table: dict[str, tuple[float, ...]]) -> dict[tuple[str, str, str], float]:
    places = [(data, str(epsilon)) for data in _RECORDS for epsilon in _EPSILONS]
    return {
        (data, label, epsilon): figure
        for label, figures in table.items()
        for (data, epsilon), figure in zip(places, figures, strict=True)
    }


def _structure_first(label: str, data: str, centre: str, bins: int | None = None) -> Contender:
    # the largest count that the mechanism takes is far below the paper's F for Age; the bound is then its own
    largest = min(10**4 * _RECORDS[data] // _BINS[data], 1 << 24)
    given = {"largest_count": largest, "centre": centre, "boost": True, "structure_share": "1/2"}
    return Contender.of(label, "structure_first", **given, **({} if bins is None else {"bins": bins}))


_DWORK, _BOOST, _PRIVELET = (
    Contender.of("Dwork", "identity"),
    Contender.of("Boost", "boost", branching=2, root=True),
    Contender.of("Privelet", "privelet"),
)
_NOISE = (
    Contender.of("Median-NF", "noise_first", centre="median", penalty="paper"),
    Contender.of("Mean-NF", "noise_first", penalty="paper"),
)
_OURS = (Contender.of("noise_first"), Contender.of("denoise"))
_STRUCTURE = {
    data: (_structure_first("Median-SF", data, "median"), _structure_first("Mean-SF", data, "mean"))
    for data in _RECORDS
}


def _effect_of_k(data: DataSet, centre: str) -> tuple[Contender, ...]:
    size = _BINS[data.name]
    wanted = {"k = 1": 1, "k = n/15": size // 15, "k = n/10": size // 10, "k = n/5": size // 5, "k = n": size}
    return tuple(_structure_first(label, data.name, centre, bins) for label, bins in wanted.items())


def _experiment(name: str, says: str, contenders: Any, *measures: str, **published: Any) -> Experiment:
    return Experiment(name, says, _DATA, contenders, _EPSILONS, measures, **published)


_ALL = {data.name: (_DWORK, _BOOST, _PRIVELET, *_NOISE, *_STRUCTURE[data.name], *_OURS) for data in _DATA}

SUITE = Suite(
    "xu-2013",
    "Xu et al. 2013: NoiseFirst and StructureFirst",
    "StructureFirst is given the numbers of records that the paper declares, so that nothing of the data "
    "enters F. The rows noise_first and denoise are this package's defaults, which the paper does not have.",
    (
        _experiment(
            "Table 2",
            "Average squared error of single bins.",
            _ALL,
            "mean squared",
            published=_published(_TABLE_2),
        ),
        _experiment(
            "Table 3",
            "Average absolute error of single bins.",
            _ALL,
            "mean |error|",
            published=_published(_TABLE_3),
        ),
        _experiment(
            "Figures 6 to 9",
            "The effect of the number of bins k on StructureFirst with means: squared error by range length.",
            {data.name: _effect_of_k(data, "mean") for data in _DATA},
            "squared by range",
        ),
        _experiment(
            "Figures 10 to 13",
            "The effect of the number of bins k on StructureFirst with medians: absolute error by range "
            "length.",
            {data.name: _effect_of_k(data, "median") for data in _DATA},
            "absolute by range",
        ),
        _experiment(
            "Figure 14",
            "NoiseFirst with means against medians: squared error by range length.",
            _NOISE,
            "squared by range",
        ),
        _experiment(
            "Figure 15",
            "StructureFirst with means against medians: squared error by range length.",
            _STRUCTURE,
            "squared by range",
        ),
        _experiment(
            "Figures 16 to 18",
            "All methods: squared, absolute and relative error by range length.",
            {
                data.name: (_DWORK, _BOOST, _PRIVELET, _NOISE[0], _STRUCTURE[data.name][0], _OURS[1])
                for data in _DATA
            },
            *("squared by range", "absolute by range", "relative by range"),
        ),
    ),
)
