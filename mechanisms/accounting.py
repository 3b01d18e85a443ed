"""Plain values about privacy loss that the ledger may hold."""

from __future__ import annotations

from mechanisms.errors import LedgerError, TabulariumError

__all__ = ["LedgerError", "TabulariumError"]
