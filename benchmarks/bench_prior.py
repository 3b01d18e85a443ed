"""Tables drawn towards an earlier release: what they gain, what they hide, and whether their margins hold.

    python -m benchmarks.bench_prior [--runs 20] [--epsilon 1/10] [--moved 0.02] [--shape flat|tree]

One period's counts have a part of their records moved to other cells, each to a cell in proportion to what it
holds. They are measured with and without ``prior``, with the same noise, and taken through the product's own
steps. The prior is the last period's table, as it was published:

- ``as it was``: without noise;
- ``at epsilon 1``, ``at the same``: published with that budget, and no prior of its own;
- ``chain of 8``: published with the same budget as the eighth period in a row that was drawn to the last;
- ``shuffled``: the same counts, each at another cell;
- ``another``: counts of another shape, at random cells.

Printed are the mean absolute error over that without prior; the share of margins at 90 % that hold, over all
cells and by size of the published count; the mean margin over that without prior; and of cells that truly
changed, the slope of the published change against the true one, by size of the change.

The public data set that is looked for beside the project is Waitakere (7 725 cells); where it is not there,
made-up counts stand for it, and the first line says so.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.postprocess.estimation import on_their_trees
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.in_memory import drawn, drawn_towards, one_release

DATA = Path(__file__).parents[2] / "shared" / "data" / "waitakere.npz"
ROWS, COLUMNS = 75, 103
SIZES = ((0, 0), (1, 9), (10, 99), (100, None))
CHANGES = ((1, 14), (15, 42), (43, None))
SPEC = """\
product: bench
dataset: bench
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, relation: add-remove, budget: "{epsilon}"}}
columns: {{place: {{{place}}}}}
tables:
  - {{name: cells, dimensions: [place], share: "1"{levels}}}
"""
Counts = NDArray[np.int64]


def spec_of(shape: str, epsilon: str, folder: Path) -> Loaded:
    """Write and read a spec of all places, alone or in rows below a total."""
    place, levels = f"integer: {{from: 0, to: {ROWS * COLUMNS - 1}}}", ""
    if shape == "tree":
        lines = ["code,label,parent", "T,T,", *(f"R{row},R{row},T" for row in range(ROWS))]
        lines += [f"{at},{at},R{at // COLUMNS}" for at in range(ROWS * COLUMNS)]
        (folder / "places.csv").write_text("\n".join(lines) + "\n")
        place = "hierarchy: places.csv, levels: [total, row, place]"
        levels = ', levels: {total: "1/10", row: "3/10", place: "6/10"}'
    file = folder / f"{epsilon.replace('/', '_')}.yaml"
    file.write_text(SPEC.format(epsilon=epsilon, place=place, levels=levels))
    return load_spec(file)


def counts_of() -> tuple[str, Counts]:
    """Return the counts, and where they come from."""
    if DATA.is_file():
        with np.load(DATA) as file:
            return "Waitakere", file["counts"].astype(np.int64)
    rng = generator(5)
    made = np.where(rng.random(ROWS * COLUMNS) < 0.6, 0, rng.geometric(1 / 60, ROWS * COLUMNS))
    return f"made-up counts ({DATA} is not there)", made


def moved(counts: Counts, share: float, rng: np.random.Generator) -> Counts:
    """Return counts of which a share of the records moved, each to a cell in proportion to what it holds."""
    records = np.repeat(np.arange(len(counts)), counts)
    number = round(share * len(records))
    after = counts.copy()
    np.subtract.at(after, rng.choice(records, number, replace=False), 1)
    np.add.at(after, rng.choice(records, number), 1)
    return after


def on_tree(loaded: Loaded, counts: Counts) -> Counts:
    """Return counts at every node, (nodes, cells)."""
    layout = Layout.of(loaded, loaded.spec.tables[0])
    if layout.along is None:
        return counts[None, :]
    whole = np.zeros(layout.nodes, np.int64)
    whole[layout.cuts["place"]] = counts
    for node in range(layout.nodes - 1, 0, -1):
        whole[layout.parents[node]] += whole[node]
    return whole[:, None]


def levels_of(loaded: Loaded, counts: Counts) -> dict[str, dict[str, Counts]]:
    """Return the counts of every level."""
    layout, whole = Layout.of(loaded, loaded.spec.tables[0]), on_tree(loaded, counts)
    return {
        "cells": {level: whole[nodes].reshape(layout.shape(level)) for level, nodes in layout.cuts.items()}
    }


def published(loaded: Loaded, counts: Counts, seed: int) -> NDArray[np.float64]:
    """Return one release without margins, (nodes, cells)."""
    run = without_data(loaded)
    post = PostProcessor.of(loaded)
    measured, _ = on_their_trees(loaded, post, drawn(run, levels_of(loaded, counts), seed))
    return post.finish(measured)["cells"].values


@dataclass
class Found:
    """Sums over runs for one kind of prior."""

    ratio: list[float] = field(default_factory=list)
    above: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    held: NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(SIZES) + 1, 2)))
    slope: NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(CHANGES) + 1, 2)))


def priors(
    loaded: Loaded,
    base: Loaded,
    before: Counts,
    share: float,
    seed: int,
    rng: np.random.Generator,
    folder: Path,
) -> Iterator[tuple[str, NDArray[np.float64], Counts]]:
    """Yield each kind of prior, as it was published, and the true counts of its period."""
    yield "as it was", on_tree(loaded, before).astype(float), before
    yield "at epsilon 1", published(base, before, 10_000 + seed), before
    last = published(loaded, before, 20_000 + seed)
    yield "at the same", last, before
    then = before
    for period in range(7):
        then = moved(then, share, rng)
        last = published(drawn_towards(loaded, "cells", last, folder), then, 30_000 + 10 * seed + period)
    yield "chain of 8", last, then
    yield "shuffled", on_tree(loaded, rng.permutation(before)).astype(float), before
    other = rng.permutation(rng.geometric(1 / 100, len(before)) * (rng.random(len(before)) < 0.5))
    yield "another", on_tree(loaded, other).astype(float), before


def measured(runs: int, epsilon: str, share: float, shape: str) -> dict[str, Found]:
    """Return what was found of every kind of prior."""
    _, truth = counts_of()
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded, base = spec_of(shape, epsilon, folder), spec_of(shape, "1", folder)
        for seed in range(runs):
            rng = generator(seed)
            for kind, prior, then in priors(loaded, base, truth, share, seed, rng, folder):
                own = found.setdefault(kind, Found())
                _one(own, loaded, prior, then, moved(then, share, rng), seed, folder)
    return found


def _one(
    own: Found, loaded: Loaded, prior: NDArray[np.float64], then: Counts, now: Counts, seed: int, folder: Path
) -> None:
    plain = published(loaded, now, seed)
    run = without_data(drawn_towards(loaded, "cells", prior, folder))
    tables, margins = one_release(run, levels_of(loaded, now), seed)
    made, half, exact = tables["cells"].values, np.ceil(margins["cells"].half - 1e-9), on_tree(loaded, now)
    finest = np.zeros(len(made), bool)
    finest[Layout.of(loaded, loaded.spec.tables[0]).cuts[Layout.of(loaded, loaded.spec.tables[0]).finest]] = (
        True
    )
    error = np.abs(made - exact)
    own.ratio.append(float(error[finest].mean() / np.abs(plain - exact)[finest].mean()))
    if not finest.all():
        own.above.append(float(error[~finest].mean() / np.abs(plain - exact)[~finest].mean()))
        own.held[-1] += (error <= half)[~finest].sum(), (~finest).sum()
    own.width.append(float(half[finest].mean() / (1.645 * np.sqrt((error[finest] ** 2).mean()))))
    for at, (low, high) in enumerate(SIZES):
        inside = (made[finest] >= low) & (made[finest] <= (np.inf if high is None else high))
        own.held[at] += (error <= half)[finest][inside].sum(), inside.sum()
    change, shown = (exact[finest].reshape(-1) - then), (made - prior)[finest].reshape(-1)
    for at, (low, high) in enumerate((*CHANGES, (1, None))):
        inside = (np.abs(change) >= low) & (np.abs(change) <= (high or np.inf))
        own.slope[at] += (shown[inside] * change[inside]).sum(), (change[inside] ** 2).sum()


def main() -> None:
    """Print a line for every kind of prior."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", default="1/10")
    parser.add_argument("--moved", type=float, default=0.02)
    parser.add_argument("--shape", choices=("flat", "tree"), default="flat")
    asked = parser.parse_args()
    where, _ = counts_of()
    print(
        f"{where}, {asked.shape}, epsilon {Fraction(asked.epsilon)}, {asked.runs} runs, {asked.moved:.0%} moved"
    )
    for kind, own in measured(asked.runs, asked.epsilon, asked.moved, asked.shape).items():
        ratios = np.array(own.ratio)
        print(
            f"{kind:13} error {ratios.mean():.3f} ({ratios.min():.3f} to {ratios.max():.3f}) of that without",
            end="",
        )
        print(f"; above {np.mean(own.above):.3f}" if own.above else "", end="")
        held = own.held[:-1]
        print(f"; held {held[:, 0].sum() / held[:, 1].sum():.3f}, width {np.mean(own.width):.2f}", end="")
        for (low, high), (inside, of) in zip(SIZES, held, strict=True):
            name = f"{low}" if low == high else f"{low}-{high or ''}"
            print(f"; {name}: {inside / of:.3f} of {of / asked.runs:.0f}" if of else "", end="")
        if own.above:
            print(f"; above: {own.held[-1, 0] / own.held[-1, 1]:.3f}", end="")
        for (low, high), (part, whole) in zip((*CHANGES, (1, None)), own.slope, strict=True):
            print(f"; change {low}-{high or ''}: {part / whole:.2f}" if whole else "", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
