"""Simulations of a planned release on public counts, for the effect of its steps on the errors.

Consistency is linear, and its variances are exact. Non-negativity and rounding are not: what they leave of an
error depends on the counts. So the plan is tried out on public counts, with seeded noise and by the steps of
a release, and each target gets the ratio of its cells' margin to the margin of the linear estimate. A margin
is the one that the release states for a class of similar cells
(:mod:`tabularium.mechanisms.inference.margins_of_error.simulation`): the half-width that holds the stated
share of their errors, or the normal quantile times their root mean square if that is more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.simulation import COARSE
from tabularium.tasks.margins.bootstrap import Bootstrap
from tabularium.tasks.margins.error_model import LevelError
from tabularium.tasks.plan.targets import Counts, MarginTarget, added_up, in_words
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.postprocessing import CONSISTENCY, PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded

_CELLS = 20_000
"""Simulated cells that are enough, over all simulated releases."""


Errors = dict[str, Floats]
"""Table -> (releases, nodes, cells) errors of simulated releases."""


def rehearse(loaded: Loaded, counts: Counts) -> tuple[Errors, Errors]:
    """Return the errors of simulated releases of a planned spec, as published and after linear steps only.

    Parameters
    ----------
    loaded
        The spec with its planned budget, shares and levels.
    counts
        Public, of every table, taken for the truth; arrays of measures are left out.
    """
    known = {
        table.name: {level: LevelError("exact", 1.0) for level in table.levels or ("",)}
        for table in loaded.spec.tables
    }
    finished: dict[str, list[Floats]] = {name: [] for name in counts}
    linear: dict[str, list[Floats]] = {name: [] for name in counts}
    run = without_data(loaded)
    post = PostProcessor.of(loaded)
    post = replace(post, agreement=_knowing(post.agreement, counts))
    bootstrap = Bootstrap(run, post, "plan", counts, known)
    for number in range(_runs(counts)):
        estimates = bootstrap.measured(number)
        if CONSISTENCY in post.steps:
            estimates = post.apply(CONSISTENCY, estimates, variances=False).estimates
        for name, estimate in estimates.items():
            linear[name].append(estimate.values - counts[name])
        for step in post.steps:
            if step != CONSISTENCY:
                estimates = post.apply(step, estimates, variances=False).estimates
        for name, estimate in estimates.items():
            finished[name].append(estimate.values - counts[name])
    return _stacked(finished), _stacked(linear)


def _stacked(errors: dict[str, list[Floats]]) -> Errors:
    return {name: np.stack(errors_of_table) for name, errors_of_table in errors.items()}


def factors(
    aims: Sequence[MarginTarget],
    counts: Counts,
    errors: tuple[Errors, Errors],
    depths: dict[str, Indices],
    variances: dict[str, Floats],
    level: float,
) -> list[float]:
    """Return the ratio of each target's margins to the margin of the worst linear estimate.

    A release states such margins for all cells of a level together: where some nodes are known worse than
    others, it is their mean variance that counts.

    An aim for a certain count is about cells of half to twice that; any other about all cells that hold
    something. Where there are too few of them, the linear estimate is taken at its word, and so it is for
    measures, which are not simulated. Both margins are of the same releases, so that chance, which they have
    in common, cancels.

    Parameters
    ----------
    errors
        Of published numbers and of linear estimates.
    depths
        Table -> (nodes,).
    variances
        Table -> (nodes, 1) of the linear estimates.
    level
        Share of errors that are to be held.
    """
    ratios = []
    for aim in aims:
        if aim.table not in counts:
            ratios.append(1.0)
            continue
        cells = _cells(aim, counts[aim.table], depths[aim.table])
        published, linear = (np.abs(error[aim.table][:, cells]) for error in errors)
        # Noise may be so small that none was drawn.
        few = published.size < COARSE or not linear.any()
        if few:
            ratios.append(1.0)
            continue
        variance, there = variances[aim.table][:, 0], depths[aim.table] == aim.depth
        even = np.sqrt(np.average(variance, weights=cells.sum(axis=1)) / variance[there].max())
        ratios.append(float(even) * _half(published, level) / _half(linear, level))
    return ratios


def _half(errors: Floats, level: float) -> float:
    """Return the margin of cells with these errors."""
    root = NormalDist().inv_cdf(0.5 + level / 2) * float(np.sqrt((errors**2).mean()))
    return max(float(np.quantile(errors, level, method="inverted_cdf")), root)


def _cells(aim: MarginTarget, counts: Floats, depth: Indices) -> Bools:
    there = np.broadcast_to((depth == aim.depth)[:, None], counts.shape)
    if aim.at is not None:
        return there & (counts >= aim.at / 2) & (counts <= 2 * aim.at)
    return there & (counts > 0)


def _knowing(agreement: Agreement, counts: Counts) -> Agreement:
    """Replace invariants by the public counts, which may be of another year."""
    known: dict[str, Estimate] = {}
    for name, given in agreement.known.items():
        frame = agreement.overlap.tables[name]
        holders = [table for table in agreement.overlap.holding(frame.marginal) if table in counts]
        if not holders:  # by columns of no table that is tried
            known[name] = given
            continue
        view, other = agreement.overlap.views(holders[0], name, frame.marginal)
        if other.rows is not None and len(other.rows) < int(frame.tree.leaf.sum()):
            return agreement  # finer than any table: it stays as it is
        values = np.zeros(frame.shape)
        other.scatter(view.gather(counts[holders[0]]), values)
        known[name] = Estimate(added_up(frame.tree, values), given.variances)
    counted, *others = agreement.groups
    return replace(agreement, groups=(replace(counted, known=known), *others))


def _runs(counts: Counts) -> int:
    cells = sum(table.size for table in counts.values())
    return int(min(40, max(1, _CELLS // cells)))


# --- what other mechanisms would make of the same counts: each measures public ones with seeded noise

CANDIDATES = ("denoise", "ahp", "noise_first")
BETTER = 0.9
"""Error of another mechanism, in parts of that of plain noise, from which on it is proposed."""
_LARGEST = 50_000  # cells of a table that is tried; above it a simulation takes minutes
_LONG_ROW = 10_000  # cells for those that are slower
_RUNS = 2


@dataclass(frozen=True)
class Proposal:
    """The errors of another mechanism compared with plain noise, on public counts.

    Attributes
    ----------
    level
        The deepest one, which is the largest.
    error
        Its root mean squared error over that of plain noise, both at the planned loss, before tables are made
        to agree and with negative numbers taken for 0.
    """

    table: str
    level: str
    mechanism: str
    error: float

    @property
    def where(self) -> str:
        """Table and level."""
        return in_words(self.table, self.level)

    @property
    def better(self) -> bool:
        """Whether it is worth a closer look."""
        return self.error <= BETTER


def proposals(loaded: Loaded, counts: Counts) -> Iterator[Proposal]:
    """Try other mechanisms on the deepest level of every table that is not too large.

    Tables with impossible cells are not changed: the mechanisms tried measure a table as a whole.
    """
    spec = loaded.spec
    for table in spec.tables:
        layout = Layout.of(loaded, table)
        if layout.impossible is not None:
            continue
        level = list(layout.cuts)[-1]
        true = np.rint(counts[table.name][layout.cuts[level]]).astype(np.int64).reshape(layout.shape(level))
        loss = spec.losses[table.name, level]
        plain = _error(table.mechanism, true, loss, spec.privacy.definition)
        for name in CANDIDATES:
            large = true.size > (_LARGEST if name == "denoise" else _LONG_ROW)
            if large or spec.privacy.definition not in MECHANISMS[name].definitions or not plain:
                continue
            error = _error(name, true, loss, spec.privacy.definition)
            if error is not None:
                yield Proposal(table.name, level, name, error / plain)


def _error(name: str, true: NDArray[np.int64], loss: Fraction, definition: Definition) -> float | None:
    """Return the root mean squared error of a mechanism; None where it cannot measure such a table."""
    squares = []
    for run in range(_RUNS):
        channel = SeededChannel(loss, seed=f"proposal {run}", definition=definition)
        try:
            values = build(name).release(np.maximum(true, 0), channel).values
        except MechanismError:
            return None
        squares.append(float(((np.maximum(values, 0) - true) ** 2).mean()))
    return float(np.sqrt(np.mean(squares)))
