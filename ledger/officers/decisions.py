"""What disclosure officers sign: keys, specs that are approved, and attempts beyond the third."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import amounts, names
from tabularium.ledger.officers.countersigning import (
    countersignature,
    guarded,
    require_active,
    signed,
    write_revocation,
)
from tabularium.ledger.officers.keys import checked_public, key_id, public_hex
from tabularium.ledger.reader import known_account, usable_account
from tabularium.ledger.records import ATTEMPTS, Approval, Charge, Key, Sums
from tabularium.ledger.refusals import BadValue, Conflict, NotApproved, WrongState, unknown_release
from tabularium.ledger.storage import decision_queries, entry_queries, key_queries
from tabularium.ledger.storage.append import Append
from tabularium.ledger.transactions import Transactions


class Decisions:
    """Keys, approvals and further attempts."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def enrol_key(self, public_key: str, *, officer: str, by: Ed25519PrivateKey) -> Key:
        """Enrol an officer's public key (32 bytes, hexadecimal), signed by a key that is enrolled.

        The first key, and one that is enrolled while none is active, signs for itself: whoever sets up the
        ledger vouches for it. Enrol two, so that the loss of one can be mended.

        Raises
        ------
        NotApproved
            If ``by`` is not an enrolled key.
        Conflict
            If the key was enrolled before, to sign releases too; a revoked key never comes back.
        """
        public = checked_public(public_key)
        name, signer = key_id(public), key_id(public_hex(by))
        officer = names.line(officer, field="officer")
        with self._transactions.appending() as append:
            known = key_queries.keys(append.connection)
            if name in known:
                if known[name].active and known[name].officer == officer:
                    return known[name]
                raise Conflict("was enrolled before", where=f"key {name}", mend="make a new key")
            if name in key_queries.release_keys(append.connection):
                raise Conflict(
                    "signs releases, so it can never be an officer's",
                    where=f"key {name}",
                    mend="make a new key",
                )
            first = not any(key.active for key in known.values())
            if not (first and signer == name):
                require_active(append.connection, signer)
            turn = key_queries.key_turn(append.connection)
            fields = {"by": signer, "key": name, "officer": officer, "public_key": public, "turn": turn}
            self._signed(append, "key", fields, by)
        return self._keys()[name]

    def revoke_key(self, key: str, *, reason: str, by: Ed25519PrivateKey) -> Key:
        """Revoke a key; what it approved counts no more for new charges."""
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._transactions.appending() as append:
            known = key_queries.keys(append.connection).get(key)
            if known is None:
                raise BadValue(
                    "was never enrolled",
                    where=f"key {key}",
                    mend="give all 32 digits, as in: tabularium ledger keys",
                )
            if known.active:
                write_revocation(append, key, reason, by)
        return self._keys()[key]

    def approve(
        self,
        account: str,
        spec_digest: str,
        *,
        by: Ed25519PrivateKey,
        amount: Fraction | None = None,
        reason: str | None = None,
    ) -> Approval:
        """Approve a spec for charges of an account, signed by an enrolled key.

        Where several officers must, the approvals of the same amount count together, since the last time that
        one was taken back; ``signers`` of what is returned are those.

        Parameters
        ----------
        amount
            The most that one charge for it may cost; ``None`` for any.
        """
        return self._decide("approval", account, spec_digest, by, amount, reason)

    def unapprove(self, account: str, spec_digest: str, *, by: Ed25519PrivateKey, reason: str) -> Approval:
        """Take back an approval: no new charge is taken for the spec; those there are go on."""
        names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        return self._decide("unapproval", account, spec_digest, by, None, reason)

    def allow_attempts(self, release_id: str, *, reason: str, by: Ed25519PrivateKey | None = None) -> int:
        """Let a release be drawn some times more whose attempts are used up; return how often in all.

        While an officer's key is enrolled, and while the account needs approvals, it is signed. Where
        attempts are left nothing is written.

        Raises
        ------
        UnknownRelease
            If there is no such release.
        WrongState
            If it is not being drawn.
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        """
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._transactions.appending() as append:
            charge = entry_queries.charge(append.connection, names.release_id(release_id))
            where = f"release {release_id}"
            if charge is None:
                raise unknown_release(release_id)
            if charge.state != "drawing":
                raise WrongState(
                    "is not being drawn",
                    where=where,
                    mend="there is nothing to allow; run it, or see: tabularium ledger show",
                )
            allowed = entry_queries.attempts_allowed(append.connection, charge)
            if charge.fence < allowed:
                return allowed
            known, allowed = known_account(append.connection, charge.account), charge.fence + ATTEMPTS
            fields = {
                "account": known.name,
                "allowed": allowed,
                "reason": reason,
                "release": charge.release_id,
                **Sums(known.reserved, known.spent).texts("account"),
            }
            what = "allowing more attempts" if guarded(append.connection, known.terms) else None
            command = "allow-attempts"
            signature = countersignature(append, "attempts", fields, 0, by, what, where, command)
            append.append("attempts", {**fields, **signature}, self._transactions.tolerance)
            return allowed

    def ask_for_evidence(self, charge: Charge, *, by: Ed25519PrivateKey, reason: str | None = None) -> None:
        """Record that an officer asks from which input a release was made, signed by an enrolled key."""
        if reason is not None:
            names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        signer = key_id(public_hex(by))
        with self._transactions.appending() as append:
            known = known_account(append.connection, charge.account)
            require_active(append.connection, signer)
            fields = {
                "account": known.name,
                "by": signer,
                "of_release": charge.release_id,
                "reason": reason,
                "turn": entry_queries.evidence_turn(append.connection, known.name),
                **Sums(known.reserved, known.spent).texts("account"),
            }
            self._signed(append, "evidence", fields, by)

    def _decide(
        self,
        kind: str,
        account: str,
        spec_digest: str,
        by: Ed25519PrivateKey,
        amount: Fraction | None,
        reason: str | None,
    ) -> Approval:
        digest = names.line(spec_digest, field="spec_digest", longest=names.LONGEST_TEXT)
        if reason is not None:
            names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        signer = key_id(public_hex(by))
        with self._transactions.appending() as append:
            known = usable_account(append.connection, account)
            most = None
            if amount is not None:
                most = amounts.multiple(amount, known.terms.quantum, field="amount")
            require_active(append.connection, signer)
            last = decision_queries.approval(append.connection, known.name, digest)
            if kind == "unapproval" and (last is None or not last.approved):
                raise NotApproved(
                    "is not approved", where=f"spec {digest}", mend="there is nothing to take back"
                )
            stands = set()  # keys of those who have approved just this already
            if kind == "approval" and last is not None and last.approved and last.amount == most:
                stands = {each.key for each in last.signers}
            if last is None or not {signer, last.key} <= stands:
                fields = {
                    "account": known.name,
                    "amount": None if most is None else amounts.text(most),
                    "by": signer,
                    "reason": reason,
                    "spec_digest": digest,
                    "turn": last.turn + 1 if last else 0,
                    **Sums(known.reserved, known.spent).texts("account"),
                }
                self._signed(append, kind, fields, by)
        with self._transactions.reading() as connection:
            found = decision_queries.approval(connection, known.name, digest)
        if found is None:
            raise NotApproved("is not approved", where=f"spec {digest}", mend="approve it again")
        return found

    def _signed(self, append: Append, kind: str, fields: dict[str, Any], by: Ed25519PrivateKey) -> None:
        # What only stops things must not fail for a clock that is behind.
        tolerance = None if kind == "unapproval" else self._transactions.tolerance
        append.append(kind, {**fields, "signature": signed(append, kind, fields, by)}, tolerance)

    def _keys(self) -> dict[str, Key]:
        with self._transactions.reading() as connection:
            return key_queries.keys(connection)
