"""What every mechanism promises, whatever it computes, asked of each with all parameters that are audited.

What one of them computes is tested in ``tests/mechanisms/histograms``; that it is private, in ``tests/audit``.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import MECHANISMS, build, restore
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import difference_between
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import CASES, every_form, some_counts

Parameters = dict[str, Any]


# --- a release ----------------------------------------------------------------------------------------


def test_no_mechanism_is_left_out() -> None:
    assert set(CASES) == set(MECHANISMS), "give every registered mechanism a case in tests/audit/cases.py"


@pytest.mark.parametrize("name", MECHANISMS)
def test_it_leaves_the_order_of_things_alone(name: str) -> None:
    """``measure`` and ``release`` are the base class's: no mechanism may go round the checks there."""
    kind = MECHANISMS[name]
    assert kind.measure is Mechanism.measure
    assert kind.release is Mechanism.release
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


@every_form
def test_a_release_of_every_shape(name: str, parameters: Parameters, definition: Definition) -> None:
    """Spends what it was given and no less, says so, and is finished from what was stored as if at once."""
    mechanism = build(name, **parameters)
    total = () if {"categorical", "axes"} & parameters.keys() else (np.array(7),)
    for counts in (*some_counts(CASES[name]), *total):
        channel = SeededChannel(Fraction(1, 2), seed=1, definition=definition)
        measured = mechanism.measure(counts, channel)
        release = mechanism.finish(measured)
        assert channel.remaining == 0
        assert release.transcript == measured.transcript == channel.transcript
        assert release.insecure
        assert release.values.dtype in (
            (np.int64,) if mechanism.releases_noisy_cells else (np.int64, np.float64)
        )
        assert np.isfinite(release.values).all()
        assert name == "privhist" or release.values.shape == counts.shape
        if release.variances is not None:
            assert np.broadcast_shapes(np.shape(release.variances), counts.shape) == counts.shape
        document = json.loads(json.dumps(measured.document()))
        stored = Measured.from_document(document, {key: each.copy() for key, each in measured.arrays.items()})
        assert restore(stored) == mechanism
        assert difference_between(release, restore(stored).finish(stored)) is None


STEPS = np.repeat([90, 3, 40, 0], [16, 20, 9, 19])
THIRTY = np.arange(30) % 10
UNEVEN = generator(1).integers(0, 1000, 64)
PEAKS = np.kron([[40, 0], [0, 15]], np.ones((8, 8), int))
STRUCTURE: Parameters = {"largest_count": 9, "bins": 4, "structure_share": "3/10"}
#: What a budget is divided into: each event's purpose, loss, shape and sensitivity (None where it is another matter).
SPLITS: list[tuple[str, Parameters, Any, str, list[tuple[str, str, Any, Any]]]] = [
    (
        *("boost", {"branching": 3, "root": True}, np.arange(10), "1/2"),
        [(f"level {k}", "1/8", (size,), 1) for k, size in enumerate((1, 2, 4, 10))],
    ),
    ("privelet", {}, np.zeros((5, 6), int), "1/2", [("coefficients", "1/2", (5, 6), 16)]),
    (
        *("mwem", {"rounds": 2, "total_share": "1/5", "pick_share": "1/4"}, STEPS, "1"),
        [
            ("total", "1/5", (1,), 1),
            *[("round 1: query", "1/10", None, 1), ("round 1: answer", "3/10", None, 1)],
            *[("round 2: query", "1/10", None, 1), ("round 2: answer", "3/10", None, 1)],
        ],
    ),
    # The parameters' shares; and the paper's two phases of half the budget.
    (
        *("kd_tree", {"cells": "1/4", "total": "1/20"}, PEAKS, "1/10"),
        [("total", "1/200", (), 1), ("cells", "1/40", (16, 16), 1), ("sums", "7/100", None, 1)],
    ),
    (
        *("kd_tree", {"cells": "1/2", "total": 0, "split": "median", "combine": False}, PEAKS, "1/10"),
        [("cells", "1/20", (16, 16), 1), ("sums", "1/20", None, 1)],
    ),
    # A 4 x 8 table: slices across 8 columns, then of two boxes whose longest sides add up to 8 or more.
    (
        *("hierarchical_kd_tree", {"height": 2, "structure": "1/3"}, np.ones((4, 8), int), "3/10"),
        [("level 1", "1/20", (8,), 1), ("level 2", "1/20", None, 1), ("sums", "1/5", (4,), 1)],
    ),
    # Levels without anything to cut leave their budget to the sums.
    (
        *("hierarchical_kd_tree", {"height": 10}, [5, 1000], "1"),
        [("level 1", "1/20", (2,), 1), ("sums", "19/20", (2,), 1)],
    ),
    ("hierarchical_kd_tree", {"height": 10}, [7], "1", [("sums", "1", (1,), 1)]),
    ("hierarchical_kd_tree", {"height": 0}, THIRTY, "1", [("sums", "1", (1,), 1)]),
    # The paper's: 64 bins have 6 levels with ε/24 each, ε/4 for the partition, ε/2 for the sums.
    (
        *("p_hpartition", {}, UNEVEN, "3/10"),
        [
            ("level 1", "1/80", (1, 64), 2),
            *((f"level {k}", "1/80", None, 2) for k in range(2, 7)),
            *[("partition", "3/40", None, 2), ("sums", "3/20", None, 1)],
        ],
    ),
    # Two bins are cut or left at the first level: 9 of 10 levels are not drawn.
    (
        *("p_hpartition", {"depth": 10}, [5, 1000], "1"),
        [("level 1", "1/40", (1, 2), 2), ("partition", "1/4", None, 2), ("sums", "29/40", None, 1)],
    ),
    ("p_hpartition", {}, [12], "1/2", [("sums", "1/2", (1,), 1)]),
    (
        *("structure_first", STRUCTURE, THIRTY, "1"),
        [
            *((f"boundary {k}", "1/10", None, None) for k in (3, 2, 1)),
            ("sums", "7/10", (4,), 1),
        ],
    ),
    # Structures that are not chosen cost nothing.
    *(
        (
            "structure_first",
            {"largest_count": 9, "bins": bins},
            [1, 2, 3, 4, 5, 6],
            "1",
            [("sums", "1", (min(bins, 6),), 1)],
        )
        for bins in (1, 6, 7)
    ),
]


@pytest.mark.parametrize(("name", "parameters", "counts", "budget", "parts"), SPLITS)
def test_the_budget_is_divided_as_it_says(
    name: str, parameters: Parameters, counts: Any, budget: str, parts: list[tuple[str, str, Any, Any]]
) -> None:
    events = build(name, **parameters).measure(counts, SeededChannel(budget, seed=1)).transcript
    found = [(event.purpose, event.loss, event.shape, event.sensitivity) for event in events]
    assert [(purpose, loss) for purpose, loss, *_ in found] == [
        (part[0], Fraction(part[1])) for part in parts
    ]
    for (*_, shape, sensitivity), (*_, expected, bound) in zip(found, parts, strict=True):
        assert shape == expected or expected is None
        assert sensitivity == bound or bound is None


# --- counts of every size -------------------------------------------------------------------------------

#: Mechanisms that say less of a table than every cell, or take counts for smaller ones.
ROUGH = {"uniform", "mwem", "fpa", "spa", "efpa", "privhist", "sorted_isotonic"}
#: The same by their parameters: too few parts, or none.
TOO_FEW_PARTS = (
    {"depth": 1, "choice": 0},
    {"structure": "1/3", "choice": "1/100", "depth": 40, "balance": 1, "unattributed": True},
    {"bins": 1, "range_rule": False},
    *CASES["structure_first"].parameters[:3],
    *({"height": 2}, {"medians": "chosen", "height": 3, "structure": "9/10"}, {"height": 0}),
)


@every_form
def test_the_largest_counts_come_back(name: str, parameters: Parameters, definition: Definition) -> None:
    """The noise is that of a budget of 1; no float is short of digits, no sum too large."""
    mechanism = build(name, **parameters)
    full, checkered = np.full((8, 8), LARGEST_COUNT), np.repeat([0, LARGEST_COUNT], 32).reshape(8, 8)
    channel = SeededChannel(1, seed=1, definition=definition)
    found = mechanism.release(full, channel).values
    if name == "privhist":
        assert found[0, 0] == pytest.approx(LARGEST_COUNT, rel=1e-6)
        return
    cap = getattr(mechanism, "count_cap", LARGEST_COUNT)
    assert np.abs(found - cap).max() < (100 if cap == LARGEST_COUNT else 2000)
    if name not in ROUGH and parameters not in TOO_FEW_PARTS:
        channel = SeededChannel(1, seed=1, definition=definition)
        assert np.abs(mechanism.release(checkered, channel).values - checkered).max() < 100


@every_form
def test_with_next_to_no_noise_the_table_comes_back(
    name: str, parameters: Parameters, definition: Definition
) -> None:
    if name not in ROUGH and parameters not in TOO_FEW_PARTS:
        counts = np.array([[3, 0, 500, 500], [12, 0, LARGEST_COUNT, 7], [12, 0, 0, 7]])
        channel = SeededChannel(10**9, seed=1, definition=definition)
        assert build(name, **parameters).release(counts, channel).values == pytest.approx(counts, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sreb_gca", {}),
        ("ahp", {}),
        ("uniform", {}),
        ("boost", {}),
        ("privelet", {}),
        ("kd_tree", {}),
        ("structure_first", {"largest_count": LARGEST_COUNT}),
        ("privhist", {}),
    ],
)
def test_sums_of_the_largest_counts_are_cut_off_too(name: str, parameters: Parameters) -> None:
    """More than 2^21 cells of 2^40: sums that the channel, or 64 bits, could not hold."""
    counts = np.full((1 << 21) + 5, LARGEST_COUNT)
    channel = SeededChannel(1, seed=1)
    measured = build(name, **parameters).measure(counts, channel)
    assert channel.remaining == 0
    assert all((np.abs(array) < 2**62).all() for array in measured.arrays.values())


@pytest.mark.parametrize(
    ("name", "parameters", "cells"),
    [
        ("ahp", {"grouping": "expected"}, 1 << 20),
        ("ahp", {"grouping": "threshold"}, 1 << 20),
        ("sreb_gca", {"grouping": "noisy"}, 1 << 20),
        ("structure_first", {"largest_count": 1 << 21, "bins": 2, "structure_share": "1/2"}, 1 << 20),
        ("dawa", {"deviation": "mean"}, 1 << 16),
        ("dawa", {"workload": "ranges"}, 1 << 16),
        ("p_hpartition", {"depth": 3}, 1 << 16),
        ("privelet", {}, 1 << 11),
        ("boost", {}, 1 << 10),
    ],
)
def test_a_large_table_of_the_largest_counts(name: str, parameters: Parameters, cells: int) -> None:
    """A million cells of 2^40 add up to 2^60; the lower half is empty, so that there is something to tell apart."""
    counts = np.repeat([0, LARGEST_COUNT], cells // 2)
    values = build(name, **parameters).release(counts, SeededChannel(100, seed=1)).values
    assert np.abs(values - counts).max() < 1e-9 * LARGEST_COUNT


# --- parameters -----------------------------------------------------------------------------------------

#: How a mechanism writes its parameters down: fractions in lowest terms, and those that were not given.
WRITTEN: list[tuple[str, Parameters, Parameters]] = [
    ("ahp", {"share": "17/20", "grouping": "threshold", "threshold": "0.5"}, {"threshold": "1/2"}),
    ("sreb_gca", {"share": "0.75"}, {"share": "3/4", "grouping": "expected", "nonnegative": True}),
    (
        "p_hpartition",
        {"structure": "0.3", "choice": "0", "depth": 7, "unattributed": True},
        {"structure": "3/10", "choice": "0/1", "leave_whole": True},
    ),
    (
        "kd_tree",
        {"cells": "0.3", "total": "0", "xi0": 7, "xi1": "2.5", "tolerance": 1, "split": "median"},
        {"cells": "3/10", "total": "0/1", "xi0": "7/1", "xi1": "5/2", "tolerance": "1/1", "combine": True},
    ),
    ("hierarchical_kd_tree", {"structure": "0.7", "medians": "chosen"}, {"structure": "7/10"}),
    ("dawa", {"share": "0.2", "deviation": "mean", "branching": 8, "order": "rows"}, {"share": "1/5"}),
    (
        "denoise",
        {"form": "mixture", "strength": "0.9", "categorical": [1]},
        {"strength": "9/10", "categorical": (1,), "shifts": None, "sign": "auto"},
    ),
    ("denoise", {"form": "wavelet", "strength": 2, "categorical": [1, 0]}, {"categorical": (1, 0)}),
    ("denoise", {"categorical": []}, {"categorical": ()}),
    ("denoise", {"workload": "ranges", "longest": 9}, {"longest": 9}),
    ("privelet", {"axes": [1, 0]}, {}),
    ("privhist", {"total_share": "0.2", "tied": False}, {"total_share": "1/5", "form": "counts"}),
    ("sorted_isotonic", {"rounded": False}, {"rounded": False}),
    ("fpa", {"k": 3}, {}),
    ("spa", {"share": "1/3"}, {}),
    ("efpa", {"share": "0.5", "shrink": False, "transform": "dct", "count_cap": 9}, {"share": "1/2"}),
    ("structure_first", {"largest_count": 9, "structure_share": "1/3", "bins": 4, "boost": True}, {}),
    ("noise_first", {"centre": "median", "bins": 7, "penalty": "paper", "risk_runs": 3}, {}),
    *((name, parameters, {}) for name, case in CASES.items() for parameters in case.parameters),
]


@pytest.mark.parametrize(
    ("name", "parameters", "written"), WRITTEN, ids=[f"{name} {given}" for name, given, _ in WRITTEN]
)
def test_its_parameters_build_it_again(name: str, parameters: Parameters, written: Parameters) -> None:
    mechanism = build(name, **parameters)
    found = mechanism.parameters()
    assert found == found | written
    assert build(name, **json.loads(json.dumps(found))) == mechanism


def test_documents_of_cells_do_not_name_what_belongs_to_ranges() -> None:
    assert "workload" not in build("denoise").parameters()


#: What is wrong with parameters: the line that is told of them begins with the name of the parameter.
REFUSED: list[tuple[str, Parameters, str]] = [
    ("ahp", {"share": 0.9}, "share: a share must be exact, not float; .*text"),
    ("ahp", {"share": "1"}, "share: a share of the budget lies between 0 and 1"),
    ("ahp", {"grouping": "noisy"}, "grouping: .*expected or threshold"),
    ("ahp", {"threshold": 0.35}, "threshold: a threshold must be exact, not float"),
    ("ahp", {"threshold": "-1"}, "threshold: a threshold lies between 0 and 10"),
    ("ahp", {"threshold": "low"}, "threshold: a threshold is not a number"),
    ("ahp", {"threshold": "9"}, "threshold: this has no effect here"),
    ("ahp", {"nonnegative": 1}, "nonnegative: .*not int"),
    ("ahp", {"eta": "1/2"}, "mechanism: ahp has no parameter of that name"),
    ("boost", {"branching": 1}, "branching: "),
    ("boost", {"branching": "best"}, "branching: "),
    ("boost", {"branching": 2.0}, "branching: "),
    ("boost", {"branching": True}, "branching: "),
    ("boost", {"root": 1}, "root: "),
    ("dawa", {"share": 0.25}, "share: a share must be exact, not float; .*text"),
    ("dawa", {"share": "0"}, "share: a share of the budget lies between 0 and 1"),
    ("dawa", {"deviation": "mode"}, "deviation: .*median or mean"),
    ("dawa", {"branching": 3}, "branching: .*2, 4, 8 or 16"),
    ("dawa", {"branching": 4.0}, "branching: .*2, 4, 8 or 16"),
    ("dawa", {"branching": True}, "branching: .*2, 4, 8 or 16"),
    ("dawa", {"order": "columns"}, "order: .*hilbert or rows"),
    ("dawa", {"workload": "marginals"}, "workload: .*cells or ranges"),
    ("dawa", {"merge": 0}, "merge: .*not int"),
    ("dawa", {"nonnegative": "no"}, "nonnegative: .*not str"),
    ("denoise", {"form": "median"}, "form: there is no such choice"),
    ("denoise", {"form": "none"}, "form: there is no such choice"),
    ("denoise", {"form": "partition"}, "form: there is no such choice"),
    ("denoise", {"sign": True}, "sign: there is no such choice"),
    ("denoise", {"strength": "1/2"}, "strength: a strength means something in a given form only"),
    ("denoise", {"form": "wavelet", "strength": 0.5}, "strength: a strength must be exact, not float"),
    ("denoise", {"form": "wavelet", "strength": "much"}, "strength: a strength is not a number"),
    ("denoise", {"form": "mixture", "strength": 1}, "strength: this strength is out of bounds"),
    ("denoise", {"form": "wavelet", "strength": "0"}, "strength: this strength is out of bounds"),
    ("denoise", {"form": "wavelet", "strength": "11"}, "strength: this strength is out of bounds"),
    ("denoise", {"form": "sparse", "sign": "total"}, "sign: "),
    ("denoise", {"form": "sparse", "strength": "1/2"}, "strength: "),
    ("denoise", {"categorical": 1}, "categorical: this must be a list of axes"),
    ("denoise", {"categorical": ["age"]}, "categorical: an axis is named by its number"),
    ("denoise", {"categorical": [True]}, "categorical: an axis is named by its number"),
    ("denoise", {"categorical": [0, 0]}, "categorical: an axis is named twice"),
    ("denoise", {"shifts": 0}, "shifts: this number is out of bounds"),
    ("denoise", {"shifts": "4"}, "shifts: this must be a whole number"),
    ("denoise", {"workload": "sums"}, "workload: "),
    ("denoise", {"longest": 5}, "longest: "),
    ("denoise", {"workload": "ranges", "longest": 0}, "longest: "),
    ("denoise", {"workload": "ranges", "longest": 2.5}, "longest: "),
    ("denoise", {"workload": "ranges", "form": "wavelet"}, "form: "),
    ("denoise", {"workload": "ranges", "form": "mixture", "strength": "0.5"}, "form: "),
    ("denoise", {"workload": "ranges", "shifts": 3}, "shifts: "),
    ("denoise", {"workload": "ranges", "sign": "cut"}, "sign: "),
    ("efpa", {"sensitivity": "loose"}, "sensitivity: there is no such choice; use tight or paper"),
    ("efpa", {"score": 1}, "score: there is no such choice; use norm or paper"),
    ("efpa", {"transform": "fft"}, "transform: there is no such choice; use dft or dct"),
    ("efpa", {"share": 0.5}, "share: a share must be exact, not float"),
    ("efpa", {"share": "1"}, "share: a share of the budget lies between 0 and 1"),
    ("efpa", {"shrink": 1}, "shrink: this must be true or false, not int"),
    ("efpa", {"unattributed": "yes"}, "unattributed: this must be true or false, not str"),
    ("fpa", {"k": 0}, "k: this number is out of bounds"),
    ("fpa", {"k": 1.5}, "k: this must be a whole number, not float"),
    ("fpa", {"k": True}, "k: this must be a whole number, not bool"),
    ("hierarchical_kd_tree", {"height": -1}, "height: .*out of bounds"),
    ("hierarchical_kd_tree", {"height": 65}, "height: .*out of bounds"),
    ("hierarchical_kd_tree", {"height": 2.0}, "height: .*must be a whole number, not float"),
    ("hierarchical_kd_tree", {"structure": 0.5}, "structure: a share must be exact, not float"),
    ("hierarchical_kd_tree", {"structure": "0"}, "structure: .*lies between 0 and 1"),
    ("hierarchical_kd_tree", {"medians": "exact"}, "medians: .*no such choice"),
    ("kd_tree", {"cells": 0.5}, "cells: a share must be exact, not float"),
    ("kd_tree", {"cells": "0"}, "cells: .*lies between 0 and 1"),
    ("kd_tree", {"cells": "19/20"}, "cells: .*nothing would remain for the sums"),
    ("kd_tree", {"total": "-1/4"}, "total: a share"),
    ("kd_tree", {"total": "1"}, "total: .*lies between 0 and 1"),
    ("kd_tree", {"xi0": -1}, "xi0: .*out of bounds"),
    ("kd_tree", {"xi0": "many"}, "xi0: a threshold is not a number"),
    ("kd_tree", {"xi1": 2.5}, "xi1: a threshold must be exact, not float"),
    ("kd_tree", {"xi1": True}, "xi1: a threshold must be exact, not bool"),
    ("kd_tree", {"tolerance": 10**40}, "tolerance: .*out of bounds"),
    ("kd_tree", {"tolerance": None}, "tolerance: a threshold must be exact, not NoneType"),
    ("kd_tree", {"split": "mean"}, "split: .*no such choice"),
    ("kd_tree", {"combine": "no"}, "combine: .*must be true or false, not str"),
    ("kd_tree", {"risk": 1}, "risk: .*must be true or false, not int"),
    ("mwem", {"workload": "cubes"}, "workload: "),
    ("mwem", {"candidates": "all"}, "candidates: "),
    ("mwem", {"queries": 1}, "queries: "),
    ("mwem", {"seed": -1}, "seed: "),
    ("mwem", {"order": 0}, "order: "),
    ("mwem", {"rounds": 0}, "rounds: "),
    ("mwem", {"rounds": "many"}, "rounds: "),
    ("mwem", {"replays": 0}, "replays: "),
    ("mwem", {"total_share": "1"}, "total_share: "),
    ("mwem", {"pick_share": 0.5}, "pick_share: "),
    ("mwem", {"pick_share": "most"}, "pick_share: "),
    ("mwem", {"workload": "marginals", "candidates": "random"}, "candidates: .*no effect here"),
    ("mwem", {"workload": "tilings", "queries": 7}, "queries: .*no effect here"),
    ("mwem", {"workload": "ranges", "seed": 5}, "seed: .*no effect here"),
    ("mwem", {"workload": "ranges", "order": 3}, "order: .*no effect here"),
    ("noise_first", {"centre": "x"}, "centre: "),
    ("noise_first", {"bins": "3"}, "bins: "),
    ("noise_first", {"penalty": None}, "penalty: "),
    ("noise_first", {"range_rule": "yes"}, "range_rule: "),
    ("noise_first", {"risk_runs": 2000}, "risk_runs: "),
    ("p_hpartition", {"structure": 0.25}, "structure: a share must be exact, not float"),
    ("p_hpartition", {"structure": "0"}, "structure: .*lies between 0 and 1"),
    ("p_hpartition", {"structure": "3/4"}, "(structure|choice): .*nothing would remain for the sums"),
    ("p_hpartition", {"choice": "-1/4"}, "choice: a share"),
    ("p_hpartition", {"choice": 0.0}, "choice: a share must be exact, not float"),
    ("p_hpartition", {"choice": "none"}, "choice: a share is not a number"),
    ("p_hpartition", {"choice": "1"}, "choice: .*lies between 0 and 1"),
    ("p_hpartition", {"depth": 0}, "depth: .*out of bounds"),
    ("p_hpartition", {"depth": 65}, "depth: .*out of bounds"),
    ("p_hpartition", {"depth": "7"}, "depth: .*must be a whole number, not str"),
    ("p_hpartition", {"balance": -1}, "balance: .*out of bounds"),
    ("p_hpartition", {"balance": True}, "balance: .*must be a whole number, not bool"),
    ("p_hpartition", {"leave_whole": "no"}, "leave_whole: .*must be true or false, not str"),
    ("p_hpartition", {"unattributed": 1}, "unattributed: .*must be true or false, not int"),
    ("p_hpartition", {"sign": "cut"}, "sign: .*no such choice"),
    ("per_region", {"mechanism": "dewa"}, "mechanism: .*no mechanism of that name"),
    (
        "per_region",
        {"mechanism": "denoise", "parameters_of_each": {"strengths": 1}},
        "mechanism: denoise has no parameter of that name",
    ),
    ("per_region", {"mechanism": "denoise", "axis": -1}, "axis: "),
    *(("privelet", {"axes": axes}, "axes: ") for axes in ("some", 1, [0.5], [-1], [True], {0: 1})),
    ("privhist", {"total_share": "1"}, "total_share: .*between 0 and 1"),
    ("privhist", {"total_share": 0.1}, "total_share: .*exact"),
    ("privhist", {"form": "list"}, "form: .*no such choice"),
    ("privhist", {"tied": 1}, "tied: .*true or false"),
    ("sorted_isotonic", {"rounded": 1}, "rounded: .*true or false"),
    ("spa", {"count_cap": 0}, "count_cap: this number is out of bounds"),
    ("spa", {"count_cap": (1 << 40) + 1}, "count_cap: this number is out of bounds"),
    ("spa", {"score": "norm"}, "mechanism: spa has no parameter of that name"),
    ("sreb_gca", {"share": 0.9}, "share: a share must be exact, not float; .*text"),
    ("sreb_gca", {"share": "0"}, "share: a share of the budget lies between 0 and 1"),
    ("sreb_gca", {"share": "3/2"}, "share: .*between 0 and 1"),
    ("sreb_gca", {"share": "most"}, "share: a share is not a number"),
    ("sreb_gca", {"grouping": "true"}, "grouping: .*expected or noisy"),
    ("sreb_gca", {"grouping": 1}, "grouping: "),
    ("sreb_gca", {"nonnegative": "yes"}, "nonnegative: .*not str"),
    ("sreb_gca", {"delta": 1}, "mechanism: sreb_gca has no parameter of that name"),
    ("structure_first", {}, "largest_count: the largest count of a cell is not given; .*without the data"),
    ("structure_first", {"largest_count": 0}, "largest_count: .*whole number from 1"),
    ("structure_first", {"largest_count": 2.5}, "largest_count: .*not float"),
    ("structure_first", {"largest_count": True}, "largest_count: .*not bool"),
    *(
        ("structure_first", {"largest_count": 9, **more}, says)
        for more, says in (
            ({"centre": "mode"}, "centre: .*mean or median"),
            ({"bins": 0}, "bins: "),
            ({"bins": "many"}, "bins: .*not str"),
            ({"candidates": 1 << 20}, "candidates: .*8192"),
            ({"structure_share": 0.5}, "structure_share: .*exact.*text"),
            ({"structure_share": "1"}, "structure_share: .*between 0 and 1"),
            ({"structure_share": "half"}, "structure_share: a share is not a number"),
            ({"boost": 1}, "boost: .*true or false"),
            ({"branching": 1}, "branching: "),
            ({"boundary": 1}, "mechanism: .*no parameter of that name"),
        )
    ),
    ("identiy", {}, "mechanism: .*did you mean identity.*known are.*gaussian"),
    ("x" * 1000, {}, "mechanism: .*known are"),
    ("identity", {"epsilon": 1}, r"mechanism: .*no parameter of that name \('epsilon'\)"),
]


@pytest.mark.parametrize(
    ("name", "parameters", "says"), REFUSED, ids=[f"{name:.20} {given}" for name, given, _ in REFUSED]
)
def test_bad_parameters_are_refused_by_name(name: str, parameters: Parameters, says: str) -> None:
    with pytest.raises(MechanismError, match=rf"^{says}") as caught:
        build(name, **parameters)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


NO_CELLS = np.zeros((0, 3), int)
FEW = np.zeros((3, 4, 5), int)
#: A mechanism, what it is to measure, and why it will not.
NOT_MEASURED: list[tuple[str, Parameters, Any, Definition, str]] = [
    ("identity", {}, [1.0, 2.0], "pure", "integers, not float64"),
    ("identity", {}, [True], "pure", "integers, not bool"),
    ("identity", {}, ["4711"], "pure", "integers"),
    ("identity", {}, [], "pure", "no cells"),
    ("identity", {}, NO_CELLS, "pure", "no cells"),
    ("identity", {}, [3, -4711], "pure", "must not be negative"),
    ("identity", {}, [None, 4711], "pure", "integers, not object"),
    ("identity", {}, [1], "zcdp", "identity needs a budget under pure"),
    ("gaussian", {}, [1], "pure", "gaussian needs a budget under zcdp"),
    ("denoise", {"categorical": [2]}, np.zeros((4, 4), int), "pure", "2 dimensions has no such axis"),
    ("denoise", {"categorical": [-2]}, [0] * 4, "pure", "has no such axis"),
    ("denoise", {"categorical": []}, np.zeros((2,) * 11, int), "pure", "10 axes"),
    ("denoise", {"workload": "ranges", "categorical": [2]}, np.zeros((2, 3), int), "pure", "no such axis"),
    ("noise_first", {"bins": 4}, [1, 2, 3], "pure", "more bins than cells"),
    ("p_hpartition", {}, np.zeros((1 << 21) + 1, int), "pure", "more than 2097152 cells"),
    ("per_region", {"mechanism": "denoise", "axis": 3}, FEW, "pure", "no such axis"),
    ("per_region", {"mechanism": "gaussian"}, FEW, "pure", "needs a budget under zcdp"),
    (
        "per_region",
        {"mechanism": "denoise", "parameters_of_each": {"categorical": [2]}},
        *(FEW, "pure", "no such axis"),
    ),
    ("privelet", {"axes": [2]}, np.zeros((2, 2), int), "pure", "fewer axes"),
    ("privhist", {"form": "prevalences"}, [1, 2, 3], "pure", "pairs of count"),
    ("privhist", {"form": "prevalences"}, [[1, 2, 3]], "pure", "pairs of count"),
    ("privhist", {"form": "prevalences"}, [[3, -1]], "pure", "not be negative"),
    ("privhist", {}, [], "pure", "no cells"),
    ("privhist", {}, [1.5], "pure", "integers"),
]


@pytest.mark.parametrize(("name", "parameters", "counts", "definition", "says"), NOT_MEASURED)
def test_what_it_cannot_measure_is_refused_before_anything_is_drawn(
    name: str, parameters: Parameters, counts: Any, definition: Definition, says: str
) -> None:
    channel = SeededChannel(1, seed=1, definition=definition)
    with pytest.raises(MechanismError, match=says) as caught:
        build(name, **parameters).measure(counts, channel)
    assert "4711" not in str(caught.value)
    assert channel.remaining == 1
    assert not channel.transcript


# --- errors ---------------------------------------------------------------------------------------------


def stairs(number: int, width: int) -> np.ndarray:
    """So many steps of random heights."""
    return np.repeat(generator(3).integers(0, 200, number), width)


def skewed() -> np.ndarray:
    """Most cells empty or small, a few large: like a table of small areas."""
    rng = generator(9)
    counts = rng.geometric(0.4, 6000) * rng.integers(0, 2, 6000)
    return counts + (rng.pareto(1.5, 6000) * 3).astype(np.int64) // 10


def uneven() -> np.ndarray:
    """Steps that are not quite even."""
    rng = generator(6)
    return np.repeat(rng.geometric(0.02, 128), 64) + rng.integers(0, 3, 8192)


FOUR = np.repeat([40, 200, 5, 90], 100)
#: What part of the mean error of noise on every cell remains at most.
BELOW: list[tuple[str, Parameters, np.ndarray, Definition, str, float]] = [
    ("ahp", {}, skewed(), "pure", "1/100", 0.05),
    ("ahp", {}, skewed(), "pure", "1/10", 0.25),
    ("ahp", {}, skewed(), "pure", "1", 0.95),
    ("dawa", {}, uneven(), "pure", "1/100", 0.3),
    ("dawa", {}, uneven(), "pure", "1/10", 0.35),
    ("p_hpartition", {}, stairs(12, 50), "pure", "1/20", 0.6),
    ("noise_first", {}, np.repeat([40, 200, 5, 90], 250), "pure", "1/10", 0.2),
    *(
        ("denoise", {"form": form, "shifts": 4}, FOUR, definition, budget, part)
        for form, part in (("auto", 0.26), ("mixture", 0.26), ("wavelet", 0.4))
        for definition, budget in (("pure", "1/10"), ("zcdp", "1/200"))
    ),
    ("sorted_isotonic", {}, np.full(1000, 500), "pure", "1/50", 0.2),
]


@pytest.mark.parametrize(("name", "parameters", "counts", "definition", "budget", "part"), BELOW)
def test_it_errs_less_than_noise_on_every_cell(
    name: str, parameters: Parameters, counts: np.ndarray, definition: Any, budget: str, part: float
) -> None:
    plain = build("identity" if definition == "pure" else "gaussian")
    ours, theirs = (
        sum(
            np.abs(
                each.release(counts, SeededChannel(budget, seed=seed, definition=definition)).values - counts
            ).mean()
            for seed in range(4)
        )
        for each in (build(name, **parameters), plain)
    )
    assert ours < part * theirs
