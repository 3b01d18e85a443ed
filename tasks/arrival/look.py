"""One look at an inbox: put away ended drops, claim complete ones, refuse the others.

::

    by lot, some of what lies there ─▶ manifest, names, sizes ─▶ digests, small drops first ─▶ claimed
                                              └────── refused ───────┘ ─▶ put away, old ones deleted

A look starts from the inbox and the claims, and from nothing else: the next look, after
any end of this process, goes on. Drops to be announced are in the claims, too. Each
part of a look begins nothing more once it has taken some seconds. What it takes up is chosen by lot, so
that no number of drops, and nothing that somebody does to them, keeps another one waiting for ever.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from shlex import quote
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from tabularium.ledger import Ledger
from tabularium.ledger.durable_files import turn
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.claims import Claims, Drop, State, drop_found, new_id, slot_of
from tabularium.tasks.arrival.inboxes import Inbox, has_come, has_room
from tabularium.tasks.arrival.manifest import MANIFEST, DropRefused, Manifest
from tabularium.tasks.arrival.places import DONE, QUARANTINE, Place, Seen, opened
from tabularium.tasks.arrival.verify_drop import (
    forget_verified,
    is_plain,
    is_whole,
    keep_verified,
    manifest_in,
    orphaned,
    see_that_all_is_read,
)
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from tabularium.validations.release_spec.model import ReleaseSpec
    from tabularium.validations.release_spec.source import PublishedSource

_PUBLISHED = "period already published; somebody may run it as a revision, which an officer approves: "
_TAKEN = "another drop came first for this period; wait for its end, then drop this one again"
_ENDED: tuple[State, ...] = ("published", "refused", "quarantined")
#: After so long a part of a look begins nothing more.
_SECONDS = 10.0
_MOST_ORPHANS = 100
_DAY = 86400.0
T = TypeVar("T")


def look(home: Home, inbox: Inbox) -> bool:
    """Look at an inbox once; return whether work is left that needs no new drop.

    Raises
    ------
    TabulariumError
        If the claims, the ledger or the spec cannot be read: every drop stays as it is until the next look.
    OSError
        If the inbox cannot be opened.
    """
    place, work = opened(inbox.address, inbox.limits), _Work()
    with Claims.at(home) as claims, ExitStack() as stack:
        known = {str(drop.lies).partition("/")[2]: drop for drop in claims.lying(inbox.product)}
        there = set(place.drops())
        work.process(
            [drop for name, drop in known.items() if name not in there], partial(_miss, home, claims)
        )
        judge = _Judge(home, inbox, claims, place, stack)
        new = sorted(there - known.keys())
        work.process(new, judge.read, by_lot=True, enough=lambda: judge.number >= inbox.limits.drops)
        judge.stated.sort(key=lambda stated: (stated.manifest.size, stated.changed))
        waiting = work.process(judge.stated, judge.claim)
        work.process(waiting[:1], judge.claim)  # one by lot, for small ones may come for ever
        work.process(judge.refused, judge.quarantine, by_lot=True)
        ended = [drop for drop in claims.lying(inbox.product) if drop.state in _ENDED]
        work.process(ended, partial(put_away, claims, home, place), by_lot=True)
        old = claims.put_away_before(inbox.product, time.time() - inbox.retention * _DAY)
        work.process(old, partial(delete_old, claims, home, place), by_lot=True)
        orphans = orphaned(home)
        for orphan in random.sample(orphans, min(len(orphans), _MOST_ORPHANS)):
            if claims.find(orphan) is None:
                forget_verified(home, orphan)
    for failure in work.failures[:1]:
        raise failure
    return work.left and work.done


def revising(home: Home, inbox: Inbox, drop: str, period: str) -> str:
    """Return the command that runs a drop as a revision of its period."""
    rest = f"--period {quote(period)} --revises REASON --home {quote(str(home.path))}"
    return f"tabularium run {quote(inbox.spec)} --source drop:{drop} {rest}"


class _Work:
    """The parts of a look: time limits, and failures, which stop no other drop.

    Attributes
    ----------
    failures
        Raised by what was done: nobody who writes into an inbox may stop it by one drop.
    left
        Whether anything was not begun.
    done
        Whether anything is no longer as it was: what was done returned True.
    """

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.left = self.done = False

    def process(
        self,
        drops: Iterable[T],
        do: Callable[[T], object],
        *,
        by_lot: bool = False,
        enough: Callable[[], bool] = lambda: False,
    ) -> list[T]:
        """Apply ``do`` to drops while there is time and not ``enough``; return the others, by lot."""
        waiting, until = list(drops), monotonic() + _SECONDS
        if by_lot:
            random.shuffle(waiting)
        for position, drop in enumerate(waiting):
            if position and (monotonic() > until or enough()):
                self.left = True
                return random.sample(waiting[position:], len(waiting) - position)
            try:
                self.done |= do(drop) is True
            except Exception as error:
                self.failures.append(error)
        return []


@dataclass(frozen=True)
class _Stated:
    """A drop whose manifest fits its files by name and size."""

    name: str
    changed: float
    manifest: Manifest
    lying: list[Seen]


@dataclass(frozen=True)
class _Refused:
    """A drop that goes into quarantine, and why."""

    name: str
    changed: float
    about: dict[str, Any]


def _miss(home: Home, claims: Claims, drop: Drop) -> None:
    """Release the claim on a drop that was taken away before its run began, or after it failed."""
    taken = drop.state in ("arrived", "failed")
    if taken and claims.change(drop, state="gone", lies=None, slot=None, ended_at=time.time()):
        forget_verified(home, drop.id)


class _Judge:
    """Judges the new drops of an inbox; one that changes meanwhile is left to the next look.

    ``stated``, ``refused``: drops that were read, and what became of them so far.
    """

    def __init__(self, home: Home, inbox: Inbox, claims: Claims, place: Place, stack: ExitStack) -> None:
        self._home, self._inbox, self._claims, self._place, self._stack = home, inbox, claims, place, stack
        self.stated: list[_Stated] = []
        self.refused: list[_Refused] = []

    @property
    def number(self) -> int:
        """The number of judged drops: a folder without a manifest is not judged, and keeps none waiting."""
        return len(self.stated) + len(self.refused)

    def read(self, name: str) -> None:
        """Read the manifest of a drop and check that it fits; no other file is opened."""
        changed = self._place.changed(name)
        if changed is None:
            return
        try:
            read = manifest_in(self._place, name, self._inbox.product, self._inbox.limits)
            if read is None:
                return
            manifest, lying = read
            see_that_all_is_read(manifest, lying, self._ignored, self._files.file_format)
            self._see_period(manifest.period)
            if not has_room(manifest.size, self._home.workspaces):
                raise DropRefused(
                    "is larger than the room that workspaces have",
                    where="the drop",
                    hint="make room, then move it back into the inbox under another name",
                )
        except DropRefused as refusal:
            self._refuse(name, changed, refusal)
        else:
            self.stated.append(_Stated(name, changed, manifest, lying))

    def claim(self, stated: _Stated) -> bool:
        """Claim a drop if its files are those of its manifest, to the last bit, and its period is free.

        Returns whether it was claimed.
        """
        name, changed, manifest = stated.name, stated.changed, stated.manifest
        charged = self._is_charged(manifest.period)
        try:
            how = (self._ignored, self._files.file_format)
            if not is_whole(self._place, name, manifest, stated.lying, *how):
                return False
        except DropRefused as refusal:
            self._refuse(name, changed, refusal)
            return False
        about: dict[str, Any] = {"id": new_id(), "period": manifest.period}
        keep_verified(self._home, about["id"], manifest.files)
        if not charged:
            slot = slot_of(self._inbox.product, manifest.period)
            first = drop_found(self._inbox.product, name, **about, why="", state="arrived", slot=slot)
            if self._take(first, changed):
                return True
        about |= {"why": _TAKEN, "refusal": "period taken"}
        if charged:
            command = revising(self._home, self._inbox, about["id"], manifest.period)
            about |= {"why": _PUBLISHED + command, "refusal": "period published"}
        self.refused.append(_Refused(name, changed, about))
        return False

    def quarantine(self, refused: _Refused) -> bool:
        """Claim a drop for quarantine; return whether it was claimed."""
        late = drop_found(
            self._inbox.product, refused.name, **refused.about, state="quarantined", ended_at=time.time()
        )
        return self._take(late, refused.changed)

    def _refuse(self, name: str, changed: float, refusal: DropRefused) -> None:
        """Refuse a drop, unless it may still be growing."""
        if time.time() - changed >= self._inbox.patience:
            self.refused.append(_Refused(name, changed, {"why": refusal.line(), "refusal": "manifest"}))

    def _take(self, drop: Drop, changed: float) -> bool:
        """Claim a drop; withdraw the claim if the drop changed or is gone, as by another watcher."""
        if not self._claims.take(drop):
            return False
        if self._place.changed(drop.place) != changed:
            self._claims.withdraw(drop)
        return True

    @cached_property
    def _spec(self) -> ReleaseSpec:
        from tabularium.validations.release_spec.load import (
            load_spec,  # with all that counts: not for a look at nothing
        )

        spec = load_spec(self._inbox.spec).spec
        if spec.product != self._inbox.product:
            raise InputError(
                "is not the spec of the inbox's product",
                where=self._inbox.spec,
                hint="deploy the product again",
            )
        return spec

    @property
    def _ignored(self) -> tuple[str, ...]:
        return self._files.ignore

    @property
    def _files(self) -> PublishedSource:
        from tabularium.validations.release_spec.source import published_source

        return published_source(self._spec.source)

    @cached_property
    def _books(self) -> Ledger:
        return self._stack.enter_context(Ledger.connect(self._home.ledger_url))

    def _is_charged(self, period: str) -> bool:
        return self._books.is_charged(self._spec.dataset, self._inbox.product, period)

    def _see_period(self, period: str) -> None:
        """Refuse a period that the product may not receive."""
        taken = (
            re.fullmatch(self._inbox.periods, period, re.ASCII)
            if self._inbox.periods
            else has_come(period, self._spec.period, datetime.now(ZoneInfo(self._inbox.timezone)).date())
        )
        if not taken:
            raise DropRefused(
                "names a period that is none of this product's, or has not begun",
                where=MANIFEST,
                hint=f"write it like {self._spec.period}, the spec's, "
                "or let the inbox be deployed for others",
            )


# Putting drops away: what was published into ``done``, what was not right into ``quarantine``, and its end.
#
# The target is recorded before a move, and the move afterwards: an interrupted process finds the same target
# again. One process at a time moves the drops of a product, and reads them again under its lock: another
# process may have put one away. A folder is renamed; in an object store
# every object is copied before the first is deleted.

_WHY = ".why.txt"


def put_away(claims: Claims, home: Home, place: Place, drop: Drop) -> bool:
    """Move an ended drop to its folder, if it is not there yet and no other watcher moves it.

    Returns whether it was moved.
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
    """Delete a drop after the inbox's retention, with its digests."""
    place.delete(drop.place)
    place.delete(drop.place + _WHY)
    forget_verified(home, drop.id)
    return claims.change(drop, state="deleted", place="", why="")
