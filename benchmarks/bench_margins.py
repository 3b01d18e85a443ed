"""Margins of error: how often they hold, what steps are biased, and what consistency gains.

    python -m benchmarks.bench_margins coverage [--data NAME ...] [--mechanism NAME ...] [--releases 200]
    python -m benchmarks.bench_margins linear
    python -m benchmarks.bench_margins bias [--quadratic]
    python -m benchmarks.bench_margins gain

- ``coverage``: many seeded releases of counts that are known, through the steps and the margins of the product;
  how many intervals hold the truth, over all cells, by the size of the published and of the true count, and how
  wide they are: the mean half-width over 1.645 root mean squared errors.
- ``linear``: chains of linear steps against the exact coverage of the smallest margin that attains 90 %.
- ``bias``: the mean error of totals on sparse data at epsilon 0.1 (nine cells in ten empty), in standard errors.
- ``gain``: errors on the American Community Survey example, level by level: of the measurements, with every
  table made consistent alone, with all of them, and after everything.

Public data sets that are no part of the project are looked for beside it; what is not there is left out.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

import tabularium.tasks.margins.margins
from benchmarks.linear_margins import laplace, linear_cases
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import (
    Hierarchy,
    consistency,
    laplace_variance,
    nonnegativity,
    rounding,
)
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.measure import shares
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.runtime.run import Request, Run
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.in_memory import one_release

Truth = dict[str, dict[str, NDArray[np.int64]]]

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
SURVEY = DATA / "nist_acs_national2019.csv.gz"
EPSILONS = ("1/100", "1/10", "1")
MECHANISMS = ("identity", "denoise", "noise_first", "p_hpartition", "efpa", "kd_tree")
SPEC = """\
product: bench
dataset: bench
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, relation: add-remove, budget: "{epsilon}"}}
columns: {{{columns}}}
tables:
  - {{name: cells, dimensions: [{names}], share: "1", mechanism: {mechanism}}}
"""


@dataclass(frozen=True)
class Scene:
    """One spec and the counts that it releases."""

    run: Run
    truth: Truth


def scene(data: str, mechanism: str, epsilon: str, folder: Path) -> Scene:
    """Write a spec to ``folder`` and read the counts."""
    spec = folder / "spec.yaml"
    if data == "acs":
        example = (ROOT / "deploy" / "examples" / "acs.yaml").read_text()
        shutil.copy(ROOT / "deploy" / "examples" / "puma.csv", folder)
        text = example.replace('budget: "1"', f'budget: "{epsilon}"')
        text = text.replace("    share:", f"    mechanism: {mechanism}\n    share:")
        truth = _acs()
    else:
        counts = _counts(data)
        names = [f"axis_{axis}" for axis in range(counts.ndim)]
        columns = ", ".join(
            f"{n}: {{integer: {{from: 0, to: {k - 1}}}}}" for n, k in zip(names, counts.shape, strict=True)
        )
        text = SPEC.format(epsilon=epsilon, columns=columns, names=", ".join(names), mechanism=mechanism)
        truth = {"cells": {"": counts}}
    spec.write_text(text)
    return Scene(Run(Request(str(spec), str(folder), None, str(folder)), str(folder)), truth)


def _counts(data: str) -> NDArray[np.int64]:
    if data == "sparse":
        rng = generator(3)
        return np.where(rng.random((60, 100)) < 0.9, 0, rng.geometric(1 / 60, size=(60, 100)))
    if data == "thin":
        return generator(4).poisson(3.0, (50, 100))
    with np.load(DATA / {"waitakere": "waitakere.npz", "hepth": "dpbench1d_HEPTH.npz"}[data]) as file:
        counts = file["counts"].astype(np.int64)
    return counts.reshape(75, 103) if data == "waitakere" else counts


@lru_cache(maxsize=1)
def _acs() -> Truth:
    """Count the microdata of the example through the real front half."""
    loaded = example()
    with tempfile.TemporaryDirectory() as folder:
        handle = ingest_source(loaded, bytes(32), Path(folder))
        counted = count_tables(loaded, handle, Path(folder), secret=bytes(32), bounding="00" * 16)
        return {
            table: {level: np.load(file.path) for level, file in levels.items()}
            for table, levels in counted.tables.items()
        }


def example() -> Loaded:
    """Return the spec of the American Community Survey."""
    return load_spec(ROOT / "deploy" / "examples" / "acs.yaml", source=str(SURVEY))


@dataclass
class Figures:
    """Sums over releases of one table and level."""

    method: str = ""
    cells: int = 0
    held: float = 0
    width: float = 0
    squares: float = 0
    by_published: NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(SIZES), 2)))
    by_true: NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(SIZES), 2)))

    def add(self, truth: NDArray[Any], published: NDArray[Any], half: NDArray[Any], method: str) -> None:
        error = np.abs(published - truth)
        held = error <= np.ceil(half - 1e-9)
        self.method = method
        self.cells += error.size
        self.held += held.sum()
        self.width += np.ceil(half - 1e-9).sum()
        self.squares += (error**2).sum()
        for counts, sums in ((published, self.by_published), (truth, self.by_true)):
            for place, (low, high) in enumerate(SIZES):
                there = (counts >= low) & (counts <= (np.inf if high is None else high))
                sums[place] += held[there].sum(), there.sum()

    def line(self) -> str:
        error = math.sqrt(self.squares / self.cells)
        ratio = self.width / self.cells / (1.6448536 * error) if error else math.nan
        classes = [
            " ".join(f"{100 * h / n:5.1f}" if n else "    -" for h, n in sums)
            for sums in (self.by_published, self.by_true)
        ]
        return (
            f"{self.method:<10}{error:>9.2f}{100 * self.held / self.cells:>7.1f}{ratio:>7.2f}   "
            f"{classes[0]}   {classes[1]}"
        )


def coverage(options: argparse.Namespace) -> None:
    """How often margins hold the truth, and how wide they are."""
    if options.simulated:
        tabularium.tasks.margins.margins.replicates = lambda _: options.simulated
    sizes = " ".join(f"{low if low == high else f'{low}+':>5}" for low, high in SIZES)
    print("held: per cent of intervals at 90 %; width: mean half-width / (1.645 root mean squared error)")
    print(
        f"{'data':<10}{'mechanism':<14}{'epsilon':<8}{'table, level':<28}{'method':<10}{'rms err':>9}{'held':>7}"
        f"{'width':>7}   {'held by published count':<31}held by true count"
    )
    print(f"{'':<96}{sizes}   {sizes}")
    for data in options.data:
        for mechanism in options.mechanism:
            for epsilon in options.epsilon:
                start = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    found = cover(scene(data, mechanism, epsilon, Path(folder)), options)
                seconds = time.perf_counter() - start
                for name, figures in found.items():
                    print(f"{data:<10}{mechanism:<14}{epsilon:<8}{name:<28}{figures.line()}", flush=True)
                if options.verbose:
                    print(f"  ({seconds:.0f} s)")


def cover(made: Scene, options: argparse.Namespace) -> dict[str, Figures]:
    """Make releases of one scene until there are enough, or the time is up."""
    found: dict[str, Figures] = {}
    start = time.perf_counter()
    layouts = {table.name: Layout.of(made.run.loaded, table) for table in made.run.loaded.spec.tables}
    for seed in range(options.releases):
        if seed and time.perf_counter() - start > options.seconds:
            break
        published, known = one_release(made.run, made.truth, seed)
        for name, layout in layouts.items():
            for level, nodes in layout.cuts.items():
                truth = made.truth[name][level].reshape(len(nodes), -1)
                figures = found.setdefault(f"{name} {level} x{seed + 1}", Figures())
                if seed:
                    figures = found[f"{name} {level} x{seed + 1}"] = found.pop(f"{name} {level} x{seed}")
                method = known[name].about["margins"]["method"]
                figures.add(truth, published[name].values[nodes], known[name].half[nodes], method)
    return found


def linear(options: argparse.Namespace) -> None:
    """Single measurements and consistent trees against the smallest margin that attains 90 %."""
    print(f"{'chain':<44}{'margin':>8}{'smallest':>10}{'held':>9}{'exact':>9}{'apart, s.e.':>13}")
    for name, half, smallest, exact, per_release in linear_cases(options.releases):
        held, error = float(per_release.mean()), float(per_release.std(ddof=1) / math.sqrt(len(per_release)))
        print(
            f"{name:<44}{half:>8.2f}{smallest:>10.2f}{100 * held:>9.2f}{100 * exact:>9.2f}"
            f"{(held - exact) / max(error, 1e-9):>13.1f}"
        )


def bias(options: argparse.Namespace) -> None:
    """Totals of sparse data after every way of making counts non-negative."""
    print(
        f"mean error of totals over {options.releases} releases, epsilon 0.1, three levels, 90 % of cells empty"
    )
    for leaves, regions in ((500, 5), (8000, 8)):
        rng = generator(2026)
        tree = Hierarchy(np.r_[-1, np.zeros(regions, int), 1 + np.arange(leaves) * regions // leaves])
        truth = np.zeros((tree.nodes, 1))
        truth[tree.leaf, 0] = np.where(rng.random(leaves) < 0.9, 0, rng.geometric(1 / 60, size=leaves))
        for block in tree.up():
            truth[block.parents] = block.total(truth[block.children])
        noisy = truth + laplace(rng, 30.0, (tree.nodes, options.releases))
        est = consistency(tree, noisy, laplace_variance(30.0))
        clipped = np.where(tree.leaf[:, None], np.maximum(noisy, 0), 0.0)
        for block in tree.up():
            clipped[block.parents] = block.total(clipped[block.children])
        tables = {
            "least squares": est.values,
            "after everything": rounding(tree, nonnegativity(tree, est)).astype(float),
            "cells clipped, then added": clipped,
        }
        if options.quadratic and leaves <= 500:
            tables["global quadratic program"] = _quadratic(tree, noisy)
        totals = np.flatnonzero((truth[:, 0] > 5 * np.sqrt(est.variances[:, 0])) & ~tree.leaf)
        print(f"\n{leaves} cells in {regions} regions: {len(totals)} totals above 5 noise deviations")
        print(f"{'':<28}{'nation':>24}{'regions, worst':>24}{'largest |s.e.|':>16}")
        for name, table in tables.items():
            error = table[totals] - truth[totals]
            mean, deviation = error.mean(axis=1), error.std(axis=1, ddof=1) / math.sqrt(error.shape[1])
            score = mean / deviation
            worst = 1 + int(np.abs(score[1:]).argmax())
            cells = [f"{mean[i]:+.1f} ({score[i]:+.1f} s.e.)" for i in (0, worst)]
            print(f"{name:<28}{cells[0]:>24}{cells[1]:>24}{np.abs(score).max():>16.1f}")


def _quadratic(tree: Hierarchy, noisy: NDArray[np.float64], runs: int = 40) -> NDArray[np.float64]:
    """Least squares over all nodes at once with non-negative leaves; equal variances; some of the releases."""
    leaves = np.flatnonzero(tree.leaf)
    design = np.zeros((tree.nodes, len(leaves)))
    for column, leaf in enumerate(leaves):
        node = int(leaf)
        while node >= 0:
            design[node, column] = 1.0
            node = int(tree.parents[node])
    return np.stack([design @ nnls(design, noisy[:, run])[0] for run in range(runs)], axis=1)


STEPS = ("measured", "each alone", "consistent", "non-negative", "rounded")


def gain(options: argparse.Namespace) -> None:
    """Errors of the example, level by level, after each step."""
    with tempfile.TemporaryDirectory() as folder:
        made = scene("acs", "identity", options.epsilon, Path(folder))
        sums: dict[tuple[str, str], NDArray[np.float64]] = {}
        for seed in range(options.releases):
            for key, errors in _errors_of_steps(made, seed):
                sums[key] = sums.get(key, np.zeros(errors.shape)) + errors / options.releases
    print(
        f"{options.releases} releases, epsilon {options.epsilon}; gain: measured over consistent, over rounded"
    )
    head = "".join(f"{step:>14}" for step in STEPS)
    print(f"{'table':<22}{'level':<8}{'error':<19}{head}{'gain':>8}{'':>8}")
    for (name, level), errors in sums.items():
        for kind, figures in (("root mean squared", np.sqrt(errors[0])), ("mean absolute", errors[1])):
            line = "".join(f"{figure:>14.3f}" for figure in figures)
            gains = f"{figures[0] / figures[2]:>8.2f}{figures[0] / figures[-1]:>8.2f}"
            print(f"{name:<22}{level or '-':<8}{kind:<19}{line}{gains}")


def _errors_of_steps(made: Scene, seed: int) -> Iterator[tuple[tuple[str, str], NDArray[np.float64]]]:
    """Yield for every table and level the (mean squared, mean absolute) errors after each step."""
    agreement = Agreement.of(made.run.loaded)
    raw: dict[str, dict[str, tuple[NDArray[Any], Any]]] = {}
    for table, level, loss, mechanism in shares(made.run):
        channel = SeededChannel(loss, seed=f"gain {seed} {table.name} {level}")
        release = mechanism.release(made.truth[table.name][level], channel)
        raw.setdefault(table.name, {})[level] = (release.values, release.variances)
    measured = {name: measured_tree(agreement.layouts[name], parts) for name, parts in raw.items()}
    alone = {
        name: consistency(Hierarchy(agreement.layouts[name].parents), tree.values, tree.variances)
        for name, tree in measured.items()
    }
    agreed = agreement.consistent(measured, variances=False).estimates
    positive = agreement.nonnegative(agreed).estimates
    whole = agreement.whole(positive).estimates
    for name, parts in raw.items():
        for level, (values, _) in parts.items():
            nodes, truth = agreement.layouts[name].cuts[level], made.truth[name][level]
            tables = [values.reshape(len(nodes), -1)]
            tables += [each[name].values[nodes] for each in (alone, agreed, positive, whole)]
            errors = [table - truth.reshape(len(nodes), -1) for table in tables]
            both = [[(e**2).mean() for e in errors], [np.abs(e).mean() for e in errors]]
            yield (name, level), np.array(both)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, work in (("coverage", coverage), ("linear", linear), ("bias", bias), ("gain", gain)):
        command = commands.add_parser(name, help=(work.__doc__ or "").splitlines()[0].replace("%", "%%"))
        command.set_defaults(work=work)
        command.add_argument("--releases", type=int, default=200)
        if name == "coverage":
            there = [
                d
                for d, f in (("waitakere", "waitakere.npz"), ("hepth", "dpbench1d_HEPTH.npz"))
                if (DATA / f).exists()
            ]
            there += ["acs"] * SURVEY.exists() + ["sparse", "thin"]
            command.add_argument("--data", nargs="+", choices=there, default=there)
            command.add_argument("--mechanism", nargs="+", default=MECHANISMS)
            command.add_argument("--epsilon", nargs="+", default=EPSILONS)
            command.add_argument("--seconds", type=float, default=math.inf, help="at most, for each case")
            command.add_argument(
                "--simulated", type=int, help="simulated releases for each, if not the product's"
            )
            command.add_argument("--verbose", action="store_true")
        if name == "gain":
            command.add_argument("--epsilon", default="1")
        if name == "bias":
            command.add_argument("--quadratic", action="store_true", help="the global program too: slow")
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
