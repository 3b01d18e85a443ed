"""Public counts to judge a plan by: of a release that was published already, or spread from public totals."""

from __future__ import annotations

import math

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.universes.universe import key_of

Counts = dict[str, Floats]
"""Table -> (nodes, cells) counts that add up along its hierarchy."""

_SWEEPS = 20


def counts_like(model: PlannedModel, release: Released) -> Counts:
    """Return the counts that a published release has for the tables of a spec.

    Each is taken from a table of the release that crosses all of its columns, by the same code lists, and
    counts the same universe.

    Raises
    ------
    InputError
        The release has no such table, or left cells of it blank.
    """
    return {
        name: table_like(model, name, release)
        for name, layout in model.agreement.layouts.items()
        if layout.table.measured is None
    }


def table_like(model: PlannedModel, table: str, release: Released) -> Floats:
    """Return the counts that a published release has for one table of a spec; as :func:`counts_like`."""
    layout = model.agreement.layouts[table]
    universe = key_of(layout.table, model.loaded.domains)
    for name, other in release.layouts.items():
        if other.table.measured is not None or key_of(other.table, release.domains) != universe:
            continue
        rows = _rows(layout, other)
        if rows is None:
            continue
        counts = release.table(name).counts
        if np.isnan(counts).any():
            raise InputError(
                f"table {name} of the release has cells that were left blank",
                where="--like",
                hint="name a release without suppressed cells",
            )
        return _arranged(layout, other, counts[rows])
    raise InputError(
        f"the release has no table with the columns, codes and records of table {layout.table.name}",
        where="--like",
        hint="name another release, or leave the option out",
    )


def _rows(layout: Layout, other: Layout) -> slice | None:
    """Return which nodes of a published table a planned one needs; None where the table does not do."""
    same = {domain.name: domain.codes for domain in other.others}
    if any(same.get(domain.name) != domain.codes for domain in layout.others):
        return None
    if layout.along is None:
        return slice(None)
    if other.along is None or other.along.name != layout.along.name or other.nodes < layout.nodes:
        return None
    nodes = slice(0, layout.nodes)
    return nodes if other.along.node_codes[nodes] == layout.along.node_codes[nodes] else None


def _arranged(layout: Layout, other: Layout, counts: Floats) -> Floats:
    """Add up the dimensions that the planned table does not have, and put the others in its order."""
    if layout.along is None:
        counts = counts[np.asarray(other.parents) < 0].sum(axis=0, keepdims=True)
    names = [domain.name for domain in other.others]
    wanted = [domain.name for domain in layout.others]
    away = tuple(1 + place for place, name in enumerate(names) if name not in wanted)
    kept = [name for name in names if name in wanted]
    full = counts.reshape(len(counts), *(domain.size for domain in other.others)).sum(axis=away)
    arranged: Floats = full.transpose(0, *(1 + kept.index(name) for name in wanted)).reshape(len(counts), -1)
    return arranged


def counts_of_totals(agreement: Agreement) -> Counts | None:
    """Return counts that agree with the public totals of a spec, its invariants, and are even otherwise.

    Iterative proportional fitting, table by table. None where the spec has no invariants.
    """
    if not agreement.known:
        return None
    return {name: _fitted(agreement, name) for name in agreement.groups[0].layouts}


def _fitted(agreement: Agreement, name: str) -> Floats:
    frame = agreement.overlap.tables[name]
    counts = np.zeros(frame.shape)
    counts[frame.tree.leaf] = 1.0
    known = {
        each: agreement.overlap.views(name, each)
        for each in agreement.known
        if agreement.overlap.tables[each].marginal.within(frame.marginal)
    }
    for _ in range(_SWEEPS):
        for each, (own, other) in known.items():
            have, want = own.gather(added_up(frame.tree, counts)), other.gather(agreement.known[each].values)
            ratio = np.divide(want, have, out=np.zeros_like(have), where=have > 0)
            factors = np.zeros(frame.shape)
            own.scatter(ratio, factors)
            for block in frame.tree.down(frame.cells):
                factors[block.children] += block.to_children(factors[block.parents])
            counts = np.where(frame.tree.leaf[:, None], counts * factors, 0.0)
    return added_up(frame.tree, counts)


def added_up(tree: Hierarchy, counts: Floats) -> Floats:
    """Return a table whose leaves are given with the sums above them."""
    whole = np.where(tree.leaf[:, None], counts, 0.0)
    for block in tree.up(whole.shape[1]):
        whole[block.parents] = block.total(whole[block.children])
    return whole


def quantile_count(counts: Floats, part: float) -> float:
    """Return the largest count that at most ``part`` of the cells stay below."""
    ordered = np.sort(counts, axis=None)
    return float(ordered[min(math.floor(part * ordered.size), ordered.size - 1)])
