"""Refused drops that nobody has replaced yet: what kind of refusal, and what a person can do.

Why a drop was refused is not repeated here: it may name its files, and of data it follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tabularium.tasks.arrival.claims import Claims, Drop, State
from tabularium.tasks.arrival.inboxes import inboxes
from tabularium.tasks.arrival.look import PUBLISHED_BEFORE, TAKEN
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
    addresses = {inbox.product: inbox.address for inbox in inboxes(home)} if drops else {}
    return [
        _refused(drop, addresses.get(drop.product))
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


def _refused(drop: Drop, address: str | None) -> RefusedDrop:
    beside = f"why stands beside it, in {address}/quarantine" if address else "why stands beside it"
    run, command = "", ""
    if drop.state == "refused":
        command = drop.why.partition("; see ")[2]
        run = command.removeprefix("tabularium diagnose ").partition(" --home ")[0]
        run = "" if run.startswith("--home") else run
        kind, then = "data", "Why is shown where it ran; have the data mended and delivered again."
    elif drop.why.startswith(PUBLISHED_BEFORE):
        command = drop.why.partition(": ")[2]
        kind, then = "period published", "Nothing follows, unless somebody runs it as a revision."
    elif drop.why == TAKEN:
        kind, then = "period taken", "Have it delivered again once the other one of this period has ended."
    else:
        kind, then = "manifest", f"Have it mended and delivered again; {beside}."
    since = datetime.fromtimestamp(drop.ended_at or drop.found_at, UTC)
    return RefusedDrop(drop.product, drop.period, since, run, f"refused: {kind}", then, command)
