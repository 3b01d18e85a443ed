"""A release of known counts through the product's own steps, with seeded noise and without a ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.margins.margins import Margins, margins_of
from tabularium.tasks.measure import Finished, Job, draw_job, finish_part, shares
from tabularium.tasks.postprocess.estimation import on_their_trees
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.frames import Labels
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.tasks.runtime.run import Run
from tabularium.validations.domains.known_marginals import PriorTable
from tabularium.validations.release_spec.load import Loaded

Truth = Mapping[str, Mapping[str, NDArray[Any]]]


def drawn(run: Run, truth: Truth, seed: int) -> dict[str, dict[str, Finished]]:
    """Return the measurements of one release of ``truth`` (table, level -> counts), finished."""
    found: dict[str, dict[str, Finished]] = {}
    definition = run.loaded.spec.privacy.definition
    for table, level, loss, mechanism in shares(run):
        bought = loss * (table.margin_share or 0)
        counts, possible = truth[table.name][level], Layout.of(run.loaded, table).possible(level)
        if possible is not None and counts.shape == possible.shape:
            counts = counts[possible]
        job = Job(table.name, level, loss, bought, mechanism, lambda counts=counts: counts)
        channel = SeededChannel(loss, seed=f"release {seed} {job.purpose}", definition=definition)
        arrays: dict[str, NDArray[Any]] = {}
        part = draw_job(job, channel, arrays)
        made = finish_part(json.loads(json.dumps(part)), arrays)
        found.setdefault(table.name, {})[level] = made.in_shape(Layout.of(run.loaded, table), level)
    return found


def one_release(run: Run, truth: Truth, seed: int) -> tuple[dict[str, Estimate], dict[str, Margins]]:
    """Return the finished tables of one release of ``truth`` (table, level -> counts), and their margins."""
    found = drawn(run, truth, seed)
    post = PostProcessor.of(run.loaded)
    measured, base = on_their_trees(run.loaded, post, found)
    linear = dict(measured)
    if run.loaded.spec.postprocessing.consistency:
        linear = post.agreement.consistent(measured).estimates
    published = post.finish(measured)
    return published, margins_of(run, f"release {seed}", found, published, {**linear, **base})


def drawn_towards(loaded: Loaded, table: str, counts: NDArray[Any], folder: Path) -> Loaded:
    """Return a spec of which a table is drawn towards ``counts``, (nodes, cells), as if they were published."""
    layout = Layout.of(loaded, next(each for each in loaded.spec.tables if each.name == table))
    labels = Labels(layout, np.arange(layout.nodes))
    columns = labels.of(0, labels.rows)
    file = folder / f"{table}.parquet"
    pa.parquet.write_table(pa.table({**columns, "count": pa.array(counts.reshape(-1))}), file)
    prior = PriorTable("0" * 32, folder, "0" * 64, file.suffix[1:], file.name, digest_of(file))
    return replace(loaded, priors={**loaded.priors, table: prior})
