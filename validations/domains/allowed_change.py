"""How many records the smallest change replaces that leaves every invariant as it is.

Write an input as a vector x of counts over the cells of all counted columns together, and say that an
invariant *sees* a column if it tells any two of its values apart (a hierarchy at a level above its leaves
is not seen). An allowed change z = x' - x sums to zero in every cell of every invariant. Let k be the
size of the smallest set of columns, of two values or more each, that no one invariant sees as a whole.
Then the smallest z other than zero has Σ|z| = 2^k: 2^(k-1) records are replaced.

*No more.* Take two values in each of these k columns and one fixed value in every other column. The
product over the k columns of (first value - second value) has 2^k entries ±1. Every invariant fails to
see one of the columns, so that z sums to zero along it: over the whole column where the invariant lacks
it, within one cell where it has it at a higher level and the two values are taken from that cell. (One
choice of two values, from the deepest cell that has several, serves all levels, since a deeper level
would tell all values apart.)

*No less.* Any k - 1 columns are seen by one invariant, so every marginal of z over k - 1 columns is zero.
Such a z has at least 2^k entries that are not zero, by induction over k. For k = 1 its sum is zero, so it
has two. For k > 1 some column has two slices that are not zero, or z were a single entry, whose sum is
not zero. In every slice each marginal over k - 2 of the other columns is zero, so each of the two has
2^(k-1) such entries.

A fixed total alone gives k = 1, one record replaced by any other. Where one invariant sees every column,
no other input is allowed at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations


def replaced_records(columns: Iterable[str], seen: Collection[frozenset[str]]) -> int:
    """Return how many records the smallest allowed change replaces; 0 where no change is allowed.

    Parameters
    ----------
    columns
        Names of all counted columns that have two values or more.
    seen
        For each invariant the columns that it sees; an empty set for a total.

    Examples
    --------
    >>> replaced_records(["sex", "age"], [frozenset()])
    1
    >>> replaced_records(["sex", "age"], [frozenset({"sex"}), frozenset({"age"})])
    2
    >>> replaced_records(["sex", "age"], [frozenset({"sex", "age"})])
    0
    """
    names = list(columns)
    for size in range(1, len(names) + 1):
        if not all(any(each.issuperset(some) for each in seen) for some in combinations(names, size)):
            return int(2 ** (size - 1))
    return 0
