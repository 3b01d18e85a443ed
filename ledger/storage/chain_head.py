"""What is read by whoever has just taken the right to append: all at once, since all others wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, Text, cast, func, select

from tabularium.ledger.records import EMPTY, Head
from tabularium.ledger.storage.entry_queries import (
    HASHED_BODY,
    STANDING,
    Standing,
    checked_body,
    column,
    standing_of,
)
from tabularium.ledger.storage.schema import entries

_c = entries.c
#: How many of the last hashes are read with the head: the witness is seldom further behind.
RECENT = 8
_LATEST = select(_c.seq, _c.hash).order_by(_c.seq.desc()).limit(RECENT).subquery()
_HEAD = (
    column(select(_c.seq).order_by(_c.seq.desc()).limit(1), "head_seq"),
    column(select(HASHED_BODY).order_by(_c.seq.desc()).limit(1), "head_hashed"),
    column(select(func.aggregate_strings(cast(_LATEST.c.hash, Text), "")), "recent"),
)
_HEAD_ALONE = select(*_HEAD)
_HEAD_AND_STANDING = select(*_HEAD, *STANDING.selected_columns)


@dataclass(frozen=True)
class ChainHead:
    """The end of the chain, and how a charge stands that was asked about.

    Attributes
    ----------
    at
        The last entry's time; empty for an empty ledger.
    kind
        The last entry's.
    recent
        The hashes of the last entries, the newest first, without anything between.
    standing
        How the charge stands.
    """

    head: Head
    at: str
    kind: str = ""
    recent: str = ""
    standing: Standing | None = None

    @classmethod
    def of(cls, row: Any, asked: bool) -> ChainHead:
        """Read it from a row of :func:`statement`, or of the server's own function."""
        if row.head_seq is None:
            head, at, kind = EMPTY, "", ""
        else:
            last = checked_body(row.head_hashed)
            head, at, kind = Head(row.head_seq, row.head_hashed[:64]), last["at"], last["kind"]
        return cls(head, at, kind, row.recent or "", standing_of(row) if asked else None)

    def shows(self, named: Head) -> bool:
        """Whether this entry is seen to be among the last ones; others may be in the chain all the same."""
        place = 64 * (self.head.seq - named.seq)
        return place >= 0 and self.recent[place : place + 64] == named.hash


def statement(asked: Mapping[str, str | None] | None) -> Select[Any]:
    """Return what reads the head and, if a charge is ``asked`` about, all that it depends on."""
    return _HEAD_ALONE if asked is None else _HEAD_AND_STANDING


def read_head(connection: Connection, asked: Mapping[str, str | None] | None = None) -> ChainHead:
    """Read it."""
    return ChainHead.of(connection.execute(statement(asked), dict(asked or {})).one(), asked is not None)
