"""Values that a ledger holds, what entries tell of them, and the table of steps that a charge may take.

A charge's life::

    reserved ──▶ drawing ──▶ measured ──▶ published
       │          │  ↺ fence+1   │
       ▼          ▼              ├──▶ abandoned
    voided     abandoned         └──▶ withheld

A revision that is made from the measurements of an earlier release begins with ``remade``: it costs nothing,
draws nothing, and is ``measured`` at once.

A release that is to be reviewed is laid out as a draft while it is ``measured``. From then on an officer
decides, signed: it is accepted, and published as it was laid out, or it is withheld.

Budget is *reserved* from the first entry on, and *spent* from the first ``drawing`` on, for ever: once
noise may have been drawn, nobody can prove that nobody saw it. Only ``voided`` gives budget back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal

from tabularium.ledger import amounts
from tabularium.ledger.refusals import ChainBroken

GENESIS = "0" * 64  # what the first entry names as the one before it

#: step -> the states it may follow (``None``: there is no such charge yet)
TRANSITIONS: Mapping[str, tuple[str | None, ...]] = {
    "reserved": (None,),
    "remade": (None,),
    "drawing": ("reserved", "drawing"),
    "measured": ("drawing",),
    "published": ("measured",),
    "voided": ("reserved",),
    "abandoned": ("drawing", "measured"),
    "withheld": ("measured",),
}
#: The steps that lead to a state of another name.
_LEADS_TO = {"remade": "measured"}
#: How often a release may be drawn before an officer must allow as many attempts more.
ATTEMPTS = 3
FINAL = frozenset({"published", "voided", "abandoned", "withheld"})
RELATIONS = ("add-remove", "replace")
DEFINITIONS = ("pure", "zcdp")

#: What is reserved and spent, as whole numbers of an account's quantum.
Quanta = tuple[int, int]
NOTHING: Quanta = (0, 0)


def state_after(step: str) -> str:
    """Return the state of a charge that has taken ``step``."""
    return _LEADS_TO.get(step, step)


def usage_delta(step: str, before: str | None, amount: int) -> Quanta:
    """Return what a charge of ``amount`` adds to what is (reserved, spent) when it takes ``step``."""
    if step == "reserved":
        return amount, 0
    if step == "drawing" and before == "reserved":
        return -amount, amount
    if step == "voided":
        return -amount, 0
    return NOTHING


@dataclass(frozen=True, order=True)
class Head:
    """The last entry of the chain: its number and its SHA-256; number 0 for an empty ledger."""

    seq: int
    hash: str


EMPTY = Head(0, GENESIS)


@dataclass(frozen=True)
class Entry:
    """One entry as it stands in the chain; ``text`` is the canonical JSON that ``hash`` is taken over."""

    seq: int
    prev: str
    hash: str
    text: str

    @property
    def head(self) -> Head:
        """What names it as the last of its chain."""
        return Head(self.seq, self.hash)

    @property
    def body(self) -> dict[str, Any]:
        """The entry's content."""
        content: dict[str, Any] = json.loads(self.text)
        return content


@dataclass(frozen=True)
class Usage:
    """What a cap is compared with: reserved but not yet drawn, and spent for ever."""

    reserved: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)

    @property
    def used(self) -> Fraction:
        """Both together."""
        return self.reserved + self.spent

    def as_dict(self) -> dict[str, str]:
        """Return them as JSON has them."""
        return {"reserved": str(self.reserved), "spent": str(self.spent), "used": str(self.used)}

    @classmethod
    def of(cls, body: Mapping[str, Any] | None, scope: str) -> Usage:
        """Read the sums of ``scope`` (account, period, product or part) from an entry's body.

        Raises ``ChainBroken`` if one of them is missing or malformed.
        """
        if body is None:
            return cls()
        try:
            return cls(*(amounts.parse_amount(body[f"{scope}_{kind}"]) for kind in ("reserved", "spent")))
        except (KeyError, ValueError, TypeError):
            raise ChainBroken(
                f"a running sum in the last entry of its {scope} is missing or malformed",
                where="ledger",
                hint="verify the ledger, which names the entry, and restore the last good backup",
            ) from None


#: What the amounts of an account are called, by its definition.
SYMBOLS = {"pure": "ε", "zcdp": "ρ"}
_AMOUNTS = ("cap", "quantum", "cap_per_period", "cap_per_product", "delta")
MOST_APPROVALS = 9
#: What has a cap inside the cap of an account.
Scope = Literal["period", "product"]


@dataclass(frozen=True)
class Terms:
    """What was agreed for an account; the caps, the dates and the need of approval may change later.

    Attributes
    ----------
    unit, population
        The entity that is protected, such as ``"person"``, and all those whose data the account is about.
    opens_on, closes_on
        The first day (UTC, ``YYYY-MM-DD``) on which charges are taken, and the first on which no longer.
    needs_approval
        Whether an officer must have approved the spec of every charge.
    approve_exact
        Whether an officer must have approved the spec of every charge whose release states exact facts.
    approvals
        How many different officers must approve a spec, or accept a draft: from 1 to 9. From 2 on every spec
        must be approved. It is never lowered, so that no officer can undo it without others.
    approvals_by_product
        The same for the products that ask for more, sorted by name.
    """

    name: str
    unit: str
    population: str
    relation: str
    definition: str
    cap: Fraction
    quantum: Fraction
    cap_per_period: Fraction | None
    cap_per_product: Fraction | None
    delta: Fraction | None
    opens_on: str | None = None
    closes_on: str | None = None
    needs_approval: bool = False
    approve_exact: bool = False
    approvals: int = 1
    approvals_by_product: tuple[tuple[str, int], ...] = ()

    @property
    def protects(self) -> str:
        """The entity that is protected, and its population if that has a name of its own."""
        return self.unit if self.population == self.name else f"{self.unit} of {self.population}"

    def closed_on(self, day: str) -> bool:
        """Whether no new charges are taken on ``day`` (UTC) and after it."""
        return self.closes_on is not None and day >= self.closes_on

    def open_on(self, day: str) -> bool:
        """Whether new charges are taken on ``day`` (UTC): from ``opens_on`` on, and before ``closes_on``."""
        return (self.opens_on is None or self.opens_on <= day) and not self.closed_on(day)

    @property
    def caps(self) -> dict[str, Fraction]:
        """The caps that there are, by their scope: account, period and product."""
        caps = {"account": self.cap, "period": self.cap_per_period, "product": self.cap_per_product}
        return {scope: cap for scope, cap in caps.items() if cap is not None}

    def cap_in(self, scope: Scope) -> Fraction | None:
        """Return the cap of one period or product; ``None`` where there is none."""
        return self.caps.get(scope)

    def left_in(self, scope: Scope, sums: Usage | None) -> Fraction | None:
        """Return what the cap of one period or product leaves; ``None`` where there is no such cap.

        ``sums``: of that period or product; ``None`` before its first charge.
        """
        cap = self.cap_in(scope)
        return None if cap is None else max(cap - (sums or Usage()).used, Fraction(0))

    @property
    def asks_officers(self) -> bool:
        """Whether officers must approve any of its specs that is no revision."""
        return self.needs_approval or self.approve_exact or bool(self._approvals())

    def approvals_for(self, product: str | None) -> int:
        """Return how many different officers must sign for a product; for ``None``, for most products."""
        return dict(self.approvals_by_product).get(product or "", self.approvals)

    def wants_approval(self, *, product: str | None, exact: bool, revises: str | None) -> bool:
        """Whether officers must have approved the spec of a charge.

        A revision always wants it; what states exact facts wants it where the account asks for that, and
        whatever several officers must sign.
        """
        asks = self.needs_approval or self.approvals_for(product) > 1
        return asks or (self.approve_exact and exact) or revises is not None

    def lowered(self, after: Terms) -> str | None:
        """Return which number of officers is lower in ``after`` than in these, or ``None``."""
        if after.approvals < self.approvals:
            return "approvals"
        if any(after.approvals_for(product) < number for product, number in self.approvals_by_product):
            return "approvals_by_product"
        return None

    def relaxed_terms(self, after: Terms) -> list[str]:
        """Return the names of the terms that allow more in ``after`` than in these."""
        wider = {
            "cap": after.cap > self.cap,
            "cap_per_period": _higher(self.cap_per_period, after.cap_per_period),
            "cap_per_product": _higher(self.cap_per_product, after.cap_per_product),
            "opens_on": self.opens_on is not None
            and (after.opens_on is None or after.opens_on < self.opens_on),
            "closes_on": self.closes_on is not None
            and (after.closes_on is None or after.closes_on > self.closes_on),
            "needs_approval": self.needs_approval and not after.needs_approval,
            "approve_exact": self.approve_exact and not after.approve_exact,
        }
        return [name for name, is_wider in wider.items() if is_wider]

    def fields(self) -> dict[str, Any]:
        """Return the terms as fields of an entry's body."""
        return {
            "account": self.name,
            **{name: _maybe(getattr(self, name)) for name in _AMOUNTS},
            **{name: getattr(self, name) for name in _WORDS},
            **self._approvals(),
        }

    def _approvals(self) -> dict[str, Any]:
        """Return the fields that entries have only where several officers must sign."""
        if (self.approvals, self.approvals_by_product) == (1, ()):
            return {}
        return {"approvals": self.approvals, "approvals_by_product": dict(self.approvals_by_product)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Terms:
        """Read the terms from an account's entry."""
        read: dict[str, Any] = {name: _read(body[name]) for name in _AMOUNTS}
        words = {name: body[name] for name in _WORDS}
        by_product = tuple(sorted(body.get("approvals_by_product", {}).items()))
        approvals = {"approvals": body.get("approvals", 1), "approvals_by_product": by_product}
        return cls(name=body["account"], **read, **words, **approvals)


_APART = ("name", *_AMOUNTS, "approvals", "approvals_by_product")
_WORDS = tuple(field.name for field in fields(Terms) if field.name not in _APART)


@dataclass(frozen=True)
class Account:
    """An account's terms and where it stands; what is ``retired`` was never charged, and takes no charge."""

    terms: Terms
    reserved: Fraction
    spent: Fraction
    opened_at: str
    retired: bool = False

    @property
    def name(self) -> str:
        """The account's name: the dataset."""
        return self.terms.name

    @property
    def unit(self) -> str:
        """The entity that is protected: what a privacy unit is."""
        return self.terms.unit

    @property
    def population(self) -> str:
        """Those whose data the account is about."""
        return self.terms.population

    @property
    def relation(self) -> str:
        """What makes two datasets neighbours."""
        return self.terms.relation

    @property
    def definition(self) -> str:
        """What the amounts are: ``"pure"`` (ε) or ``"zcdp"`` (ρ)."""
        return self.terms.definition

    @property
    def cap(self) -> Fraction:
        """The most that may ever be charged."""
        return self.terms.cap

    @property
    def sums(self) -> Usage:
        """What is reserved and spent."""
        return Usage(self.reserved, self.spent)

    @property
    def left(self) -> Fraction:
        """What can still be reserved."""
        return self.terms.cap - self.reserved - self.spent


@dataclass(frozen=True)
class Key:
    """An officer's public key as the ledger holds it.

    ``enrolled_by`` is the key that signed for it, which of the first one is itself; ``revoked`` the number of
    the entry that revoked it.
    """

    key: str
    officer: str
    public_key: str
    since: str
    enrolled_by: str
    revoked: int | None = None

    @property
    def active(self) -> bool:
        """Whether it is enrolled, and not revoked."""
        return self.revoked is None

    def counts_at(self, entry: int | None) -> bool:
        """Whether it was not yet revoked when the entry of that number was written; ``None``: is not now."""
        return self.revoked is None or (entry is not None and entry < self.revoked)


@dataclass(frozen=True)
class Signer:
    """An officer who has signed: with which key, when (UTC), and in which entry of the ledger."""

    officer: str
    key: str
    at: str
    entry: int


@dataclass(frozen=True)
class Approval:
    """The last word on one spec in one account: an officer's approval, or that it was taken back.

    ``signers`` are all whose approvals stand, the newest last: each officer once, of the same amount, and by
    keys that are not revoked. They must be as many as ``Terms.approvals_for`` says.
    """

    account: str
    spec_digest: str
    amount: Fraction | None
    approved: bool
    key: str
    turn: int
    at: str
    reason: str | None
    signers: tuple[Signer, ...] = ()
    product: str | None = None

    def fault(self, amount: Fraction, terms: Terms, product: str | None) -> str | None:
        """Return why it allows no charge of ``amount`` for a product: it is withdrawn, or too little."""
        needed = terms.approvals_for(product)
        if not self.approved:
            return "withdrawn"
        if self.product != product and (self.product is not None or terms.approvals_by_product):
            return "product"
        if self.amount is not None and amount > self.amount:
            return "amount"
        return None if len(self.signed_by(needed)) >= needed else "signers"

    def signed_by(self, needed: int) -> tuple[Signer, ...]:
        """Return who counts where so many officers must approve; where one is enough, who approved last."""
        return tuple(signer for signer in self.signers if needed > 1 or signer.key == self.key)


@dataclass(frozen=True)
class Separation:
    """The last word on two populations: an officer's that nobody is in both, or its withdrawal.

    ``holds`` says that it was not withdrawn, and that the key that signed it is still enrolled.
    """

    population: str
    other: str
    disjoint: bool
    holds: bool
    key: str
    turn: int
    at: str
    reason: str


@dataclass(frozen=True)
class Charge:
    """One release's charge as of its last entry, ``seq``, times as UTC text; one that is new has none.

    ``review`` says that the release is published only as a draft that an officer has accepted; ``statement``
    is the SHA-256 of the signed statement that was published with it; ``measurements_of`` the earlier release
    from whose measurements it is made, if it has none of its own: then fence and measurement are that one's.
    """

    release_id: str
    account: str
    product: str
    period: str
    amount: Fraction
    spec_digest: str
    state: str = ""
    fence: int = 0
    measurement_digest: str | None = None
    publication_digest: str | None = None
    reason: str | None = None
    reserved_at: str = ""
    changed_at: str = ""
    seq: int = 0
    group: str | None = None
    part: str | None = None
    contributions: int | None = None
    revises: str | None = None
    exact: bool = False
    review: bool = False
    statement: str | None = None
    measurements_of: str | None = None

    @property
    def measured_as(self) -> str:
        """The release under whose id its measurements are stored."""
        return self.measurements_of or self.release_id

    @property
    def attempts(self) -> int:
        """How many times drawing began: every attempt got the next fence."""
        return self.fence

    @property
    def final(self) -> bool:
        """Whether no step can follow."""
        return self.state in FINAL

    def fields(self) -> dict[str, Any]:
        """Return the charge as fields of an entry's body (its step, time and number are the entry's own)."""
        stated = {name: getattr(self, name) for name in _STATED}
        left_out = {name for name in _LEFT_OUT if stated[name] is None}
        return {name: value for name, value in stated.items() if name not in left_out} | {
            "amount": amounts.text(self.amount)
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Charge:
        """Read the charge from the body of its last entry."""
        same: dict[str, Any] = {name: body.get(name) for name in _STATED}
        same["amount"] = amounts.parse_amount(body["amount"])
        return cls(state=state_after(body["kind"]), changed_at=body["at"], seq=body["seq"], **same)


#: The fields of a charge that an entry has; of these, those that it has only where they say something.
_STATED = tuple(field.name for field in fields(Charge) if field.name not in ("state", "changed_at", "seq"))
_LEFT_OUT = ("group", "part", "contributions", "measurements_of")


@dataclass(frozen=True)
class Approved:
    """An officer's approval of a spec: the key that signed it, its entry and time, and the most it allows.

    ``others`` are those of the other officers, where more than one must approve it.
    """

    key: str
    entry: int
    at: str
    most: Fraction | None
    others: tuple[Approved, ...] = ()


@dataclass(frozen=True)
class Reservation:
    """A charge as it was reserved.

    Attributes
    ----------
    entry, at
        Of the reservation, or of what is there instead of one where a release is made from the measurements
        of an earlier one; time as UTC text.
    terms
        Of the account, as they were then.
    before, after
        What was reserved and spent in the account, without this charge and with it.
    charges
        How many charges of the account counted, this one included; voided ones do not.
    releases
        How many releases of the account were published before that had measurements of their own.
    approved
        Who had approved the spec; None where nobody had.
    """

    entry: int
    at: str
    terms: Terms
    before: Usage
    after: Usage
    charges: int
    releases: int
    approved: Approved | None


def _higher(before: Fraction | None, after: Fraction | None) -> bool:
    return before is not None and (after is None or after > before)


def _maybe(amount: Fraction | None) -> str | None:
    return None if amount is None else amounts.text(amount)


def _read(stored: str | None) -> Fraction | None:
    return None if stored is None else amounts.parse_amount(stored)


@dataclass(frozen=True)
class Acceptance:
    """That an officer let a draft be published: who signed it, when, and as which entry of the ledger.

    ``key`` is the name of the officer's key; ``consulted`` says whether confidential figures were consulted.
    """

    officer: str
    key: str
    at: str
    consulted: bool
    entry: int

    @classmethod
    def of(cls, body: Mapping[str, Any], officer: str) -> Acceptance:
        """Read it from an entry's body."""
        return cls(officer, body["by"], body["at"], body["consulted"], body["seq"])


@dataclass(frozen=True)
class Draft:
    """A release that was laid out for review (or accepted) at a time, and who has accepted it.

    ``digest`` is the SHA-256 of its certificate, which names the digest of every other file; ``criteria`` are
    those for which it may be withheld. So many different officers as are ``needed`` must accept it;
    ``acceptances`` are those that count so far, in order, of each officer one.
    """

    release_id: str
    digest: str
    criteria: tuple[str, ...]
    at: str
    needed: int = 1
    acceptances: tuple[Acceptance, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether as many officers have accepted it as must."""
        return len(self.acceptances) >= self.needed

    @property
    def signed(self) -> str:
        """How many officers have accepted it, of how many: ``1 of 2``."""
        return f"{len(self.acceptances)} of {self.needed}"

    @property
    def acceptance(self) -> dict[str, Any] | None:
        """Who let it be published, as its statement says it; ``None`` as long as it is not accepted.

        It is the last acceptance, and where several officers had to accept it, the others in ``with``.
        """
        if not self.accepted:
            return None
        *others, last = (asdict(signed) for signed in self.acceptances)
        return {**last, "with": others} if others else last


@dataclass(frozen=True)
class Withheld:
    """A draft that an officer withheld, by one of its criteria, with what all charges of its release cost.

    ``consulted`` says whether confidential figures were consulted.
    """

    release_id: str
    product: str
    period: str
    amount: Fraction
    criterion: str
    consulted: bool

    def fields(self) -> dict[str, str | bool]:
        """Return it as a certificate has it."""
        return {**vars(self), "amount": str(self.amount)}

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> Withheld:
        """Read it from a certificate."""
        fields = {name: stated[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "amount": Fraction(stated["amount"])})


@dataclass(frozen=True)
class Withdrawal:
    """A published release that an officer withdrew: it is offered no more, and stays spent."""

    release_id: str
    reason: str
    key: str
    entry: int
    at: str


@dataclass(frozen=True)
class ReleaseKey:
    """A public key (32 bytes, hexadecimal) with which the agency signs its releases.

    It is never an officer's: an officer decides, and a machine that publishes signs what was decided. A new
    one is enrolled before the old one is revoked, and what the old one signed before stays signed.
    ``enrolled`` and ``revoked`` are the numbers of the entries that say so; ``revoked`` is ``None`` while the
    key may sign. ``key`` is its name: the beginning of its SHA-256.
    """

    key: str
    agency: str
    public_key: str
    enrolled: int
    since: str
    revoked: int | None = None

    @property
    def active(self) -> bool:
        """Whether it may sign what is published from now on."""
        return self.revoked is None

    def vouches_for(self, published: int) -> bool:
        """Whether it was enrolled, and not yet revoked, when the entry of that number was written."""
        return self.enrolled < published and (self.revoked is None or published < self.revoked)


def release_keys_of(bodies: Iterable[Mapping[str, Any]]) -> dict[str, ReleaseKey]:
    """Return every key for releases that entries tell of, by its name; other entries are passed over.

    ``bodies``: what entries of a verified chain say, in order.
    """
    keys: dict[str, ReleaseKey] = {}
    for body in bodies:
        if body["kind"] == "release_key":
            named = (body["key"], body["agency"], body["public_key"])
            keys[body["key"]] = ReleaseKey(*named, enrolled=body["seq"], since=body["at"])
        elif body["kind"] == "revocation" and body["key"] in keys:
            keys[body["key"]] = replace(keys[body["key"]], revoked=body["seq"])
    return keys


Body = Mapping[str, Any]


def officer_keys_of(bodies: Iterable[Body]) -> dict[str, Key]:
    """Return every officer's key that entries tell of, by its name; other entries are passed over."""
    keys: dict[str, Key] = {}
    for body in bodies:
        if body["kind"] == "key":
            named = (body["key"], body["officer"], body["public_key"], body["at"], body["by"])
            keys[body["key"]] = Key(*named)
        elif body["kind"] == "revocation" and body["key"] in keys:
            keys[body["key"]] = replace(keys[body["key"]], revoked=body["seq"])
    return keys


def approval_of(decisions: Iterable[Body], keys: Mapping[str, Key], at: int | None = None) -> Approval | None:
    """Return the last word of decisions on one spec, with all whose approvals stand together with it.

    An approval of another amount or product starts the count again, as one after a withdrawal does: all have
    signed the same.

    ``decisions``: what the entries say, in order. ``at``: the entry before which keys must not have been
    revoked; ``None``: now.
    """
    last: Body | None = None
    standing: list[Body] = []
    for body in decisions:
        if body["kind"] == "unapproval" or (last is not None and _signed_for(last) != _signed_for(body)):
            standing = []
        if body["kind"] == "approval":
            standing.append(body)
        last = body
    if last is None:
        return None
    return Approval(
        last["account"],
        last["spec_digest"],
        None if last["amount"] is None else amounts.parse_amount(last["amount"]),
        last["kind"] == "approval",
        last["by"],
        last["turn"],
        last["at"],
        last["reason"],
        tuple(
            Signer(keys[body["by"]].officer, body["by"], body["at"], body["seq"])
            for body in _of_each_officer(standing, keys, at)
        ),
        last.get("for_product"),
    )


def _signed_for(body: Body) -> tuple[object, object]:
    return body["amount"], body.get("for_product")


def draft_of(bodies: Sequence[Body], keys: Mapping[str, Key], needed: int = MOST_APPROVALS) -> Draft | None:
    """Return a draft from the entries that laid it out and accepted it, in order; ``None`` if none did.

    What is accepted stays so: from then on it is asked neither which keys were revoked later, nor how many
    officers must sign by now.

    ``needed``: how many officers must accept it, as far as it is not accepted.
    """
    if not bodies:
        return None
    laid_out, *accepted = bodies
    last = accepted[-1] if accepted and "officers_left" not in accepted[-1] else None
    counted = tuple(
        Acceptance.of(body, keys[body["by"]].officer)
        for body in _of_each_officer(accepted, keys, None if last is None else last["seq"])
    )
    return Draft(
        laid_out["release"],
        laid_out["draft"],
        tuple(laid_out["criteria"]),
        (last or laid_out)["at"],
        len(counted) if last is not None else needed,
        counted,
    )


def _of_each_officer(bodies: Iterable[Body], keys: Mapping[str, Key], at: int | None) -> list[Body]:
    """Return the last of each officer, in order; keys that were revoked do not count.

    Two keys of officers of one name are one officer's.
    """
    newest: dict[str, Body] = {}
    for body in bodies:
        key = keys.get(body["by"])
        if key is not None and key.counts_at(at):
            newest.pop(key.officer, None)
            newest[key.officer] = body
    return list(newest.values())
