"""Sealing: a stream of files that only a passphrase or an age key opens.

::

    key.age       an age identity made for this one backup, encrypted with the passphrase or to the recipients
    sealed.age    a tar file, encrypted to that identity; index.json, its last member, names every SHA-256

The tools of the age project open both: ``age -d key.age > key; age -d -i key sealed.age | tar x``. The tar
file goes through a pipe: nothing of it lies on a disk unencrypted.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyrage

from tabularium.mechanisms.errors import InputError

KEY, SEALED, INDEX = "key.age", "sealed.age", "index.json"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Lock:
    """The keys that lock or open a backup: a passphrase, else public or private keys."""

    passphrase: str | None = None
    recipients: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()

    def close(self, key: bytes) -> bytes:
        """Encrypt the key of a backup.

        Raises
        ------
        InputError
            If a recipient is no age public key, or there is nothing to lock it with.
        """
        if self.passphrase:
            return bytes(pyrage.passphrase.encrypt(key, self.passphrase))
        try:
            recipients = [pyrage.x25519.Recipient.from_str(recipient) for recipient in self.recipients]
        except pyrage.RecipientError:
            recipients = []
        if not recipients:
            raise InputError(
                "no passphrase, and no public key of age that can be read",
                where="--recipient",
                hint="give a key that begins with age1, or a passphrase in TABULARIUM_BACKUP_PASSPHRASE",
            )
        return bytes(pyrage.encrypt(key, recipients))

    def open(self, closed: bytes, where: str) -> bytes:
        """Decrypt the key of a backup.

        Raises
        ------
        InputError
            If neither passphrase nor identities open it.
        """
        try:
            if self.passphrase:
                return bytes(pyrage.passphrase.decrypt(closed, self.passphrase))
            identities = [pyrage.x25519.Identity.from_str(identity) for identity in self.identities]
            return bytes(pyrage.decrypt(closed, identities))
        except (pyrage.DecryptError, pyrage.IdentityError):
            pass
        raise InputError(
            "does not open with this passphrase or identity",
            where=where,
            hint="give the passphrase in TABULARIUM_BACKUP_PASSPHRASE, or the age identity with --identity",
        )


@dataclass(frozen=True)
class Member:
    """A file of a backup: its name there, and its bytes or its path."""

    name: str
    source: Path | bytes

    def opened(self) -> IO[bytes]:
        """Open it for reading."""
        return io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")


def seal(folder: Path, members: Iterable[Member], lock: Lock) -> dict[str, str]:
    """Write ``key.age`` and ``sealed.age`` into a folder, read them back, and return every digest.

    Raises
    ------
    InputError
        If it cannot be locked.
    OSError
        If something cannot be read or written.
    """
    identity = pyrage.x25519.Identity.generate()
    key = str(identity).encode()
    closed = lock.close(key)
    _write(folder / KEY, closed)
    if lock.passphrase and lock.open(closed, KEY) != key:
        raise OSError(0, "it does not read back as it was written")
    digests: dict[str, str] = {}
    with (folder / SEALED).open("xb") as file:
        (folder / SEALED).chmod(0o600)
        _through_pipe(
            lambda tar: _pack(tar, members, digests),
            lambda read: pyrage.encrypt_io(read, file, [identity.to_public()]),
        )
        file.flush()
        os.fsync(file.fileno())
    if {name: digest for name, digest, _ in _unsealed(folder / SEALED, key, None)} != digests:
        raise OSError(0, "it does not read back as it was written")
    return digests


def unseal(folder: Path, lock: Lock, into: Path) -> dict[str, str]:
    """Unpack ``sealed.age`` into a folder, every digest compared with the index; return them.

    Raises
    ------
    InputError
        If it does not open, or is not what was written.
    """
    key = lock.open((folder / KEY).read_bytes(), str(folder / KEY))
    return {name: digest for name, digest, _ in _unsealed(folder / SEALED, key, into)}


def _unsealed(sealed: Path, key: bytes, into: Path | None) -> list[tuple[str, str, int]]:
    """Return the members; unpack them if a folder is given."""
    members: list[tuple[str, str, int]] = []
    index: dict[str, str] = {}
    identity = pyrage.x25519.Identity.from_str(key.decode())
    damaged = InputError("is damaged or cut off", where=str(sealed), hint="take another copy of the backup")

    def unpack(read: IO[bytes]) -> None:
        with tarfile.open(fileobj=read, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None or ".." in Path(member.name).parts or member.name.startswith("/"):
                    raise damaged
                if member.name == INDEX:
                    index.update(json.load(content))
                else:
                    members.append((member.name, _copied(content, into and into / member.name), member.size))
        while read.read(_BLOCK):
            pass

    try:
        with sealed.open("rb") as file:
            _through_pipe(lambda write: pyrage.decrypt_io(file, write, [identity]), unpack)
    except (pyrage.DecryptError, tarfile.TarError, ValueError, OSError):
        raise damaged from None
    if index != {name: digest for name, digest, _ in members}:
        raise damaged
    return members


def _copied(content: IO[bytes], target: Path | None) -> str:
    digest = hashlib.sha256()
    if target is None:
        for block in _blocks(content):
            digest.update(block)
        return digest.hexdigest()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for block in _blocks(content):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _blocks(content: IO[bytes]) -> Iterator[bytes]:
    while block := content.read(_BLOCK):
        yield block


def _pack(write: IO[bytes], members: Iterable[Member], digests: dict[str, str]) -> None:
    with tarfile.open(fileobj=write, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            with member.opened() as content:
                seen = _Digesting(content)
                tar.addfile(_about(member.name, _size(content)), seen)
            digests[member.name] = seen.digest.hexdigest()
        index = json.dumps(digests, indent=1).encode()
        tar.addfile(_about(INDEX, len(index)), io.BytesIO(index))


class _Digesting:
    """A file whose bytes are digested as they are read."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content, self.digest = content, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._content.read(size)
        self.digest.update(block)
        return block


def _size(content: IO[bytes]) -> int:
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    return size


def _about(name: str, size: int) -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, 0o600
    return about


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _through_pipe(writes: Callable[[IO[bytes]], Any], reads: Callable[[IO[bytes]], Any]) -> None:
    """Run a writer in a thread and a reader here, with a pipe between them; errors of either are raised."""
    out, into = os.pipe()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with os.fdopen(into, "wb") as file:
                writes(file)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        with os.fdopen(out, "rb") as file:
            reads(file)
    except BaseException:
        thread.join()
        if failed and not isinstance(failed[0], BrokenPipeError):
            raise failed[0] from None
        raise
    thread.join()
    if failed:
        raise failed[0]
