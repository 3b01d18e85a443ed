"""The end of the chain: where a step is judged and its entry appended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from ledger import chain, queries
from ledger.errors import BudgetExhausted, Conflict, StaleFence, UnknownAccount, WrongState
from ledger.records import STEPS, Charge, Head, Sums, Terms


class Page:
    """The end of the chain, inside a transaction that holds the right to append."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        self.connection = connection
        self.head, self._last = queries.head(connection)
        self.appended = False
        self._now = now

    def append(self, kind: str, fields: dict[str, Any], tolerance: timedelta | None = None) -> dict[str, Any]:
        """Append one entry and return its body."""
        at = chain.next_time(self._now, self._last, tolerance)
        if kind == "reserved":
            fields["reserved_at"] = at
        body, entry = chain.seal(self.head, kind, at, fields)
        queries.insert(self.connection, entry, body)
        self.head, self._last, self.appended = Head(entry.seq, entry.hash), at, True
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
        sums: dict[str, Sums] | None = None,
        *,
        tolerance: timedelta | None = None,
    ) -> Charge:
        """Append that ``charge`` took ``step``; its other fields are as they shall be afterwards."""
        fields = charge.fields()
        for scope, before in (sums or self.standing(charge).sums).items():
            fields.update(before.after(step, charge.state or None, charge.amount).texts(scope))
        return Charge.of(self.append(step, fields, tolerance))


def content(charge: Charge) -> dict[str, Any]:
    """Return what makes a charge the same charge when it is asked for again."""
    asked = ("account", "amount", "input_digest", "period", "product", "spec_digest")
    return {name: getattr(charge, name) for name in asked}


def same(kind: str, name: str, asked: dict[str, Any], known: dict[str, Any]) -> None:
    """Refuse what is in the books already with other content."""
    other = [field for field in asked if asked[field] != known[field]]
    if other:
        raise Conflict(
            "is in the books with another " + ", ".join(other),
            where=f"{kind} {name}",
            mend="use another name, or ask for exactly what stands there",
        )


def within_caps(sums: dict[str, Sums], terms: Terms, charge: Charge) -> None:
    """Refuse a charge that would pass the cap of its account, period or product."""
    caps = {
        "account": (terms.cap, f"account {charge.account}"),
        "period": (terms.cap_per_period, f"account {charge.account}, period {charge.period}"),
        "product": (terms.cap_per_product, f"account {charge.account}, product {charge.product}"),
    }
    for scope, (cap, where) in caps.items():
        if cap is not None and sums[scope].used + charge.amount > cap:
            raise BudgetExhausted(
                f"budget exhausted: {charge.amount} was asked and {cap - sums[scope].used} is left",
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
