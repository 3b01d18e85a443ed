"""``tabularium ledger …``: what officers, reviewers and operators do with the books."""

from __future__ import annotations

import typer

from flows.cli.ledger import accounts as ledger_accounts
from flows.cli.ledger import approvals as ledger_approvals
from flows.cli.ledger import custody as ledger_custody
from flows.cli.ledger import history as ledger_history
from flows.cli.ledger import show as ledger_show
from flows.cli.ledger import spending_review as ledger_review
from flows.cli.ledger.shared_options import app, books_at, exact

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


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="ledger")
