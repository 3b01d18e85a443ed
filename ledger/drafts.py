"""What the ledger says of drafts: those that are laid out for review, and those that were withheld."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """A release that was laid out for review, and whether an officer has accepted it.

    Attributes
    ----------
    digest
        SHA-256 of its certificate, which names the digest of every other file.
    criteria
        For what it may be withheld.
    at
        When it was laid out or accepted (UTC).
    acceptance
        Who accepted it; ``None`` as long as nobody has.
    """

    release_id: str
    digest: str
    criteria: tuple[str, ...]
    at: str
    acceptance: Acceptance | None = None

    @property
    def accepted(self) -> bool:
        """Whether an officer has accepted it."""
        return self.acceptance is not None


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
