"""Putting drops away: what was published into ``done``, what was not right into ``quarantine``, and its end.

Where something goes is written down before it goes, and that it went afterwards: whoever is cut off in
between finds the same target again. One process at a time moves the drops of a product, and looks again once
it may: what another one put away is another drop by now. A folder is renamed; in an object store every object
is copied before the first is deleted.
"""

from __future__ import annotations

from dataclasses import replace

from tabularium.ledger.durable_files import turn
from tabularium.tasks.arrival import kept_digests
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.places import DONE, QUARANTINE, Place
from tabularium.tasks.arrival.verify_drop import is_plain
from tabularium.tasks.runtime.home import Home

_WHY = ".why.txt"


def put_away(claims: Claims, home: Home, place: Place, drop: Drop) -> bool:
    """Move a drop that ended to where it belongs, if it does not lie there yet and nobody else is at it.

    Returns
    -------
    bool
        Whether it was moved.
    """
    folder = DONE if drop.state == "published" else QUARANTINE
    if drop.place.startswith(f"{folder}/"):
        return False
    with turn(home.path / f".{drop.product}.moves.lock", 0) as mine:
        if mine and claims.find(drop.id) == drop:
            return _move(claims, place, drop, folder)
    return False


def _move(claims: Claims, place: Place, drop: Drop, folder: str) -> bool:
    target = drop.target
    if target is None or not target.startswith(f"{folder}/"):
        name = drop.place.rpartition("/")[2]
        target = f"{folder}/{name if is_plain(name) else drop.id}"
        if place.has(target) or place.has(target + _WHY):
            target += f"-{drop.id[:8]}"
        if not claims.change(drop, target=target):
            return False  # another watcher was first
        drop = replace(drop, target=target)
    # Nothing lies at either place if another watcher put it away before this claim, which is taken back.
    if folder == QUARANTINE and (place.has(drop.place) or place.has(target)):
        place.write(target + _WHY, drop.why + "\n")
    place.move(drop.place, target)
    if drop.place.startswith(f"{QUARANTINE}/"):
        place.delete(drop.place + _WHY)
    return claims.change(drop, place=target, target=None, lies=None)


def delete_old(claims: Claims, home: Home, place: Place, drop: Drop) -> bool:
    """Delete a drop that the inbox has kept long enough, with what is known of its content."""
    place.delete(drop.place)
    place.delete(drop.place + _WHY)
    kept_digests.forget(home, drop.id)
    return claims.change(drop, state="deleted", place="", why="")
