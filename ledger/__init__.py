"""What was spent: accounts, charges, the chain of entries, and the measurements they paid for.

- ``Ledger`` (:mod:`ledger.books`): accounts with caps, one charge per release, a chained entry per step.
- :mod:`ledger.holding`: proof that no other live process works on a release.
- :mod:`ledger.store`: the durable measurement files, one per release and fence.
- :mod:`ledger.drawing`: ``measure_once``, which puts the three together crash by crash.
"""

from __future__ import annotations

from ledger.books import Ledger
from ledger.errors import (
    BadAmount,
    BadValue,
    BudgetExhausted,
    Busy,
    ChainBroken,
    ClockBehind,
    Conflict,
    DrawFailed,
    LedgerError,
    MeasurementDamaged,
    MeasurementExists,
    ReadOnly,
    StaleFence,
    StorageFailed,
    UnknownAccount,
    UnknownRelease,
    WrongState,
)
from ledger.records import Account, Charge, Entry, Head, Sums, Terms

__all__ = [
    "Account",
    "BadAmount",
    "BadValue",
    "BudgetExhausted",
    "Busy",
    "ChainBroken",
    "Charge",
    "ClockBehind",
    "Conflict",
    "DrawFailed",
    "Entry",
    "Head",
    "Ledger",
    "LedgerError",
    "MeasurementDamaged",
    "MeasurementExists",
    "ReadOnly",
    "StaleFence",
    "StorageFailed",
    "Sums",
    "Terms",
    "UnknownAccount",
    "UnknownRelease",
    "WrongState",
]
