"""What a certificate is made of: what lies in the folder, and what the ledger says of the charge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tabularium.ledger import Withheld
from tabularium.ledger.charges.reservation import Reservation
from tabularium.mechanisms.accounting import Event
from tabularium.tasks.published_heads import StampedHead


@dataclass(frozen=True)
class Contents:
    """What lies in a release folder beside its certificate.

    Attributes
    ----------
    tables
        What is said of each table.
    events
        Of the noise channel, in the order of the tables.
    files
        Name -> plain SHA-256; public files only.
    agreement
        How several tables were made to agree, step by step; empty for one.
    conflicts
        Invariant -> how it and the measurements go together.
    tallies
        Of each tally of the spec, in their order: its noisy ``number``, and of a rule what is ``broken``.
    """

    tables: dict[str, Any]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, Any]
    conflicts: dict[str, dict[str, int]]
    tallies: list[dict[str, Any]]


@dataclass(frozen=True)
class Charged:
    """What a certificate says of the charge and of its account.

    Attributes
    ----------
    population
        To which the protected units belong, as the account says.
    attempts
        How many times drawing began.
    deltas
        At which ε is reported under zcdp: the spec's, and the account's, which may be another.
    tried
        Number, release id and attempts of every charge that was made for tallies, each for another input.
    withheld
        The drafts of the account that officers withheld before, with what each cost.
    reservation
        How the account stood when the main charge was reserved, and who had approved the spec.
    """

    population: str
    attempts: int
    head: StampedHead
    deltas: list[Fraction]
    tried: list[tuple[int, str, int]]
    withheld: list[Withheld]
    reservation: Reservation
