"""What was spent: accounts, charges, the chain of entries, and the measurements they paid for.

- ``Ledger`` (:mod:`ledger.ledger`): accounts with caps, one charge per release, a chained entry per step.
- :mod:`ledger.measurement.release_lock`: proof that no other live process works on a release.
- :mod:`ledger.measurement.store`: the durable measurement files, one per release and fence.
- :mod:`ledger.measurement.measure_once`: ``measure_once``, which puts the three together crash by crash.
"""

from __future__ import annotations

from ledger.charges.composition import Partition
from ledger.drafts import Draft, Withdrawal, Withheld
from ledger.ledger import Ledger
from ledger.records import Account, Approval, Charge, Entry, Head, Key, Sums, Terms
from ledger.refusals import (
    AccountClosed,
    AwaitingReview,
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
    NotApproved,
    NotOffered,
    ReadOnly,
    StaleFence,
    StorageFailed,
    Unfit,
    UnknownAccount,
    UnknownRelease,
    WrongState,
)
from ledger.release_keys import ReleaseKey

__all__ = [
    "Account",
    "AccountClosed",
    "Approval",
    "AwaitingReview",
    "BadAmount",
    "BadValue",
    "BudgetExhausted",
    "Busy",
    "ChainBroken",
    "Charge",
    "ClockBehind",
    "Conflict",
    "Draft",
    "DrawFailed",
    "Entry",
    "Head",
    "Key",
    "Ledger",
    "LedgerError",
    "MeasurementDamaged",
    "MeasurementExists",
    "NotApproved",
    "NotOffered",
    "Partition",
    "ReadOnly",
    "ReleaseKey",
    "StaleFence",
    "StorageFailed",
    "Sums",
    "Terms",
    "Unfit",
    "UnknownAccount",
    "UnknownRelease",
    "Withdrawal",
    "Withheld",
    "WrongState",
]
