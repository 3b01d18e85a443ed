"""Margins of error of every published cell, and their description in the certificate.

Where the distribution of the noise is known and nothing but linear steps and rounding came after it, a margin
is analytic, and says nothing of the number that it belongs to: so it is with all sums of what may be less
than zero. Where non-negativity came after it, margins are simulated from the release
(:mod:`tabularium.mechanisms.inference.margins_of_error.simulation`). Where a mechanism merges or drops what
it measured, a simulation would not show what it hides: there the interval of what was measured is carried
over to what is published (``widen_to_cover``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.inference import Estimate, Hierarchy, consistency, margins
from tabularium.mechanisms.inference.margins_of_error.half_widths import widen_to_cover
from tabularium.mechanisms.inference.margins_of_error.measured_error import bounded_risk
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import (
    Assumed,
    Made,
    Runs,
    replicates,
)
from tabularium.mechanisms.inference.margins_of_error.simulation import Simulated, linear_half, simulate
from tabularium.mechanisms.queries.sources import Measurement, noisy_cells
from tabularium.tasks.margins.bootstrap import Bootstrap, Known
from tabularium.tasks.margins.error_model import LevelError
from tabularium.tasks.margins.known_levels import known_levels
from tabularium.tasks.margins.measure_margins import measure_half
from tabularium.tasks.measure import Finished, Parts
from tabularium.tasks.postprocess.postprocessing import VERSION, WHOLE_SIMULATIONS, PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout, Nodes, denominator_of, measured_tree
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.workspace import ArrayStore
from tabularium.validations.release_spec.tables import Table

Floats = NDArray[np.float64]

PRECISION = 0.01
"""Standard error of the share that half-widths hold, at which simulated parts of a release are enough."""
LEAST, MOST = 6, 24
"""Fewest and most of them that give half-widths."""
FEW = 4
"""Simulated releases, where each is whole and large."""
CERTAIN = 1e-12
"""Variances below this part of a table's largest are zero but for rounding."""


@dataclass(frozen=True, eq=False)
class Margins:
    """Half-widths of one table, (nodes, cells), infinite where unknown; and their description."""

    half: Floats
    about: dict[str, Any]


def of_known(
    run: Run, made: dict[str, Margins], consistent: Mapping[str, Estimate], note: Mapping[str, Any]
) -> dict[str, Margins]:
    """Remove the margins of publicly known numbers, and note where variances are estimates.

    Those are what invariants settle, and cells that nobody can be in.

    ``consistent``, ``note``: what consistency made of the measurements, and how it went.
    """
    made = {**made, **_of_impossible(run, made)}
    if not run.loaded.spec.postprocessing.consistency:
        return made
    notes = dict.fromkeys(made, note)
    for names, margins_of_table in note.get("measures", {}).items():
        notes |= dict.fromkeys(names.split(", "), margins_of_table)
    margins_known = {}
    measured = {table.name for table in run.loaded.spec.arrays if table.measured}  # invariants are counts
    for name, margin in made.items():
        half, rough = margin.half, notes[name].get("variances") == "estimated"
        if run.loaded.known and name not in measured and half.shape == consistent[name].values.shape:
            half = np.where(settled(consistent[name]), 0.0, half)
        about = {**margin.about["margins"], "variances": "estimated"} if rough else margin.about["margins"]
        margins_known[name] = Margins(half, {**margin.about, "margins": about})
    return margins_known


def settled(estimate: Estimate, nodes: Nodes = slice(None)) -> NDArray[np.bool_]:
    """Return the mask of numbers at nodes, (nodes, cells), without variance: invariants determine them."""
    spread = np.broadcast_to(estimate.variances, estimate.values.shape)
    settled_cells: NDArray[np.bool_] = spread[nodes] <= CERTAIN * estimate.variances.max()
    return settled_cells


def _of_impossible(run: Run, made: Mapping[str, Margins]) -> dict[str, Margins]:
    """Return the margins of tables with impossible cells: 0 there, none where a margin is unknown."""
    masks = {}
    for table in run.loaded.spec.arrays:
        impossible = run.loaded.impossible_in(table)
        if impossible is not None:
            half, nothing = made[table.name].half, 0.0
            if (
                half.ndim > impossible.ndim
            ):  # means, quantiles or rates of nobody: all that is read off the array
                impossible, nothing = impossible.reshape(*half.shape[:2], -1)[..., :1], np.nan
            masks[table.name] = Margins(np.where(impossible, nothing, half), made[table.name].about)
    return masks


def margins_of(
    run: Run,
    release_id: str,
    parts: Parts,
    published: Mapping[str, Estimate],
    base: Mapping[str, Estimate],
    *,
    version: int = VERSION,
    arrays: ArrayStore | None = None,
) -> dict[str, Margins]:
    """Return the margins of all tables of a release.

    Parameters
    ----------
    release_id
        Seeds what is simulated.
    base
        The numbers that margins are about before anything but linear steps touched them, with their
        variances (:func:`tabularium.tasks.postprocess.estimation.Estimation`).
    version
        Of the post-processing that they are to be made by.
    arrays
        Where to put what is simulated; in memory if there is none.
    """
    spec = run.loaded.spec
    post = run.post
    levels = {
        name: known_levels(run.loaded, layout, parts[name]) for name, layout in post.agreement.layouts.items()
    }
    known: Known = {name: level.errors for name, level in levels.items()}
    exact = [n for n, levels in known.items() if all(e.method == "exact" for e in levels.values())]
    made: dict[str, Margins] = {}
    covered: dict[str, Covered] = {}
    for table in spec.arrays:
        name, layout, about = table.name, run.layouts[table.name], _about(table, known[table.name])
        if table.measured is not None and table.measured.margin_method is not None:
            level = float(spec.publication.confidence)
            shown, known_of = (
                denominator_of(run.loaded, layout, estimates) for estimates in (published, base)
            )
            over = None if shown is None or known_of is None else (shown.values, known_of)
            half, shown_at = measure_half(layout, published[name].values, base[name], level, over)
            about["margins"]["method"] = table.measured.margin_method
            about["margins"] |= {"shown": shown_at} if shown_at else {}
        elif name in exact:
            covered[name] = cover_exactly(
                run, layout, parts[name], published[name], base[name], clipped=post.clips(name)
            )
            # Of what adds up not until it is known whether it is wanted, of all cells.
            half = np.empty(0) if layout.adds_up else covered[name].all()
        else:
            half = cover_on_average(run, layout, parts[name], published[name], base[name], about)
        notes = {"prior": levels[name].prior, "above": levels[name].above}
        if any(notes.values()):
            about |= {key: value for key, value in notes.items() if value}
            about["margins"]["mean_squared_error"] |= levels[name].mean_squares
        made[name] = Margins(half, about)
    if not exact or not spec.postprocessing.consistency:
        made |= {name: Margins(cover.all(), made[name].about) for name, cover in covered.items()}
        return _of_zeros(post, made, published, covered)
    # Margins of means, quantiles and rates, and of what does not add up, are not simulated, and no other
    # number depends on theirs.
    plain = [
        table.name
        for table in spec.arrays
        if table.measured is None or (table.measured.linear and table.measured.adds_up)
    ]
    for clipped in (False, True):
        names = [name for name in plain if post.clips(name) == clipped]
        wanted = {name: base[name] for name in exact if name in names}
        if wanted:
            truth = {name: published[name] for name in names}
            values = {name: estimate.values for name, estimate in truth.items()}
            sampling = version > WHOLE_SIMULATIONS
            bootstrap = Bootstrap(run, post, release_id, values, known, sampling=sampling)
            if clipped:
                made |= _simulated(run, bootstrap, truth, wanted, made, covered, arrays)
            else:
                made |= _linear(run, bootstrap, truth, wanted, made, covered)
    return _of_zeros(post, made, published, covered)


def _of_zeros(
    post: PostProcessor,
    made: dict[str, Margins],
    published: Mapping[str, Estimate],
    covered: Mapping[str, Covered],
) -> dict[str, Margins]:
    """Give numbers that non-negativity left at zero the margin of their measurement."""
    for name, margin in made.items():
        if post.clips(name) and margin.half.shape == published[name].values.shape:
            impossible = post.agreement.layouts[name].impossible
            cover_zeros(margin.half, published[name].values, covered.get(name), impossible)
    return made


def _linear(
    run: Run,
    bootstrap: Bootstrap,
    truth: dict[str, Estimate],
    base: dict[str, Estimate],
    made: dict[str, Margins],
    covered: dict[str, Covered],
) -> dict[str, Margins]:
    """Return the margins of linear estimates: exact for single measurements, simulated for sums of them.

    Also where they were made whole since, as the simulated ones are.
    """
    rounded = run.loaded.spec.postprocessing.rounding
    releases = [bootstrap.release(number) for number in range(_runs(bootstrap, truth).total)]
    margins_made = {}
    for table in run.loaded.spec.arrays:
        if table.name in base:
            name, layout = table.name, run.layouts[table.name]
            half = linear_half(
                Hierarchy(layout.parents),
                base[name].variances,
                truth[name].values.shape,
                [_errors(release[name], truth[name]) for release in releases],
                level=float(run.loaded.spec.publication.confidence),
            )
            if rounded:
                half = whole_half(half, truth[name].values, base[name].values)
            single = _single(layout, made[name].about["noise_variance"], base[name].variances, half.shape)
            margins_made[name] = Margins(np.where(single, covered[name].all(), half), made[name].about)
    return margins_made


def _errors(made: Made, truth: Estimate) -> Made:
    """Return the errors of a simulated release."""
    return replace(made, values=made.values - truth.values[slice(None) if made.nodes is None else made.nodes])


def _runs(bootstrap: Bootstrap, truth: Mapping[str, Estimate]) -> Runs:
    """Return the number of simulated releases."""
    cells = sum(estimate.values.size for estimate in truth.values())
    if bootstrap.sampled:
        return Runs(LEAST, MOST, PRECISION)
    return Runs.of(min(replicates(cells), FEW) if bootstrap.few else replicates(cells))


def _single(
    layout: Layout, noise: dict[str, float], variances: Floats, shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return the mask of estimates with the variance of a single measurement."""
    single = np.zeros(shape, bool)
    for level, nodes in layout.cuts.items():
        single[nodes] = np.isclose(variances[nodes], noise[level], rtol=1e-9, atol=0.0)
    return single


def _simulated(
    run: Run,
    bootstrap: Bootstrap,
    truth: dict[str, Estimate],
    base: dict[str, Estimate],
    made: dict[str, Margins],
    covered: dict[str, Covered],
    arrays: ArrayStore | None,
) -> dict[str, Margins]:
    """Return simulated margins of the tables with noise of known distribution; all tables are simulated."""
    layouts = run.layouts
    simulated = simulate(
        {
            name: _assumed(layouts[name], truth[name].values, estimate.variances)
            for name, estimate in base.items()
        },
        bootstrap.release,
        {name: covered[name] for name in base},
        level=float(run.loaded.spec.publication.confidence),
        whole=run.loaded.spec.postprocessing.rounding,
        runs=_runs(bootstrap, truth),
        room=None if arrays is None else arrays.of,
    )
    margins = {}
    for name, simulation in simulated.items():
        noise = made[name].about["noise_variance"]
        about = {"method": "simulated", "mean_squared_error": noise, **_described(layouts[name], simulation)}
        margins[name] = Margins(simulation.half, {**made[name].about, "margins": about})
    return margins


def _assumed(layout: Layout, truth: Floats, variances: Floats) -> Assumed:
    possible = None if layout.impossible is None else ~layout.impossible
    return Assumed(Hierarchy(layout.parents), truth, variances, possible)


def _about(table: Table, errors: dict[str, LevelError]) -> dict[str, Any]:
    """Return the certificate's entries on the accuracy of a table's measured levels."""
    methods = {error.method for error in errors.values()}
    means = {level: error.mean for level, error in errors.items()}
    if methods == {"exact"}:
        return {"noise_variance": means, "margins": {"method": "exact"}}
    method = next(name for name in ("unknown", "measured", "risk", "prior", "above") if name in methods)
    about: dict[str, Any] = {"method": method}
    if method != "unknown":
        about["mean_squared_error"] = means
    if table.margin_share:
        about["share_of_budget"] = str(table.margin_share)
    return {"margins": about}


def _described(layout: Layout, made: Simulated) -> dict[str, Any]:
    """Return the result of a simulation, as the certificate has it."""
    held, width, error = made.tally.overall()
    return {
        "simulated_releases": {"for_margins": made.replicates[0], "for_checking": made.replicates[1]},
        **({"sampled": _sampled(made)} if made.part < 1 else {}),
        "checked": {
            "held": _short(held),
            "mean_margin": _short(width),
            "root_mean_squared_error": _short(error),
        },
        "errors": [
            {
                **({} if layout.along is None else {"level": layout.along.levels[line.depth]}),
                "counts": list(line.size),
                "cells": _short(line.cells),
                "median": _short(line.median),
                "ninety_percent": _short(line.ninety),
                "largest": _short(line.largest),
                "mean_margin": _short(line.width),
                "held": _short(line.held),
                "held_of_true_counts_of_this_size": (
                    None if line.held_of_true is None else _short(line.held_of_true)
                ),
            }
            for line in made.tally.lines()
        ],
    }


def _sampled(made: Simulated) -> dict[str, float]:
    """Return the part of cells in a simulated release, and the accuracy of shares that follows."""
    return {"part_of_cells": _short(made.part), "standard_error": _short(made.precision)}


def _short(number: float) -> float:
    """Return a number with four digits, which is all that a simulation knows."""
    return float(f"{number:.4g}")


# Intervals of measurements, widened to cover what is published. Wherever post-processing moved a number, an
# interval around it that contains the interval of the measurement holds at least as often
# (:func:`tabularium.mechanisms.inference.margins_of_error.half_widths.widen_to_cover`).


SHADE = 1e-5
"""Part of a step that rounding up does not count: noise of a variance of ``NOTHING`` needs no margin."""


def cover_exactly(
    run: Run,
    layout: Layout,
    parts: dict[str, Finished],
    published: Estimate,
    base: Estimate,
    *,
    clipped: bool,
) -> Covered:
    """Return half-widths that contain the full intervals of linear estimates of known variance.

    ``clipped``: non-negativity has moved the estimates since.
    """
    confidence, rounded = (
        float(run.loaded.spec.publication.confidence),
        run.loaded.spec.postprocessing.rounding,
    )
    half = linear_margins(layout, parts, base, confidence)
    return Covered(published.values, base.values, half, clipped, rounded)


@dataclass(frozen=True, eq=False)
class Covered:
    """Half-widths that contain full intervals, computed for the requested rows.

    Attributes
    ----------
    published, linear, half
        (nodes, cells) what is published, the linear estimates of it, and half-widths of their intervals.
    clipped, whole
        What has moved the estimates since: non-negativity, rounding.
    """

    published: Floats
    linear: Floats
    half: Floats
    clipped: bool
    whole: bool

    def __getitem__(self, nodes: Any) -> Floats:
        """Return the half-widths of some nodes, (some, cells)."""
        at, around, half = self.published[nodes], self.linear[nodes], self.half[nodes]
        if self.clipped:
            return widen_to_cover(at, around, half, whole=self.whole)
        return whole_half(half, at, around) if self.whole else half

    def all(self) -> Floats:
        """Return the half-widths of all nodes."""
        half: Floats = np.empty(self.published.shape)
        for rows in strips(len(half), half.shape[1]):
            half[rows] = self[rows]
        return half


def cover_zeros(
    half: Floats, published: Floats, covered: Covered | None, impossible: NDArray[np.bool_] | None
) -> None:
    """Widen half-widths of published zeros, in place, to contain their measurements, and at least 1.

    Those of like cells say how often a zero is right, and nothing of this one: where most cells are empty
    they would be 0.

    Parameters
    ----------
    half, published
        (nodes, cells).
    covered
        Half-widths that hold whole intervals, where they are not held already.
    impossible
        Which cells nobody can be in, and that are 0 without having been measured.
    """
    for rows in strips(*half.shape):
        zero = published[rows] == 0
        if impossible is not None:
            zero &= ~impossible[rows]
        if zero.any():
            least = 1.0 if covered is None else np.maximum(covered[rows], 1.0)
            half[rows] = np.where(zero, np.maximum(half[rows], least), half[rows])


def whole_half(half: Floats, published: Floats, base: Floats) -> Floats:
    """Return half-widths around numbers that only rounding has moved, valid whenever the given ones are.

    With T whole and |base - T| <= h, |published - T| is a whole number below h + 1 where rounding moved
    by less than 1, as it does in one table: at most h rounded up, whatever the number. Where several tables
    had to agree and it moved further, the way is added.
    """
    moved = np.abs(published - base)
    reach: Floats = np.maximum(np.ceil(half - SHADE), np.floor(half + moved + SHADE) * (moved >= 1))
    return reach


def cover_on_average(
    run: Run,
    layout: Layout,
    parts: dict[str, Finished],
    published: Estimate,
    base: Estimate,
    about: dict[str, Any],
) -> Floats:
    """Return half-widths that contain intervals with average coverage over the cells.

    A mechanism that measures every cell before it merges them leaves another interval: that of least squares
    over only its noisy cells, which is valid for each cell. Level by level the narrower one is taken, on
    average; small levels have too few cells for their errors to be measured well.
    """
    confidence, rounded = (
        float(run.loaded.spec.publication.confidence),
        run.loaded.spec.postprocessing.rounding,
    )
    covered = widen_to_cover(published.values, base.values, margins(base.variances, confidence))
    if rounded:
        # To the nearest, not up: the interval holds on average over the cells, and so does rounding.
        covered = np.where(np.isfinite(covered), np.floor(covered + 0.5), covered)
    noisy = _noisy_cells(layout, parts)
    if noisy is None or not run.loaded.spec.postprocessing.consistency or np.isinf(covered).any():
        return covered
    linear = consistency(Hierarchy(layout.parents), noisy.values, noisy.variances)
    half = linear_margins(layout, parts, linear, confidence)
    other = widen_to_cover(published.values, linear.values, half, whole=rounded)
    depth = np.zeros(layout.nodes, int) if layout.along is None else layout.along.depth[: layout.nodes]
    doubts = {int(depth[layout.cuts[level][0]]): _doubt(part, confidence) for level, part in parts.items()}
    narrower = [
        d
        for d in range(int(depth.max()) + 1)
        if other[depth == d].mean() < max(covered[depth == d].mean(), doubts.get(d, 0.0))
    ]
    about["margins"]["from_noisy_cells"] = (
        [layout.along.levels[d] for d in narrower] if layout.along is not None else bool(narrower)
    )
    chosen: Floats = np.where(np.isin(depth, narrower)[:, None], other, covered)
    return chosen


def _doubt(part: Finished, confidence: float) -> float:
    """Return the margin that the measurement of an error would give for its noise only.

    To compare what came of it with other margins would otherwise prefer it whenever noise made it small.
    """
    if part.error is None:
        return 0.0
    event = part.error.event
    cells = part.release.values.size // len(part.error.totals)
    risk = bounded_risk(0, cells, float(event.scale), event.definition)
    return float(margins(risk, confidence))


def _noisy_cells(layout: Layout, parts: dict[str, Finished]) -> Estimate | None:
    """Return the first measurements of every cell on the table's tree, or None if a level has none."""
    noisy = {level: _noisy(layout, level, part) for level, part in parts.items()}
    known = {
        level: (measurement.values, measurement.variance)
        for level, measurement in noisy.items()
        if measurement is not None
    }
    return measured_tree(layout, known) if len(known) == len(noisy) else None


def _noisy(layout: Layout, level: str, part: Finished) -> Measurement | None:
    shape = tuple(domain.size for domain in layout.others)
    return noisy_cells(part.measured, layout.cuts[level], shape, layout.measured_at(level))


def linear_margins(
    layout: Layout, parts: dict[str, Finished], estimate: Estimate, confidence: float
) -> Floats:
    """Return half-widths of linear estimates; those of single measurements are exact."""
    half = np.array(margins(estimate.variances, confidence))
    for level, part in parts.items():
        noisy, nodes = _noisy(layout, level, part), layout.cuts[level]
        if noisy is not None:
            if not layout.adds_up:  # of two measurements of one node the better one stands
                single = np.isclose(estimate.variances[nodes].max(axis=1), np.max(noisy.variance), rtol=1e-9)
                nodes = nodes[single]
            sigma = None if noisy.scale is not None else float(part.measured.transcript[0].scale)
            half[nodes] = margins(estimate.variances[nodes], confidence, scale=noisy.scale, sigma=sigma)
    spread: Floats = np.broadcast_to(half, estimate.values.shape)
    return spread
