"""Refused drops that nobody has replaced yet: what kind of refusal, and what a person can do.

Why a drop was refused is not repeated here: it may name its files, and of data it follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tabularium.tasks.arrival.claims import Claims, Drop, Refusal, State
from tabularium.tasks.arrival.drop_runs import diagnosing
from tabularium.tasks.arrival.inboxes import Inbox, inboxes
from tabularium.tasks.arrival.look import revising
from tabularium.tasks.runtime.home import Home

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
    """Return the refused drops of a home, the oldest first, but those after which another one was taken up.

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
    beside = (
        "why stands beside it" if inbox is None else f"why stands beside it, in {inbox.address}/quarantine"
    )
    kind: Refusal = drop.refusal or ("data" if drop.state == "refused" else "manifest")
    then = {
        "data": "Why is shown where it ran; have the data mended and delivered again.",
        "manifest": f"Have it mended and delivered again; {beside}.",
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
