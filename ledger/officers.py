"""Signed decisions of disclosure officers: keys, specs, attempts, drafts, withdrawals and populations.

Every decision is one entry: what its kind says, what its signature covers, and how many decisions on the
same thing came before it (its turn) is declared in :mod:`tabularium.ledger.events`. The same decision again
changes nothing.

Review before publication: the run that measured a release lays it out as a draft and records the digest of
its certificate, which names every other file. An officer's decision names that digest. What is accepted is
published byte for byte; what is withheld stays spent, and is never published. Neither is taken back, and no
time that passes decides. The criteria are the spec's, so that no free text tells what was seen; whether
confidential figures were consulted is signed too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import amounts, names, rules
from tabularium.ledger.keys import checked_public, key_id, public_hex
from tabularium.ledger.records import (
    ATTEMPTS,
    Acceptance,
    Approval,
    Charge,
    Draft,
    Key,
    ReleaseKey,
    Separation,
    Terms,
    Withdrawal,
    Withheld,
)
from tabularium.ledger.refusals import BadValue, Conflict, NotApproved
from tabularium.ledger.storage import queries
from tabularium.ledger.transactions import Append, Part
from tabularium.ledger.views import current_charge, get_account, known_charge, reserved_for

_SHORTEST = 16  # digits of a head's hash that must be given


class Officers(Part):
    """What officers decide, as methods of the ledger.

    ``by`` is the enrolled key that signs everywhere; ``reason`` is one line that everybody reads. What a call
    is refused for, and with which error and hint, stands with its rule in :mod:`tabularium.ledger.rules`:
    ``NotApproved`` if ``by`` is not an enrolled key, ``Conflict`` and ``WrongState`` if the ledger says
    something else.
    """

    def enrol_key(self, public_key: str, *, officer: str, by: Ed25519PrivateKey) -> Key:
        """Enrol an officer's public key (32 bytes, hexadecimal), signed by a key that is enrolled.

        The first key, and one that is enrolled while none is active, signs for itself: the person who sets up
        the ledger vouches for it. Enrol two, in case one is lost.
        """
        officer = names.check_label(officer, field="officer")
        key = self._enrol("key", public_key, by, officer=officer)
        return self.keys()[key]

    def keys(self) -> dict[str, Key]:
        """Return every officer's key that was ever enrolled, by its name."""
        return self._read(queries.keys)

    def revoke_key(self, key: str, *, reason: str, by: Ed25519PrivateKey) -> Key:
        """Revoke a key; what it approved counts no more for new charges."""
        self._revoke(key, self.keys(), ("", "keys"), reason, by)
        return self.keys()[key]

    def enrol_release_key(self, public_key: str, *, agency: str, by: Ed25519PrivateKey) -> ReleaseKey:
        """Enrol a key with which the ``agency`` signs releases (32 bytes, hexadecimal).

        It may sign from then on; keys that are enrolled already stay valid. Its private half lies
        where releases are published.
        """
        agency = names.check_label(agency, field="agency")
        key = self._enrol("release_key", public_key, by, agency=agency)
        return self.release_keys()[key]

    def release_keys(self) -> dict[str, ReleaseKey]:
        """Return every key for releases that was ever enrolled, by its name."""
        return self._read(queries.release_keys)

    def revoke_release_key(self, key: str, *, reason: str, by: Ed25519PrivateKey) -> ReleaseKey:
        """Revoke a key for releases: what is published from now on cannot be signed with it.

        What was published before stays signed.
        """
        self._revoke(key, self.release_keys(), (" for releases", "release-key"), reason, by)
        return self.release_keys()[key]

    def _enrol(self, kind: str, public_key: str, by: Ed25519PrivateKey, **holder: str) -> str:
        """Enrol a key of a holder, and return its name; the same again changes nothing."""
        public = checked_public(public_key)
        key = key_id(public)
        with self._appending() as append:
            known = (append.books.keys if kind == "key" else append.books.release_keys).get(key)
            if known is None or not known.active or holder.items() - vars(known).items():
                append.append(kind, {**holder, "key": key, "public_key": public}, by)
        return key

    def _revoke(
        self,
        key: str,
        known: Mapping[str, Key | ReleaseKey],
        words: tuple[str, str],
        reason: str,
        by: Ed25519PrivateKey,
    ) -> None:
        reason = _reason(reason)
        if key not in known:
            raise BadValue(
                f"was never enrolled{words[0]}",
                where=f"key {key}",
                hint=f"give all 32 digits, as in: tabularium ledger {words[1]}",
            )
        with self._appending() as append:
            if (append.books.keys.get(key) or append.books.release_keys[key]).active:
                append.append("revocation", {"key": key, "reason": reason}, by)

    def approve(
        self,
        account: str,
        spec_digest: str,
        *,
        by: Ed25519PrivateKey,
        amount: Fraction | None = None,
        reason: str | None = None,
        product: str | None = None,
    ) -> Approval:
        """Approve a spec for charges of an account; again changes nothing.

        Where several officers must, the approvals of the same amount count together, since the last time that
        one was taken back; ``signers`` of what is returned are those.

        ``amount``: the most that one charge for it may cost; ``None`` for any. ``product``: the spec's; the
        approval is for this product only. It may be ``None`` only where no product asks for more officers
        than the account.
        """
        return self._decide_on_spec("approval", account, spec_digest, by, amount, reason, product)

    def unapprove(self, account: str, spec_digest: str, *, by: Ed25519PrivateKey, reason: str) -> Approval:
        """Take back an approval: no new charge is taken for the spec; those there are go on."""
        return self._decide_on_spec("unapproval", account, spec_digest, by, None, _reason(reason))

    def _decide_on_spec(
        self,
        kind: str,
        account: str,
        spec_digest: str,
        by: Ed25519PrivateKey,
        amount: Fraction | None,
        reason: str | None,
        product: str | None = None,
    ) -> Approval:
        digest = names.check_text(spec_digest, field="spec_digest")
        product = None if product is None else names.check_label(product, field="product")
        reason = None if reason is None else _reason(reason)
        signer = key_id(public_hex(by))
        with self._appending() as append:
            terms = rules.require_account(append.books, names.check_label(account, field="account")).terms
            most = None if amount is None else amounts.multiple(amount, terms.quantum, field="amount")
            rules.require_active(append.books, signer)
            last = queries.approval(append.connection, terms.name, digest)
            same = last is not None and last.approved and (last.amount, last.product) == (most, product)
            if kind == "unapproval" or last is None or not same or not _is_signed(last, terms, signer):
                text = None if most is None else amounts.text(most)
                fields = {"account": terms.name, "amount": text, "reason": reason, "spec_digest": digest}
                append.append(kind, fields | ({"for_product": product} if kind == "approval" else {}), by)
        approval = self.approval(terms.name, digest)
        if approval is None:
            raise NotApproved("is not approved", where=f"spec {digest}", hint="approve it again")
        return approval

    def approval(self, account: str, spec_digest: str) -> Approval | None:
        """Return the last word on a spec in an account, with all whose approvals stand together with it.

        They must be as many as the account's ``terms.approvals_for(product)``.
        """
        return self._read(queries.approval, account, spec_digest)

    def approvals(self) -> list[Approval]:
        """Return every approval, and every taking back of one, in order."""
        return self._read(queries.approvals)

    def allow_attempts(self, release_id: str, *, reason: str, by: Ed25519PrivateKey | None = None) -> int:
        """Let a release be drawn some times more whose attempts are used up; return how often in all.

        While an officer's key is enrolled, and while the account needs approvals, it is signed. Where
        attempts are left nothing is written.
        """
        reason = _reason(reason)
        with self._appending() as append:
            charge = known_charge(append.connection, release_id)
            allowed = rules.attempts_allowed(append.books, charge.account, release_id)
            if charge.state == "drawing" and charge.fence < allowed:
                return allowed
            fields = {"account": charge.account, "reason": reason, "release": charge.release_id}
            append.append("attempts", {**fields, "allowed": charge.fence + ATTEMPTS}, by)
            return charge.fence + ATTEMPTS

    def ask_for_evidence(self, charge: Charge, *, by: Ed25519PrivateKey, reason: str | None = None) -> None:
        """Record that an officer inquires about the input of a release."""
        reason = None if reason is None else _reason(reason)
        with self._appending() as append:
            fields = {"account": charge.account, "of_release": charge.release_id, "reason": reason}
            append.append("evidence", fields, by)

    def submit_draft(self, release_id: str, fence: int, *, digest: str, criteria: tuple[str, ...]) -> Draft:
        """Record that a measured release is laid out for review; the same draft again changes nothing.

        ``digest``: SHA-256 of its certificate. ``criteria``: for what it may be withheld.
        """
        digest = names.check_text(digest, field="digest")
        listed = [names.check_label(name, field="criteria") for name in criteria]
        if not listed:
            raise BadValue("is empty", where="criteria", hint="name at least one")
        with self._appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            known = queries.draft(append.connection, charge)
            if known is not None:
                rules.require_same_draft(known, digest)
                return known
            fields = {"criteria": listed, "draft": digest, "release": charge.release_id}
            body = append.append("drafted", {**fields, "account": charge.account})
            return Draft(charge.release_id, digest, tuple(listed), body["at"])

    def draft(self, release_id: str) -> Draft | None:
        """Return the draft of a release, or ``None`` if none was laid out."""
        with self._reading() as connection:
            return queries.draft(connection, known_charge(connection, release_id))

    def accept(
        self, release_id: str, *, draft: str, by: Ed25519PrivateKey, consulted_confidential: bool = False
    ) -> Draft:
        """Let a draft be published as it was laid out; again changes nothing.

        It is accepted once as many different officers have signed as the product asks for; what is returned
        tells how many have.

        ``draft``: SHA-256 of the certificate that the officer was shown. ``consulted_confidential``: whether
        confidential figures were consulted.
        """
        signer = key_id(public_hex(by))
        with self._appending() as append:
            charge, known = _in_review(append, release_id, draft)
            if known.accepted:
                return known
            rules.require_active(append.books, signer)
            officer = append.books.keys[signer].officer
            if officer in {acceptance.officer for acceptance in known.acceptances}:
                return known
            left = known.needed - len(known.acceptances) - 1
            fields = {
                "account": charge.account,
                "consulted": consulted_confidential,
                "criteria": list(known.criteria),
                "draft": known.digest,
                "release": charge.release_id,
                **({"officers_left": left} if left else {}),
            }
            body = append.append("acceptance", fields, by)
            acceptances = (*known.acceptances, Acceptance.of(body, officer))
            return replace(known, at=known.at if left else body["at"], acceptances=acceptances)

    def withhold(
        self,
        release_id: str,
        *,
        draft: str,
        criterion: str,
        by: Ed25519PrivateKey,
        consulted_confidential: bool = False,
    ) -> Charge:
        """End a draft: its budget stays spent, and it is never published.

        ``criterion``: for what: one of those it was laid out with. ``draft``, ``consulted_confidential``: as
        for ``accept``.
        """
        with self._appending() as append:
            charge, known = _in_review(append, release_id, draft)
            if charge.state == "withheld":
                return charge
            decided = {"consulted": consulted_confidential, "criterion": criterion, "draft": known.digest}
            return append.step(charge, "withheld", by, decided=decided)

    def withheld(self, account: str) -> list[Withheld]:
        """Return the drafts of an account that were withheld, each with what all its charges cost."""
        with self._reading() as connection:
            ended = queries.withheld(connection, get_account(connection, account).name)
            return [
                Withheld(
                    *(charge.release_id, charge.product, charge.period, _cost(connection, charge)),
                    criterion=criterion,
                    consulted=consulted,
                )
                for charge, criterion, consulted in ended
            ]

    def withdraw(self, release_id: str, *, reason: str, by: Ed25519PrivateKey) -> Withdrawal:
        """Withdraw a published release: it is offered no more; again changes nothing.

        Nothing is undone. The noisy numbers are out, so the budget stays spent, and the folder stays as it
        was published, for those who have used it.
        """
        reason = _reason(reason)
        with self._appending() as append:
            charge = known_charge(append.connection, release_id)
            known = queries.withdrawal(append.connection, charge.account, release_id)
            if known is not None:
                return known
            fields = {"account": charge.account, "reason": reason, "release": charge.release_id}
            body = append.append("withdrawn", fields, by)
            return Withdrawal(charge.release_id, reason, body["by"], body["seq"], body["at"])

    def withdrawal(self, release_id: str) -> Withdrawal | None:
        """Return the withdrawal of a release, or ``None`` if it was not withdrawn."""
        with self._reading() as connection:
            charge = known_charge(connection, release_id)
            return queries.withdrawal(connection, charge.account, release_id)

    def declare_disjoint(
        self,
        population: str,
        other: str,
        *,
        reason: str,
        by: Ed25519PrivateKey,
        disjoint: bool = True,
    ) -> Separation:
        """Declare that nobody is in both populations; or, with ``disjoint`` false, withdraw that.

        It holds while its key is enrolled. Unless this is declared, a member of one population may be in
        the other too, and what both lose is added. The same declaration by the same key is no new entry.
        """
        population, other = sorted(
            names.check_label(name, field="population") for name in (population, other)
        )
        reason = _reason(reason)
        if population == other:
            raise BadValue("is named twice", where=f"population {population}", hint="name two populations")
        signer = key_id(public_hex(by))
        with self._appending() as append:
            rules.require_active(append.books, signer)
            last = queries.separations(append.connection).get((population, other))
            if not (disjoint and last is not None and last.disjoint and last.key == signer):
                kind = "disjoint" if disjoint else "overlapping"
                append.append(kind, {"population": population, "other": other, "reason": reason}, by)
        with self._reading() as connection:
            return queries.separations(connection)[population, other]

    def separations(self) -> list[Separation]:
        """Return the last word on every two populations that an officer ever declared disjoint."""
        with self._reading() as connection:
            return list(queries.separations(connection).values())

    def confirm(self, head: str, *, by: Ed25519PrivateKey | None = None) -> None:
        """Let a ledger that was put back from a backup accept entries.

        A backup cannot know what came after it, so that nothing may follow but this: the word of somebody who
        has the head from elsewhere, from the newest certificate, an export that was given away, another
        machine's witness. While an officer's key is enrolled it is an officer, who signs.

        ``head``: the hash of the head that was put back, or its first 16 digits and more.
        """
        with self._appending(confirming=True) as append:
            known = queries.unconfirmed(append.connection)
            if known is None:
                raise Conflict(
                    "there is nothing to confirm: it was not put back from a backup, or that is done",
                    where="ledger",
                    hint="go on",
                )
            short = len(head) < _SHORTEST
            if short or not known.hash.startswith(head.lower()):
                raise BadValue(
                    "is too short" if short else "is not the hash of the head that was put back",
                    where="HASH",
                    hint=f"give {_SHORTEST} digits of it or more, from the newest certificate, export or"
                    " witness; if they name another head, this ledger is not the newest",
                )
            append.append("confirmed", {"mark": append.head.hash}, by)


def _reason(reason: str) -> str:
    return names.check_text(reason, field="reason")


def _cost(connection: Connection, ended: Charge) -> Fraction:
    """Return what a release cost: all charges for its spec, which has its period and product in it."""
    names_of_all = [
        charge.release_id for charge in reserved_for(connection, ended.account, ended.spec_digest)
    ]
    charges = (known_charge(connection, name) for name in names_of_all)
    return sum((charge.amount for charge in charges if charge.state != "voided"), Fraction(0))


def _in_review(append: Append, release_id: str, digest: str) -> tuple[Charge, Draft]:
    """Return a charge and its draft, which must be the one of that digest."""
    charge = known_charge(append.connection, release_id)
    state = rules.require_charge(append.books, release_id)
    return charge, rules.require_draft(append.books, state, release_id, digest)


def _is_signed(stands: Approval, terms: Terms, signer: str) -> bool:
    """Whether an approval that stands has the signature of a key; refuse one more than it needs."""
    needed = terms.approvals_for(stands.product)
    counted = {signer.key: signer.officer for signer in stands.signed_by(needed)}
    if len(counted) >= needed and signer not in counted:
        raise Conflict(
            f"is approved already by {', '.join(counted.values())}, and nobody else must sign it",
            where=f"spec {stands.spec_digest}",
            hint="nothing is to be done; its runs go on by themselves",
        )
    return signer == stands.key or counted.keys() >= {signer, stands.key}
