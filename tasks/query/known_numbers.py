"""Public invariants of a release as sums of the cells of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.queries import Axes, KnownSums, TreeAttribute
from tabularium.tasks.postprocess.denominators import known_on_tree
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.spec.load import Loaded


def known_sums(known: KnownMarginal, axes: Axes, loaded: Loaded) -> KnownSums | None:
    """Return what an invariant says of the cells of a table, summed over columns that this does not cross.

    None where the table has a column of it in another coding, such as leaves where it has a hierarchy.
    """
    places = {attribute.name: place for place, attribute in enumerate(axes.attributes)}
    sizes = {name: loaded.domains[name].size for name in known.flat}
    values, index = _along(known, axes, loaded)
    values = values.reshape(len(values), *sizes.values())
    gone = tuple(1 + at for at, name in enumerate(sizes) if name not in places)
    values = values.sum(axis=gone)
    # Of each cell along each attribute, its place in the numbers; 0 where they do not tell its cells apart.
    parts = [index]
    for name, size in sizes.items():
        if name in places:
            if axes.attributes[places[name]].cells != size:
                return None
            parts.append({places[name]: np.arange(size)})
    shape = (len(axes.leaves), *axes.shape)
    first = int(axes.tree is None)  # the one leaf of a table without a hierarchy is no attribute
    groups = np.zeros(shape, np.intp)
    for part, size in zip(parts, values.shape, strict=True):
        groups *= size
        for place, cells in part.items():
            groups += cells.reshape([-1 if axis == place + first else 1 for axis in range(len(shape))])
    return KnownSums(known.name, groups, values.reshape(-1))


def _along(
    known: KnownMarginal, axes: Axes, loaded: Loaded
) -> tuple[NDArray[np.float64], dict[int, NDArray[np.intp]]]:
    """Return numbers (nodes, cells), and of the hierarchy among the attributes the node of each leaf."""
    named = {attribute.name: place for place, attribute in enumerate(axes.attributes)}
    if known.along is None or known.along not in named:
        return known.values.sum(axis=0, keepdims=True).astype(np.float64), {}
    tree, values = known_on_tree(loaded, known)
    domain, place = loaded.domains[known.along], named[known.along]
    attribute = axes.attributes[place]
    assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
    assert isinstance(attribute, TreeAttribute)  # noqa: S101 - it is that domain as queries know it
    # Nodes come in the order of their depth: those further down than the numbers belong to one above them.
    at = attribute.leaves.astype(np.intp)
    while (below := at >= tree.nodes).any():
        at[below] = domain.parents[at[below]]
    return values, {place: at}
