"""Which tables and arrays of a spec are made to agree, as the planner sees it.

Where every number that tables share is a sum of equally many cells, the variances after consistency are
worked out exactly (:mod:`mechanisms.planning.linear_variances`). Nested codings whose groups are not of one
size are not of that kind. They are taken for columns that have nothing in common: what is then left out of
account only makes cells better known, as least squares over more measurements has no larger variances.
"""

from __future__ import annotations

from math import prod

from mechanisms.planning.linear_variances import LinearVariances, PlannedTable
from mechanisms.planning.separate_variances import SeparateVariances
from tasks.postprocess.agreement import Agreement, Together
from validations.derivation.nested_codings import Chain


def separate_variances(agreement: Agreement, *, agree: bool) -> SeparateVariances:
    """Return the variances of all arrays, group by group.

    Parameters
    ----------
    agree
        Whether tables and levels are made to.
    """
    return SeparateVariances([LinearVariances(_tables(group), agree=agree) for group in agreement.groups])


def uneven_codings(agreement: Agreement) -> list[tuple[str, ...]]:
    """Return the nested codings on which tables agree, but which are planned as if they did not."""
    return [chain.names for group in agreement.groups for chain in group.chains if _uneven(chain)]


def _uneven(chain: Chain) -> bool:
    """Whether some places of a chain are no cell of its finest coding."""
    return any(prod(chain.sizes[: level + 1]) > domain.size for level, domain in enumerate(chain.domains))


def _tables(group: Together) -> list[PlannedTable]:
    apart = [chain for chain in group.chains if _uneven(chain)]
    tables = []
    for name, frame in group.overlap.frames.items():
        flat = dict(frame.flat)
        for chain in apart:
            own = [axis for axis in chain.axes if flat.pop(axis, None) is not None]
            if own:
                coding = chain.domains[len(own) - 1]
                flat[coding.name] = coding.size
        cuts = group.layouts[name].cuts if name in group.layouts else {}
        tables.append(PlannedTable(name, flat, frame.along, frame.tree, cuts))
    return tables
