"""What became of drops: runs that began and ended, and refused drops that nobody has replaced yet.

A refusal is given by its kind, with what a person can do. Its reason is not repeated here: it may name files,
and may follow from the data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote
from typing import Any, Literal

from tabularium.mechanisms.errors import DataRefused, RunRefused
from tabularium.tasks.arrival.claims import LIVE, Claims, Drop, Refusal, State
from tabularium.tasks.arrival.inboxes import Inbox, inboxes
from tabularium.tasks.arrival.look import revising
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import drop_of

Ending = Literal["published", "refused", "failed"]


def started(home: Home, source: str | None) -> None:
    """Record that a run began for the drop that ``source`` names, if it names one.

    Call this before a run: a drop whose run never began is announced again.
    """
    _note(home, source, "started")


def finished(home: Home, source: str | None, ending: Ending, *, run: str = "") -> None:
    """Record how a run of a drop ended; a run that waits has not ended.

    Parameters
    ----------
    ending
        ``published`` (or published already): put away. ``refused``: its data were refused, a
        ``DataRefused`` or ``RunRefused``; put into quarantine, and the period is free again unless something
        was charged for it. ``failed``: anything else; it stays where it is until somebody runs it.
    run
        Name of the run, by which its diagnosis is found.
    """
    _note(home, source, ending, run)


def diagnosing(run: str, home: Home) -> str:
    """Return the command that shows why a run refused its data."""
    return f"tabularium diagnose{run and ' ' + run} --home {quote(str(home.path))}"


@contextmanager
def recorded(home: Home, source: str | None) -> Iterator[None]:
    """Record that a run by hand, inside the block, published or was refused."""
    try:
        yield
    except (DataRefused, RunRefused) as refusal:
        finished(home, source, "refused", run=refusal.run)
        raise
    finished(home, source, "published")


def _note(
    home: Home, source: str | None, state: Literal["started", "published", "refused", "failed"], run: str = ""
) -> None:
    drop_id = drop_of(source)
    if drop_id is None:
        return
    values: dict[str, Any] = {
        "started": {},
        "failed": {},
        "published": {"ended_at": time.time(), "why": "", "refusal": None, "run": None},
        "refused": {
            "ended_at": time.time(),
            "why": f"refused: data rules; see {diagnosing(run, home)}",
            "refusal": "data",
            "run": run,
            "slot": None,
            "announced_at": None,
        },
    }[state]
    allowed = (*LIVE, "quarantined", "refused") if state == "published" else LIVE
    with Claims.at(home) as claims:
        while (drop := claims.find(drop_id)) is not None and drop.state in allowed:
            if claims.change(drop, state=state, **values):
                return


_REFUSED: tuple[State, ...] = ("refused", "quarantined")
_TAKEN_UP: tuple[State, ...] = ("arrived", "started", "published")


@dataclass(frozen=True)
class RefusedDrop:
    """A drop that was refused.

    Attributes
    ----------
    period
        Empty where its manifest was refused.
    since
        When it was refused; UTC.
    run
        Name of the run that refused its data; empty where none began.
    refusal
        ``refused: data``, ``refused: manifest``, ``refused: period published`` or ``refused: period taken``.
    then
        What can be done, as one sentence.
    command
        What to type; empty where nothing is.
    """

    product: str
    period: str
    since: datetime
    run: str
    refusal: str
    then: str
    command: str


def refused_drops(home: Home) -> list[RefusedDrop]:
    """Return the refused drops of a home that no later drop replaces, the oldest first.

    Where the period of a drop is not known, any later one of its product counts as that other one.

    Raises
    ------
    InputError, StorageFailed
        The claims or the list of inboxes cannot be read.
    """
    drops = Claims.known(home)
    watched = {inbox.product: inbox for inbox in inboxes(home)} if drops else {}
    return [
        _refused(home, drop, watched.get(drop.product))
        for drop in drops
        if drop.state in _REFUSED and not any(_replaces(other, drop) for other in drops)
    ]


def _replaces(other: Drop, drop: Drop) -> bool:
    return (
        other.product == drop.product
        and other.state in _TAKEN_UP
        and other.found_at > drop.found_at
        and drop.period in ("", other.period)
    )


def _refused(home: Home, drop: Drop, inbox: Inbox | None) -> RefusedDrop:
    where_why = (
        "the reason is next to it"
        if inbox is None
        else f"the reason is next to it, in {inbox.address}/quarantine"
    )
    kind: Refusal = drop.refusal or ("data" if drop.state == "refused" else "manifest")
    then = {
        "data": "The reason is shown where it ran; have the data corrected and delivered again.",
        "manifest": f"Have it corrected and delivered again; {where_why}.",
        "period published": "Nothing follows, unless somebody runs it as a revision.",
        "period taken": "Have it delivered again once the other one of this period has ended.",
    }[kind]
    command = ""
    if kind == "data":
        command = diagnosing(drop.run or "", home)
    elif kind == "period published" and inbox is not None:
        command = revising(home, inbox, drop.id, drop.period)
    since = datetime.fromtimestamp(drop.ended_at or drop.found_at, UTC)
    return RefusedDrop(drop.product, drop.period, since, drop.run or "", f"refused: {kind}", then, command)
