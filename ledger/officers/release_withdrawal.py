"""Withdrawing a release that is published: an officer signs that it is offered no more.

Nothing is undone. The noisy numbers are out, so the budget stays spent, and the folder stays as it was
published, for whoever has used it. Another decision than this one is to withhold a draft, which nobody has
seen (:mod:`tabularium.ledger.officers.draft_review`).
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import names
from tabularium.ledger.charges.charge_steps import known_charge
from tabularium.ledger.drafts import Withdrawal
from tabularium.ledger.officers.countersigning import require_active, signed
from tabularium.ledger.officers.keys import key_id, public_hex
from tabularium.ledger.reader import known_account
from tabularium.ledger.records import Sums
from tabularium.ledger.refusals import WrongState
from tabularium.ledger.storage import decision_queries
from tabularium.ledger.transactions import Transactions


class ReleaseWithdrawal:
    """Releases that were withdrawn."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def withdrawal(self, release_id: str) -> Withdrawal | None:
        """Return the withdrawal of a release, or ``None`` if it was not withdrawn."""
        with self._transactions.reading() as connection:
            return decision_queries.withdrawal(connection, known_charge(connection, release_id))

    def withdraw(self, release_id: str, *, reason: str, by: Ed25519PrivateKey) -> Withdrawal:
        """Withdraw a published release, signed by an enrolled key; again changes nothing.

        Parameters
        ----------
        reason
            Why: one line that everybody reads.

        Raises
        ------
        UnknownRelease
            If there is no such release.
        WrongState
            If it is not published.
        NotApproved
            If ``by`` is not an enrolled key.
        """
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        signer = key_id(public_hex(by))
        with self._transactions.appending() as append:
            charge = known_charge(append.connection, release_id)
            known = decision_queries.withdrawal(append.connection, charge)
            if known is not None:
                return known
            if charge.state != "published":
                raise WrongState(
                    f"is {charge.state}, and only what is published is withdrawn",
                    where=f"release {release_id}",
                    hint="see: tabularium ledger show",
                )
            require_active(append.connection, signer)
            account = known_account(append.connection, charge.account)
            fields: dict[str, Any] = {
                "account": account.name,
                "by": signer,
                "reason": reason,
                "release": charge.release_id,
                "turn": 0,
                **Sums(account.reserved, account.spent).texts("account"),
            }
            fields["signature"] = signed(append, "withdrawn", fields, by)
            # What only stops something must not fail for a clock that is behind.
            body = append.append("withdrawn", fields)
            return Withdrawal(charge.release_id, reason, signer, body["seq"], body["at"])
