"""What the audit must know about each registered mechanism: one entry per name.

A mechanism in the registry without an entry here fails the build.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms import MECHANISMS
from tabularium.mechanisms.accounting.transcript import CHOICES, Definition, Event
from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel.replay.replay_findings import Force, Output
from tabularium.mechanisms.noise.synthetic import generator

Counts = NDArray[np.int64]
FLAT = ((1,), (2,), (7,), (16,))
DEEP = ((1, 1), (2, 3), (2, 1, 3), (2, 2, 2, 2))
LARGE = ((130,), (60, 50))


@dataclass(frozen=True)
class Case:
    """How to audit one mechanism.

    Attributes
    ----------
    worst
        A hand-made pair of neighbours that loses at least ``reaches`` of the budget: a mechanism whose worst
        pair loses less wastes noise.
    worst_force
        Outputs at which it does, if the drawn ones will not do.
    parameters
        Every set of parameters that is to be audited.
    shapes
        Shapes of counts that it takes; edge shapes included.
    large
        More shapes, up to 3 000 cells, which are tried with a few pairs only.
    largest
        Largest count to try (the mechanism's cap).
    shows
        Share of the budget that the statistical audit must see in the outputs of the worst pair at ε = 1 or
        ρ = 1/2. 0 where outputs are too indirect for it. (A threshold on Gaussian noise shows at most 2/π of
        ρ, and confidence takes its part.)
    shows_zcdp
        The same for the zCDP form of a mechanism that also has a pure one.
    notices
        By what factor noise on a single cell must be too small for the statistical audit to notice, in few
        runs. More where a part of the budget goes to things that the output does not show.
    """

    worst: tuple[Sequence[Any], Sequence[Any]]
    worst_force: Force | None = None
    reaches: float = 0.8
    parameters: tuple[dict[str, Any], ...] = ({},)
    shapes: tuple[tuple[int, ...], ...] = FLAT + DEEP
    large: tuple[tuple[int, ...], ...] = ()
    largest: int = LARGEST_COUNT
    shows: float = 0.0
    shows_zcdp: float = 0.0
    notices: int = 4

    def __post_init__(self) -> None:
        assert self.parameters, "an audit without parameters audits nothing"
        assert self.shapes, "an audit without shapes audits nothing"
        assert self.largest >= 10, "an audit that tries no large counts proves little"
        assert self.reaches > 0, "a worst pair that need not lose anything shows nothing"


def _last_candidate(event: Event, inputs: Counts, drawn: Output) -> Output:
    """Choices fall on the last candidate; noise stays as it is drawn."""
    return inputs.size - 1 if event.primitive in CHOICES else drawn


WAVES = ((1,), (2,), (8,), (31,), (2, 3), (5, 5))
# A few cells that rise to one large one, which gains a record. The choice of frequencies loses more, the more
# the norms of what is dropped move against each other; the noise, when coefficients are kept at which the
# cell has its largest share: the two slowest frequencies (four candidates), or all of them.
PEAK = [15791, 192390, 198489, 705320, 867805, 869208, 869938, 76831337]


def keep_few_or_all(event: Event, inputs: Counts, drawn: Any) -> Any:
    """Force the choice of frequencies, and leave the noise as drawn."""
    if event.primitive in CHOICES:
        return 1 if inputs.size == 4 else inputs.size - 1
    return drawn


def cut_off_the_first(event: Event, inputs: Counts, drawn: Any) -> Any:
    """Cut the first bin off a part; on level 5 cut where it is best; keep one part."""
    if event.primitive not in CHOICES:
        return drawn
    if "level" in event.purpose and inputs.size > 2:
        return int(np.argmin(inputs)) if event.purpose.endswith("level 5") else 1
    return 0


def cut_off_the_first_slice(event: Event, inputs: Counts, drawn: Any) -> Any:
    """Cut before the second slice; leave the noise as drawn."""
    return 0 if event.primitive in CHOICES else drawn


def first_candidate(event: Event, inputs: Counts, drawn: Any) -> Any:
    """Choices fall on the first candidate; noise stays as it is drawn."""
    return 0 if event.primitive in CHOICES else drawn


CASES: dict[str, Case] = {
    "identity": Case(worst=([4, 0], [4, 1]), shows=0.5),
    "cells": Case(worst=([4, 0], [4, 1]), shows=0.5),
    "gaussian": Case(worst=([4, 0], [5, 0]), shows=0.15),
    "uniform": Case(worst=([4, 0], [4, 1]), shows=0.5),
    "boost": Case(
        worst=([4, 0], [4, 1]),
        parameters=({}, {"branching": 2, "root": True}, {"branching": 3}, {"root": True}),
        shapes=(*FLAT, (23,), (2, 3), (2, 1, 3)),
    ),
    "privelet": Case(
        # Two cells: the total and the difference, and every record is in both.
        worst=([4, 0], [4, 1]),
        parameters=({}, {"axes": "chosen"}, {"axes": [0]}),
        shapes=(*FLAT, (23,), *DEEP),
    ),
    "mwem": Case(
        # The total says about 228 a cell. With a record more in the first one, a query of it alone is less wrong,
        # and the worst one, of it and the full cell together, more so: a pick of the first loses all it costs.
        worst=([4, 900, 0, 9], [5, 900, 0, 9]),
        worst_force=first_candidate,
        parameters=(
            {},
            {"workload": "ranges", "rounds": 2, "total_share": "1/2", "pick_share": "1/4"},
            {"workload": "marginals", "order": 3},
            {"workload": "ranges", "candidates": "prefixes", "replays": 1, "pick_share": "1/8"},
            {"workload": "ranges", "candidates": "random", "queries": 50, "rounds": 1, "total_share": "3/4"},
        ),
        shapes=((1,), (2,), (13,), (2, 1, 3)),
    ),
    "noise_first": Case(
        worst=([4, 0], [4, 1]),
        parameters=(
            {},
            {"penalty": "paper", "range_rule": False},
            {"centre": "median"},
            {"centre": "median", "penalty": "paper", "range_rule": False},
            {"bins": 1, "range_rule": False},
            {"bins": 1, "centre": "median", "risk_runs": 2},
        ),
    ),
    "denoise": Case(
        worst=([4, 0], [4, 1]),
        parameters=(
            {"form": "wavelet"},  # the quickest: it is run thousands of times
            {"shifts": 1},  # as by default, but quicker
            {"form": "mixture", "strength": "1/2", "shifts": 1, "sign": "cut", "categorical": [0]},
            {"form": "mixture", "strength": "0.7", "sign": "free", "shifts": 3},
            {"form": "sparse", "shifts": 1},
            {"workload": "ranges"},
            {"workload": "ranges", "longest": 2, "categorical": [0]},
        ),
        shapes=(*FLAT, (23,), (2, 3), (2, 1, 3)),
    ),
    "structure_first": Case(
        # The last cell goes with empty cells or with full ones, as the boundary is on the left or in the
        # middle: one record more makes the one structure dearer and the other cheaper. With the boundary
        # forced just before it, it is the whole of its bin, median and all.
        worst=([*[0] * 80, *[10] * 12, 4], [*[0] * 80, *[10] * 12, 5]),
        worst_force=_last_candidate,
        parameters=(
            {"largest_count": 10, "bins": 2, "structure_share": "1/2"},
            {"largest_count": 10, "bins": 2, "structure_share": "1/2", "centre": "median"},
            {"largest_count": 1000},
            {
                "largest_count": 1 << 40,
                "bins": 5,
                "candidates": 6,
                "structure_share": "1/10",
                "boost": True,
            },
            {
                "largest_count": 100,
                "centre": "median",
                "bins": 4,
                "candidates": 5,
                "structure_share": "1/10",
                "boost": True,
                "branching": 3,
            },
        ),
        shapes=(*FLAT, (23,), (2, 3), (2, 1, 3)),
    ),
    "p_hpartition": Case(
        # The middle bin is above the mean of a part with many zeros, and below it with the full ones alone.
        # So the best cut, between the zeros and it, and a cut that takes a zero off move apart by 4.
        worst=([*[0] * 24, 500_000, *[1_000_000] * 7], [*[0] * 24, 500_001, *[1_000_000] * 7]),
        worst_force=cut_off_the_first,
        parameters=(
            {"depth": 1, "choice": 0},  # few draws: the first of them is run thousands of times
            {},
            {"structure": "1/8", "choice": "0", "balance": 3, "leave_whole": False},
            {"structure": "1/3", "choice": "1/100", "depth": 40, "balance": 1, "unattributed": True},
        ),
        shapes=(*FLAT, (23,), (2, 1, 3)),
    ),
    "privhist": Case(
        # Any record is one more in the total and one more in one block, or in the excess of one item. Counts
        # around 6 are beyond the threshold at ε = 1/2 or more, when the noise says that there are few records.
        worst=([6, 0, 3], [6, 0, 4]),
        parameters=(
            {},
            {"total_share": "1/3", "tied": False},
        ),
        # The larger the noisy total, the more is drawn: made-up outputs bring it to 2^40 often enough.
        shapes=((1,), (2, 3)),
        largest=1 << 14,
        notices=6,
    ),
    "sorted_isotonic": Case(
        worst=([4, 0], [4, 1]),
        parameters=({}, {"rounded": False}),
    ),
    "kd_tree": Case(
        worst=([4, 0], [4, 1]),
        parameters=(
            {},
            {"cells": "1/2", "total": 0, "split": "median", "combine": False, "risk": True},
            {"xi0": 5, "xi1": 0, "tolerance": 0, "risk": True},
            {"cells": "1/10", "total": 0, "xi1": "2.5", "tolerance": 1},
        ),
        shapes=(*FLAT, (23,), *DEEP),
    ),
    "hierarchical_kd_tree": Case(
        # The best of the private medians lies between the record that is added and the median, so that its
        # score rises as that of the first place falls; the next level is the same again without the first cell.
        worst=([*[0] * 24, 1, *[1000] * 7], [*[0] * 24, 2, *[1000] * 7]),
        worst_force=cut_off_the_first_slice,
        parameters=(
            {"height": 2},
            {},
            {"medians": "chosen"},
            {"medians": "chosen", "height": 3, "structure": "9/10"},
            {"height": 0},
        ),
        shapes=(*FLAT, (23,), *DEEP),
    ),
    "sreb_gca": Case(
        worst=([4, 0], [4, 1]),
        parameters=(
            {"grouping": "noisy", "share": "1/2", "nonnegative": False},
            {},
        ),
        notices=12,
    ),
    "ahp": Case(
        worst=([4, 0], [4, 1]),
        parameters=(
            {"grouping": "threshold", "share": "1/10", "nonnegative": False},
            {},
            {"grouping": "threshold", "threshold": "0"},
        ),
    ),
    "dawa": Case(
        # One cell stands out, by one record more: every interval that holds it becomes dearer by as much as
        # is possible around the median, and nearly so around the mean.
        worst=([0] * 15 + [40], [0] * 15 + [41]),
        parameters=(
            {"merge": False, "nonnegative": False, "share": "1/10"},
            {},
            {"deviation": "mean", "branching": 4, "order": "rows"},
            {"workload": "ranges", "share": "1/3"},
        ),
        shapes=((1,), (2,), (7,), (16,), (2, 3), (2, 1, 3)),
    ),
    "fpa": Case(
        worst=(PEAK, [*PEAK[:-1], PEAK[-1] + 1]),
        parameters=(
            {"k": 8},
            {"k": 2, "sensitivity": "tight"},
            {"k": 8, "transform": "dct", "sensitivity": "tight", "unattributed": True, "count_cap": 1 << 27},
        ),
        shapes=WAVES,
        largest=1 << 30,
        notices=6,
    ),
    "spa": Case(
        worst=(PEAK, [*PEAK[:-1], PEAK[-1] + 1]),
        worst_force=keep_few_or_all,
        # Half of the budget goes to the choice, and the score of "keep all" never moves: a choice loses all it
        # costs only when the best score falls as all others rise.
        reaches=0.6,
        parameters=(
            {},
            {"sensitivity": "tight", "transform": "dct", "share": "1/4"},
        ),
        shapes=WAVES,
        largest=1 << 30,
        notices=12,
    ),
    "efpa": Case(
        worst=(PEAK, [*PEAK[:-1], PEAK[-1] + 1]),
        worst_force=keep_few_or_all,
        parameters=(
            {},
            {"sensitivity": "paper", "score": "paper"},
            {"transform": "dct"},
            {"unattributed": True, "score": "paper", "share": "1/4", "shrink": False, "count_cap": 1 << 27},
        ),
        shapes=WAVES,
        largest=1 << 30,
        notices=6,
    ),
}
CASES = {name: replace(case, large=case.large or LARGE) for name, case in CASES.items()}


def forms(*, further: Any = (), also_of_the_first: bool = True) -> Iterator[Any]:
    """Each name, set of parameters, definition of privacy; ``further`` marks all but the first of the definitions.

    Those of the first set of parameters are marked only if ``also_of_the_first``.
    """
    for name, case in CASES.items():
        definitions = MECHANISMS[name].definitions
        for number, parameters in enumerate(case.parameters):
            for definition in definitions:
                other = definition != definitions[0] and (also_of_the_first or number > 0)
                marks = further if other else ()
                yield pytest.param(
                    name, parameters, definition, id=f"{name}-{number}-{definition}", marks=marks
                )


every_form = pytest.mark.parametrize(("name", "parameters", "definition"), list(forms()))
#: Each set of parameters, and each definition; at full size each with each.
each_form = pytest.mark.parametrize(
    ("name", "parameters", "definition"), list(forms(further=pytest.mark.audit, also_of_the_first=False))
)


def some_counts(case: Case) -> Iterator[Counts]:
    """Small counts in every shape."""
    for shape in case.shapes:
        yield np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 5


def mechanism_definitions() -> Iterator[tuple[str, Definition]]:
    """Each mechanism (aliases once) under each definition that it knows."""
    for name in CASES:
        if MECHANISMS[name].name == name:
            for definition in MECHANISMS[name].definitions:
                yield name, definition


# --- what no table is measured with by its name: measures, and mechanisms that run per region --------------

#: What one record of a sum, a mean and a histogram may add, where Δ is 12.
SUM = np.array([[0, -40], [7, 3]]), np.array([[0, -52], [7, 3]])
MEAN = np.array([[30, 18], [0, 0]]), np.array([[35, 25], [0, 0]])
WEIGHTS = np.array([[0, 0, 100], [5, 0, 0]]), np.array([[0, 12, 100], [5, 0, 0]])
#: Four regions of six cells, one of them empty.
REGIONS = generator(8).poisson(3, (4, 6)).astype(np.int64)
REGIONS[2] = 0
ONE = np.array([[4, 0], [0, 0]])
OTHER = np.array([[4, 0], [0, 1]])


def with_records(*places: tuple[int, int]) -> Counts:
    """Return the counts with one record more at each place."""
    found = REGIONS.copy()
    for place in places:
        found[place] += 1
    return found
