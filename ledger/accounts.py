"""Accounts: how one opens with its caps, how its terms change, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import amounts, names, rules
from tabularium.ledger.records import Account, Terms
from tabularium.ledger.refusals import require_same
from tabularium.ledger.storage import queries
from tabularium.ledger.terms import raised, validate_terms
from tabularium.ledger.transactions import Part
from tabularium.ledger.views import get_account

_KEEP: Any = object()  # "leave it as it is", where None means "none"


class Accounts(Part):
    """Accounts, opened and changed by disclosure officers.

    ``by`` is the enrolled key that signs. What a call is refused for, and with which error and hint, stands
    with its rule in :mod:`tabularium.ledger.rules` (``NotApproved`` if a signature is needed and there is
    none, or ``by`` is not an enrolled key), and of terms in :mod:`tabularium.ledger.terms`.
    """

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
        population: str | None = None,
        approve_exact: bool = False,
        approvals: int = 1,
        approvals_by_product: Mapping[str, int] | None = None,
        by: Ed25519PrivateKey | None = None,
    ) -> Account:
        """Open an account, or return it if it is open on the very same terms.

        While an officer's key is enrolled the opening is signed. One that was retired opens again, on these
        terms, if no spec was ever approved for it; its entry is a change of all its terms.

        Parameters
        ----------
        name
            The dataset.
        unit
            The privacy unit: the entity that the amounts protect, such as ``"person"``. A name that ends in
            ``-period`` is a unit in one period.
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
        population
            All those whose data the account is about; by default a population of the account's own name.
        approve_exact
            Whether an officer must approve the specs that state exact facts (rules that stop a run, limits,
            invariants, public look-ups).
        approvals
            How many different officers must approve a spec, or accept a draft. From 2 on every spec must be
            approved.
        approvals_by_product
            The same for the products that ask for more than the account.
        """
        terms = validate_terms(
            Terms(
                name=names.check_label(name, field="account"),
                unit=names.check_label(unit, field="unit"),
                population=names.check_label(name if population is None else population, field="population"),
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
                approve_exact=approve_exact,
                approvals=approvals,
                approvals_by_product=tuple((approvals_by_product or {}).items()),
            )
        )
        with self._appending() as append:
            known = queries.account(append.connection, terms.name)
            if known is None:
                append.append("account", terms.fields(), by)
            elif known.retired:
                append.append("terms", {**terms.fields(), "reason": "opened again"}, by, in_time=True)
            else:
                require_same("account", terms.name, terms.fields(), known.terms.fields())
        return self._account(terms.name)

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
        approve_exact: bool = _KEEP,
        approvals: int = _KEEP,
        approvals_by_product: Mapping[str, int] = _KEEP,
        by: Ed25519PrivateKey | None = None,
    ) -> Account:
        """Change an account's caps, dates or need of approval; what is not given stays as it is.

        The change is an entry like any other; what was charged before stays charged, and a charge that is
        reserved already goes on. While an officer's key is enrolled, and while the account needs approvals,
        what loosens any of its terms is signed. How many officers must sign is never lowered.

        ``approvals_by_product``: of some products; those of others stay, as far as they ask for more than the
        account.
        """
        reason = names.check_text(reason, field="reason")
        asked: dict[str, Any] = {
            "cap": cap,
            "cap_per_period": cap_per_period,
            "cap_per_product": cap_per_product,
            "opens_on": opens_on,
            "closes_on": closes_on,
            "needs_approval": needs_approval,
            "approve_exact": approve_exact,
        }
        with self._appending() as append:
            before = rules.require_account(append.books, names.check_label(name, field="account")).terms
            after = validate_terms(
                replace(before, **{term: new for term, new in asked.items() if new is not _KEEP})
            )
            after = raised(
                after,
                before.approvals if approvals is _KEEP else approvals,
                {} if approvals_by_product is _KEEP else approvals_by_product,
            )
            if after != before:
                in_time = bool(before.relaxed_terms(after))
                append.append("terms", {**after.fields(), "reason": reason}, by, in_time=in_time)
        return self._account(before.name)

    def close_account(self, name: str, *, reason: str) -> Account:
        """Take no more charges from today (UTC) on."""
        today = self._transactions.clock().astimezone(UTC).date().isoformat()
        known = self._account(name)
        if known.terms.closes_on is not None and known.terms.closes_on <= today:
            return known  # a later day would open it for the days between
        return self.change_account(name, reason=reason, closes_on=today)

    def retire_account(self, name: str, *, reason: str, by: Ed25519PrivateKey | None = None) -> Account:
        """Retire an account that was never charged, as one that was opened by mistake.

        Nothing may follow but :meth:`open_account` on terms that are right.

        While an officer's key is enrolled, and while the account needs approvals, it is signed.
        """
        reason = names.check_text(reason, field="reason")
        with self._appending() as append:
            known = get_account(append.connection, name)
            if not known.retired:
                append.append("retired", {"account": known.name, "reason": reason}, by)
        return self._account(known.name)

    def _account(self, name: str) -> Account:
        with self._reading() as connection:
            return get_account(connection, name)
