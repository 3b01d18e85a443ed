"""The stages of post-processing: consistency, non-negativity and rounding of what was measured.

Consistency makes levels add up, and tables agree, by weighted least squares. The weight of a level is one
over its variance; where the mechanism merges or drops what it measured, one over its mean squared error per
cell, estimated or measured (:mod:`tabularium.tasks.margins.error_model`). Non-negativity and rounding keep
what agrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.margins.error_model import margin_base
from tabularium.tasks.margins.known_levels import as_measured, known_levels
from tabularium.tasks.measure import Finished, finished
from tabularium.tasks.postprocess.conflicts import conflicts
from tabularium.tasks.postprocess.estimate_files import EstimatesHandle, measured_tree, room_of, write
from tabularium.tasks.postprocess.mapped_arrays import Room
from tabularium.tasks.postprocess.postprocessing import CONSISTENCY, NONNEGATIVITY, ROUNDING, PostProcessor
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.spec.load import Loaded

if TYPE_CHECKING:
    from tabularium.tasks.ledger_stages import MeasuredHandle

MEASURED = "measured"
BASE = "margin base"
CONFLICTS = "conflicts"

Parts = dict[str, dict[str, Finished]]
"""Table, level -> what was measured."""


@stage(CONSISTENCY)
def make_consistent(run: Run, measured: MeasuredHandle) -> tuple[EstimatesHandle, EstimatesHandle]:
    """Bring the measurements onto their trees, and make them agree if the spec wants it.

    Raises
    ------
    PublicationError
        If the measurements contradict an invariant beyond chance, and the spec does not say to publish.

    Returns
    -------
    The estimates, and the numbers that margins of error are about, with their mean squared errors. Those are
    the estimates themselves; for measurements whose errors are not independent noise, the measurements.
    """
    found = finished(run, measured)
    post = PostProcessor.of(run.loaded)
    parts: dict[str, dict[str, Finished]] = {table: {} for table in post.agreement.layouts}
    for (table, level), part in found.items():
        if table in parts:
            parts[table][level] = part
    step = CONSISTENCY if CONSISTENCY in post.steps else MEASURED
    room = room_of(run, step)
    estimates, base = on_their_trees(run.loaded, post, parts, room)
    if CONSISTENCY not in post.steps:
        handle = write(run, MEASURED, estimates, room=room)
    else:
        compared = _judged(run, post, to_compare(post, parts))
        agreed = post.apply(CONSISTENCY, estimates, room=room)
        handle = write(run, CONSISTENCY, agreed.estimates, notes={**agreed.notes, **compared}, room=room)
    return handle, EstimatesHandle({**handle.paths, **write(run, BASE, base).paths})


@stage(NONNEGATIVITY)
def make_nonnegative(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Project family by family onto what counts can be, keeping sums."""
    return _step(run, NONNEGATIVITY, handle)


@stage(ROUNDING)
def make_whole(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """Round to whole numbers that still add up along every hierarchy, and agree where that is possible."""
    return _step(run, ROUNDING, handle)


def _step(run: Run, step: str, handle: EstimatesHandle) -> EstimatesHandle:
    post = PostProcessor.of(run.loaded)
    if step not in post.steps:
        return handle
    room = room_of(run, step)
    agreed = post.apply(step, handle.read_all(), room=room)
    return write(run, step, agreed.estimates, notes=agreed.notes, after=handle, room=room)


def on_their_trees(
    loaded: Loaded, post: PostProcessor, parts: Parts, room: Room | None = None
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Bring the measurements of all tables onto their trees, drawn towards earlier releases where they are.

    Parameters
    ----------
    room
        Where to put those of tables that have nothing to agree with.

    Returns
    -------
    The estimates of all tables; and of those whose errors are not independent noise, the numbers that margins
    are about (:func:`tabularium.tasks.margins.error_model.margin_base`).
    """
    estimates, base = {}, {}
    for table, layout in post.agreement.layouts.items():
        known = known_levels(loaded, layout, parts[table]).levels
        alone = room is not None and post.agreement.holding(table).alone
        estimates[table] = measured_tree(
            layout,
            {level: (values, error.variance) for level, (values, error) in known.items()},
            room.of(table, (layout.nodes, layout.cells)) if room is not None and alone else None,
        )
        if any(error.method != "exact" for _, error in known.values()):
            base[table] = margin_base(layout, known)
    return estimates, base


def to_compare(post: PostProcessor, parts: Parts) -> dict[str, Estimate]:
    """Return the measurements with which invariants are compared: independent noise, and drawn to nothing."""
    found = {}
    for table, layout in post.agreement.layouts.items() if post.agreement.known else ():
        known = as_measured(parts[table])
        if all(error.method == "exact" for _, error in known.values()):
            levels = {level: (values, error.variance) for level, (values, error) in known.items()}
            found[table] = measured_tree(layout, levels)
    return found


def _judged(run: Run, post: PostProcessor, measured: Mapping[str, Estimate]) -> dict[str, Any]:
    """Compare the invariants with what was measured; return the note of it, none where there are none."""
    if not post.agreement.known:
        return {}
    found = conflicts(post.agreement, measured)
    for invariant in run.loaded.spec.invariants:
        about = found[invariant.name]
        if not about.beyond_chance:
            continue
        said = (
            f"the measurements contradict it beyond chance, at {about.beyond_chance:,} of {about.compared:,} "
            "numbers compared"
        )
        if invariant.on_conflict == "stop":
            raise PublicationError(
                said,
                where=f"invariant {invariant.name}",
                hint="see that it counts what the source holds; mend it, remove it, or write on_conflict: "
                "publish: each makes another release, which is paid for again",
            )
        note(f"invariant {invariant.name}: {said}; it is published, and the certificate says so")
    return {CONFLICTS: {name: about.as_json() for name, about in found.items()}}
