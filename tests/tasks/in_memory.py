"""A release of known counts through the product's own steps, with seeded noise and without a ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import SeededChannel
from mechanisms.inference import Estimate
from tasks.margins.margins import Margins, margins_of
from tasks.measure import Finished, Job, draw_job, finish_part, shares
from tasks.postprocess.postprocessing import PostProcessor
from tasks.postprocess.stages import on_their_trees
from tasks.runtime.run import Run

Truth = Mapping[str, Mapping[str, NDArray[Any]]]


def one_release(run: Run, truth: Truth, seed: int) -> tuple[dict[str, Estimate], dict[str, Margins]]:
    """Return the finished tables of one release of ``truth`` (table, level -> counts), and their margins."""
    found: dict[str, dict[str, Finished]] = {}
    definition = run.loaded.spec.privacy.definition
    for table, level, loss, mechanism in shares(run):
        bought = loss * (table.margin_share or 0)
        job = Job(table.name, level, loss, bought, mechanism, truth[table.name][level])
        channel = SeededChannel(loss, seed=f"release {seed} {job.purpose}", definition=definition)
        arrays: dict[str, NDArray[Any]] = {}
        part = draw_job(job, channel, arrays)
        found.setdefault(table.name, {})[level] = finish_part(json.loads(json.dumps(part)), arrays)
    post = PostProcessor.of(run.loaded)
    measured, base = on_their_trees(run.loaded, post, found)
    linear = dict(measured)
    if run.loaded.spec.postprocessing.consistency:
        linear = post.agreement.consistent(measured).estimates
    published = post.finish(measured)
    return published, margins_of(run, f"release {seed}", found, published, {**linear, **base})
