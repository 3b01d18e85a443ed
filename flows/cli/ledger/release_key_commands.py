"""``tabularium ledger release-key``: the keys with which the agency signs its releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.ledger.approvals import make_pair, show_keys
from tabularium.flows.cli.ledger.shared_options import KeyFile, Reason, app, open_ledger, passphrase
from tabularium.flows.cli.terminal import AsJson, HomePath, one_line_errors, out, say
from tabularium.ledger.keys import public_pem, read_private, read_public
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.sign import sign_release

release_keys = typer.Typer(
    help="The agency's keys for releases: new, enrol, revoke, show; without a command, list them.",
    invoke_without_command=True,
)
app.add_typer(release_keys, name="release-key")


@release_keys.callback(epilog="Example:  tabularium ledger release-key")
def list_release_keys(context: typer.Context, home: HomePath = None, as_json: AsJson = False) -> None:
    """List the keys that were ever enrolled; see the commands below to make, enrol, show and revoke."""
    if context.invoked_subcommand is not None:
        return
    with open_ledger(home, reading=True) as ledger:
        nothing = (
            "No key for releases is enrolled, so releases are unsigned: tabularium ledger release-key new"
        )
        show_keys(ledger.release_keys().values(), "agency", nothing, as_json=as_json)


@release_keys.command("new", epilog="Example:  tabularium ledger release-key new")
def new(
    file: Annotated[
        Path | None, typer.Argument(help="File to make, mode 0600; default: release-key in the home.")
    ] = None,
    home: HomePath = None,
) -> None:
    """Make a private key where this machine looks for it, encrypted with TABULARIUM_RELEASE_KEY_PASSPHRASE.

    Until an officer has enrolled it, nothing is published with it. It is in no backup: one that is lost is
    replaced by another.
    """
    with one_line_errors():
        make_pair(file or Home.at(home).path / sign_release.FILE, sign_release.passphrase())


@release_keys.command(
    "enrol",
    epilog='Example:  tabularium ledger release-key enrol r.pub.pem --agency "Statistics Office" --key a.pem',
)
def enrol(
    file: Annotated[Path, typer.Argument(help="Public key (PEM).")],
    agency: Annotated[str, typer.Option(help="Whose key it is.")],
    key: KeyFile,
    home: HomePath = None,
) -> None:
    """Enrol a public key for releases. Keys enrolled before stay valid."""
    with open_ledger(home) as ledger:
        by = read_private(key, passphrase())
        enrolled = ledger.enrol_release_key(read_public(file), agency=agency, by=by)
        say(f"Key {enrolled.key} of {enrolled.agency} is enrolled for releases.")


@release_keys.command(
    "revoke", epilog='Example:  tabularium ledger release-key revoke NAME --reason "replaced" --key a.pem'
)
def revoke(
    name: Annotated[str, typer.Argument(help="Name that `ledger release-key` shows.")],
    reason: Reason,
    key: KeyFile,
    home: HomePath = None,
) -> None:
    """Revoke a key for releases; what was published before stays signed."""
    with open_ledger(home) as ledger:
        revoked = ledger.revoke_release_key(name, reason=reason, by=read_private(key, passphrase()))
        say(f"Key {revoked.key} of {revoked.agency} is revoked for what is published from now on.")


@release_keys.command("show", epilog="Example:  tabularium ledger release-key show NAME > agency.pub.pem")
def show(
    name: Annotated[str, typer.Argument(help="Name that `ledger release-key` shows.")],
    home: HomePath = None,
) -> None:
    """Print a public key (PEM), to publish elsewhere than the releases."""
    with open_ledger(home, reading=True) as ledger:
        enrolled = ledger.release_keys().get(name)
        if enrolled is None:
            raise InputError(
                "was never enrolled for releases",
                where=f"key {name}",
                hint="give all 32 digits, as in: tabularium ledger release-key",
            )
        out.print(public_pem(enrolled.public_key), end="", markup=False, soft_wrap=True)
