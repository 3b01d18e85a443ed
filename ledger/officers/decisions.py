"""What a disclosure officer decides: accounts and their caps, keys, approvals, and charges given up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from ledger import amounts, names
from ledger.officers import keys as signing
from ledger.officers.countersigning import countersignature, guarded, require_active, signed
from ledger.records import Account, Approval, Charge, Key, Sums, Terms
from ledger.refusals import BadAmount, BadValue, Conflict, NotApproved
from ledger.storage import entry_queries as queries
from ledger.storage.append import Page, allowed, same, unknown_account
from ledger.terms import agreed
from ledger.writer import Writer

_KEEP: Any = object()  # "leave it as it is", where None means "none"
#: What only stops things must not fail for a clock that is behind.
_STOPPING = ("revocation", "withdrawal")


class Officers(Writer):
    """The part of the ledger that is an officer's."""

    def open_account(
        self,
        name: str,
        *,
        unit: str,
        relation: str,
        definition: str,
        cap: Fraction,
        quantum: Fraction = amounts.DEFAULT_QUANTUM,
        cap_per_period: Fraction | None = None,
        cap_per_product: Fraction | None = None,
        delta: Fraction | None = None,
        opens_on: str | None = None,
        closes_on: str | None = None,
        needs_approval: bool = False,
        by: Ed25519PrivateKey | None = None,
    ) -> Account:
        """Open an account, or return it if it is open on the very same terms.

        While an officer's key is enrolled the opening is signed.

        Parameters
        ----------
        name
            The dataset.
        unit
            The privacy unit: whose protection the amounts are about, such as ``"person"``. A name that ends
            in ``-period`` is a unit in one period.
        relation
            ``"add-remove"`` or ``"replace"``: what makes two datasets neighbours.
        definition
            ``"pure"`` (amounts are ε) or ``"zcdp"`` (amounts are ρ).
        cap, cap_per_period, cap_per_product
            The most that may ever be charged: in all, for one period, for one product.
        quantum
            ``1/q``, ``q <= 10**12``; every amount must be a multiple of it.
        delta
            For ``"zcdp"`` alone, where it is needed: the δ at which (ε, δ) is reported.
        opens_on, closes_on
            The first day on which charges are taken, and the first on which no longer (``YYYY-MM-DD``, UTC).
        needs_approval
            Whether an officer must approve the spec of every charge: see :meth:`approve`.
        by
            The enrolled key that signs.

        Raises
        ------
        Conflict
            If the account is open on other terms.
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        """
        terms = agreed(
            Terms(
                name=names.line(name, field="account"),
                unit=names.line(unit, field="unit"),
                relation=relation,
                definition=definition,
                cap=cap,
                quantum=quantum,
                cap_per_period=cap_per_period,
                cap_per_product=cap_per_product,
                delta=delta,
                opens_on=opens_on,
                closes_on=closes_on,
                needs_approval=needs_approval,
            )
        )
        with self._appending() as page:
            known = queries.account(page.connection, terms.name)
            if known is None:
                fields = {**terms.fields(), **Sums().texts("account")}
                what = "opening an account" if queries.any_active(page.connection) else None
                signature = countersignature(
                    page, "account", fields, 0, by, what, f"account {terms.name}", "open"
                )
                page.append("account", {**fields, **signature}, self._tolerance)
            else:
                same("account", terms.name, terms.fields(), known.terms.fields())
        return self.account(terms.name)

    def change_account(
        self,
        name: str,
        *,
        reason: str,
        cap: Fraction = _KEEP,
        cap_per_period: Fraction | None = _KEEP,
        cap_per_product: Fraction | None = _KEEP,
        opens_on: str | None = _KEEP,
        closes_on: str | None = _KEEP,
        needs_approval: bool = _KEEP,
        by: Ed25519PrivateKey | None = None,
    ) -> Account:
        """Change an account's caps, dates or need of approval; what is not given stays as it is.

        The change is an entry like any other; what was charged before stays charged, and a charge that is
        reserved already goes on. While an officer's key is enrolled, and while the account needs approvals,
        what loosens any of its terms is signed.

        Parameters
        ----------
        by
            The enrolled key that signs; a change that only tightens needs none.

        Raises
        ------
        BadAmount
            If the new cap is below what is reserved and spent.
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        """
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        asked: dict[str, Any] = {
            "cap": cap,
            "cap_per_period": cap_per_period,
            "cap_per_product": cap_per_product,
            "opens_on": opens_on,
            "closes_on": closes_on,
            "needs_approval": needs_approval,
        }
        with self._appending() as page:
            known = self._account(page.connection, name)
            before = known.terms
            after = agreed(replace(before, **{term: new for term, new in asked.items() if new is not _KEEP}))
            sums = Sums(known.reserved, known.spent)
            if after.cap < sums.used:
                raise BadAmount(
                    f"is below the {sums.used} that is reserved and spent",
                    where="cap",
                    mend="give at least that much, or close the account",
                )
            if after != before:
                fields = {**after.fields(), **sums.texts("account"), "reason": reason}
                loosened = before.loosened(after)
                what = None
                if loosened and guarded(page.connection, before):
                    what = f"loosening {', '.join(loosened)}"
                turn = queries.terms_turn(page.connection, before.name)
                where = f"account {before.name}"
                signature = countersignature(page, "terms", fields, turn, by, what, where, "change")
                page.append("terms", {**fields, **signature}, self._tolerance if loosened else None)
        return self.account(before.name)

    def close_account(self, name: str, *, reason: str) -> Account:
        """Take no more charges from today (UTC) on."""
        today = self._clock().astimezone(UTC).date().isoformat()
        known = self.account(name)
        if known.terms.closes_on is not None and known.terms.closes_on <= today:
            return known  # a later day would open it for the days between
        return self.change_account(name, reason=reason, closes_on=today)

    def void(self, release_id: str, reason: str, *, by: Ed25519PrivateKey | None = None) -> Charge:
        """Give back a reservation for which no drawing ever began.

        While an officer's key is enrolled, and while the account needs approvals, it is signed.

        Parameters
        ----------
        by
            The enrolled key that signs.

        Raises
        ------
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        """
        return self._end(release_id, "voided", reason, None, by)

    def abandon(self, release_id: str, reason: str, *, fence: int | None = None) -> Charge:
        """Give up a release whose drawing began; its budget stays spent.

        Parameters
        ----------
        fence
            The caller's own fence, if it may not abandon what another attempt has taken over.
        """
        return self._end(release_id, "abandoned", reason, fence)

    # Keys and approvals

    def enrol_key(self, public_key: str, *, officer: str, by: Ed25519PrivateKey) -> Key:
        """Enrol an officer's public key (32 bytes, hexadecimal), signed by a key that is enrolled.

        The first key, and one that is enrolled while none is active, signs for itself: whoever sets up the
        ledger vouches for it. Enrol two, so that the loss of one can be mended.

        Raises
        ------
        NotApproved
            If ``by`` is not an enrolled key.
        Conflict
            If the key was enrolled before; a revoked key never comes back.
        """
        public = _public(public_key)
        name, signer = signing.key_id(public), signing.key_id(signing.public_hex(by))
        officer = names.line(officer, field="officer")
        with self._appending() as page:
            known = queries.keys(page.connection)
            if name in known:
                if known[name].active and known[name].officer == officer:
                    return known[name]
                raise Conflict("was enrolled before", where=f"key {name}", mend="make a new key")
            first = not any(key.active for key in known.values())
            if not (first and signer == name):
                require_active(page.connection, signer)
            turn = queries.key_turn(page.connection)
            fields = {"by": signer, "key": name, "officer": officer, "public_key": public, "turn": turn}
            self._sign(page, "key", fields, by)
        return self.keys()[name]

    def revoke_key(self, key: str, *, reason: str, by: Ed25519PrivateKey) -> Key:
        """Revoke a key; what it approved counts no more for new charges."""
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._appending() as page:
            known = queries.keys(page.connection).get(key)
            if known is None:
                raise BadValue("was never enrolled", where=f"key {key}", mend="see: tabularium ledger keys")
            if known.active:
                signer = signing.key_id(signing.public_hex(by))
                require_active(page.connection, signer)
                turn = queries.key_turn(page.connection)
                self._sign(page, "revocation", {"by": signer, "key": key, "reason": reason, "turn": turn}, by)
        return self.keys()[key]

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

        Parameters
        ----------
        amount
            The most that one charge for it may cost; ``None`` for any.
        """
        return self._decide("approval", account, spec_digest, by, amount, reason)

    def withdraw(self, account: str, spec_digest: str, *, by: Ed25519PrivateKey, reason: str) -> Approval:
        """Withdraw an approval: no new charge is taken for the spec; those there are go on."""
        names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        return self._decide("withdrawal", account, spec_digest, by, None, reason)

    # How it is done

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
        signer = signing.key_id(signing.public_hex(by))
        with self._appending() as page:
            known = self._account(page.connection, account)
            most = None
            if amount is not None:
                most = amounts.multiple(amount, known.terms.quantum, field="amount")
            require_active(page.connection, signer)
            last = queries.approval(page.connection, known.name, digest)
            if kind == "withdrawal" and (last is None or not last.approved):
                raise NotApproved(
                    "is not approved", where=f"spec {digest}", mend="there is nothing to withdraw"
                )
            stands = kind == "approval" and last is not None and last.approved
            if not (stands and last is not None and (last.amount, last.key) == (most, signer)):
                fields = {
                    "account": known.name,
                    "amount": None if most is None else amounts.text(most),
                    "by": signer,
                    "reason": reason,
                    "spec_digest": digest,
                    "turn": last.turn + 1 if last else 0,
                    **Sums(known.reserved, known.spent).texts("account"),
                }
                self._sign(page, kind, fields, by)
        found = self.approval(known.name, digest)
        if found is None:
            raise NotApproved("is not approved", where=f"spec {digest}", mend="approve it again")
        return found

    def _sign(self, page: Page, kind: str, fields: dict[str, Any], by: Ed25519PrivateKey) -> None:
        tolerance = None if kind in _STOPPING else self._tolerance
        page.append(kind, {**fields, "signature": signed(page, kind, fields, by)}, tolerance)

    def _account(self, connection: Connection, name: str) -> Account:
        known = queries.account(connection, names.line(name, field="account"))
        if known is None:
            raise unknown_account(name)
        return known

    def _end(
        self,
        release_id: str,
        state: str,
        reason: str,
        fence: int | None,
        by: Ed25519PrivateKey | None = None,
    ) -> Charge:
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._appending() as page:
            if fence is None:
                charge = self._charge(page.connection, release_id)
            else:
                charge = self._current(page.connection, release_id, fence)
            if charge.state == state:
                return charge
            allowed(charge, state)
            ended, signature = replace(charge, reason=reason), {}
            if state == "voided":
                terms = self._account(page.connection, charge.account).terms
                what = "voiding a charge" if guarded(page.connection, terms) else None
                where = f"release {release_id}"
                signature = countersignature(page, "voided", ended.fields(), 0, by, what, where, "void")
            return page.step(ended, state, signature=signature)


def _public(value: object) -> str:
    if isinstance(value, str) and signing.can_sign(value.lower()):
        return value.lower()
    raise BadValue(
        "is not an Ed25519 public key (32 bytes in hexadecimal, and no point of small order)",
        where="public_key",
        mend="make one with: tabularium ledger keys new",
    )
