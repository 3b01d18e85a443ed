"""The chain: canonical JSON bodies, each naming the hash of the one before it.

An entry's body holds its own number (``seq``), the hash of the entry before (``prev``), the time, and
everything there is to know about the account or charge after it, running sums included. Its hash is the
SHA-256 of that body. Whoever alters, drops or reorders an entry must therefore rewrite all that follow,
and then the last hash differs from the heads that stand in certificates and in the witness file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from tabularium.ledger.records import Entry, Head
from tabularium.ledger.refusals import ClockBehind

#: Every entry says which format it has, so that a later release can tell.
FORMAT = 1
#: How far ahead of a reader's clock an entry may be: one of the year 2999 stops whoever comes after it.
LONGEST_LEAD = timedelta(days=1)
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(body: dict[str, Any]) -> str:
    """Return the one text of ``body``: ASCII JSON, keys sorted, no blanks, no floats."""
    return _encoder.encode(body)


def canonical_text(value: str) -> str:
    """Return a text as it stands in canonical JSON."""
    return _encoder.encode(value)


def digest(text: str) -> str:
    """Return the hash of an entry whose body is ``text``."""
    return sha256(text.encode("ascii")).hexdigest()


def is_whole(text: object, named: object) -> bool:
    """Whether ``named`` is the hash of ``text``; a database may hand back values of any kind."""
    return isinstance(text, str) and text.isascii() and digest(text) == named


def seal(head: Head, kind: str, at: str, fields: Mapping[str, Any]) -> tuple[dict[str, Any], Entry]:
    """Return the body and the entry that continue ``head`` with ``fields``."""
    body = {**fields, "at": at, "kind": kind, "prev": head.hash, "seq": head.seq + 1, "v": FORMAT}
    text = canonical(body)
    return body, Entry(seq=head.seq + 1, prev=head.hash, hash=digest(text), text=text)


def stamp(now: datetime) -> str:
    """Return a time as entries have it: UTC, microseconds, sorting as text."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def latest(now: datetime) -> str:
    """Return the latest time that an entry can have which was written before ``now``, by whatever clock."""
    return stamp(now + LONGEST_LEAD)


def next_time(now: datetime, last: str, tolerance: timedelta | None) -> str:
    """Return the time of the next entry, never before the ``last`` one's.

    Raises
    ------
    ClockBehind
        If the clock is further behind than ``tolerance``. With ``None`` any clock is taken: a step that
        records what has already happened must not fail for a clock.
    """
    at = stamp(now)
    if at >= last:
        return at
    if tolerance is not None and stamp(now + tolerance) < last:
        raise ClockBehind(
            "the clock of this machine is behind the ledger's last entry",
            hint="set the clock; if that entry's time was wrong, set TABULARIUM_CLOCK_TOLERANCE (minutes)",
        )
    return last
