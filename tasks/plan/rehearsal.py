"""A planned release, measured and finished many times on public counts: the margins that it will state.

Consistency is linear, and its variances are exact. Non-negativity and rounding are not: what they leave of an
error depends on the counts. So the plan is tried out on public counts with seeded noise, by the same steps
and the same simulation that a release has its margins from, and each aim is told by what factor its margin
differs from that of the linear estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mechanisms.inference import Estimate, Hierarchy
from mechanisms.inference.arrays import Bools, Floats, Indices
from mechanisms.inference.margins_of_error.half_widths import margins
from mechanisms.inference.margins_of_error.simulation import Assumed, simulate
from tasks.margins.bootstrap import Bootstrap
from tasks.margins.error_model import LevelError
from tasks.plan.aims import Aim
from tasks.plan.public_counts import Counts, added_up
from tasks.postprocess.agreement import Agreement
from tasks.postprocess.postprocessing import PostProcessor
from tasks.runtime.run import without_data
from validations.spec.load import Loaded

_CELLS = 50_000
"""Simulated cells that are enough, over all simulated releases."""


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """Margins of a planned release on public counts.

    Attributes
    ----------
    half, linear
        Table -> (nodes, cells) half-widths: as the release will state them, and before non-negativity and
        rounding.
    """

    half: dict[str, Floats]
    linear: dict[str, Floats]


def rehearse(loaded: Loaded, counts: Counts, variances: dict[str, Floats]) -> Rehearsed:
    """Simulate releases of a planned spec.

    Parameters
    ----------
    loaded
        The spec with its planned budget, shares and levels.
    counts
        Public, of every table, taken for the truth.
    variances
        Table -> (nodes, 1) of the linear estimates.
    """
    spec = loaded.spec
    level = float(spec.publication.confidence)
    with without_data(loaded) as run:
        post = PostProcessor.of(loaded)
        post = replace(post, agreement=_knowing(post.agreement, counts))
        known = {
            table.name: {each: LevelError("exact", 1.0) for each in table.levels or ("",)}
            for table in spec.tables
        }
        bootstrap = Bootstrap(run, post, "plan", counts, known)
        linear = {
            name: np.broadcast_to(margins(variances[name], level), table.shape)
            for name, table in counts.items()
        }
        found = simulate(
            {
                name: Assumed(Hierarchy(post.agreement.layouts[name].parents), table, variances[name])
                for name, table in counts.items()
            },
            bootstrap.measured,
            post.finish,
            linear,
            level=level,
            whole=spec.postprocessing.rounding,
            runs=_runs(counts),
            checks=0,
        )
    half = {name: np.where(np.isnan(each.half), linear[name], each.half) for name, each in found.items()}
    return Rehearsed(half, linear)


def factors(aims: Sequence[Aim], counts: Counts, made: Rehearsed, depths: dict[str, Indices]) -> list[float]:
    """Return by what factor the margins of each aim's cells differ from those of the linear estimates.

    An aim for a certain count is about cells of half to twice that; any other about all cells that hold
    something. Where there are none, the linear estimate is taken at its word.
    """
    found = []
    for aim in aims:
        cells = _cells(aim, counts[aim.table], depths[aim.table])
        half, linear = made.half[aim.table][cells], made.linear[aim.table][cells]
        found.append(float(half.mean() / linear.mean()) if half.size and half.mean() > 0 else 1.0)
    return found


def _cells(aim: Aim, counts: Floats, depth: Indices) -> Bools:
    there = np.broadcast_to((depth == aim.depth)[:, None], counts.shape)
    if aim.at is not None:
        return there & (counts >= aim.at / 2) & (counts <= 2 * aim.at)
    return there & (counts > 0)


def _knowing(agreement: Agreement, counts: Counts) -> Agreement:
    """Have invariants say what the public counts say: they may be of another year than the counts."""
    known: dict[str, Estimate] = {}
    for name, given in agreement.known.items():
        frame = agreement.overlap.frames[name]
        holders = [each for each in agreement.overlap.holding(frame.marginal) if each in counts]
        own, other = agreement.overlap.views(holders[0], name, frame.marginal)
        if other.rows is not None and len(other.rows) < int(frame.tree.leaf.sum()):
            return agreement  # finer than any table: it stays as it is
        values = np.zeros(frame.shape)
        other.scatter(own.gather(counts[holders[0]]), values)
        known[name] = Estimate(added_up(frame.tree, values), given.variances)
    return replace(agreement, known=known)


def _runs(counts: Counts) -> int:
    cells = sum(table.size for table in counts.values())
    return int(min(20, max(2, _CELLS // cells)))
