"""How often margins hold where cells are small or near a bound: among all that is shown, and the surest tenth.

    python -m benchmarks.bench_shown [--cells 400] [--epsilon 1/4 2] [--pairs 4000] [--json]

A design is a table of many cells of one size (0-4, 5-50 or 51-500 records), whose records pass a test and have
values *rare*ly, in the *middle*, or *near the bound* (one in fifty, three in ten, and all but one in fifty).
Its counts, a sum, a mean, a percentage, the same over its own noisy counts, and a median are published many
times by the product's own steps with seeded noise, until there are ``--pairs`` of them that can be judged.

*Coverage* is counted over pairs of a cell and a release in which a number is shown and has a true value. A
cell without any record has no true mean: such numbers are counted apart, as a share of all that is shown. The
*surest tenth* are the pairs of a release whose margins are among its narrowest tenth.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import tree_over
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.measure_margins import measure_numbers
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import Layout, denominator_of
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.tables import array_of
from tests.tasks.in_memory import one_release

Floats = NDArray[np.float64]
Numbers = dict[str, tuple[Floats, Floats]]

PLACES = {"rare": 0.02, "middle": 0.3, "near the bound": 0.98}
SIZES = {"0-4": (0, 4), "5-50": (5, 50), "51-500": (51, 500)}
MOST_RELEASES = 400
SPEC = """\
product: shown
dataset: made-up
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, budget: "{epsilon}"}}
columns:
  cell: {{integer: {{from: 0, to: {last}}}}}
  ill: {{categories: ["no", "yes"]}}
tables:
  - name: cells
    dimensions: [cell]
    measures:
      total: {{sum: value, from: 0, to: 20}}
      average: {{mean: value, from: 0, to: 20}}
      share_ill: {{percent: "ill = yes"}}
      ill_of_all: {{percent: "ill = yes", over: cells}}
      typical: {{median: value, from: 0, to: 20}}
"""


@dataclass
class Tally:
    """Pairs of a cell and a release: how many, and how many intervals held."""

    pairs: int = 0
    held: int = 0
    surest: int = 0
    surest_held: int = 0
    without: int = 0
    cells: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, exact: Floats, shown: Floats, half: Floats) -> None:
        """Count one release."""
        there = np.isfinite(shown)
        judged = there & np.isfinite(exact)
        self.cells += shown.size
        self.without += int((there & ~np.isfinite(exact)).sum())
        if not judged.any():
            return
        width = half[judged]
        inside = np.abs(shown - exact)[judged] <= width + 1e-6
        sure = width <= np.quantile(width, 0.1, method="inverted_cdf")
        self.pairs, self.held = self.pairs + inside.size, self.held + int(inside.sum())
        self.surest, self.surest_held = (
            self.surest + int(sure.sum()),
            self.surest_held + int(inside[sure].sum()),
        )
        self.widths.append(float(np.median(width)))

    @property
    def line(self) -> dict[str, Any]:
        """The figures."""
        shown = self.pairs + self.without
        return {
            "pairs": self.pairs,
            "shown": shown / max(self.cells, 1),
            "without_records": self.without / shown if shown else 0.0,
            "held": self.held / self.pairs if self.pairs else None,
            "surest_pairs": self.surest,
            "surest_held": self.surest_held / self.surest if self.surest else None,
            "half_width": float(np.median(self.widths)) if self.widths else None,
        }


def loaded_for(epsilon: str, cells: int, folder: Path) -> Loaded:
    """Write the spec of the designs and read it."""
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(epsilon=epsilon, last=cells - 1))
    return load_spec(path)


def truth_of(loaded: Loaded, layouts: dict[str, Layout], place: str, size: str) -> dict[str, Floats]:
    """Draw the records of a design; return the true numbers of every array, (1, numbers)."""
    cells = loaded.domains["cell"].size
    rng = generator(len(place) * 100 + len(size))
    low, high = SIZES[size]
    records = rng.integers(low, high + 1, cells)
    owner = np.repeat(np.arange(cells), records)
    passes = rng.random(len(owner)) < PLACES[place]
    values = np.where(passes, rng.integers(10, 21, len(owner)), 0)
    if place == "middle":
        values = np.where(passes, values, rng.integers(0, 10, len(owner)))
    elif place == "near the bound":
        values = np.where(passes, 20, 0)

    def added(numbers: NDArray[Any]) -> Floats:
        return np.stack([np.bincount(owner, each, cells) for each in np.atleast_2d(numbers)], axis=1)

    def of(measure: Measure | None) -> Floats:
        if measure is None:
            return added(np.ones(len(owner)))
        if measure.test is not None:
            return added(np.stack([passes, ~passes]) if measure.parts == 2 else passes)
        if measure.by_value:
            tree = tree_over(measure.width + 1)
            found = np.zeros((cells, tree.parts))
            for nodes in tree.nodes_of(values):
                np.add.at(found, (owner, nodes), 1)
            return found
        return added(values if measure.linear else np.stack([values, 20 - values]))

    return {name: of(layout.table.measured).reshape(1, -1) for name, layout in layouts.items()}


def numbers_of(
    loaded: Loaded, layouts: dict[str, Layout], values: dict[str, Floats], half: dict[str, Floats]
) -> Numbers:
    """Return what is published of the table and its measures: name -> numbers and half-widths."""
    (table,) = loaded.spec.tables
    estimates = {name: Estimate(each, np.zeros((1, 1))) for name, each in values.items()}
    wholes = {}
    for name in table.measures:
        whole = denominator_of(loaded, layouts[array_of(table.measures, table.name, name)], estimates)
        wholes |= {} if whole is None else {name: whole.values}
    found = measure_numbers(layouts, table, values, half, whole=True, denominators=wholes)
    return {"count": (values[table.name], half[table.name]), **found}


def tallies(loaded: Loaded, place: str, size: str, pairs: int) -> dict[str, Tally]:
    """Publish one design until every number has enough pairs, or seldom any: number -> tally."""
    layouts = Agreement.of(loaded).layouts
    truth = truth_of(loaded, layouts, place, size)
    counted = {
        name: {level: truth[name][nodes].astype(np.int64).reshape(layout.shape(level))}
        for name, layout in layouts.items()
        for level, nodes in layout.cuts.items()
    }
    # As if published without noise: half-widths of 0, which are not those of what is not shown.
    nothing = {
        name: np.zeros((1, loaded.domains["cell"].size, len(layout.table.measures)))
        if layout.table.measured is not None and not layout.table.measured.linear
        else np.zeros(truth[name].shape)
        for name, layout in layouts.items()
    }
    exact = numbers_of(loaded, layouts, truth, nothing)
    found = {name: Tally() for name in exact}
    run = without_data(loaded)
    for seed in range(MOST_RELEASES):
        published, margins = one_release(run, counted, seed)
        values = {name: each.values for name, each in published.items()}
        shown = numbers_of(loaded, layouts, values, {name: each.half for name, each in margins.items()})
        for name, tally in found.items():
            three = exact[name][0], *shown[name]
            tally.add(*(np.asarray(each, np.float64).reshape(-1) for each in three))
        wanted = [each for each in found.values() if each.pairs < pairs]
        if not wanted or (seed >= 19 and all(each.pairs * 20 < pairs for each in wanted)):
            break
    return found


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a line for every design and number."""
    for epsilon in options.epsilon:
        with tempfile.TemporaryDirectory() as folder:
            loaded = loaded_for(epsilon, options.cells, Path(folder))
            for place in options.place:
                for size in options.size:
                    for name, tally in tallies(loaded, place, size, options.pairs).items():
                        about = {"epsilon": epsilon, "design": place, "records": size, "number": name}
                        yield about | tally.line


def main() -> None:
    """Print a line for every design and number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=400)
    parser.add_argument("--epsilon", nargs="+", default=["1/4", "2"], type=lambda text: str(Fraction(text)))
    parser.add_argument("--place", nargs="+", default=list(PLACES), choices=PLACES)
    parser.add_argument("--size", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(
        f"{'ε':<5}{'design':<16}{'records':<9}{'number':<12}{'pairs':>8}{'shown %':>9}{'no records %':>14}"
        f"{'held %':>8}{'surest tenth %':>16}{'of pairs':>10}{'half-width':>12}"
    )
    for line in measured(options):
        if options.json:
            print(json.dumps(line), flush=True)
            continue
        shares = (line["shown"], line["without_records"], line["held"], line["surest_held"])
        shown, without, held, surest = ("-" if each is None else f"{100 * each:.1f}" for each in shares)
        half = "-" if line["half_width"] is None else f"{line['half_width']:.2f}"
        print(
            f"{line['epsilon']:<5}{line['design']:<16}{line['records']:<9}{line['number']:<12}"
            f"{line['pairs']:>8}{shown:>9}{without:>14}{held:>8}{surest:>16}{line['surest_pairs']:>10}{half:>12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
