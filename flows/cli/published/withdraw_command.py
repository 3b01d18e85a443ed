"""``tabularium withdraw``: an officer says that a published release is offered no more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tabularium
from tabularium.flows.cli.ledger.shared_options import KeyFile, officer, say_decided
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import one_line_errors, print_json


def withdraw(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="Id of the release, or its folder.")],
    key: KeyFile,
    reason: Annotated[str, typer.Option(help="Why: one line that every reader sees, without figures.")],
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a published release, signed with an enrolled key. This cannot be undone.

    Its folder stays and can be verified, and its budget stays spent. The link `current` then leads to the
    newest release of the period that is not withdrawn, or is removed. index.json records what was withdrawn,
    when and why.

    With --json: release_id, entry, at, key and reason of the withdrawal, and current (a release id, or null,
    also where this home did not publish it: the index is renewed there).
    """
    with one_line_errors():
        folder = Path(release)
        name = folder.resolve().name if folder.is_dir() else release
        decided = officer(home, key).withdraw(name, reason=reason)
        if not as_json:
            say_decided(decided)
            return
        with tabularium.open_ledger(home) as books:
            withdrawal = books.charged(name).withdrawal
        print_json(
            {**(vars(withdrawal) if withdrawal is not None else {}), "current": decided.current or None}
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog='Example:  tabularium withdraw RELEASE --reason "a region was coded twice" --key officer.pem'
    )(withdraw)
