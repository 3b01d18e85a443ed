"""What officers decide about releases: drafts are accepted or withheld, what is published is withdrawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any


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
    """A release that was laid out for review, and who has accepted it.

    Attributes
    ----------
    digest
        SHA-256 of its certificate, which names the digest of every other file.
    criteria
        For what it may be withheld.
    at
        When it was laid out or accepted (UTC).
    needed
        How many different officers must accept it.
    acceptances
        Those that count so far, in order, of each officer one.
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
        *others, last = (asdict(each) for each in self.acceptances)
        return {**last, "with": others} if others else last


@dataclass(frozen=True)
class Withheld:
    """A draft that an officer withheld.

    Attributes
    ----------
    amount
        What all charges of that release cost.
    criterion
        For what it was withheld: one of its own.
    consulted
        Whether confidential figures were consulted.
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
    """A published release that an officer withdrew: it is offered no more, and stays spent.

    Attributes
    ----------
    key
        Name of the key that signed it.
    entry
        Number of the entry that says so.
    at
        When (UTC).
    """

    release_id: str
    reason: str
    key: str
    entry: int
    at: str
