"""Errors of the ledger.

::

    LedgerError
    ├── BadValue               a name, digest, fence or reason is not what it should be
    │   ├── BadAmount          an amount is not an exact positive multiple of the account's quantum
    │   └── UnitMismatch       a charge speaks of another unit, population, relation … than its account
    ├── UnknownAccount         no such account
    ├── UnknownRelease         no such charge
    ├── AccountClosed          the account takes no charges on this day
    ├── NotApproved            no officer has approved the spec, or the key is not enrolled
    ├── AwaitingReview         the release is laid out as a draft, and an officer decides
    ├── PriorUnavailable       what a table is to be drawn towards is not published, or was withdrawn
    ├── BudgetExhausted        a cap (of the account, a period or a product) would be passed
    ├── Conflict               the ledger already says something else
    │   └── WrongState         the charge's state does not allow this step
    ├── StaleFence             another attempt has taken over; nothing was written
    ├── LockTimeout            another process holds the release, or the database
    ├── ReadOnly               the ledger lacks a head that is known outside it
    ├── ClockBehind            this machine's clock is behind the last entry
    ├── ChainBroken            an entry does not follow from the entries before it
    ├── StorageFailed          the database, or the witness file, could not be read or written
    ├── MeasurementDamaged     a measurement file is missing, incomplete or altered
    ├── MeasurementExists      a measurement file is never replaced
    └── MechanismFailed        a mechanism raised after drawing began
"""

from __future__ import annotations

from typing import Any

from tabularium.mechanisms.accounting import LedgerError as LedgerError  # noqa: PLC0414 - ours as well

RESTORE = "restore the newest backup, or open the ledger that wrote it"


class BadValue(LedgerError):
    """A name, digest, fence or reason is not what it should be."""


class BadAmount(BadValue):
    """An amount is not an exact positive multiple of the account's quantum."""


class UnitMismatch(BadValue):
    """A charge speaks of another unit, population, relation or definition than its account."""


class AccountClosed(LedgerError):
    """The account takes no charges on this day."""


class NotApproved(LedgerError):
    """No disclosure officer has approved this, or the key that signs is not enrolled."""


class AwaitingReview(LedgerError):
    """The release is laid out as a draft, and a disclosure officer accepts or withholds it."""


class PriorUnavailable(LedgerError):
    """An earlier release that a table is to be drawn towards is not published, or was withdrawn."""


class UnknownAccount(LedgerError):
    """No account of that name was opened."""


class UnknownRelease(LedgerError):
    """No charge was ever reserved under that release id."""


class BudgetExhausted(LedgerError):
    """A cap would be passed; nothing was charged."""


class Conflict(LedgerError):
    """The ledger already says something else under this name."""


class WrongState(Conflict):
    """The charge's state does not allow this step."""


class StaleFence(LedgerError):
    """Another attempt has taken over this release; nothing was written."""


class LockTimeout(LedgerError):
    """Another live process holds what was asked for."""


class ReadOnly(LedgerError):
    """The ledger lacks a head that is known outside it, so it accepts no entry."""


class ClockBehind(LedgerError):
    """This machine's clock is well behind the ledger's last entry."""


class ChainBroken(LedgerError):
    """An entry does not follow from the entries before it."""


class StorageFailed(LedgerError):
    """The database, or the witness file, could not be read or written."""


class NoLedger(StorageFailed):
    """No ledger is there, and the caller only reads."""


class MeasurementDamaged(LedgerError):
    """A measurement file is missing, incomplete or altered."""


class MeasurementExists(LedgerError):
    """A measurement file of this release and fence exists already; it is never replaced."""


class MechanismFailed(LedgerError):
    """A mechanism raised after drawing began; the charge is abandoned."""


class RuleBroken(Exception):
    """An entry does not follow: ``rule`` continues the words "entry 7 …", ``refusal`` is for its writer."""

    def __init__(self, rule: str, refusal: LedgerError | None = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.refusal = refusal or chain_broken(f"an entry that {rule} cannot be written")


def chain_broken(what: str) -> ChainBroken:
    """Return what names the first bad entry."""
    return ChainBroken(what, where="ledger", hint="stop releases and restore the last good backup")


def require_same(kind: str, name: str, asked: dict[str, Any], known: dict[str, Any]) -> None:
    """Refuse what is in the ledger already with other content."""
    other = [field for field in asked | known if asked.get(field) != known.get(field)]
    if other:
        raise Conflict(
            "is in the ledger with another " + ", ".join(other),
            where=f"{kind} {name}",
            hint="use another name, or ask for exactly what stands there",
        )


def retired_account(name: str, key: str) -> Conflict:
    """Return the refusal of a name whose account was retired; ``key``: what opening one needs besides."""
    return Conflict(
        "is retired",
        where=f"account {name}",
        hint=f"open it again, on other terms: tabularium ledger open {name} …{key}; or charge another one",
    )


def unknown_release(release_id: object) -> UnknownRelease:
    """Return the refusal of a release that was never reserved."""
    return UnknownRelease(
        "was never reserved",
        where=f"release {release_id}",
        hint="give all 32 digits of its id, as in: tabularium ledger show",
    )


def unknown_account(name: object) -> UnknownAccount:
    """Return the refusal of an account that was never opened."""
    return UnknownAccount(
        "no such account",
        where=f"account {name}",
        hint="open it first, or see which there are: tabularium ledger show",
    )
