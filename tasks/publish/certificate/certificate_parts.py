"""What a certificate is made of: what lies in the folder, and what the ledger says of the charge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pydantic import JsonValue

from tabularium.ledger import Withheld
from tabularium.ledger.records import Reservation
from tabularium.mechanisms.accounting import Event
from tabularium.tasks.published_heads import StampedHead
from tabularium.validations import certificate as said


@dataclass(frozen=True)
class Outcome:
    """What only the draw settles of a tally: its noisy number, and of a rule what it breaks."""

    number: int
    broken: tuple[str, ...] | None = None


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
        Of each tally of the spec, in their order.
    """

    tables: dict[str, said.Table]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, JsonValue]
    conflicts: dict[str, dict[str, int]]
    tallies: list[Outcome]


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


@dataclass(frozen=True)
class Told:
    """What nothing else in a certificate implies.

    Attributes
    ----------
    created
        When it was made, UTC.
    measurements
        The digest of the measurements.
    postprocessing
        The version of it.
    numbers
        Invariant -> how many numbers it has.
    lookups
        Public look-up -> its digest.
    """

    release_id: str
    created: str
    measurements: str
    software: dict[str, str]
    code: said.Code
    postprocessing: int
    workspace_kept: bool
    numbers: dict[str, int]
    lookups: dict[str, str]
