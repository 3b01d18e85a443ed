"""The end of the chain: where a step is judged and its entry appended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection

from ledger import composition
from ledger.chain import entries as chain
from ledger.records import STEPS, Charge, Entry, Head, Sums, Terms, change
from ledger.refusals import (
    AccountClosed,
    BudgetExhausted,
    Conflict,
    NotApproved,
    StaleFence,
    UnknownAccount,
    WrongState,
)
from ledger.storage import chain_head as turns
from ledger.storage import entry_queries as queries
from ledger.storage.schema import repeated


class Page:
    """The end of the chain, inside a transaction that holds the right to append."""

    def __init__(self, connection: Connection, now: datetime, turn: turns.Turn | None = None) -> None:
        turn = turn or turns.turn(connection, None)
        self.connection = connection
        self.head, self._last = turn.head, turn.last
        self.asked, self.elsewhere = turn.standing, turn.elsewhere
        self.shows = turn.shows
        self.entry: tuple[Entry, tuple[str | None, ...]] | None = None
        self._now = now

    def time(self, tolerance: timedelta | None = None) -> str:
        """Return the time that the next entry will have."""
        return chain.next_time(self._now, self._last, tolerance)

    def append(self, kind: str, fields: dict[str, Any], tolerance: timedelta | None = None) -> dict[str, Any]:
        """Write the one entry of this page, to be appended when the page is turned; return its body."""
        at = self.time(tolerance)
        if kind == "reserved":
            fields["reserved_at"] = at
        body, entry = chain.seal(self.head, kind, at, fields)
        self.entry = entry, repeated(body)
        self.head, self._last = Head(entry.seq, entry.hash), at
        return body

    def standing(self, charge: Charge) -> queries.Standing:
        """Return how the charge and all that its caps are held against stand."""
        return queries.standing(
            self.connection, charge.release_id, charge.account, charge.period, charge.product
        )

    def step(
        self,
        charge: Charge,
        step: str,
        stands: queries.Standing | None = None,
        *,
        tolerance: timedelta | None = None,
        signature: Mapping[str, Any] | None = None,
    ) -> Charge:
        """Append that ``charge`` took ``step``; its other fields are as they shall be afterwards."""
        stands = stands or self.standing(charge)
        fields = {**charge.fields(), **(signature or {})}
        for scope, sums in self.after(charge, step, stands).items():
            fields.update(sums.texts(scope))
        return Charge.of(self.append(step, fields, tolerance))

    def after(self, charge: Charge, step: str, stands: queries.Standing) -> dict[str, Sums]:
        """Return what will be reserved and spent in each scope once ``charge`` has taken ``step``."""
        added = change(step, charge.state or None, charge.amount)
        inside, part = added, None
        if charge.group is not None:
            inside, part = self._in_parallel(charge, stands.terms, added)
        bound = charge.group is not None and composition.period_of(charge.group) is not None
        scopes = {"account": inside, "period": inside if bound else added, "product": added}
        after = {scope: stands.sums[scope].plus(scopes[scope]) for scope in scopes}
        return after if part is None else {**after, "part": part}

    def _in_parallel(
        self, charge: Charge, terms: Terms | None, added: tuple[Fraction, Fraction]
    ) -> tuple[tuple[Fraction, Fraction], Sums]:
        """Return what a step adds to the cost of its whole group, and how its own part stands after it."""
        if terms is None or charge.group is None or charge.part is None or charge.contributions is None:
            raise unknown_account(charge.account)
        parts = queries.parts(self.connection, charge.account, charge.group)
        pairs = {name: (sums.reserved, sums.spent) for name, sums in parts.items()}
        fold = composition.folds(charge.contributions, terms.relation)
        inside = composition.group_change(pairs, charge.part, added, fold)
        return inside, parts.get(charge.part, Sums()).plus(added)


def content(charge: Charge) -> dict[str, Any]:
    """Return what makes a charge the same charge when it is asked for again."""
    asked = ("account", "amount", "input_digest", "period", "product", "spec_digest")
    partition = ("group", "part", "contributions")
    return {name: getattr(charge, name) for name in (*asked, *partition)}


def same(kind: str, name: str, asked: dict[str, Any], known: dict[str, Any]) -> None:
    """Refuse what is in the books already with other content."""
    other = [field for field in asked if asked[field] != known[field]]
    if other:
        raise Conflict(
            "is in the books with another " + ", ".join(other),
            where=f"{kind} {name}",
            mend="use another name, or ask for exactly what stands there",
        )


def open_at(terms: Terms, at: str) -> None:
    """Refuse a charge of an account that is not open at the time ``at``."""
    day = at[:10]
    if terms.open_on(day):
        return
    early = terms.opens_on is not None and day < terms.opens_on
    raise AccountClosed(
        f"takes charges only from {terms.opens_on} on" if early else f"is closed since {terms.closes_on}",
        where=f"account {terms.name}",
        mend="wait, or have a disclosure officer change its dates",
    )


def approved(connection: Connection, terms: Terms, spec_digest: str, amount: Fraction) -> None:
    """Refuse a charge of an account that needs approvals unless an officer has approved the spec."""
    if not terms.needs_approval:
        return
    last = queries.approval(connection, terms.name, spec_digest)
    what = "no disclosure officer has approved this spec"
    if last is not None:
        if not last.approved:
            what = "the approval of this spec was withdrawn"
        elif last.amount is not None and amount > last.amount:
            what = f"this spec is approved for {last.amount} and asks {amount}"
        elif not queries.is_active(connection, last.key):
            what = "the key that approved this spec was revoked"
        else:
            return
    raise NotApproved(
        what,
        where=f"account {terms.name}, spec {spec_digest}",
        mend="let an officer run: tabularium ledger approve SPEC --key FILE",
    )


def within_caps(terms: Terms, charge: Charge, before: dict[str, Sums], after: dict[str, Sums]) -> None:
    """Refuse a charge that would pass the cap of its account, period or product."""
    caps = {
        "account": (terms.cap, f"account {charge.account}"),
        "period": (terms.cap_per_period, f"account {charge.account}, period {charge.period}"),
        "product": (terms.cap_per_product, f"account {charge.account}, product {charge.product}"),
    }
    for scope, (cap, where) in caps.items():
        if cap is not None and after[scope].used > cap:
            left = max(cap - before[scope].used, Fraction(0))
            raise BudgetExhausted(
                f"budget exhausted: {after[scope].used - before[scope].used} was asked and {left} is left",
                where=where,
                mend="ask for less, or have a disclosure officer raise the cap",
            )


def allowed(charge: Charge, step: str) -> None:
    """Refuse a step that the charge's state does not allow."""
    if charge.state not in STEPS[step]:
        mend = {
            "reserved": "begin its drawing, or void it",
            "drawing": "finish it, or abandon it",
            "measured": "publish it, or abandon it",
        }.get(charge.state, "nothing can follow")
        raise WrongState(
            f"is {charge.state} and cannot become {step}", where=f"release {charge.release_id}", mend=mend
        )


def stale(charge: Charge) -> StaleFence:
    """Return the refusal of a fence that is no longer the charge's."""
    return StaleFence(
        "another attempt has taken over; nothing was written",
        where=f"release {charge.release_id}",
        mend="leave it to that attempt, or run again",
    )


def unknown_account(name: object) -> UnknownAccount:
    """Return the refusal of an account that was never opened."""
    return UnknownAccount("no such account", where=f"account {name}", mend="open it first")
