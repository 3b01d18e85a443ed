"""``tabularium ledger …``: what officers, reviewers and operators do with the ledger."""

from __future__ import annotations

import typer

from tabularium.flows.cli.ledger import (
    account_commands,
    approvals,
    custody,
    draft_decisions,
    evidence,
    release_key_commands,
    show,
    spending_review,
)
from tabularium.flows.cli.ledger.shared_options import app

__all__ = [
    "account_commands",
    "app",
    "approvals",
    "custody",
    "draft_decisions",
    "evidence",
    "release_key_commands",
    "show",
    "spending_review",
]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="ledger")
