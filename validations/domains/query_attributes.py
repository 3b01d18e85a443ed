"""Public domains as the language of queries knows them: their names, values, numbers and levels."""

from __future__ import annotations

from tabularium.mechanisms.queries import Attribute, TreeAttribute
from tabularium.validations.domains.domains import Domain, HierarchyDomain, NumberDomain


def attribute_of(domain: Domain) -> Attribute | TreeAttribute:
    """Return a column as queries know it; the cells of both are the same, in the same order."""
    if isinstance(domain, HierarchyDomain):
        return tree_of(domain, len(domain.parents))
    if isinstance(domain, NumberDomain):
        if domain.digits is None:
            return Attribute.bins(domain.name, domain.edges, domain.labels)
        ends = (*domain.edges[:-1], domain.edges[-1] - 1)
        return Attribute.intervals(domain.name, [domain.number(end) for end in ends], domain.labels)
    return Attribute.categories(domain.name, domain.codes, domain.labels)


def tree_of(domain: HierarchyDomain, nodes: int) -> TreeAttribute:
    """Return a hierarchy down to its first ``nodes`` nodes, the others known but not published."""
    depth = domain.depth[:nodes]
    return TreeAttribute(
        domain.name,
        domain.node_codes[:nodes],
        domain.node_labels[:nodes],
        domain.parents[:nodes],
        depth,
        domain.levels[: int(depth.max()) + 1],
        frozenset(domain.node_codes[nodes:]) | frozenset(domain.node_labels[nodes:]),
    )
