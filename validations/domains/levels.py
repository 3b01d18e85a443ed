"""Levels of a code list: which nodes a level publishes, and where each leaf lies among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.validations.domains.domains import HierarchyDomain


def depth_of(domain: HierarchyDomain, level: str) -> int:
    """Return the depth of the nodes of ``level``, 0 for the roots.

    Raises
    ------
    InputError
        If the hierarchy has no level of that name.
    """
    try:
        return domain.levels.index(level)
    except ValueError:
        pass
    raise InputError(
        f"there is no level {level!r}", where=f"columns.{domain.name}", hint="use one of its level names"
    )


def cut(domain: HierarchyDomain, level: str) -> NDArray[np.int64]:
    """Return the nodes that together cover every record at ``level``.

    Those are the nodes at that depth and the leaves above it, ascending, so that every leaf lies below
    exactly one of them and the cut at the deepest level is ``domain.leaves``.

    Returns
    -------
    (nodes of the cut,) node indices, ascending; read-only
    """
    return domain.cuts[depth_of(domain, level)]


def nodes_to(domain: HierarchyDomain, level: str) -> int:
    """Return the number of nodes down to ``level``: a prefix, since nodes are in breadth-first order."""
    return int(np.count_nonzero(domain.depth <= depth_of(domain, level)))


def positions(domain: HierarchyDomain, nodes: NDArray[np.int64], level: str) -> NDArray[np.int64]:
    """Return where in ``cut(domain, level)`` the ancestor (or self) of each node lies.

    Parameters
    ----------
    domain
        The code list.
    nodes
        (m,) node indices, each in or below the cut.
    level
        Name of the level of the cut.

    Returns
    -------
    (m,) positions in the cut
    """
    depth = depth_of(domain, level)
    above = np.array(nodes, np.int64)
    # As many steps as the deepest node needs; a node that has arrived stays where it is.
    while (deeper := domain.depth[above] > depth).any():
        above[deeper] = domain.parents[above[deeper]]
    return np.searchsorted(cut(domain, level), above)


def leaf_positions(domain: HierarchyDomain, level: str) -> NDArray[np.int64]:
    """Return, for each cell of the axis (a leaf), its position in ``cut(domain, level)``.

    Returns
    -------
    (cells,) positions
    """
    return positions(domain, domain.leaves, level)
