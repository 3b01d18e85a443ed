"""The price of randomness: exact losses, the events of a transcript, and their reading as (ε, δ).

This is all of the floor that the ledger may import: plain values, no arrays, nothing drawn.
"""

from __future__ import annotations

from tabularium.mechanisms.accounting.conversion import epsilon_at
from tabularium.mechanisms.accounting.losses import (
    RESTS_ON,
    PrivacyLoss,
    Relation,
    epsilon_within,
    exact_amount,
    group_size,
    membership_bound,
    reading,
    spent,
    value_bound,
)
from tabularium.mechanisms.accounting.transcript import Definition, Event, ratio
from tabularium.mechanisms.errors import LedgerError, TabulariumError

__all__ = [
    "RESTS_ON",
    "Definition",
    "Event",
    "LedgerError",
    "PrivacyLoss",
    "Relation",
    "TabulariumError",
    "epsilon_at",
    "epsilon_within",
    "exact_amount",
    "group_size",
    "membership_bound",
    "ratio",
    "reading",
    "spent",
    "value_bound",
]
