"""``tabularium ledger …``: what officers, reviewers and operators do with the ledger."""

from __future__ import annotations

import typer

from tabularium.flows.cli.ledger import account_commands, approvals, custody, release_key_commands, show
from tabularium.flows.cli.ledger.shared_options import app

__all__ = ["account_commands", "app", "approvals", "custody", "release_key_commands", "show"]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="ledger")
