"""One look at an inbox: put away what ended, claim complete drops, refuse wrong ones.

::

    by lot, some of what lies there ─▶ manifest, names, sizes ─▶ digests, small drops first ─▶ claimed
                                              └────── refused ───────┘ ─▶ put away, old ones deleted

A look starts from what lies there and what the claims know, and from nothing else: whoever looks next, after
whatever end of this process, goes on. What is there to be announced afterwards is in the claims, too. Each
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
from tabularium.tasks.arrival import kept_digests
from tabularium.tasks.arrival.calendar_periods import has_come
from tabularium.tasks.arrival.claims import Claims, Drop, State, drop_found, new_id, slot_of
from tabularium.tasks.arrival.inboxes import Inbox, has_room
from tabularium.tasks.arrival.manifest import MANIFEST, DropRefused, Manifest
from tabularium.tasks.arrival.places import DONE, QUARANTINE, Place, Seen, opened
from tabularium.tasks.arrival.verify_drop import is_plain, is_whole, said, see_that_all_is_read
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from tabularium.validations.spec.model import ReleaseSpec
    from tabularium.validations.spec.source import PublishedSource

_PUBLISHED = "period already published; somebody may run it as a revision, which an officer approves: "
_TAKEN = "another drop came first for this period; wait for its end, then drop this one again"
_ENDED: tuple[State, ...] = ("published", "refused", "quarantined")
#: After so long a part of a look begins nothing more.
_SECONDS = 10.0
_MOST_ORPHANS = 100
_DAY = 86400.0
T = TypeVar("T")


def look(home: Home, inbox: Inbox) -> bool:
    """Look at an inbox once; return whether there is more to be done that nothing has to come for.

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
        work.each([drop for name, drop in known.items() if name not in there], partial(_miss, home, claims))
        judge = _Judge(home, inbox, claims, place, stack)
        new = sorted(there - known.keys())
        work.each(new, judge.read, by_lot=True, enough=lambda: judge.found >= inbox.limits.drops)
        judge.stated.sort(key=lambda stated: (stated.manifest.size, stated.changed))
        waiting = work.each(judge.stated, judge.claim)
        work.each(waiting[:1], judge.claim)  # one by lot, for small ones may come for ever
        work.each(judge.refused, judge.quarantine, by_lot=True)
        ended = [drop for drop in claims.lying(inbox.product) if drop.state in _ENDED]
        work.each(ended, partial(put_away, claims, home, place), by_lot=True)
        old = claims.put_away_before(inbox.product, time.time() - inbox.retention * _DAY)
        work.each(old, partial(delete_old, claims, home, place), by_lot=True)
        orphans = kept_digests.orphans(home)
        for orphan in random.sample(orphans, min(len(orphans), _MOST_ORPHANS)):
            if claims.find(orphan) is None:
                kept_digests.forget(home, orphan)
    for failure in work.failures[:1]:
        raise failure
    return work.left and work.done


def revising(home: Home, inbox: Inbox, drop: str, period: str) -> str:
    """Return the command that runs a drop as a revision of its period."""
    rest = f"--period {quote(period)} --revises REASON --home {quote(str(home.path))}"
    return f"tabularium run {quote(inbox.spec)} --source drop:{drop} {rest}"


class _Work:
    """What a look does, part by part: an end to each, and the first failure, which stops no other drop.

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

    def each(
        self,
        drops: Iterable[T],
        do: Callable[[T], object],
        *,
        by_lot: bool = False,
        enough: Callable[[], bool] = lambda: False,
    ) -> list[T]:
        """Do something to each drop, while there is time and not ``enough``; return the others, by lot."""
        waiting, until = list(drops), monotonic() + _SECONDS
        if by_lot:
            random.shuffle(waiting)
        for place, drop in enumerate(waiting):
            if place and (monotonic() > until or enough()):
                self.left = True
                return random.sample(waiting[place:], len(waiting) - place)
            try:
                self.done |= do(drop) is True
            except Exception as error:
                self.failures.append(error)
        return []


@dataclass(frozen=True)
class _Stated:
    """A drop as its manifest states it, which fits what lies there."""

    name: str
    changed: float
    manifest: Manifest
    lying: list[Seen]


@dataclass(frozen=True)
class _Refused:
    """A drop that is to be put into quarantine, and what is known of it."""

    name: str
    changed: float
    about: dict[str, Any]


def _miss(home: Home, claims: Claims, drop: Drop) -> None:
    """Let go of a drop that somebody took away before a run of it began, or after one failed."""
    taken = drop.state in ("arrived", "failed")
    if taken and claims.change(drop, state="gone", lies=None, slot=None, ended_at=time.time()):
        kept_digests.forget(home, drop.id)


class _Judge:
    """Judges the drops of an inbox that are not known yet; one that changes meanwhile is for the next look.

    Attributes
    ----------
    stated, refused
        Drops that were read, and what became of them so far.
    """

    def __init__(self, home: Home, inbox: Inbox, claims: Claims, place: Place, stack: ExitStack) -> None:
        self._home, self._inbox, self._claims, self._place, self._stack = home, inbox, claims, place, stack
        self.stated: list[_Stated] = []
        self.refused: list[_Refused] = []

    @property
    def found(self) -> int:
        """How many were judged: a folder that has no manifest yet is not, and keeps none waiting."""
        return len(self.stated) + len(self.refused)

    def read(self, name: str) -> None:
        """Read what a drop says of itself, and see that it fits: no file but the manifest is opened."""
        changed = self._place.changed(name)
        if changed is None:
            return
        try:
            found = said(self._place, name, self._inbox.product, self._inbox.limits)
            if found is None:
                return
            manifest, lying = found
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
        """Claim a drop if its files are those of its manifest to the last bit, and its period is free.

        Returns
        -------
        bool
            Whether it was claimed.
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
        kept_digests.keep(self._home, about["id"], manifest.files)
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
        """Claim a drop as one that is put into quarantine; return whether it was claimed."""
        late = drop_found(
            self._inbox.product, refused.name, **refused.about, state="quarantined", ended_at=time.time()
        )
        return self._take(late, refused.changed)

    def _refuse(self, name: str, changed: float, refusal: DropRefused) -> None:
        """Refuse a drop, unless it may still be growing."""
        if time.time() - changed >= self._inbox.patience:
            self.refused.append(_Refused(name, changed, {"why": refusal.line(), "refusal": "manifest"}))

    def _take(self, drop: Drop, changed: float) -> bool:
        """Claim a drop; taken back if it is another now, or gone: another watcher may have put it away."""
        if not self._claims.take(drop):
            return False
        if self._place.changed(drop.place) != changed:
            self._claims.withdraw(drop)
        return True

    @cached_property
    def _spec(self) -> ReleaseSpec:
        from tabularium.validations.spec.load import (
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
        from tabularium.validations.spec.source import published_source

        return published_source(self._spec.source)

    @cached_property
    def _books(self) -> Ledger:
        return self._stack.enter_context(Ledger.connect(self._home.ledger_url))

    def _is_charged(self, period: str) -> bool:
        return self._books.is_charged(self._spec.dataset, self._inbox.product, period)

    def _see_period(self, period: str) -> None:
        """Refuse a period that the product may not have data of."""
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
# Where something goes is written down before it goes, and that it went afterwards: whoever is cut off in
# between finds the same target again. One process at a time moves the drops of a product, and looks again
# once it may: what another one put away is another drop by now. A folder is renamed; in an object store
# every object is copied before the first is deleted.

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
