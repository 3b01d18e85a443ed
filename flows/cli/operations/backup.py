"""``tabularium backup`` and ``restore``: an installation in one folder that only its owner opens."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.terminal import AsJson, HomePath, one_line_errors, print_json, say, working
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

_PASSPHRASE = "TABULARIUM_BACKUP_PASSPHRASE"  # noqa: S105 - the name of a variable


def backup(
    target: Annotated[Path, typer.Argument(help="New folder to write; best on another machine.")],
    recipient: Annotated[
        list[str] | None,
        typer.Option(help="Public key of age (age1…), instead of a passphrase; repeatable."),
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Back up ledger, measurements, bindings, secret and publication folders, and verify the copy.

    All but the ledger's export is encrypted, with the passphrase in TABULARIUM_BACKUP_PASSPHRASE, one that
    you type, or a public key. Releases may go on.
    """
    from tabularium.tasks.custody.backup import backup as write_backup
    from tabularium.tasks.custody.sealing import Lock

    with one_line_errors():
        installation = Home.found(home)
        lock = Lock(None if recipient else _passphrase(again=True), tuple(recipient or ()))
        with working("writing the backup, then reading it back"):
            done = write_backup(installation, target.absolute(), lock)
        if as_json:
            print_json(asdict(done))
            return
        say(f"{done.entries} entries, {done.releases} releases and {done.files} files are in {done.target}.")
        say(f"The ledger's head is {done.head.hash}; note it elsewhere: who restores is asked for it.")
        if done.missing:
            say(
                f"{done.missing} releases do not lie whole where they were published; a run makes them again."
            )
        if done.lost:
            say(f"{done.lost} of these it cannot: their certificates are not kept in this home.")


def restore(
    source: Annotated[Path, typer.Argument(help="Folder that `tabularium backup` wrote.")],
    identity: Annotated[
        Path | None, typer.Option(help="File with the age identity, instead of a passphrase.")
    ] = None,
    publications: Annotated[
        Path | None,
        typer.Option(help="New place of the publication folder."),
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup into a new home. Its ledger is read-only until its head is confirmed.

    No file is replaced. Repeat it to finish an interrupted restore.
    """
    from tabularium.ledger import Ledger
    from tabularium.ledger.transactions import CONFIRM
    from tabularium.tasks.custody.restore import restore as put_back
    from tabularium.tasks.custody.sealing import Lock

    with one_line_errors():
        lock = Lock(identities=_identities(identity)) if identity else Lock(_passphrase(again=False))
        installation = Home.at(home)
        with working("reading the backup, then putting it back"):
            done = put_back(source, installation, lock, publications)
        with Ledger.connect(installation.ledger_url) as ledger:
            unconfirmed = ledger.unconfirmed
        if as_json:
            print_json({**asdict(done), "read_only": unconfirmed})
            return
        say(f"{done.ledger.entries} entries and {done.files} files are in {installation.path}.")
        for folder in done.publications:
            say(f"Published: {folder}")
        if unconfirmed is not None:
            say(f"The ledger is read-only: {unconfirmed}; {CONFIRM}{installation.option}")


def _passphrase(*, again: bool) -> str:
    named = os.environ.get(_PASSPHRASE)
    if named:
        return named
    if sys.stdin.isatty():
        asked: str = typer.prompt("Passphrase of the backup", hide_input=True, confirmation_prompt=again)
        return asked
    raise InputError(
        "no passphrase was given, and there is no terminal to ask at",
        where=_PASSPHRASE,
        hint="set it, or give a public key with --recipient" if again else "set it, or give --identity",
    )


def _identities(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    identities = tuple(line.strip() for line in lines if line.startswith("AGE-SECRET-KEY-"))
    if not identities:
        raise InputError("holds no age identity", where=str(path), hint="give the file that age-keygen wrote")
    return identities


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="Example:  tabularium backup /mnt/vault/2026-11-22 --recipient age1…",
    )(backup)
    app.command(
        epilog="Example:  tabularium restore /mnt/vault/2026-11-22 --identity key.txt --home new",
    )(restore)
