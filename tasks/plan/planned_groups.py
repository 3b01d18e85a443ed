"""Which tables and arrays of a spec are made to agree, as the planner sees it.

Where every number that tables of one universe share is a sum of equally many of their cells, the variances
after consistency are worked out exactly (:mod:`tabularium.mechanisms.planning.linear_variances`). What is not
of that kind, such as nested codings whose groups are not of one size, is left out of account, and so are
cells that are exactly zero. That can only make margins wider than they will be: least squares over more
measurements has no larger variances.
"""

from __future__ import annotations

from math import prod

from tabularium.mechanisms.planning.linear_variances import LinearVariances, PlannedTable, SeparateVariances
from tabularium.tasks.postprocess.agreement import Agreement, ReconciledGroup
from tabularium.validations.spec.load import Loaded
from tabularium.validations.universes.universe import key_of


def separate_variances(loaded: Loaded, agreement: Agreement, *, agree: bool) -> SeparateVariances:
    """Return the variances of all tables and arrays, universe by universe.

    Parameters
    ----------
    agree
        Whether tables and levels are made to.
    """
    found = []
    for group in agreement.groups:
        universes = {name: key_of(each.table, loaded.domains) for name, each in group.layouts.items()}
        for universe in dict.fromkeys(universes.values()):
            names = [name for name, own in universes.items() if own == universe]
            names += [name for name in group.known if universe is None and _even(group, name)]
            found.append(LinearVariances([_table(group, name) for name in names], agree=agree))
    return SeparateVariances(found)


def left_out_of_account(loaded: Loaded, agreement: Agreement) -> list[str]:
    """Return the tables that agree with others, or hold exact zeros, in more than the plan knows of."""
    found = []
    for group in agreement.groups:
        universes = {key_of(each.table, loaded.domains) for each in group.layouts.values()}
        more = len(universes) > 1 or not all(_even(group, name) for name in group.overlap.tables)
        found += [name for name, each in group.layouts.items() if more or each.impossible is not None]
    return found


def _even(group: ReconciledGroup, name: str) -> bool:
    """Whether the cells of a table or invariant are all places of its frame."""
    at = group.spreads[name].at
    return at is None or len(at) == prod(group.overlap.tables[name].flat.values())


def _table(group: ReconciledGroup, name: str) -> PlannedTable:
    frame = group.overlap.tables[name]
    if name not in group.layouts:
        return PlannedTable(name, frame.flat, frame.along, frame.tree, {})
    layout = group.layouts[name]
    own = {each.name: each.size for each in layout.others}
    flat = frame.flat if _even(group, name) else own
    return PlannedTable(name, flat, frame.along, frame.tree, layout.cuts)
