"""State of a desk: the home, its ledger, copies of folders, the officer's key, and what was done so far."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import tabularium
from tabularium.ledger import BadValue, NotApproved
from tabularium.ledger.review import AccountView, NotComposable, UnitView
from tabularium.mechanisms.errors import InputError, TabulariumError

# The officer's key, as the desk holds it: opened by its passphrase, and closed when nobody has used it.


IDLE_SECONDS = 15 * 60.0
_PAUSE_SECONDS = 1.0  # after a passphrase that is not the key's


class SigningKey:
    """A key file, and the officer who signs with it while it is open.

    Parameters
    ----------
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
        officer = tabularium.officer(self._home, key=self.file, passphrase=passphrase)
        with self._lock:
            self._opened, self._used = officer, time.monotonic()
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


Result = TypeVar("Result")
Review = tuple[list[AccountView], list[UnitView], list[NotComposable]]
_MOST_KEPT = 200  # results that are looked at again by their address


@dataclass
class Verification:
    """A verification of a release that goes on, or is over.

    Attributes
    ----------
    began
        Seconds of :func:`time.monotonic`.
    verdict, failure
        What came of it; both None while it goes on.
    """

    began: float = field(default_factory=time.monotonic)
    verdict: tabularium.Verdict | None = None
    failure: str | None = None

    @property
    def seconds(self) -> int:
        """For how long it has gone on."""
        return int(time.monotonic() - self.began)


class Desk:
    """The desk of one installation.

    Parameters
    ----------
    folders
        Copies of publication folders, or of folders of drafts: in each lies ``PRODUCT/PERIOD/RELEASE``.
    key
        The officer's; None where the desk only shows.
    """

    def __init__(self, home: Path, folders: tuple[Path, ...] = (), key: SigningKey | None = None) -> None:
        self.home, self.folders, self.key = home, folders, key
        self.option = tabularium.open_ledger(home).option
        self._kept: dict[str, object] = {}
        self._remembered: dict[str, tuple[int, Any]] = {}
        self._verifications: dict[str, Verification] = {}
        self._lock, self._prefect = threading.Lock(), threading.Lock()
        self._number = 0

    @contextmanager
    def books(self) -> Iterator[tabularium.Books]:
        """Open the ledger for one page."""
        with tabularium.open_ledger(self.home) as books:
            yield books

    @property
    def officer(self) -> tabularium.Officer | None:
        """Who signs; None without a key, or while its passphrase is not known."""
        return None if self.key is None else self.key.officer()

    @property
    def signs_as(self) -> str:
        """Whose key is open, in words for the head of a page."""
        officer = self.officer
        if officer is None:
            return "Nobody signs here" if self.key is None else "The key is closed"
        try:
            return f"Signs as {officer.name}"
        except NotApproved as error:
            return f"Nobody signs here: the key {error.what}"
        except (TabulariumError, OSError):
            return "Nobody signs here: the ledger does not answer"

    @contextmanager
    def asking_prefect(self) -> Iterator[None]:
        """Ask Prefect one question at a time: which API is asked is a setting of the whole process."""
        with self._prefect:
            yield

    def keep(self, what: object) -> str:
        """Keep something that a page shows later; return its number."""
        with self._lock:
            self._number += 1
            self._kept[number := str(self._number)] = what
            for old in list(self._kept)[:-_MOST_KEPT]:
                del self._kept[old]
        return number

    def kept(self, number: str) -> object | None:
        """Return what was kept, if it is still."""
        return self._kept.get(number)

    def remember(self, about: str, entry: int, find: Callable[[], Result]) -> Result:
        """Return what was found about something as of an entry of the ledger; it is found once."""
        known = self._remembered.get(about)
        if known is None or known[0] != entry:
            known = self._remembered[about] = (entry, find())
        result: Result = known[1]
        return result

    def review(self) -> Review:
        """Return what was spent on whom: composed once for each state of the ledger, which takes seconds."""
        with self.books() as books:
            return self.remember("review", books.last_entry, books.review)

    def prepare(self) -> None:
        """Find out what the first page of its kind would wait for."""
        with suppress(TabulariumError):
            self.review()

    def last_entry(self) -> int | None:
        """Return the number of the ledger's last entry; None where it cannot be read."""
        with suppress(TabulariumError, OSError), self.books() as books:
            return books.last_entry
        return None

    def signed_since(self, entry: int | None, statement: Mapping[str, Any]) -> bool | None:
        """Whether an entry after that one is what a statement says; None where nobody can say."""
        if entry is None:
            return None
        shown = {name: value for name, value in statement.items() if name not in ("context", "ledger")}
        with suppress(TabulariumError, OSError), self.books() as books:
            written = books.entries(last=books.last_entry - entry)
            return any(all(body.get(name) == shown[name] for name in shown) for body in written)
        return None

    def verification(self, release: str) -> Verification | None:
        """Return the last verification of a release that was begun at this desk."""
        return self._verifications.get(release)

    def begin_verification(self, release: str, verify: Callable[[], tabularium.Verdict]) -> None:
        """Verify a release while pages go on; one that goes on is not begun again."""
        with self._lock:
            known = self._verifications.get(release)
            if known is not None and known.verdict is None and known.failure is None:
                return
            begun = self._verifications[release] = Verification()
        threading.Thread(target=_verify, args=(begun, verify), daemon=True).start()


def _verify(begun: Verification, verify: Callable[[], tabularium.Verdict]) -> None:
    try:
        begun.verdict = verify()
    except TabulariumError as error:
        begun.failure = error.line()
    except Exception as error:  # nothing of it is shown
        begun.failure = f"an unexpected {type(error).__name__} stopped it; try: tabularium verify"
