"""One look at an inbox: put away what ended, claim what arrived whole, refuse what is not what it says.

A look starts from what lies there and what the claims know, and from nothing else: whoever looks next, after
whatever end of this process, goes on. What is there to be announced afterwards is in the claims, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from shlex import quote
from typing import Any, TypeVar

from ledger import Ledger
from mechanisms.errors import InputError
from tasks.arrival import kept_digests
from tasks.arrival.calendar_periods import has_come
from tasks.arrival.claims import Claims, Drop, State, drop_found, new_id, slot_of
from tasks.arrival.inboxes import Inbox
from tasks.arrival.manifest import MANIFEST, DropRefused, Manifest
from tasks.arrival.moves import delete_old, put_away
from tasks.arrival.places import Place, opened
from tasks.arrival.verify_drop import is_whole, said
from tasks.runtime.home import Home
from validations.spec.load import load_spec

_PUBLISHED = (
    "period already published; somebody may run it as a revision, which an officer approves: "
    "tabularium run {} --source drop:{} --period {} --revises REASON --home {}"
)
T = TypeVar("T")
_TAKEN = "another drop came first for this period; wait for its end, then drop this one again"


def look(home: Home, inbox: Inbox) -> None:
    """Look at an inbox once.

    Raises
    ------
    TabulariumError
        If the claims, the ledger or the spec cannot be read: every drop stays as it is until the next look.
    OSError
        If the inbox cannot be opened.
    """
    place = opened(inbox.address)
    ended: tuple[State, ...] = ("published", "refused", "quarantined")
    failures: list[Exception] = []

    def each(drops: Iterable[T], do: Callable[[T], object]) -> None:
        """Go on with the others: nobody who writes into an inbox may stop it by one drop."""
        for drop in drops:
            try:
                do(drop)
            except Exception as error:
                failures.append(error)

    with Claims.at(home) as claims:
        each(claims.of_product(inbox.product, *ended), partial(put_away, claims, home, place))
        known = {str(drop.lies).partition("/")[2]: drop for drop in claims.lying(inbox.product)}
        there = place.drops()
        each([drop for name, drop in known.items() if name not in there], partial(_miss, home, claims))
        each([name for name in there if name not in known], partial(_judge, home, inbox, claims, place))
        each(claims.of_product(inbox.product, *ended), partial(put_away, claims, home, place))
        each(claims.of_product(inbox.product, *ended), partial(delete_old, claims, home, inbox, place))
        for orphan in kept_digests.orphans(home):
            if claims.find(orphan) is None:
                kept_digests.forget(home, orphan)
    for failure in failures[:1]:
        raise failure


def _miss(home: Home, claims: Claims, drop: Drop) -> None:
    """Let go of a drop that somebody took away before a run of it began, or after one failed."""
    taken = drop.state in ("arrived", "failed")
    if taken and claims.change(drop, state="gone", lies=None, slot=None, ended_at=time.time()):
        kept_digests.forget(home, drop.id)


def _judge(home: Home, inbox: Inbox, claims: Claims, place: Place, name: str) -> None:
    """Claim a drop if it is whole, or refuse it; one that changes meanwhile is for the next look."""
    changed = place.changed(name)
    if changed is None:
        return
    try:
        found = said(place, name, inbox.product)
        if found is None:
            return
        manifest, lying = found
        account = _account(inbox, manifest)
        with Ledger.connect(home.ledger_url) as books:
            charged = books.is_charged(account, inbox.product, manifest.period)
        if not is_whole(place, name, manifest, lying):  # last, for it takes long
            return
    except DropRefused as refusal:
        if time.time() - changed < inbox.patience:
            return
        about: dict[str, Any] = {"why": refusal.line()}
    else:
        about = {"id": new_id(), "period": manifest.period}
        words = (quote(inbox.spec), about["id"], quote(manifest.period), quote(str(home.path)))
        about["why"] = _PUBLISHED.format(*words) if charged else _TAKEN
        kept_digests.keep(home, about["id"], manifest.files)
        slot = slot_of(inbox.product, manifest.period)
        first = drop_found(inbox.product, name, **{**about, "why": ""}, state="arrived", slot=slot)
        if not charged and claims.take(first):
            _recheck(claims, place, first, changed)
            return
    late = drop_found(inbox.product, name, **about, state="quarantined", ended_at=time.time())
    if claims.take(late):
        _recheck(claims, place, late, changed)


def _recheck(claims: Claims, place: Place, drop: Drop, changed: float) -> None:
    """Take the claim back if the drop is another now, or gone: another watcher may have put it away."""
    if place.changed(drop.place) != changed:
        claims.withdraw(drop)


def _account(inbox: Inbox, manifest: Manifest) -> str:
    """Return the account that the product is charged in, having seen that the period may be one of its.

    Raises
    ------
    InputError
        If the spec cannot be read.
    DropRefused
        If the period is none that the product may have data of.
    """
    spec = load_spec(inbox.spec).spec
    if spec.product != inbox.product:
        raise InputError(
            "is not the spec of the inbox's product", where=inbox.spec, mend="deploy the product again"
        )
    taken = (
        re.fullmatch(inbox.periods, manifest.period, re.ASCII)
        if inbox.periods
        else has_come(manifest.period, spec.period, datetime.now(UTC).date())
    )
    if not taken:
        raise DropRefused(
            "names a period that is none of this product's, or has not begun",
            where=MANIFEST,
            mend=f"write it like {spec.period}, the spec's, or let the inbox be deployed for others",
        )
    return spec.dataset
