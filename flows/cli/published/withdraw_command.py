"""``tabularium withdraw``: an officer says that a published release is offered no more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.ledger.shared_options import KeyFile, open_ledger, passphrase, say
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import print_json
from tabularium.ledger.officers.keys import read_private
from tabularium.ledger.refusals import unknown_release
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.publish.period_index import published_like, renew_index
from tabularium.tasks.publish.release_folder import published_in
from tabularium.tasks.runtime.home import Home


def withdraw(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="Id of the release, or its folder.")],
    key: KeyFile,
    reason: Annotated[str, typer.Option(help="Why: one line that every reader sees; no figures.")],
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a published release, signed with an enrolled key. It is not taken back.

    Its folder stays and can be verified, and its budget stays spent. The link `current` beside it leads to
    the newest release of the period that is not withdrawn, or is removed; index.json says what was withdrawn,
    when and why.

    With --json: release_id, entry, at, key and reason of the withdrawal, and current (a release id, or null,
    also where this home did not publish it: the index is renewed there).
    """
    with open_ledger(home) as ledger:
        folder = Path(release)
        name = folder.resolve().name if folder.is_dir() else release
        charge = ledger.charge(name)
        if charge is None:
            raise unknown_release(name)
        main = published_like(ledger, charge).get(charge.publication_digest, charge)
        if main.release_id != name:
            raise InputError(
                "these are tallies, which are withdrawn with their release",
                where=f"release {name}",
                mend=f"withdraw {main.release_id}",
            )
        said = ledger.withdraw(name, reason=reason, by=read_private(key, passphrase()))
        base = published_in(Home.at(home), name)
        index = None if base is None else renew_index(ledger, base / charge.product / charge.period)
        if as_json:
            print_json({**vars(said), "current": index and index["current"]})
            return
        say(f"Release {name} is withdrawn; its budget stays spent.")
        if index is None:
            say("This home did not publish it: the index beside it is renewed where it was published, by")
            say(f"  tabularium withdraw {name} --reason … --key …, or the next run of that period")
        else:
            say(f"Current for {charge.product}, {charge.period}: {index['current'] or 'no release'}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog='Example:  tabularium withdraw RELEASE --reason "a region was coded twice" --key officer.pem'
    )(withdraw)
