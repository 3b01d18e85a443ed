"""The experiments of Xiao, Xiong and Yuan, "Differentially private data release through multidimensional
partitioning", SDM 2010, section 5, and the parity example of section 4.4.
"""

from __future__ import annotations

from fractions import Fraction

from tabularium.lab.comparison.data_sets import made_up_set
from tabularium.lab.comparison.experiments import Contender, Experiment, Suite, epsilons

_CENSUS = made_up_set("census")
_ALPHAS = epsilons("0.01", "0.02", "0.05", "0.1", "0.2", "0.5")
_TREE, _CELLS = Contender.of("kd-tree", "kd_tree"), Contender.of("cells")
_PAPER_TREE = Contender.of("kd-tree, paper", "kd_tree", combine=False)
_HIERARCHICAL = Contender.of("hierarchical kd-tree", "hierarchical_kd_tree")

SUITE = Suite(
    "xiao-2010",
    "Xiao, Xiong and Yuan 2010: multidimensional partitioning",
    "The paper prints no numbers beside its plots but one: a mean error of 62.2 for cells on one-dimensional "
    "queries. What can be compared is the order of the methods.",
    (
        Experiment(
            "Figures 13 and 14",
            "Error of random rectangles of age and income against ε, absolute and relative.",
            (_CENSUS,),
            (_TREE, _PAPER_TREE, _HIERARCHICAL, _CELLS, Contender.of("denoise")),
            _ALPHAS,
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
            (_CENSUS,),
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
            (_CELLS, _TREE),
            epsilons("0.0001", "0.001", "0.003", "0.01", "0.1"),
            ("parity missed",),
            runs=50,
        ),
    ),
)
