"""A release of known counts through the product's own steps, with seeded noise and without a ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import SeededChannel
from mechanisms.inference import Estimate
from tasks.margins.error_model import level_error, margin_base
from tasks.margins.margins import Margins, margins_of
from tasks.measure import Finished, Job, draw_job, finish_part, shares
from tasks.postprocess.agreement import Agreement
from tasks.postprocess.estimate_files import measured_tree
from tasks.postprocess.postprocessing import PostProcessor
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
    agreement = Agreement.of(run.loaded)
    both = {
        name: {level: (part.release.values, level_error(part)) for level, part in parts.items()}
        for name, parts in found.items()
    }
    measured = {
        name: measured_tree(agreement.layouts[name], {lv: (v, e.variance) for lv, (v, e) in parts.items()})
        for name, parts in both.items()
    }
    base = dict(measured)
    if run.loaded.spec.postprocessing.consistency:
        base = agreement.consistent(measured).estimates
    for name, parts in both.items():
        if any(error.method != "exact" for _, error in parts.values()):
            base[name] = margin_base(agreement.layouts[name], parts)
    published = PostProcessor.of(run.loaded).finish(measured)
    return published, margins_of(run, f"release {seed}", found, published, base)
