"""Which values of the source a record's cells leave open: what is read beside the codes may follow from them.

A measure adds up the values of a column of the source, and a histogram counts them. Where a table counts by
the same column, a cell may hold one value of it, as each year of age has a cell: then whoever knows the cell
knows the value. Or a cell holds several, as a group of ages: then the value is neither free nor fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from tabularium.validations.derivation.derived_columns import source_column
from tabularium.validations.derivation.derived_parts import Derivation
from tabularium.validations.domains.domains import Domain, NumberDomain


def open_values(
    read: Iterable[str],
    counted: Mapping[str, int],
    columns: Mapping[str, Derivation],
    domains: Mapping[str, Domain],
) -> tuple[set[str], bool]:
    """Return the columns of the source whose values the cells do not fix, and if these go with any cell.

    Parameters
    ----------
    read
        Columns of the source that are read as they stand.
    counted
        Declared column -> how many of its values the tables tell apart.
    columns, domains
        Declared column -> where it comes from, and its public domain.
    """
    found, bound = set(), False
    for name in read:
        alike = [each for each in counted if each in columns and source_column(each, columns[each]) == name]
        if not any(_one_value(columns[each], domains[each], counted[each]) for each in alike):
            found.add(name)
            bound = bound or bool(alike)
    return found, bound


def _one_value(column: Derivation, domain: Domain, cells: int) -> bool:
    """Whether each counted cell of a column holds one value of the source."""
    if column.is_made or domain.other is not None or cells < domain.size:
        return False
    if isinstance(domain, NumberDomain) and domain.floor:
        return False
    edges = domain.edges if isinstance(domain, NumberDomain) else ()
    return all(high - low == 1 for low, high in pairwise(edges))
