"""Putting drops away: what was published into ``done``, what was not right into ``quarantine``, and its end.

Where something goes is written down before it goes, and that it went afterwards: whoever is cut off in
between, or does it at the same time, finds the same target again. A folder is renamed; in an object store
every object is copied before the first is deleted.
"""

from __future__ import annotations

import time

from tasks.arrival import kept_digests
from tasks.arrival.claims import Claims, Drop
from tasks.arrival.inboxes import Inbox
from tasks.arrival.places import DONE, QUARANTINE, Place
from tasks.runtime.home import Home

_WHY = ".why.txt"
_DAY = 86400.0


def put_away(claims: Claims, inbox: Inbox, place: Place) -> None:
    """Move every drop of the inbox that was published, refused or quarantined to where it belongs."""
    for drop in claims.of_product(inbox.product, "published", "refused", "quarantined"):
        folder = DONE if drop.state == "published" else QUARANTINE
        if drop.place and not drop.place.startswith(f"{folder}/"):
            _move(claims, place, drop, folder)


def _move(claims: Claims, place: Place, drop: Drop, folder: str) -> None:
    target = drop.target
    if target is None or not target.startswith(f"{folder}/"):
        name = drop.place.rpartition("/")[2]
        target = f"{folder}/{name}"
        if place.has(target) or place.has(target + _WHY):
            target += f"-{drop.id[:8]}"
        if not claims.change(drop, target=target):
            return  # another watcher was first
        drop = claims.find(drop.id) or drop
    if folder == QUARANTINE:
        place.write(target + _WHY, drop.why + "\n")
    place.move(drop.place, target)
    if drop.place.startswith(f"{QUARANTINE}/"):
        place.delete(drop.place + _WHY)
    claims.change(drop, place=target, target=None, lies=None)


def delete_old(claims: Claims, home: Home, inbox: Inbox, place: Place) -> int:
    """Delete what was put away longer ago than the inbox keeps it, with all that is known of its content."""
    deleted = 0
    before = time.time() - inbox.retention * _DAY
    for drop in claims.of_product(inbox.product, "published", "refused", "quarantined"):
        if drop.lies is None and drop.ended_at is not None and drop.ended_at < before:
            place.delete(drop.place)
            place.delete(drop.place + _WHY)
            kept_digests.forget(home, drop.id)
            deleted += claims.change(drop, state="deleted", place="", why="")
    return deleted
