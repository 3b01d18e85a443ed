"""Margins that ``tabularium plan`` predicts, against releases that are drawn as it says.

    python -m benchmarks.bench_plan [acs] [census] [measures] [--definition pure zcdp] [--releases 200]

- ``acs``: the tables of ``deploy/examples/acs.yaml`` on the American Community Survey, which is public; it is
  no part of the project, is looked for beside it (``--data`` names the folder), and left out if not there.
- ``census``: ten tables of invented people over four levels of areas.
- ``measures``: sums and means beside counts, on two tables that agree.

The plan is made with ``--like`` a release of the same counts. Then releases of the planned spec are drawn: each
measurement by the release's own jobs and mechanisms with seeded noise, stored as it would be, and finished by
its own consistency, non-negativity and rounding. Left out are the source, the ledger and the publication. The
predicted margin is compared with the half-width that nine errors in ten are within, or the normal quantile
times their root mean square where that is more, over the cells that hold something, as a release states it;
of means with the errors times n/500 in cells of n records. Passes when no level is off by more than 10 %, and
no plan takes more than ten seconds.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.margins.measure_margins import measure_values
from tabularium.tasks.plan.finished_plan import Plan, PlannedMargin
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.tasks.plan.planning import plan
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.plan.planned_specs import PURE, ZCDP, errors_of_releases, published, rows_of, true_counts
from tests.tasks.plan.test_planned_measures import SPEC as MEASURES
from tests.tasks.plan.test_ten_tables import census

ROOT = Path(__file__).parents[1]
SURVEY = "nist_acs_national2019.csv.gz"
PRIVACY = {"pure": PURE, "zcdp": ZCDP}
WITHIN, SECONDS = 0.1, 10.0
Counts = dict[str, NDArray[np.float64]]


def survey(folder: Path, privacy: str, data: Path) -> tuple[Loaded, Counts]:
    """Return the example with targets for its tables, and what the survey counts."""
    example = ROOT / "deploy" / "examples"
    shutil.copy(example / "puma.csv", folder)
    text = (example / "acs.yaml").read_text().replace('budget: "1"', privacy.replace(", ", "\n  "), 1)
    made = load_spec(_written(folder, text), source=str(data / SURVEY))
    lines = [f"  - {{table: {table.name}, margin: 20}}" for table in made.spec.tables]
    made = load_spec(_written(folder, "\n".join([text, "targets:", *lines, ""])), source=str(data / SURVEY))
    deep = PlannedModel.of(made)
    scratch, found = folder / "counted", {}
    scratch.mkdir()
    handle = ingest_source(deep.loaded, bytes(32), scratch)
    counted = count_tables(deep.loaded, handle, scratch, secret=bytes(32), bounding="00" * 16)
    for name, layout in deep.agreement.layouts.items():
        found[name] = np.zeros((layout.nodes, layout.cells))
        for level, cut in layout.cuts.items():
            found[name][cut] = np.load(counted.tables[name][level].path).reshape(len(cut), layout.cells)
    return made, found


def people(folder: Path, privacy: str, _: Path) -> tuple[Loaded, Counts]:
    """Return the ten tables of a census."""
    made = census(folder, privacy)
    return made, true_counts(made, 400_000)


def pay(folder: Path, privacy: str, _: Path) -> tuple[Loaded, Counts]:
    """Return two tables with measures, as they are published: whole and not negative."""
    areas = ["code,label,parent", "N,Nation,", *(f"{p},{p},N" for p in "ABCD")]
    areas += [f"{p}{number},{p}{number},{p}" for p in "ABCD" for number in range(8)]
    (folder / "areas.csv").write_text("\n".join(areas) + "\n")
    targets = """\
  - {table: pay, level: place, margin: 40}
  - {table: pay, measure: income, margin: 4000000}
  - {table: pay, measure: mean, level: place, margin: 1500, at: 500, value: 30000}
  - {table: jobs, margin: 30}
  - {table: jobs, measure: income, margin: 3000000}"""
    text = MEASURES.format(privacy=privacy, targets=targets).partition("postprocessing")[0]
    made = load_spec(_written(folder, text))
    return made, true_counts(made, 100_000)


SCENES: dict[str, Callable[[Path, str, Path], tuple[Loaded, Counts]]] = {
    "acs": survey,
    "census": people,
    "measures": pay,
}


def simulated(
    each: PlannedMargin, layout: Layout, rows: NDArray[np.int64], true: Counts, errors: list[Counts]
) -> float:
    """Return the margin that the errors of releases ask for."""
    counts = true[each.table.partition("-")[0]][rows]
    own, measure = true[each.table], layout.table.measured
    if measure is not None and measure.kind == "mean":
        before = measure_values(layout, measure, own)[rows]
        after = np.array([measure_values(layout, measure, own + error[each.table])[rows] for error in errors])
        apart = np.abs(after - before) * counts / 500
    else:
        step = 1.0 if measure is None else float(measure.step)
        apart = np.array([step * np.abs(error[each.table][rows]) for error in errors])
    apart = apart[:, counts > 0]
    return max(float(np.quantile(apart, 0.9)), 1.6449 * float(np.sqrt((apart**2).mean())))


def compare(name: str, definition: str, data: Path, releases: int) -> bool:
    """Print every level of one plan beside its releases; say whether it passes."""
    with tempfile.TemporaryDirectory() as folder:
        made, true = SCENES[name](Path(folder), PRIVACY[definition], data)
        like = published(Path(folder) / "like", made, true)
        start = time.process_time()
        plan(made)
        plain = time.process_time() - start
        start, wall = time.process_time(), time.perf_counter()
        found = plan(made, like=like)
        seconds, wall = time.process_time() - start, time.perf_counter() - wall
        layouts = PlannedModel.of(found.loaded).agreement.layouts
        errors = list(errors_of_releases(found.loaded, true, releases))
        symbol = found.loaded.spec.privacy.symbol
        print(f"\n{name}, {definition}: {symbol} = {float(found.budget):g}, {releases} releases")
        print(f"{'cells':<34}{'wanted':>12}{'predicted':>12}{'simulated':>12}{'ratio':>8}")
        ratios = _ratios(found, layouts, true, errors)
        middle, worst = float(np.median(ratios)), max(ratios, key=lambda ratio: abs(np.log(ratio)))
        passes = abs(worst - 1) <= WITHIN and seconds <= SECONDS
        print(
            f"median {middle:.3f}, worst {worst:.3f}, of {len(ratios)} levels; plan {plain:.1f} s of CPU, ",
            end="",
        )
        print(
            f"with --like {seconds:.1f} s ({wall:.1f} s on the clock): {'PASS' if passes else 'FAIL'}",
            flush=True,
        )
        return passes


def _ratios(found: Plan, layouts: dict[str, Layout], true: Counts, errors: list[Counts]) -> list[float]:
    ratios = []
    for each in found.margins:
        rows = rows_of(found.loaded, each.table.partition("-")[0], each.level)
        drawn = simulated(each, layouts[each.table], rows, true, errors)
        ratios.append(each.margin / drawn)
        wanted = "-" if each.wanted is None else f"{each.wanted:,.0f}"
        print(f"{each.where:<34}{wanted:>12}{each.margin:>12,.1f}{drawn:>12,.1f}{ratios[-1]:>8.3f}")
    return ratios


def _written(folder: Path, text: str) -> Path:
    path = folder / "spec.yaml"
    path.write_text(text)
    return path


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []], default=[])
    parser.add_argument("--definition", nargs="+", choices=list(PRIVACY), default=list(PRIVACY))
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    options = parser.parse_args()
    scenes = [name for name in options.scenes or SCENES if name != "acs" or (options.data / SURVEY).exists()]
    passes = [
        compare(name, definition, options.data, options.releases)
        for name in scenes
        for definition in options.definition
    ]
    raise SystemExit(0 if all(passes) else 1)


if __name__ == "__main__":
    main()
