"""The end of the chain, where an entry is appended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import rules
from tabularium.ledger.chain.continuity import require_continued
from tabularium.ledger.events import IN_TIME, columns, next_time, seal
from tabularium.ledger.keys import key_id, public_hex, statement
from tabularium.ledger.records import STEPS, Charge, Entry, Head
from tabularium.ledger.refusals import NotApproved
from tabularium.ledger.storage import decision_queries, entry_queries
from tabularium.ledger.storage.chain_head import ChainHead


class Append:
    """One entry to be appended, inside a transaction that holds the right to do so.

    Attributes
    ----------
    start
        What was read when the right was taken.
    head
        The last entry: the one in ``start``, and from :meth:`append` on the new one.
    entry
        The entry to be appended and its columns, or ``None`` so far.
    """

    def __init__(self, connection: Connection, now: datetime, start: ChainHead, tolerance: timedelta) -> None:
        self.connection = connection
        self.start, self.head = start, start.head
        self.entry: tuple[Entry, tuple[str | None, ...]] | None = None
        self._now, self._tolerance = now, tolerance
        self._continued: frozenset[str] = frozenset()

    def time(self, *, in_time: bool = True) -> str:
        """Return the time that the entry will have; ``in_time`` refuses a clock that is behind."""
        return next_time(self._now, self.start.at, self._tolerance if in_time else None)

    def append(self, kind: str, fields: Mapping[str, Any], *, in_time: bool | None = None) -> dict[str, Any]:
        """Give the entry its content; it is written when the transaction ends. Return its body.

        Parameters
        ----------
        in_time
            Whether the clock may not be behind; ``None``: as its kind needs it.
        """
        at = self.time(in_time=kind in IN_TIME if in_time is None else in_time)
        begins = {"reserved_at": at} if STEPS.get(kind) == (None,) else {}
        body, entry = seal(self.head, kind, at, {**fields, **begins})
        self.entry, self.head = (entry, columns(body)), Head(entry.seq, entry.hash)
        return body

    def step(self, charge: Charge, step: str, decided: Mapping[str, Any] | None = None) -> Charge:
        """Append that ``charge`` took ``step``; its other fields are as they shall be afterwards.

        Parameters
        ----------
        decided
            What an officer decided about it, signed.
        """
        fields = {**charge.fields(), **(decided or {})}
        sums = rules.sums_after(self.connection, charge, step, self.standing(charge))
        for scope, after in sums.items():
            fields.update(after.texts(scope))
        return Charge.of(self.append(step, fields))

    def signed(
        self,
        kind: str,
        fields: Mapping[str, Any],
        by: Ed25519PrivateKey | None,
        *,
        needs: str | None = None,
        where: str = "",
        command: str = "",
    ) -> dict[str, Any]:
        """Return the fields that say who signed an entry; none without a key, where it needs none.

        Parameters
        ----------
        fields
            What the entry says.
        needs
            What needs an officer's signature, for the refusal of an entry without one at ``where``;
            ``command`` is the one to give again.

        Raises
        ------
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        """
        if by is None:
            if needs is None:
                return {}
            raise NotApproved(
                f"{needs} needs an officer's signature",
                where=where,
                hint=f"sign it with an enrolled key: tabularium ledger {command} … --key FILE",
            )
        signer = key_id(public_hex(by))
        if not (kind == "key" and signer == fields["key"] and not rules.guarded(self.connection)):
            rules.require_active(self.connection, signer)
        turn = decision_queries.turn(self.connection, kind, fields)
        words = {**fields, "by": signer, "turn": turn}
        signature = by.sign(statement(entry_queries.first_hash(self.connection), kind, words)).hex()
        return {"by": signer, "signature": signature, "turn": turn}

    def standing(self, charge: Charge) -> entry_queries.Standing:
        """Return how a charge and all that its caps are compared with stand, once that is seen to hold."""
        stands = self.start.standing or entry_queries.standing(
            self.connection, charge.release_id, charge.account, charge.period, charge.product
        )
        require_continued(self.connection, stands.lasts - self._continued)
        self._continued = stands.lasts
        return stands
