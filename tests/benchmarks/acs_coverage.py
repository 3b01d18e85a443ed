"""How often the margins of error hold the truth, on the American Community Survey example.

    python -m tests.benchmarks.acs_coverage [--source national2019.csv.gz] [--releases 200]

Counts the real microdata once, then makes many releases with seeded noise (nothing is published and
nothing charged) and compares each with the truth: cells and totals of every level, after each
post-processing step. The data are looked for beside the project and are not part of it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mechanisms import build
from mechanisms.channel import SeededChannel
from mechanisms.inference import Estimate, Hierarchy, consistency, margins, nonnegativity, rounding
from tasks.count import count_tables
from tasks.estimates import measured_tree
from tasks.ingest import ingest_source
from tasks.layout import Layout
from tasks.nonnegativity import with_fair_roots
from validations.loading import Loaded, load_spec
from validations.spec import Table

ROOT = Path(__file__).parents[2]
BESIDE = ROOT.parent / "shared" / "data" / "nist_acs_national2019.csv.gz"


def true_counts(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Count the microdata through the real front half."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        handle = ingest_source(loaded, bytes(32), scratch)
        counted = count_tables(loaded, handle, scratch, secret=bytes(32))
        return {
            table: {level: np.load(file.path) for level, file in levels.items()}
            for table, levels in counted.tables.items()
        }


def steps(
    loaded: Loaded, table: Table, layout: Layout, true: dict[str, Any], seed: int
) -> Iterator[tuple[str, Estimate]]:
    """Yield the estimate after each step of one seeded release."""
    tree, parts = Hierarchy(layout.parents), {}
    for level, share in (table.levels or {"": 1}).items():
        channel = SeededChannel(
            loaded.spec.privacy.record_budget * table.share * share, seed=f"{seed} {level}"
        )
        release = build(table.mechanism, **table.parameters).release(true[level], channel)
        parts[level] = (release.values, release.variances)
    raw = measured_tree(layout, parts)
    yield "measured", raw
    agreed = consistency(tree, raw.values, raw.variances)
    yield "consistent", agreed
    positive = nonnegativity(tree, with_fair_roots(tree, agreed))
    yield "non-negative", positive
    yield "rounded", Estimate(rounding(tree, positive).astype(float), agreed.variances)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", type=Path, default=BESIDE)
    parser.add_argument("--releases", type=int, default=200)
    options = parser.parse_args()
    if not options.source.exists():
        print("the survey's microdata are not beside the project: name them with --source")
        return
    loaded = load_spec(ROOT / "deploy" / "examples" / "acs.yaml", source=str(options.source))
    counted = true_counts(loaded)
    level_of_margin = float(loaded.spec.publication.confidence)
    print(
        f"{options.releases} releases, epsilon {loaded.spec.privacy.budget}, margins at {level_of_margin:.0%}"
    )
    print(
        f"{'table':<22}{'level':<8}{'step':<14}{'mean |error|':>13}{'cells held':>12}{'not empty':>11}{'totals held':>13}"
    )
    for table in loaded.spec.tables:
        layout = Layout.of(loaded, table)
        for (level, step), figures in cover(
            loaded, table, layout, counted[table.name], options.releases
        ).items():
            error, cells, people, totals = np.mean(figures, axis=0)
            print(
                f"{table.name:<22}{level or '-':<8}{step:<14}{error:>13.2f}{cells:>12.3f}{people:>11.3f}{totals:>13.3f}"
            )


def cover(
    loaded: Loaded, table: Table, layout: Layout, true: dict[str, Any], releases: int
) -> dict[tuple[str, str], list[tuple[float, ...]]]:
    """Return, per level and step, (mean |error|, cells held, cells with people held, totals held)."""
    confidence = float(loaded.spec.publication.confidence)
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for seed in range(releases):
        made = dict(steps(loaded, table, layout, true, seed))
        for step, estimate in made.items():
            linear = estimate if step == "measured" else made["consistent"]
            for level, nodes in layout.cuts.items():
                truth = true[level].reshape(len(nodes), -1)
                values = estimate.values[nodes]
                spread = np.broadcast_to(linear.variances[nodes], values.shape)
                # As in tasks.tables: the margin of the linear estimate, and how far the cell was moved since.
                width = np.ceil(margins(spread, confidence) + np.abs(values - linear.values[nodes]) - 1e-9)
                error = np.abs(values - truth)
                held = error <= width
                total = np.abs(values.sum(axis=1) - truth.sum(axis=1))
                kept = total <= margins(spread.sum(axis=1), confidence, whole=True)
                figures = (error.mean(), held.mean(), held[truth > 0].mean(), kept.mean())
                found.setdefault((level, step), []).append(figures)
    return found


if __name__ == "__main__":
    main()
