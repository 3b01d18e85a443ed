"""Cells of a release that fail a check, by name: within tables, and where tables or invariants differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference.joint.shared_marginals import View
from tabularium.tasks.postprocess.agreement import Agreement, ReconciledGroup
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import Run
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.release_spec.publication import PostProcessing
from tabularium.validations.suites.published_tables import Codes, Fault, faults_in, table_faults


def failed_cells(
    run: Run,
    agreement: Agreement,
    published: Mapping[str, NDArray[Any]],
    margins: Mapping[str, NDArray[np.float64]],
) -> list[Fault]:
    """Return every cell that is not what the spec promises, check by check.

    Parameters
    ----------
    run, agreement
        The spec, and how its tables hang together.
    published
        Table -> (nodes, cells) finished numbers.
    margins
        Table -> half-widths, infinite where there are none.
    """
    promised = run.loaded.spec.postprocessing
    found: list[Fault] = []
    for name, layout in agreement.layouts.items():
        if name not in published:
            continue
        # What is published of a mean, median or rate has its own margins, not one for each number behind it.
        some = margins.get(name, np.array(np.inf))
        own = promises_of(layout, promised)
        wanted = own.consistency and some.shape == published[name].shape
        found += table_faults(
            name,
            layout.parents,
            published[name],
            cell_codes(layout),
            promised=own,
            # Nodes that were not measured are not published then; and no margins at all are a wish.
            margins=some if wanted and np.isfinite(some).any() else None,
        )
    return found + (_differences(run, agreement, published) if promised.consistency else [])


def cell_codes(layout: Layout) -> Codes:
    """Return what names the cells of a table."""
    sizes = tuple(domain.size for domain in layout.others)

    def codes(node: int, cell: int) -> dict[str, str]:
        named = {} if layout.along is None else {layout.along.name: layout.along.node_codes[node]}
        places = np.unravel_index(cell, sizes) if sizes else ()
        own = {d.name: d.codes[int(place)] for d, place in zip(layout.others, places, strict=True)}
        return {name: {**named, **own}[name] for name in layout.table.dimensions}

    return codes


def _differences(run: Run, agreement: Agreement, published: Mapping[str, NDArray[Any]]) -> list[Fault]:
    """Return the shared numbers on which two tables, or a table and an invariant, differ."""
    found: list[Fault] = []
    for one, other, view, wrong in agreement.compared(published):
        if one in agreement.known:
            continue  # invariants come last, and have been compared with each other when the spec was read
        kind = "invariant" if other in agreement.known else "table"
        codes = _shared_codes(run, agreement.holding(one), view)
        found += faults_in(one, f"differs from {kind} {other}", wrong, codes)
    return found


def promises_of(layout: Layout, promised: PostProcessing) -> PostProcessing:
    """Return what is promised of a table or array: numbers that may be less than zero stay so.

    Where numbers do not add up they agree with nothing; of choices, which are positions, nothing is promised.
    """
    measure = layout.table.measured
    if measure is not None and not measure.adds_up and not measure.linear:
        return promised.model_copy(update=dict.fromkeys(type(promised).model_fields, False))
    kept = {} if layout.adds_up else {"consistency": False}
    return promised.model_copy(update=kept | ({"nonnegativity": False} if layout.signed else {}))


def _shared_codes(run: Run, tables: ReconciledGroup, view: View) -> Codes:
    """Return what names the numbers of a margin that two tables share."""
    frames = tables.overlap.tables.values()
    axes = {name: size for frame in frames for name, size in frame.flat.items()}
    sizes = tuple(axes[name] for name in view.marginal.flat)

    def codes(row: int, group: int) -> dict[str, str]:
        named = {}
        if view.marginal.along is not None and view.rows is not None:
            along = run.loaded.domains[view.marginal.along]
            assert isinstance(along, HierarchyDomain)  # noqa: S101 - the key says so
            named[along.name] = along.node_codes[int(view.rows[row])]
        places = np.unravel_index(group, sizes) if sizes else ()
        return named | tables.codes({n: int(p) for n, p in zip(view.marginal.flat, places, strict=True)})

    return codes
