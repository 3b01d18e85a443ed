"""What is read by whoever has just taken the one right to append: all at once, since all others wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, Text, cast, func, select

from ledger.records import EMPTY, Head
from ledger.storage.entry_queries import ELSEWHERE, SEALED, STANDING, Standing, column, opened, standing_of
from ledger.storage.schema import entries

_c = entries.c
#: How many of the last hashes are read with a turn: the witness is seldom further behind.
RECENT = 8
_LATEST = select(_c.seq, _c.hash).order_by(_c.seq.desc()).limit(RECENT).subquery()
_END = (
    column(select(_c.seq).order_by(_c.seq.desc()).limit(1), "head_seq"),
    column(select(SEALED).order_by(_c.seq.desc()).limit(1), "head_sealed"),
    column(select(func.aggregate_strings(cast(_LATEST.c.hash, Text), "")), "recent"),
)
_BARE_TURN = select(*_END)
_TURN = select(
    *_END,
    *STANDING.selected_columns,
    column(select(func.aggregate_strings(ELSEWHERE.subquery().c.release_id, " ")), "elsewhere"),
)


@dataclass(frozen=True)
class Turn:
    """What is read by whoever has just taken the one right to append.

    Attributes
    ----------
    last
        The last entry's time; empty for an empty ledger.
    recent
        The hashes of the last entries, the newest first, without anything between.
    standing, elsewhere
        How a charge stands that was asked about, and the releases that another account holds for its input.
    """

    head: Head
    last: str
    recent: str = ""
    standing: Standing | None = None
    elsewhere: Sequence[str] = ()

    @classmethod
    def of(cls, row: Any, asked: bool) -> Turn:
        """Read it from a row of :data:`_TURN`, or of the server's own function."""
        if row.head_seq is None:
            found, last = EMPTY, ""
        else:
            found, last = Head(row.head_seq, row.head_sealed[:64]), opened(row.head_sealed)["at"]
        if not asked:
            return cls(found, last, row.recent or "")
        return cls(found, last, row.recent or "", standing_of(row), (row.elsewhere or "").split())

    def shows(self, named: Head) -> bool:
        """Whether this entry is seen to be among the last ones; others may be in the chain all the same."""
        place = 64 * (self.head.seq - named.seq)
        return place >= 0 and self.recent[place : place + 64] == named.hash


def question(asked: Mapping[str, str | None] | None) -> Select[Any]:
    """Return what reads the head and, if a charge is ``asked`` about, all that it depends on."""
    return _BARE_TURN if asked is None else _TURN


def turn(connection: Connection, asked: Mapping[str, str | None] | None) -> Turn:
    """Read it."""
    return Turn.of(connection.execute(question(asked), dict(asked or {})).one(), asked is not None)
