"""An officer who decides: approves specs, accepts and withholds drafts, withdraws releases, and signs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tabularium.mechanisms.errors import InputError, LedgerError, PublicationError
from tabularium.tasks.plan.targets import in_figures

if TYPE_CHECKING:
    from tabularium._release import Release
    from tabularium._spec import Spec
    from tabularium.ledger import Account, Draft, Ledger
    from tabularium.tasks.forecast.forecast import Expected
    from tabularium.tasks.publish.draft_folder import DraftLocation
    from tabularium.tasks.runtime.home import Home
    from tabularium.validations.release_spec.load import Loaded


# What an officer decides who approves a spec: what will be published, at what price, and what is left.


_TABLES = 12


class Decision:
    """A spec as it is approved. Made by :meth:`Books.decision`.

    Attributes
    ----------
    product, period, account
        What is published, for when, and what pays.
    spec_digest
        What the approval is of.
    budget
        That the spec states.
    cost
        The same; 0 where it is paid for already, or made from measurements that are.
    room
        What the account pays at most for this product and period: caps of either may leave less.
    closed
        Whether the account takes no charges any more.
    earlier
        The last release of the product that lies here, with whose spec this one is compared; or None.
    officers
        How many different officers must approve it.
    approved_by
        The officers whose approvals stand for its budget.
    paid
        Whether it was charged before.
    """

    def __init__(
        self,
        loaded: Loaded,
        account: Account,
        room: Fraction,
        earlier: Release | None = None,
        *,
        paid: bool,
        closed: bool,
        signed: tuple[str, ...] = (),
    ) -> None:
        spec = loaded.spec
        self._loaded, self._account = loaded, account
        self.product, self.period, self.account = spec.product, spec.period, account.name
        self.spec_digest = loaded.digest
        self.budget: Fraction = spec.privacy.budget
        self.cost = Fraction(0) if paid or spec.measurements_of is not None else self.budget
        self.paid, self.closed = paid, closed
        self.left, self.room = account.left, room
        self.left_after: Fraction = account.left - self.cost
        self.cap: Fraction = account.cap
        self.earlier = earlier
        self.officers, self.approved_by = account.terms.approvals_for(spec.product), signed

    @classmethod
    def of(cls, ledger: Ledger, loaded: Loaded, account: Account, earlier: Release | None = None) -> Decision:
        """Return what is decided of a spec whose account is open."""
        spec, terms = loaded.spec, account.terms
        in_period = terms.left_in("period", ledger.periods(account.name).get(spec.period))
        in_product = terms.left_in("product", ledger.products(account.name).get(spec.product))
        return cls(
            loaded,
            account,
            min(left for left in (account.left, in_period, in_product) if left is not None),
            earlier,
            paid=ledger.is_paid(account.name, loaded.digest),
            closed=account.retired or terms.closed_on(f"{datetime.now(UTC):%Y-%m-%d}"),
            signed=approved_by(ledger, account, loaded.digest, spec.product, spec.privacy.budget),
        )

    @property
    def spec(self) -> Spec:
        """The spec, as it was read."""
        from tabularium._spec import Spec

        return Spec(self._loaded, self.period)

    @property
    def symbol(self) -> str:
        """What amounts are called: ε or ρ."""
        return self._loaded.spec.privacy.symbol

    @cached_property
    def expected(self) -> tuple[Expected, ...]:
        """Every number that will be published, with its margin as far as it is known before."""
        from tabularium.tasks.forecast.forecast import forecast

        return tuple(forecast(self._loaded))

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        """What differs from the spec of :attr:`earlier`: field, what it was, what it is."""
        from tabularium._diff import differing

        if self.earlier is None:
            return []
        return [
            line
            for line in differing(self.earlier.certificate.spec, self._loaded.published_spec)
            if line[0] != "period"
        ]

    @property
    def can_be_paid(self) -> bool:
        """Whether the account takes the charge, as far as its caps and days say."""
        return not self.cost or (self.cost <= self.room and not self.closed)

    @property
    def outside_the_guarantee(self) -> tuple[str, ...]:
        """What the release tells everybody for certain, whatever the budget."""
        from tabularium.validations.release_spec.exact_facts import exact_facts

        return tuple(fact.what for fact in exact_facts(self._loaded.spec))

    @property
    def retries(self) -> str:
        """What other inputs cost on top, in words; empty where they cost nothing."""
        tallied = self._loaded.spec.tally_amount
        if not (self.cost and tallied):
            return ""
        return f"every further input, such as a corrected one, costs another {self.symbol} = {tallied}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, amounts as exact fractions."""
        return {
            "product": self.product,
            "period": self.period,
            "account": self.account,
            "spec_digest": self.spec_digest,
            "cost": str(self.cost),
            "left": str(self.left),
            "left_after": str(self.left_after),
            "can_be_paid": self.can_be_paid,
            "officers": self.officers,
            "approved_by": list(self.approved_by),
            "tables": [line.strip() for line in self._tables()],
            "outside_the_guarantee": list(self.outside_the_guarantee),
        }

    @property
    def headline(self) -> str:
        """What is published and what it costs, in a line; of a revision what it is for."""
        spec = self._loaded.spec
        privacy, symbol = spec.privacy, spec.privacy.symbol
        price = f"{symbol} = {self.cost} of account {self.account}, for one {privacy.protects}"
        if spec.measurements_of is not None:
            price = f"made from the measurements of release {spec.measurements_of}, and costs nothing"
        elif self.paid:
            price = "paid for already, and costs nothing more"
        revised = "" if spec.revises is None else f", revised ({spec.revises})"
        return f"{self.product} {self.period}{revised}: {price}"

    def __repr__(self) -> str:
        symbol, facts = self._loaded.spec.privacy.symbol, self.outside_the_guarantee
        after = f"{self.left_after} after it"
        if self.closed and self.cost:
            after = "and the account takes no charges any more"
        elif not self.can_be_paid:
            after = f"{self.room} of it for this product and period, which does not pay for it"
        several = f"  {len(self.approved_by)} of {self.officers} officers have approved it"
        if self.approved_by:
            several += f": {', '.join(self.approved_by)}"
        return "\n".join(
            [
                self.headline,
                f"  {symbol} = {self.left} of {self._account.cap} is left, {after}",
                *([f"  {self.retries}"] if self.retries else []),
                *([several] if self.officers > 1 else []),
                *self._tables(),
                *(["outside the guarantee, known for certain to everybody:"] if facts else []),
                *(f"  {fact}" for fact in facts),
            ]
        )

    def _tables(self) -> Iterator[str]:
        expected: dict[str, list[Expected]] = {}
        for expectation in self.expected:
            expected.setdefault(expectation.table, []).append(expectation)
        tables = self._loaded.spec.tables
        for table in tables[:_TABLES]:
            counted = f" where {table.where}" if table.where else ""
            worth = ", ".join(_worth(expected[table.name]))
            yield f"  {table.name}: {' × '.join(table.dimensions)}{counted}; {worth}"
        if len(tables) > _TABLES:
            yield f"  and {len(tables) - _TABLES} more tables"
        for sizes in self._loaded.spec.histograms:
            yield f"  {sizes.name}: how many {sizes.of} have each size"


def approved_by(
    ledger: Ledger, account: Account, spec_digest: str, product: str, budget: Fraction | None
) -> tuple[str, ...]:
    """Return the officers whose approvals of a spec stand for a product.

    ``budget``: of the spec; approvals of less do not count, nor those that would not count together with one
    of it. None where it is not known.
    """
    approval, nothing = ledger.approval(account.name, spec_digest), Fraction(0)
    if approval is None or approval.fault(nothing, account.terms, product) in ("withdrawn", "product"):
        return ()
    officers = account.terms.approvals_for(product)
    signed = tuple(signer.officer for signer in approval.signed_by(officers))
    if budget is None or approval.amount == budget:
        return signed
    suffices = len(signed) >= officers and (approval.amount is None or budget < approval.amount)
    return signed if suffices else ()


def _worth(expected: Sequence[Expected]) -> Iterator[str]:
    """Yield every number of a table with the margin of its coarsest level, as far as it is known."""
    seen = set()
    for expectation in expected:
        if expectation.name in seen:
            continue
        seen.add(expectation.name)
        margin = expectation.in_cells[0].margin if expectation.in_cells is not None else expectation.of_noise
        at = f" at {expectation.level}" if expectation.level else ""
        yield expectation.name if margin is None else f"{expectation.name} ± {in_figures(margin)}{at}"


class NotAsShown(LedgerError):
    """What would be signed is no longer what was shown."""


@dataclass(frozen=True)
class Decided:
    """A decision that stands in the ledger.

    Attributes
    ----------
    summary
        What was decided, and what comes of it: a line or two.
    resumed
        Digests of the specs of the flow runs that go on.
    resume_error
        Why waiting runs could not be resumed; they go on by themselves once the server runs. Else empty.
    current
        After a withdrawal: the release that is offered for the period now; empty if there is none, or this
        home did not publish it.
    """

    summary: str
    resumed: tuple[str, ...] = ()
    resume_error: str = ""
    current: str = ""


class Officer:
    """Who decides, with a key that is enrolled. Made by :func:`officer`; each opens the ledger again.

    A decision that was made before is made once: again, it changes nothing.
    """

    def __init__(self, home: Home, key: Ed25519PrivateKey) -> None:
        self._home, self._key = home, key

    @property
    def key(self) -> str:
        """The name of the key, as ``tabularium ledger keys`` shows it."""
        from tabularium.ledger.keys import key_id, public_hex

        return key_id(public_hex(self._key))

    @property
    def name(self) -> str:
        """Whose key it is, as it was enrolled.

        Raises
        ------
        NotApproved
            It is not enrolled, or was revoked.
        """
        from tabularium.ledger.refusals import NotApproved

        with self._ledger() as ledger:
            known = ledger.keys().get(self.key)
        if known is None or not known.active:
            raise NotApproved(
                "is not enrolled, or was revoked",
                where=f"key {self.key}",
                hint="sign with an enrolled key (tabularium ledger keys lists them)",
            )
        return known.officer

    def approve(
        self, decision: Decision, *, reason: str | None = None, even_if_unpaid: bool = False
    ) -> Decided:
        """Approve a spec as it was looked at.

        Raises
        ------
        InputError
            The account cannot pay for it, and ``even_if_unpaid`` is false.
        Conflict
            As many other officers as must have approved it.
        NotApproved
            The key is not enrolled.
        """
        if not (decision.can_be_paid or even_if_unpaid):
            raise InputError(
                f"account {decision.account} cannot pay the {decision.cost} that it costs",
                where=f"{decision.product} {decision.period}",
                hint="have its cap raised, or say that it is to be approved even if it cannot be paid",
            )
        with self._ledger() as ledger:
            known = ledger.approve(
                decision.account,
                decision.spec_digest,
                by=self._key,
                amount=decision.budget,
                reason=reason,
                product=decision.product,
            )
        signed, what = len(known.signed_by(decision.officers)), f"{decision.product} {decision.period}"
        if signed < decision.officers:
            return Decided(f"{signed} of {decision.officers} officers have approved {what}.")
        further = f"; {decision.retries}" if decision.retries else ""
        message = f"{what} is approved, for at most {decision.budget}{further}."
        return self._go_on(message, spec_digest=decision.spec_digest)

    def accept(
        self,
        release: str,
        *,
        draft: str | None = None,
        consulted_confidential: bool = False,
        copy: str | os.PathLike[str] | None = None,
    ) -> Decided:
        """Let a draft be published, byte for byte: by the run that waits for it, or here. Not taken back.

        Where several officers must accept it, it is published with the last.

        Parameters
        ----------
        draft
            SHA-256 of the certificate that was looked at; by default, of the draft that lies there.
        copy
            A copy of the draft's folder, for where another home laid it out: then it is published there.

        Raises
        ------
        WrongState
            The release waits for no review, or was withheld.
        Conflict
            That is not the draft that was laid out.
        PublicationError
            The draft is gone or altered, or cannot be published.
        NotApproved
            The key is not enrolled.
        """
        from tabularium.ledger.measurement.release_lock import GLANCE, hold
        from tabularium.tasks.publish.draft_folder import publish_accepted, require_whole

        with self._ledger() as ledger:
            known, charge = _draft(ledger, release), ledger.charge(release)
            laid_out = _laid_out(self._home, release, copy)
            if not known.accepted and charge is not None and not charge.final:
                require_whole(Path(laid_out.draft if laid_out is not None else copy or ""), known)
            known = ledger.accept(
                release,
                draft=known.digest if draft is None else draft,
                by=self._key,
                consulted_confidential=consulted_confidential,
            )
            if not known.accepted:
                left = known.needed - len(known.acceptances)
                others = "another has" if left == 1 else f"{left} others have"
                return Decided(f"{known.signed} officers have accepted it; it is published when {others}.")
            decided = self._go_on(f"Release {release} is accepted.", release_id=release)
            if laid_out is None:
                return decided
            message = f"{decided.summary}\nIt will be published by the run that waited: {laid_out.release}"
            if not decided.resumed:
                with hold(ledger, release, wait=GLANCE):
                    publish_accepted(self._home, ledger, release)
                message = f"{decided.summary}\nPublished: {laid_out.release}"
        return replace(decided, summary=message)

    def withhold(
        self, release: str, *, draft: str | None = None, criterion: str, consulted_confidential: bool = False
    ) -> Decided:
        """End a draft: it is never published, and its budget stays spent. Not taken back.

        Parameters
        ----------
        criterion
            For what: one of its own.

        Raises
        ------
        WrongState, Conflict, NotApproved
            As :meth:`accept`.
        BadValue
            The criterion is not one of its own.
        """
        from tabularium.ledger.measurement.release_lock import GLANCE, hold
        from tabularium.tasks.publish.draft_folder import remove_draft

        with self._ledger() as ledger:
            known = _draft(ledger, release)
            with hold(ledger, release, wait=GLANCE):
                ledger.withhold(
                    release,
                    draft=known.digest if draft is None else draft,
                    criterion=criterion,
                    by=self._key,
                    consulted_confidential=consulted_confidential,
                )
                remove_draft(self._home, release)
        return self._go_on(f"Release {release} is withheld; its budget stays spent.", release_id=release)

    def withdraw(self, release: str, *, reason: str) -> Decided:
        """Have a published release offered no more. Its folder stays, and its budget stays spent.

        Parameters
        ----------
        reason
            One line that every reader sees; no figures.

        Raises
        ------
        InputError
            These are tallies of a release, and are withdrawn with it.
        WrongState
            It is not published.
        NotApproved
            The key is not enrolled.
        """
        from tabularium.ledger.refusals import unknown_release
        from tabularium.tasks.publish.period_index import published_like, renew_index
        from tabularium.tasks.publish.release_folder import published_in

        with self._ledger() as ledger:
            charge = ledger.charge(release)
            if charge is None:
                raise unknown_release(release)
            main = published_like(ledger, charge).get(charge.publication_digest, charge)
            if main.release_id != release:
                raise InputError(
                    "these are tallies, which are withdrawn with their release",
                    where=f"release {release}",
                    hint=f"withdraw {main.release_id}",
                )
            ledger.withdraw(release, reason=reason, by=self._key)
            base, current = published_in(self._home, release), ""
            if base is None:
                message = (
                    "This home did not publish it: the index next to it is renewed where it was published, "
                    "by\n"
                    f"  tabularium withdraw {release} --reason … --key …, or the next run of that period"
                )
            elif not (period := base / charge.product / charge.period).is_dir():
                message = (
                    f"Its index still offers it, for {period} is not there: mount or restore it, then\n"
                    f"  tabularium withdraw {release} --reason … --key …"
                )
            else:
                current = renew_index(ledger, period)["current"] or ""
                message = f"Current for {charge.product}, {charge.period}: {current or 'no release'}"
        return Decided(f"Release {release} is withdrawn; its budget stays spent.\n{message}", current=current)

    def allow_attempts(self, release: str, *, reason: str) -> Decided:
        """Let a release be drawn some times more whose attempts are used up.

        Raises
        ------
        WrongState
            It is not being drawn.
        NotApproved
            The key is not enrolled.
        """
        with self._ledger() as ledger:
            allowed = ledger.allow_attempts(release, reason=reason, by=self._key)
        return self._go_on(
            f"The drawing of release {release} may begin {allowed} times in all.", release_id=release
        )

    def to_sign(self, decide: Callable[[Officer], object]) -> bytes | None:
        """Return what a decision would sign, byte for byte. Nothing is signed.

        None if it was made before; then what follows from it is done, as far as it was not.

        Parameters
        ----------
        decide
            Makes the decision with the officer that it is given, as ``lambda one: one.approve(decision)``.

        Raises
        ------
        TabulariumError
            As the decision does.
        """
        try:
            decide(Officer(self._home, _Looking(self._key)))
        except _WouldSign as signing:
            return signing.data
        return None

    def signs_only(self, data: bytes) -> Officer:
        """Return this officer, who signs what was shown, and raises :class:`NotAsShown` for all else."""
        return Officer(self._home, _Holding(self._key, data))

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        from tabularium.ledger import Ledger
        from tabularium.ledger.measurement.store import MeasurementStore

        heads = MeasurementStore(self._home.measurements).heads()
        with Ledger.connect(self._home.ledger_url, known_heads=heads, make=False) as ledger:
            yield ledger

    def _go_on(
        self, message: str, *, release_id: str | None = None, spec_digest: str | None = None
    ) -> Decided:
        """Let the flow runs go on that waited for this: it stands, whatever becomes of them."""
        from tabularium.flows.operations.waiting import resume_waiting

        try:
            resumed = resume_waiting(
                self._home,
                release_id=release_id,
                spec_digests=None if spec_digest is None else [spec_digest],
            )
        except Exception as error:  # of a library, too
            return Decided(message, resume_error=type(error).__name__)
        return Decided(message, tuple(resumed))


def officer(
    home: str | os.PathLike[str] | None = None,
    *,
    key: str | os.PathLike[str],
    passphrase: str | None = None,
) -> Officer:
    """Open an officer's key, to decide with.

    Parameters
    ----------
    key
        The PEM file of the private key.
    passphrase
        Of the key, if it is encrypted.

    Raises
    ------
    InputError
        There is no such home.
    BadValue
        There is no such key, or the passphrase is not its own.

    Examples
    --------
    >>> books = tb.open_ledger()                                                # doctest: +SKIP
    >>> one = tb.officer(key="officer.pem")                                     # doctest: +SKIP
    >>> one.approve(books.decision("persons.yaml", period="2026"))              # doctest: +SKIP
    """
    from tabularium.ledger.keys import read_private
    from tabularium.tasks.runtime.home import Home

    opened = Home.found(None if home is None else Path(home))
    return Officer(opened, read_private(Path(key), None if passphrase is None else passphrase.encode()))


class _WouldSign(Exception):
    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


class _Looking(Ed25519PrivateKey):
    """A key that shows what it is given, and signs nothing: the transaction around it ends unwritten."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def public_key(self) -> Ed25519PublicKey:
        return self._key.public_key()

    def sign(self, data: object) -> bytes:
        raise _WouldSign(bytes(data))  # type: ignore[call-overload]

    def private_bytes(self, *_form: object) -> bytes:
        raise NotImplementedError

    def private_bytes_raw(self) -> bytes:
        raise NotImplementedError

    def __copy__(self) -> Ed25519PrivateKey:
        return self

    def __deepcopy__(self, _memo: object) -> Ed25519PrivateKey:
        return self


class _Holding(_Looking):
    """A key that signs what was shown, and nothing else."""

    def __init__(self, key: Ed25519PrivateKey, data: bytes) -> None:
        super().__init__(key)
        self._data = data

    def sign(self, data: object) -> bytes:
        if data != self._data:
            raise NotAsShown(
                "what would be signed is not what was shown: the ledger has gone on since",
                where=f"key {_name(self._key)}",
                hint="nothing was signed; look again, and decide",
            )
        return self._key.sign(self._data)


def _name(key: Ed25519PrivateKey) -> str:
    from tabularium.ledger.keys import key_id, public_hex

    return key_id(public_hex(key))


def _laid_out(home: Home, release: str, copy: str | os.PathLike[str] | None) -> DraftLocation | None:
    """Return where this home laid a draft out; None where there is but a copy of it."""
    from tabularium.tasks.publish.draft_folder import DraftLocation

    try:
        location = DraftLocation.of(home, release)
    except PublicationError:
        if copy is None:
            raise
        return None
    here = copy is None or Path(location.draft).is_dir() or Path(location.release).is_dir()
    return location if here else None


def _draft(ledger: Ledger, release: str) -> Draft:
    from tabularium.ledger import WrongState

    draft = ledger.draft(release)
    if draft is None:
        raise WrongState(
            "waits for no review", where=f"release {release}", hint="see: tabularium ledger show"
        )
    return draft
