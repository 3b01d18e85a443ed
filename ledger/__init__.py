"""What was spent: accounts, charges, the chain of entries, and the measurements they paid for.

>>> books = Ledger.connect("sqlite:///books.db")  # doctest: +SKIP
>>> books.open_account("census", unit="person", relation="add-remove", definition="pure", cap=Fraction(1))
... # doctest: +SKIP
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
