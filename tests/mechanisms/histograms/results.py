"""What the mechanisms and kernels return, to the last bit: the same with and without the compiler.

    python -m tests.mechanisms.histograms.results

prints the results of every case as JSON. Run with the compiler, it compiles every kernel and leaves the
machine code on disk; `make test` does that once, ahead of the workers that would each compile for itself.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numba
import numpy as np

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import CASES as AUDITED

CUBES = np.arange(120) ** 3 % 97
STEPS = np.arange(12).reshape(4, 3) // 5 * 9
UNEVEN = np.exp(generator(4).normal(0, 2, (9, 11))).astype(np.int64)
PEAK = np.eye(1, 256, 99, dtype=np.int64).reshape(8, 32) * 900
LARGE = np.repeat([7, 0, 40, 2, 90], 12) * 10**10 + np.arange(60) % 7
# Parameters beside those of the audit, the counts that go with them, and the budget.
FURTHER: dict[str, tuple[tuple[dict[str, Any], Any, Fraction], ...]] = {
    "ahp": tuple(
        ({"share": "1/2", "grouping": grouping}, CUBES, Fraction(1)) for grouping in ("expected", "threshold")
    ),
    "dawa": tuple(
        (parameters, CUBES.reshape(8, 15) // 30, Fraction(1, 2))
        for parameters in ({}, {"deviation": "mean", "branching": 2}, {"workload": "ranges"})
    ),
    "denoise": (
        *(({"form": form, "shifts": 1}, STEPS, Fraction(1, 3)) for form in ("mixture", "auto")),
        ({"form": "sparse", "shifts": 1}, PEAK, Fraction(1)),
        ({"workload": "ranges"}, UNEVEN, Fraction(2)),
    ),
    "hierarchical_kd_tree": tuple(
        (parameters, UNEVEN, Fraction(2))
        for parameters in ({"height": 5}, {"medians": "chosen", "height": 3})
    ),
    "kd_tree": tuple(
        (parameters, UNEVEN, Fraction(2))
        for parameters in ({"risk": True}, {"total": 0, "split": "median", "xi0": "3.5"})
    ),
    "mwem": tuple(
        (parameters, np.repeat([90, 3, 40, 0], [16, 20, 9, 19]), Fraction(1))
        for parameters in ({}, {"workload": "ranges", "rounds": 9})
    ),
    "noise_first": tuple(
        ({"centre": centre, "risk_runs": 2}, np.arange(200) // 20 * 7, Fraction(1, 3))
        for centre in ("mean", "median")
    ),
    "p_hpartition": tuple(
        (parameters, LARGE, Fraction(1))
        for parameters in ({}, {"choice": 0, "balance": 1, "leave_whole": False}, {"unattributed": True})
    ),
    "sreb_gca": tuple(
        ({"share": "1/2", "grouping": grouping}, CUBES, Fraction(1)) for grouping in ("expected", "noisy")
    ),
    "structure_first": tuple(
        (
            {
                "largest_count": 40,
                "centre": centre,
                "bins": 6,
                "boost": boost,
                "structure_share": "2/3",
                "candidates": 30,
            },
            np.arange(60) ** 2 % 41,
            Fraction(3),
        )
        for centre in ("mean", "median")
        for boost in (False, True)
    ),
}


def of_a_mechanism(name: str) -> Callable[[], Iterator[Any]]:
    """What a mechanism releases: with the parameters of its audit, and with some of its own."""

    def results() -> Iterator[Any]:
        flat = all(len(shape) == 1 for shape in AUDITED[name].shapes)
        table = STEPS if name == "denoise" else CUBES if flat else CUBES.reshape(8, 15)
        audited = [(parameters, table, Fraction(1)) for parameters in AUDITED[name].parameters]
        for parameters, counts, budget in (*audited, *FURTHER.get(name, ())):
            for definition in MECHANISMS[name].definitions:
                channel = SeededChannel(budget, seed=11, definition=definition)
                release = build(name, **parameters).release(counts, channel)
                yield from (release.values, str(release.diagnostics))

    return results


def segmentation() -> Iterator[Any]:
    from tabularium.mechanisms.histograms.segmentation import segment, segment_into

    rng = generator(5)
    for width in (3, 200, 1 << 40):
        steps = np.repeat(rng.integers(0, width, 12), 25)
        for table in (steps + rng.integers(-9, 10, 300), steps + rng.laplace(0, 3.0, 300)):
            for centre in ("mean", "median"):
                for price in (3.0, 60.0):
                    yield segment(table, centre, price, unit=3.0)
                yield segment_into(table, centre, 5, unit=3.0)


def many_pieces() -> Iterator[Any]:
    """Tables for which the kernels must make more room than they begin with."""
    from tabularium.mechanisms.histograms.dawa import weighted_segments
    from tabularium.mechanisms.histograms.kd_boxes import grow_tree
    from tabularium.mechanisms.histograms.segmentation import mean_layer, median_layer

    squares = np.arange(600) ** 2
    yield from mean_layer(squares, 1e9, np.zeros(0), 0, 0.0)
    yield from median_layer(np.arange(300) * 100, np.arange(300), 10**5, np.zeros(0, np.int64), 0)
    yield weighted_segments(squares.astype(float), np.ones(600), 1e9)
    yield from grow_tree(squares.astype(float), np.array([600]), 1e-9, 1e-9, -1.0, 0.0, 0.0, -1.0, 3.0, True)


def bisection() -> Iterator[Any]:
    from tabularium.mechanisms.histograms.p_hpartition import Frontier
    from tests.mechanisms.histograms.without_privacy import hpartition_without_privacy

    bins = np.arange(300) * 7919 % 1009 * (np.arange(300) % 5) * 10**9
    frontier = Frontier(bins)
    for _ in range(4):
        yield frontier.costs()
        frontier.cut(frontier.sizes // 3)
    yield from hpartition_without_privacy(bins[:30], 5.5)


def isotonic() -> Iterator[Any]:
    from tabularium.mechanisms.histograms.privhist import explained, widening
    from tabularium.mechanisms.inference.isotonic import isotonic as fitted

    row = (np.arange(3000) * 7919 % 1013) / 7
    yield from (fitted(row, 1 + np.arange(3000) % 5), explained(row), widening(1e6, 0.013))


def transforms() -> Iterator[Any]:
    from tabularium.mechanisms.histograms.double_fourier import tail_energies
    from tabularium.mechanisms.histograms.spectral import coordinates, layout

    for shape in ((1,), (2,), (12,), (15,), (64,), (67,), (3, 4), (2, 5, 2)):
        for transform in ("dft", "dct"):
            plan = layout(shape, transform)
            counts = np.arange(plan.size, dtype=np.int64).reshape(shape) ** 3 % 1009
            found = coordinates(counts, plan)
            yield from (found, tail_energies(found, plan.ends))


def many_tables() -> Iterator[Any]:
    """Regions that are denoised together, of which some hold nothing."""
    learned_from = np.tile(CUBES, 5).reshape(2, 300)
    for regions, each in (
        (CUBES.reshape(6, 20), {}),
        (CUBES.reshape(4, 6, 5), {"form": "wavelet"}),
        (learned_from, {"form": "mixture", "shifts": 1}),
    ):
        mechanism = build("per_region", mechanism="denoise", parameters_of_each=each)
        release = mechanism.release(regions, SeededChannel(Fraction(1), seed=3))
        yield from (release.values, str(release.diagnostics))


CASES: dict[str, Callable[[], Iterator[Any]]] = {
    **{name: of_a_mechanism(name) for name, kind in MECHANISMS.items() if kind.name == name},
    "segmentation": segmentation,
    "many pieces": many_pieces,
    "bisection": bisection,
    "isotonic": isotonic,
    "transforms": transforms,
    "many tables": many_tables,
}


def digest(case: str) -> tuple[str, int]:
    """Return a digest of a case's results, types and shapes included, and how many there were."""
    seen, count = hashlib.sha256(), 0
    for result in CASES[case]():
        count += 1
        if isinstance(result, str):
            seen.update(result.encode())
        else:
            array = np.asarray(result)
            seen.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return seen.hexdigest(), count


def main() -> None:
    """Print whether the compiler was at work, the digests, and which kernels ran if it was not."""
    called: set[str] = set()

    def noticed(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{function.__module__}.{function.__name__}"

        @functools.wraps(function)
        def kernel(*arguments: Any) -> Any:
            called.add(name)
            return function(*arguments)

        return kernel

    if numba.config.DISABLE_JIT:  # a compiled kernel calls another one without anybody noticing
        numba.njit = lambda **_: noticed
    cases = {case: digest(case) for case in CASES}
    print(json.dumps({"interpreted": numba.config.DISABLE_JIT, "cases": cases, "called": sorted(called)}))


if __name__ == "__main__":
    main()
