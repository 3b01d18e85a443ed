"""The privacy ledger: accounts, charges, the chain of entries, and the measurements they paid for.

- ``Ledger`` (:mod:`tabularium.ledger.ledger`): accounts with caps, one charge per release, a chained entry
  per step.
- :mod:`tabularium.ledger.composition`: what charges cost together.
- :mod:`tabularium.ledger.rules`: what may be appended.
- :mod:`tabularium.ledger.measurement.release_lock`: proof that no other live process works on a release.
- :mod:`tabularium.ledger.measurement.store`: the durable measurement files, one per release and fence.
- :mod:`tabularium.ledger.measurement.measure_once`: ``measure_once``, which puts the three together crash by
  crash.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabularium.ledger.composition import Partition
    from tabularium.ledger.ledger import Ledger
    from tabularium.ledger.records import (
        Account,
        Approval,
        Charge,
        Draft,
        Entry,
        Head,
        Key,
        ReleaseKey,
        Terms,
        Usage,
        Withdrawal,
        Withheld,
    )
    from tabularium.ledger.refusals import (
        AccountClosed,
        AwaitingReview,
        BadAmount,
        BadValue,
        BudgetExhausted,
        ChainBroken,
        ClockBehind,
        Conflict,
        LedgerError,
        LockTimeout,
        MeasurementDamaged,
        MeasurementExists,
        MechanismFailed,
        NotApproved,
        PriorUnavailable,
        ReadOnly,
        StaleFence,
        StorageFailed,
        UnitMismatch,
        UnknownAccount,
        UnknownRelease,
        WrongState,
    )

__all__ = [
    "Account",
    "AccountClosed",
    "Approval",
    "AwaitingReview",
    "BadAmount",
    "BadValue",
    "BudgetExhausted",
    "ChainBroken",
    "Charge",
    "ClockBehind",
    "Conflict",
    "Draft",
    "Entry",
    "Head",
    "Key",
    "Ledger",
    "LedgerError",
    "LockTimeout",
    "MeasurementDamaged",
    "MeasurementExists",
    "MechanismFailed",
    "NotApproved",
    "Partition",
    "PriorUnavailable",
    "ReadOnly",
    "ReleaseKey",
    "StaleFence",
    "StorageFailed",
    "Terms",
    "UnitMismatch",
    "UnknownAccount",
    "UnknownRelease",
    "Usage",
    "Withdrawal",
    "Withheld",
    "WrongState",
]

# What is imported when it is asked for: a database is needed where a ledger is opened, and not for its words.
_HOLDERS = {
    "tabularium.ledger.composition": ("Partition",),
    "tabularium.ledger.ledger": ("Ledger",),
    "tabularium.ledger.records": (
        "Account",
        "Approval",
        "Charge",
        "Draft",
        "Entry",
        "Head",
        "Key",
        "ReleaseKey",
        "Usage",
        "Terms",
        "Withdrawal",
        "Withheld",
    ),
    "tabularium.ledger.refusals": (
        "AccountClosed",
        "AwaitingReview",
        "BadAmount",
        "BadValue",
        "BudgetExhausted",
        "LockTimeout",
        "ChainBroken",
        "ClockBehind",
        "Conflict",
        "MechanismFailed",
        "LedgerError",
        "MeasurementDamaged",
        "MeasurementExists",
        "NotApproved",
        "PriorUnavailable",
        "ReadOnly",
        "StaleFence",
        "StorageFailed",
        "UnitMismatch",
        "UnknownAccount",
        "UnknownRelease",
        "WrongState",
    ),
}
_HOLDER = {name: holder for holder, names in _HOLDERS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _HOLDER:
        raise AttributeError(f"module 'tabularium.ledger' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOLDER[name]), name)
    return value
