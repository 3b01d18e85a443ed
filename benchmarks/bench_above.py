"""Tables drawn towards the level above: what they gain, what they hide, and whether their margins hold.

    python -m benchmarks.bench_above [--runs 10] [--epsilon 1/100 1/10 1]

The same tables of areas, each area below one nation (or districts), are measured by ``identity`` without a prior,
with ``prior: above``, and by ``denoise`` level by level with areas that have no order; all go through the product's
own steps. Three quarters of the budget are for the areas.

Printed are the mean absolute error of areas' cells and that of the levels above over those of ``identity``, the share of margins at 90 % that
hold, over all cells and in the size class of published counts where they hold least (of 200 cells or more), and the
slope of what areas differ by: how the published share of a cell in its area lies about that in all areas, beside
the true one, so that 1 shows all differences and 0 none.

The public data that are looked for beside the project are an extract of the American Community Survey (27 253
persons in 20 areas); made-up blocks need nothing, and where the extract is not there the first line says so.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.in_memory import one_release

DATA = Path(__file__).parents[2] / "shared" / "data" / "nist_acs_national2019.csv.gz"
SIZES = (0, 1, 5, 20, 100)
KINDS = {
    "identity": "",
    "above": "prior: above, ",
    "denoise": "mechanism: denoise, parameters: {categorical: [0]}, ",
}
SPEC = """\
product: bench
dataset: bench
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, relation: add-remove, budget: "{epsilon}"}}
columns:
  area: {{hierarchy: areas.csv, levels: [{levels}]}}
{columns}
tables:
  - {{name: cells, dimensions: [area, {names}], {kind}levels: {{{shares}}}}}
"""
Counts = NDArray[np.int64]


def survey(*columns: str) -> Counts:
    """Return counts of the survey by area and some columns, (areas, …)."""
    with gzip.open(DATA, "rt") as file:
        rows = [[row[name] for name in ("PUMA", *columns)] for row in csv.DictReader(file)]
    codes = [np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True)]
    found = np.zeros([code.max() + 1 for code in codes], np.int64)
    np.add.at(found, tuple(codes), 1)
    return found


def blocks(number: int, cells: int, records: int) -> Counts:
    """Return made-up blocks whose make-up differs from block to block, (blocks, cells)."""
    rng = generator(1)
    common = np.maximum(rng.dirichlet(np.ones(cells)), 1e-5)
    sizes = rng.gamma(0.8, records / 0.8, number)
    own = rng.gamma(np.tile(100 * common, (number, 1)))
    return rng.poisson(sizes[:, None] * own / own.sum(axis=1, keepdims=True)).astype(np.int64)


def sets() -> Iterator[tuple[str, Counts, int]]:
    """Yield data: name, counts (areas, …), and how many areas make a district; 0 without districts."""
    if DATA.is_file():
        yield "survey: age, sex", survey("AGEP", "SEX"), 0
        yield "survey: race, education", survey("RAC1P", "EDU"), 0
    else:
        print(f"{DATA} is not there: made-up blocks alone")
    yield "2 000 blocks of 60 persons, 10 cells", blocks(2000, 10, 60), 50
    yield "2 000 blocks of 600 persons, 200 cells", blocks(2000, 200, 600), 50


def spec_of(counts: Counts, district: int, kind: str, epsilon: str, folder: Path) -> Loaded:
    """Write and read a spec of the areas below their districts, if any, and the nation."""
    areas, *others = counts.shape
    lines = ["code,label,parent", "N,N,"]
    if district:
        lines += [f"D{each},D{each},N" for each in range(-(-areas // district))]
    lines += [f"A{each},A{each},{f'D{each // district}' if district else 'N'}" for each in range(areas)]
    (folder / "areas.csv").write_text("\n".join(lines) + "\n")
    columns = [f"  c{at}: {{integer: {{from: 0, to: {size - 1}}}}}" for at, size in enumerate(others)]
    shares = {"nation": "1/8", "district": "1/8"} if district else {"nation": "1/4"}
    file = folder / "spec.yaml"
    file.write_text(
        SPEC.format(
            epsilon=epsilon,
            levels=", ".join([*shares, "area"]),
            columns="\n".join(columns),
            names=", ".join(f"c{at}" for at in range(len(others))),
            kind=KINDS[kind],
            shares=", ".join(f'{name}: "{part}"' for name, part in {**shares, "area": "3/4"}.items()),
        )
    )
    return load_spec(file)


def on_tree(layout: Layout, counts: Counts) -> dict[str, dict[str, Counts]]:
    """Return the counts of every level."""
    whole = np.zeros((layout.nodes, layout.cells), np.int64)
    whole[layout.cuts["area"]] = counts.reshape(len(counts), -1)
    for node in range(layout.nodes - 1, 0, -1):
        whole[layout.parents[node]] += whole[node]
    levels = {level: whole[nodes].reshape(layout.shape(level)) for level, nodes in layout.cuts.items()}
    return {"cells": levels}


def differing(published: NDArray[np.float64], truth: Counts) -> float:
    """Return the slope of published differences of make-up against true ones, in records."""
    apart = []
    for each in (published, truth):
        common = truth.sum(axis=0) / truth.sum()
        apart.append(each - each.sum(axis=1, keepdims=True) * common)
    return float((apart[0] * apart[1]).sum() / (apart[1] ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilon", nargs="+", default=["1/100", "1/10", "1"])
    options = parser.parse_args()
    for name, counts, district in sets():
        print(
            f"\n{name}: {counts.sum():,} records, {(counts == 0).mean():.0%} of {counts.size:,} cells empty"
        )
        print(
            f"{'epsilon':>8} {'':<9}{'error':>8}{'of identity':>12}{'above':>7}{'held':>7}{'least':>7}{'differences':>12}"
        )
        for epsilon in options.epsilon:
            first, whole = 0.0, 0.0
            for kind in KINDS:
                error, upper, slope, held = [], [], [], np.zeros((len(SIZES), 2))
                with tempfile.TemporaryDirectory() as folder:
                    loaded = spec_of(counts, district, kind, epsilon, Path(folder))
                layout = Layout.of(loaded, loaded.spec.tables[0])
                levels, areas = on_tree(layout, counts), layout.cuts["area"]
                truth = counts.reshape(len(counts), -1)
                for seed in range(options.runs):
                    run = without_data(loaded)
                    tables, margins = one_release(run, levels, seed)
                    found = tables["cells"].values[areas]
                    within = np.abs(found - truth) <= np.ceil(margins["cells"].half[areas] - 1e-9)
                    of = np.searchsorted(SIZES, found.reshape(-1), side="right") - 1
                    held[:, 0] += np.bincount(of, within.reshape(-1), len(SIZES))
                    held[:, 1] += np.bincount(of, minlength=len(SIZES))
                    error.append(float(np.abs(found - truth).mean()))
                    upper.append(
                        sum(
                            np.abs(tables["cells"].values[nodes].reshape(counted.shape) - counted).sum()
                            for (level, nodes), counted in zip(
                                layout.cuts.items(), levels["cells"].values(), strict=True
                            )
                            if level != "area"
                        )
                    )
                    slope.append(differing(found, truth))
                first, whole = first or float(np.mean(error)), whole or float(np.mean(upper))
                each = held[held[:, 1] >= 200 * options.runs]
                least = (each[:, 0] / each[:, 1]).min() if len(each) else np.nan
                print(
                    f"{epsilon:>8} {kind:<9}{np.mean(error):>8.3f}{np.mean(error) / first:>12.2f}"
                    f"{np.mean(upper) / whole:>7.2f}"
                    f"{held[:, 0].sum() / held[:, 1].sum():>7.1%}{least:>7.1%}{np.mean(slope):>12.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
