"""What a run does with the drop it is for: tells that it began and how it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Any, Literal

from tabularium.mechanisms.errors import DataRefused, RunRefused
from tabularium.tasks.arrival.claims import LIVE, Claims
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import drop_of

Ending = Literal["published", "refused", "failed"]


def started(home: Home, source: str | None) -> None:
    """Write down that a run began of the drop that ``source`` names; of any other source nothing.

    Whoever begins a run calls this first: a drop whose run never began is announced again.
    """
    _note(home, source, "started")


def finished(home: Home, source: str | None, ending: Ending, *, run: str = "") -> None:
    """Write down how a run of a drop ended; a run that waits has not ended.

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
    """Return the command that says why a run has refused its data."""
    return f"tabularium diagnose{run and ' ' + run} --home {quote(str(home.path))}"


@contextmanager
def recorded(home: Home, source: str | None) -> Iterator[None]:
    """Write down how a run by hand, inside the block, ended if it published or was refused."""
    try:
        yield
    except (DataRefused, RunRefused) as refusal:
        finished(home, source, "refused", run=refusal.run)
        raise
    finished(home, source, "published")


def _note(
    home: Home, source: str | None, state: Literal["started", "published", "refused", "failed"], run: str = ""
) -> None:
    found = drop_of(source)
    if found is None:
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
        while (drop := claims.find(found)) is not None and drop.state in allowed:
            if claims.change(drop, state=state, **values):
                return
