"""Bounding: at most so many records of each privacy unit, chosen by the unit's own records alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis


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
        Hexadecimal; the release's own.
    """
    who = table[unit].cast("string")
    # Equal records of a unit are numbered, so that each of them has its own place in the order; which of
    # them is which does not matter, since they fall into the same cells.
    table = table.mutate(twin=ibis.row_number().over(group_by=[unit, *cells]))
    parts = [part for cell in cells for part in (table[cell].cast("string"), ibis.literal(","))]
    ticket = ibis.literal(key).concat(*parts, table.twin.cast("string"), ibis.literal("|"), who).hash()
    table = table.mutate(ticket=ticket)
    turn = ibis.row_number().over(group_by=table[unit], order_by=[table.ticket, table.twin])
    return table.mutate(turn=turn).filter(ibis._.turn < most).drop("twin", "ticket", "turn")
