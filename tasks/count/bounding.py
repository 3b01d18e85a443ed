"""Bounding: at most so many records of each privacy unit, chosen by the unit's own records alone.

How many units there are, how many of them are cut, and how many records they lose is counted here too, for
tallies. To the first two numbers a unit adds 0 or 1, to the third at most a limit, by its own records alone:
whoever adds, removes or replaces one unit changes them by at most 1, or the limit, however many records it
has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")


_DIGITS = 12  # of the ticket: short texts sort quickly, and two of 2^48 are hardly ever the same


def bounded(table: Any, unit: str, cells: Sequence[str], most: int, key: str) -> Any:
    """Keep at most ``most`` records of each unit, chosen uniformly by a keyed order.

    Parameters
    ----------
    table
        Ibis table of kept records.
    unit
        Name of the column of the privacy unit.
    cells
        Names of the columns of cell numbers, one per table.
    most
        The number of records a unit may contribute.
    key
        Hexadecimal; the release's own. It stands in the text of the query and need not be secret: for any
        key, which records of a unit are kept depends on that unit alone.

    Notes
    -----
    The order is total but for equal records: ticket, cells, number among equals. A ticket is the beginning of
    a SHA-256, which every engine computes alike, so that one key keeps the same records in all of them.
    """
    who = table[unit].cast("string")
    # Equal records of a unit are numbered, so that each of them has its own place in the order; which of
    # them is which does not matter, since they fall into the same cells.
    table = table.mutate(twin=ibis.row_number().over(group_by=[unit, *cells]))
    parts = [part for cell in cells for part in (table[cell].cast("string"), ibis.literal(","))]
    text = ibis.literal(key).concat(*parts, table.twin.cast("string"), ibis.literal("|"), who)
    table = table.mutate(ticket=text.hexdigest("sha256").substr(0, _DIGITS))
    order = [table.ticket, *(table[cell] for cell in cells), table.twin]
    turn = ibis.row_number().over(group_by=table[unit], order_by=order)
    return table.mutate(turn=turn).filter(ibis._.turn < most).drop("twin", "ticket", "turn")


def unit_numbers(records: Any, unit: str | None, most: int, up_to: int) -> Any:
    """Return one row: the number of ``units``, and of those ``cut``, which have more than ``most`` records.

    And the number of all ``records``, of those ``left_out``, and of these again where each unit counts for
    ``up_to`` at most, ``limited``.

    Parameters
    ----------
    records
        Ibis table of kept records.
    unit
        Name of the column of the privacy unit; None where each record is one.
    """
    if unit is None:
        nothing = {name: ibis.literal(0) for name in ("cut", "left_out", "limited")}
        return records.aggregate(units=records.count(), records=records.count(), **nothing)
    each = records.group_by(unit).aggregate(number=records.count())
    over = ibis.ifelse(each.number > most, each.number - most, 0)
    return each.aggregate(
        units=each.count(),
        cut=each.count(where=each.number > most),
        records=each.number.sum().coalesce(0),
        left_out=over.sum().coalesce(0),
        limited=ibis.ifelse(over > up_to, up_to, over).sum().coalesce(0),
    )
