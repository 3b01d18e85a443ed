"""``tabularium ledger …``: what officers, reviewers and operators do with the books."""

from __future__ import annotations

from flows import (
    ledger_accounts,
    ledger_approvals,
    ledger_custody,
    ledger_history,
    ledger_review,
    ledger_show,
)
from flows.ledger_app import app, books_at, exact

__all__ = [
    "app",
    "books_at",
    "exact",
    "ledger_accounts",
    "ledger_approvals",
    "ledger_custody",
    "ledger_history",
    "ledger_review",
    "ledger_show",
]
