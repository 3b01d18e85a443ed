"""What officers say of populations: that nobody is in both of two, or no longer.

Where nobody has said so, whoever is in one population may be in the other too, and what both lose is added.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, select

from tabularium.ledger import names
from tabularium.ledger.officers.countersigning import require_active, signed
from tabularium.ledger.officers.keys import key_id, public_hex
from tabularium.ledger.records import Separation
from tabularium.ledger.refusals import BadValue, Conflict
from tabularium.ledger.storage import key_queries
from tabularium.ledger.storage.entry_queries import HASHED_BODY, checked_body
from tabularium.ledger.storage.schema import STATES_TERMS, entries
from tabularium.ledger.transactions import Transactions

_STATED = select(HASHED_BODY).where(STATES_TERMS)
_SAID = (
    select(HASHED_BODY)
    .where(entries.c.account == "", entries.c.kind.in_(("disjoint", "overlapping")))
    .order_by(entries.c.seq)
)


class Populations:
    """Which populations are disjoint."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def separate(
        self,
        population: str,
        other: str,
        *,
        reason: str,
        by: Ed25519PrivateKey,
        disjoint: bool = True,
    ) -> Separation:
        """Say, signed by an enrolled key, that nobody is in both populations; or withdraw what was said.

        It holds while its key is enrolled. The same said again by the same key is no new entry.

        Parameters
        ----------
        disjoint
            False withdraws it.

        Raises
        ------
        BadValue
            If the two are one, or no account is about one of them.
        Conflict
            If there is nothing to withdraw.
        NotApproved
            If ``by`` is not an enrolled key.
        """
        population, other = sorted(names.line(name, field="population") for name in (population, other))
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        where = f"populations {population} and {other}"
        if population == other:
            raise BadValue("is named twice", where=f"population {population}", hint="name two populations")
        signer = key_id(public_hex(by))
        with self._transactions.appending() as append:
            known = _populations(append.connection)
            for name in (population, other):
                if name not in known:
                    raise BadValue(
                        "no account is about this population",
                        where=f"population {name}",
                        hint="see: tabularium ledger show",
                    )
            require_active(append.connection, signer)
            last = _said(append.connection).get((population, other))
            if not disjoint and (last is None or not last.disjoint):
                raise Conflict(
                    "nobody said that they are disjoint", where=where, hint="nothing is to be done"
                )
            if not (disjoint and last is not None and last.disjoint and last.key == signer):
                kind = "disjoint" if disjoint else "overlapping"
                turn = last.turn + 1 if last else 0
                said = {"population": population, "other": other, "reason": reason}
                fields = {**said, "by": signer, "turn": turn}
                signature = signed(append, kind, fields, by)
                # What only makes sums larger must not fail for a clock that is behind.
                tolerance = self._transactions.tolerance if disjoint else None
                append.append(kind, {**fields, "signature": signature}, tolerance)
        with self._transactions.reading() as connection:
            return _said(connection)[population, other]

    def separations(self) -> list[Separation]:
        """Return the last word on every two populations that an officer ever said to be disjoint."""
        with self._transactions.reading() as connection:
            return list(_said(connection).values())


def _populations(connection: Connection) -> set[str]:
    """Return every population that an account is, or was, about."""
    return {checked_body(text)["population"] for text in connection.execute(_STATED).scalars()}


def _said(connection: Connection) -> dict[tuple[str, str], Separation]:
    """Return the last word on each two populations."""
    found: dict[tuple[str, str], Separation] = {}
    known = key_queries.keys(connection)
    for text in connection.execute(_SAID).scalars():
        body = checked_body(text)
        disjoint = body["kind"] == "disjoint"
        holds = disjoint and body["by"] in known and known[body["by"]].active
        said = {name: body[name] for name in ("population", "other", "turn", "at", "reason")}
        pair = (body["population"], body["other"])
        found[pair] = Separation(disjoint=disjoint, holds=holds, key=body["by"], **said)
    return found
