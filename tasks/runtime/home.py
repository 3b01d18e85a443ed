"""The home of an installation: its ledger, its secret and its secure workspaces.

::

    <home>/                 mode 0700; TABULARIUM_HOME, or ~/.tabularium
        ledger.db            the ledger, unless TABULARIUM_LEDGER names another
        ledger-url           that other one, without its password; for commands in whose environment it is not
        measurements/       noisy measurements, a file for every table and level of a release
        workspaces/         one folder per run; everything confidential, removed at the end
        diagnoses/          why the data of a run were refused, one file per run, mode 0600
        cache/              what is made once for the installed packages; nothing of data or keys
        tracebacks/         of unexpected errors once data were opened, one file for each, mode 0600
        secret              agency secret of the keyed digests, mode 0600, made on first use, unless the
                            command in TABULARIUM_SECRET_COMMAND prints it

The measurements, and a check value of the secret, lie next to the ledger wherever that is: all homes that
share a ledger must see the same measurements and use the same secret, or one release would be drawn twice.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import shlex
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.ledger.durable_files import sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.validations.imported_later import Later
from tabularium.validations.redaction import bare_errors, note_data_opened

if TYPE_CHECKING:
    import sqlalchemy
else:
    sqlalchemy = Later("sqlalchemy")

_CHECK = b"tabularium/secret-check/1"
_LOST = "restore the secret from the agency's backup; without it a release would be drawn and paid twice"


@dataclass(frozen=True)
class Home:
    """One installation of Tabularium on disk."""

    path: Path

    @classmethod
    @bare_errors
    def at(cls, path: str | Path | None = None) -> Home:
        """Return the home at ``path``, or as the environment says, created if missing.

        Raises
        ------
        InputError
            If the folder cannot be made or other users could read it.
        """
        home = _remembered(cls(named(path)))
        chosen = home.path
        try:
            chosen.mkdir(parents=True, exist_ok=True, mode=0o700)
            if chosen.stat().st_mode & 0o077:
                chosen.chmod(0o700)
            home.workspaces.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InputError(
                f"this folder cannot be made or closed to other users ({error.strerror})",
                where=str(chosen),
                hint="name another with --home or TABULARIUM_HOME",
            ) from None
        return home

    @classmethod
    def found(cls, path: str | Path | None = None) -> Home:
        """Return the home at ``path``, or as the environment says, for reading: nothing is created.

        Raises
        ------
        InputError
            If there is none, and the ledger does not lie elsewhere.
        """
        home = _remembered(cls(named(path)))
        if home.path.is_dir() or os.environ.get("TABULARIUM_LEDGER"):
            return home
        raise InputError(
            "no home is here", where=str(home.path), hint="name yours with --home or TABULARIUM_HOME"
        )

    @property
    def option(self) -> str:
        """The option that printed commands need for this home: empty where it is the default."""
        return "" if self.path == named() else f" --home {shlex.quote(str(self.path))}"

    @property
    def ledger_url(self) -> str:
        """URL of the ledger: in TABULARIUM_LEDGER, else as the home remembers it, else a file of the home.

        Raises
        ------
        InputError
            If the environment names another ledger than the home remembers.
        """
        wanted, known = os.environ.get("TABULARIUM_LEDGER"), self._remembered_ledger()
        if wanted and known and _database_of(wanted) != _database_of(known):
            raise InputError(
                "this home belongs to another ledger, and what that knows is paid would be paid again here",
                where="TABULARIUM_LEDGER",
                hint=f"correct it; if the ledger was moved there, remove {self._ledger_file}",
            )
        return wanted or known or f"sqlite:///{self.path / 'ledger.db'}"

    def remember_ledger(self) -> None:
        """Remember the ledger of TABULARIUM_LEDGER for commands without it in their environment."""
        if os.environ.get("TABULARIUM_LEDGER") and not self._ledger_file.exists():
            url = (
                sqlalchemy.make_url(self.ledger_url)
                ._replace(password=None)
                .difference_update_query(["password"])
            )
            make_once(self._ledger_file, f"{url.render_as_string()}\n".encode())

    @property
    def _ledger_file(self) -> Path:
        return self.path / "ledger-url"

    def _remembered_ledger(self) -> str | None:
        try:
            return self._ledger_file.read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    @property
    def cache(self) -> Path:
        """Folder for files made once per set of installed packages; it may be removed."""
        return self.path / "cache"

    @property
    def measurements(self) -> Path:
        """Folder of the durable measurement store."""
        return self.ledger_folder / "measurements"

    @property
    def ledger_folder(self) -> Path:
        """Folder of the ledger's file; the home where the ledger is not a file."""
        try:
            url = sqlalchemy.make_url(self.ledger_url)
        except sqlalchemy.exc.ArgumentError:
            return self.path  # the ledger itself says what is wrong with the URL
        if url.get_backend_name() != "sqlite" or not url.database:
            return self.path
        return Path(url.database).absolute().parent

    @property
    def workspaces(self) -> Path:
        """Folder that holds the workspaces of runs; one in memory, where TABULARIUM_WORKSPACES names one."""
        return Path(os.environ.get("TABULARIUM_WORKSPACES") or self.path / "workspaces").absolute()

    @property
    def diagnoses(self) -> Path:
        """Folder that holds the diagnoses of refused runs."""
        return self.path / "diagnoses"

    @property
    def tracebacks(self) -> Path:
        """Folder that holds the tracebacks of unexpected errors."""
        return self.path / "tracebacks"

    def secret(self) -> bytes:
        """Return the agency secret, making it on first use.

        Release ids hang on it: with another secret the same release would have another name, and be drawn and
        paid again. So a check value is kept in the ledger's folder, and no new secret is made where one
        has been used; who opens a ledger that holds charges calls :meth:`require_secret` first.

        Raises
        ------
        InputError
            If the secret is missing where one has been used, damaged, readable by others, or not the one of
            the ledger; or the command that prints it does not.
        """
        note_data_opened()
        check = self.ledger_folder / "secret.check"
        command = secret_command()
        value = self._secret_in_file(check) if command is None else secret_of(command)
        expected = hmac.new(value, _CHECK, hashlib.sha256).hexdigest().encode()
        if not check.exists():
            check.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_once(check, expected)
        if not hmac.compare_digest(check.read_bytes(), expected):
            where = str(self.secret_file) if command is None else "TABULARIUM_SECRET_COMMAND"
            raise InputError("this is not the agency secret of the ledger", where=where, hint=_LOST)
        return value

    def _secret_in_file(self, check: Path) -> bytes:
        target = self.secret_file
        if not self.has_secret:
            if check.exists():
                self.require_secret()
            make_once(target, secrets.token_bytes(SECRET_BYTES))
        if target.stat().st_mode & 0o077:
            raise InputError(
                "other users may read the agency secret",
                where=str(target),
                hint=f"chmod 600 {shlex.quote(str(target))}, and find out who could read it meanwhile",
            )
        value = target.read_bytes()
        if len(value) != SECRET_BYTES:
            raise InputError("the agency secret is damaged", where=str(target), hint=_LOST)
        return value

    @property
    def secret_file(self) -> Path:
        """The file of the agency secret, unless a command prints it."""
        return self.path / "secret"

    @property
    def has_secret(self) -> bool:
        """Whether the agency secret is there, or a command is named that prints it."""
        return secret_command() is not None or self.secret_file.exists()

    def require_secret(self) -> None:
        """Refuse to go on without a secret, as where the ledger has charges, which were made under one."""
        if not self.has_secret:
            raise InputError("the agency secret is missing", where=str(self.secret_file), hint=_LOST)

    def subkey(self, purpose: str) -> bytes:
        """Return the key of one purpose, such as ``"release id"``: no digest of one is a digest of another.

        Raises
        ------
        InputError
            As ``secret``.
        """
        return hmac.digest(self.secret(), f"tabularium/{purpose}/1".encode(), "sha256")


def _database_of(url: str) -> tuple[object, ...]:
    """Return a ledger's URL without its user; anything else unchanged."""
    try:
        parsed = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        return (url,)
    if parsed.get_backend_name() == "sqlite":
        return ("sqlite", str(Path(parsed.database or "").absolute()))
    return (parsed.get_backend_name(), parsed.host, parsed.port or 5432, parsed.database)


# The homes that this process used, only the last one.
_used: dict[str, Home] = {}


def _remembered(home: Home) -> Home:
    _used["last"] = home
    return home


def last_home() -> Home | None:
    """Return the home that this process used last; None if it has used none."""
    return _used.get("last")


def named(path: str | Path | None = None) -> Path:
    """Return the path of a home: ``path``, or as the environment says."""
    return Path(path or os.environ.get("TABULARIUM_HOME") or Path.home() / ".tabularium").absolute()


def make_once(target: Path, content: bytes) -> None:
    """Create a durable file of mode 0600, unless it exists.

    Two processes may come here first at once: both write aside, one link wins, and both read the winner.
    """
    aside = target.with_name(f".{target.name}-{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        os.link(aside, target)
    except FileExistsError:
        pass  # another process was first; its content is the one
    finally:
        aside.unlink()
    sync_folder(target.parent)


# The agency secret from a key store. The command runs without a shell, once per process, and prints 32
# bytes or 64 hexadecimal digits. Its standard error is dropped: key stores quote secrets there.


VARIABLE = "TABULARIUM_SECRET_COMMAND"
SECRET_BYTES = 32
_SECONDS = 30
_HEX = re.compile(rb"\s*([0-9A-Fa-f]{64})\s*")


def secret_command() -> str | None:
    """Return the command that prints the secret, if one is named."""
    return os.environ.get(VARIABLE) or None


@lru_cache(maxsize=4)
def secret_of(command: str) -> bytes:
    """Return the secret that a command prints.

    Raises
    ------
    InputError
        If it cannot be run, fails, takes longer than half a minute, or prints something else.
    """
    failure = printed_by(command)
    if isinstance(failure, bytes):
        match = _HEX.fullmatch(failure)
        if match is not None:
            return bytes.fromhex(match[1].decode())
        if len(failure) == SECRET_BYTES:
            return failure
        failure = "printed something that is no secret"
    raise InputError(
        f"the command for the agency secret {failure}",
        where=VARIABLE,
        hint=f"let it print {SECRET_BYTES} bytes, or 64 hexadecimal digits, and exit with 0",
    )


def printed_by(command: str) -> bytes | str:
    """Return the output of a key store's command, or what is wrong with it."""
    try:
        words = shlex.split(command)
        done = subprocess.run(  # noqa: S603 - the operator's own command, and no shell
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {_SECONDS} seconds"
    except (OSError, ValueError, IndexError):
        return "cannot be run"
    return done.stdout if done.returncode == 0 else f"failed with exit code {done.returncode}"
