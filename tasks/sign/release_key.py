"""The agency's private key for releases, where a machine that publishes finds it.

It is read when a release is signed, and handed on to nobody. These are the places, the first that is named
wins:

- ``TABULARIUM_RELEASE_KEY_COMMAND``: a command of a key store that prints it (PEM), run without a shell;
- ``TABULARIUM_RELEASE_KEY``: the path of a file (PEM, mode 0600);
- ``release-key`` in the home.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import NotApproved
from tabularium.ledger.keys import key_id, private_from, public_hex
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.secret_command import printed_by
from tabularium.validations.redaction import bare_errors, os_errors_as

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

COMMAND, PATH = "TABULARIUM_RELEASE_KEY_COMMAND", "TABULARIUM_RELEASE_KEY"
PASSPHRASE = "TABULARIUM_RELEASE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
FILE = "release-key"


@bare_errors
def release_key(home: Home) -> Ed25519PrivateKey | None:
    """Return the key with which this machine signs releases; ``None`` if it has none.

    Raises
    ------
    InputError
        If it is named and cannot be read, other users can read it, or it is no Ed25519 key.
    """
    command = os.environ.get(COMMAND)
    if command:
        printed = printed_by(command)
        if isinstance(printed, str):
            raise InputError(
                f"the command for the key for releases {printed}",
                where=COMMAND,
                hint="let it print the key (PEM), and exit with 0",
            )
        return _read(printed, COMMAND)
    path = release_key_file(home)
    if not path.exists() and not os.environ.get(PATH):
        return None
    with os_errors_as(
        InputError,
        "the key for releases cannot be read ({reason})",
        where=path,
        hint="correct its path or its owner",
    ):
        if path.stat().st_mode & 0o077:
            raise InputError(
                "other users may read the key for releases",
                where=str(path),
                hint=f"chmod 600 {shlex.quote(str(path))}, and if anybody could have read it, revoke it",
            )
        return _read(path.read_bytes(), str(path))


def _read(pem: bytes, where: str) -> Ed25519PrivateKey:
    key = private_from(pem, passphrase())
    if key is None:
        raise InputError(
            "is no Ed25519 private key, or needs another passphrase",
            where=where,
            hint="give the PEM file that `tabularium ledger release-key new` made, and its passphrase in "
            f"{PASSPHRASE}",
        )
    return key


def release_key_file(home: Home) -> Path:
    """Return where the key lies, unless a command prints it."""
    named = os.environ.get(PATH)
    return Path(named) if named else home.path / FILE


def passphrase() -> bytes | None:
    """Return the passphrase of the key for releases, which only the environment may hold."""
    return os.environ.get(PASSPHRASE, "").encode() or None


def signing_key(home: Home, ledger: Ledger) -> Ed25519PrivateKey | str:
    """Return the key with which a release can be signed now, or why it is published unsigned.

    What is published unsigned stays so, and readers who have the agency's key refuse it. So while a key is
    enrolled a machine that has none, or one that was revoked, publishes nothing.

    Raises
    ------
    NotApproved
        If this machine has a key that no officer ever enrolled, or cannot sign though the agency does.
    InputError
        As :func:`release_key`.
    """
    key, enrolled = release_key(home), ledger.release_keys()
    signs = any(known.active for known in enrolled.values())
    if key is None:
        if not signs:
            return "no key for releases is enrolled"
        raise NotApproved(
            "a key for releases is enrolled, and this machine has none",
            where=PATH,
            hint=f"name its file there, or have {COMMAND} print it; or let an officer revoke it",
        )
    name = key_id(public_hex(key))
    if name not in enrolled:
        raise NotApproved(
            "no officer has enrolled this machine's key for releases",
            where=f"key {name}",
            hint="let an officer run: tabularium ledger release-key enrol FILE --agency NAME --key FILE"
            f"{home.option}; or take the key away, and releases are unsigned",
        )
    if not enrolled[name].active:
        if not signs:
            return f"this machine's key for releases, {name}, was revoked"
        raise NotApproved(
            "this machine's key for releases was revoked, and another one is enrolled",
            where=f"key {name}",
            hint="put the new key in its place",
        )
    return key
