"""The officer's key, as the desk holds it: opened by its passphrase, and closed when nobody has used it."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import tabularium
from tabularium.ledger import BadValue
from tabularium.mechanisms.errors import InputError

IDLE_SECONDS = 15 * 60.0
_PAUSE_SECONDS = 1.0  # after a passphrase that is not the key's


class SigningKey:
    """A key file, and the officer who signs with it while it is open.

    Parameters
    ----------
    home
        As for :func:`tabularium.officer`.
    file
        The PEM file.
    idle
        Seconds after which it closes unless it is used.
    """

    def __init__(self, home: Path, file: Path, *, idle: float = IDLE_SECONDS) -> None:
        self.file, self.idle = file, idle
        self._home, self._used = home, 0.0
        self._opened: tabularium.Officer | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        try:
            self.has_passphrase = b"ENCRYPTED" in file.read_bytes()
        except OSError as error:
            reason = error.strerror
        else:
            if not self.has_passphrase or os.environ.get("TABULARIUM_KEY_PASSPHRASE"):
                self._read(os.environ.get("TABULARIUM_KEY_PASSPHRASE") or None)
            return
        raise InputError(
            f"cannot be read ({reason})", where="--key", hint="name the PEM file of a private key"
        )

    def officer(self) -> tabularium.Officer | None:
        """Return who signs; None where the passphrase must be given first. It counts as use."""
        with self._lock:
            self._drop_if_idle()
            self._used = time.monotonic()
            return self._opened

    def unlock(self, passphrase: str) -> None:
        """Open the key.

        Raises
        ------
        BadValue
            The passphrase is not its own, or there is no such key any more.
        """
        with suppress(BadValue):
            self._read(passphrase)
            return
        time.sleep(_PAUSE_SECONDS)
        if not self.file.is_file():
            raise BadValue("is there no more", where=str(self.file), hint="put the key back, and try again")
        raise BadValue(
            "this is not the passphrase of this key, or it is no Ed25519 key",
            where=self.file.name,
            hint="try again; tabularium ledger keys new makes a key",
        )

    def close(self) -> None:
        """Close the key: the passphrase is asked for again."""
        with self._lock:
            if self.has_passphrase:
                self._opened = None

    def _read(self, passphrase: str | None) -> None:
        found = tabularium.officer(self._home, key=self.file, passphrase=passphrase)
        with self._lock:
            self._opened, self._used = found, time.monotonic()
        self._look_again()

    def _look_again(self) -> None:
        """Drop the key once it is idle, also if nobody asks for it any more."""
        with self._lock:
            self._drop_if_idle()
            if self._timer is not None:
                self._timer.cancel()
            if self._opened is not None and self.has_passphrase:
                left = self.idle - (time.monotonic() - self._used)
                self._timer = threading.Timer(left, self._look_again)
                self._timer.daemon = True
                self._timer.start()

    def _drop_if_idle(self) -> None:
        if self.has_passphrase and time.monotonic() - self._used >= self.idle:
            self._opened = None
