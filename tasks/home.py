"""Where an installation keeps its books, its secret and its secure workspaces.

::

    <home>/                 mode 0700; TABULARIUM_HOME, or ~/.tabularium
        books.db            the ledger, unless TABULARIUM_LEDGER names another
        measurements/       noisy measurements, one file per release and attempt
        workspaces/         one folder per run; everything confidential, removed at the end
        secret              agency secret of the keyed digests, mode 0600, made on first use
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from mechanisms.errors import InputError

_SECRET_BYTES = 32


@dataclass(frozen=True)
class Home:
    """One installation of Tabularium on disk."""

    path: Path

    @classmethod
    def at(cls, path: str | Path | None = None) -> Home:
        """Return the home at ``path``, or where the environment says, made if it is not there.

        Raises
        ------
        InputError
            If the folder cannot be made or other users could read it.
        """
        chosen = Path(path or os.environ.get("TABULARIUM_HOME") or Path.home() / ".tabularium").absolute()
        home = cls(chosen)
        try:
            chosen.mkdir(parents=True, exist_ok=True, mode=0o700)
            if chosen.stat().st_mode & 0o077:
                chosen.chmod(0o700)
            home.workspaces.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            failure = InputError(
                f"this folder cannot be made or closed to other users ({error.strerror})",
                where=str(chosen),
                mend="name another with --home or TABULARIUM_HOME",
            )
        else:
            return home
        raise failure

    @property
    def ledger_url(self) -> str:
        """URL of the ledger."""
        return os.environ.get("TABULARIUM_LEDGER") or f"sqlite:///{self.path / 'books.db'}"

    @property
    def measurements(self) -> Path:
        """Folder of the durable measurement store."""
        return self.path / "measurements"

    @property
    def workspaces(self) -> Path:
        """Folder that holds the workspaces of runs."""
        return self.path / "workspaces"

    def secret(self) -> bytes:
        """Return the agency secret, making it on first use.

        Two processes may come here first at once: both write aside, one link wins, both read the winner.
        """
        target = self.path / "secret"
        if not target.exists():
            aside = self.path / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, secrets.token_bytes(_SECRET_BYTES))
                os.fsync(handle)
            finally:
                os.close(handle)
            try:
                os.link(aside, target)
            except FileExistsError:
                pass  # another process was first; its secret is the one
            finally:
                aside.unlink()
            sync_folder(self.path)
        value = target.read_bytes()
        if len(value) != _SECRET_BYTES:
            raise InputError(
                "the agency secret is damaged", where=str(target), mend="restore it from the agency's backup"
            )
        return value


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
