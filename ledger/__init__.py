"""What was spent: accounts, charges, the chain of entries, and the measurements they paid for.

- ``Ledger`` (:mod:`tabularium.ledger.ledger`): accounts with caps, one charge per release, a chained entry
  per step.
- :mod:`tabularium.ledger.measurement.release_lock`: proof that no other live process works on a release.
- :mod:`tabularium.ledger.measurement.store`: the durable measurement files, one per release and fence.
- :mod:`tabularium.ledger.measurement.measure_once`: ``measure_once``, which puts the three together crash by
  crash.
"""

from __future__ import annotations

from tabularium.ledger.charges.composition import Partition
from tabularium.ledger.drafts import Draft, Withdrawal, Withheld
from tabularium.ledger.ledger import Ledger
from tabularium.ledger.records import Account, Approval, Charge, Entry, Head, Key, Sums, Terms
from tabularium.ledger.refusals import (
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
from tabularium.ledger.release_keys import ReleaseKey

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
