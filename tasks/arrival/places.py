"""Where drops are: a folder of this machine or an object store, and what may be done with a drop there.

Files in an inbox may change at any time, also while they are read. In a folder nothing is followed: every
step goes from an open folder to a name inside it, links and other things that are not plain files are
refused, and what is counted in the end is what was hashed while it was copied.

A drop is delivered so that nobody ever sees half of it::

    files ─▶ .NAME.RANDOM.part/ ─▶ NAME/ ─▶ NAME/drop.json, last
              hidden, durable
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import quote, unquote_to_bytes

from tabularium.ledger.durable_files import sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import DEFAULT, Inbox, InboxLimits
from tabularium.tasks.arrival.manifest import MANIFEST, DropRefused, read_manifest, see_name, too_much
from tabularium.validations.redaction import bare_errors, os_errors_as

DONE, QUARANTINE = "done", "quarantine"
_AGAIN = "drop it again as plain files of its own folder"
_OTHER_FILES = 100  # the manifest, and what programs put there
# Errors of opening links, pipes, sockets, closed and missing files; any other is a machine fault, not the
# drop's.
_IN_THE_WAY = {
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR),
    errno.EMLINK,
}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Seen:
    """A name in a drop.

    Attributes
    ----------
    plain
        Whether it is a file, under only this name.
    changed
        Seconds since 1970, by the system's or the store's clock and nobody's word.
    """

    name: str
    plain: bool
    size: int
    changed: float


class Place(Protocol):
    """An inbox as a place: ``place`` is ``NAME``, ``done/NAME`` or ``quarantine/NAME`` below it."""

    def drops(self) -> list[str]:
        """Return the names of the folders in the inbox, without those of its own and hidden ones."""

    def listing(self, place: str) -> list[Seen]:
        """Return the entries of a drop. Raises ``DropRefused`` if it is not a readable folder."""

    def changed(self, place: str) -> float | None:
        """Return the time of the last change in a drop; None if it is not there."""

    def open(self, place: str, name: str) -> IO[bytes]:
        """Open a plain file of a drop. Raises ``DropRefused`` if it is not one, or missing."""

    def has(self, place: str) -> bool:
        """Whether anything lies there."""

    def move(self, place: str, target: str) -> None:
        """Move a drop within the inbox; parts that were moved already are not moved again."""

    def write(self, place: str, text: str) -> None:
        """Write a file of the inbox's own, such as ``quarantine/NAME.why.txt``."""

    def delete(self, place: str) -> None:
        """Delete a drop, or a file of the inbox's own, if it is there."""


def opened(address: str, limits: InboxLimits = DEFAULT) -> Place:
    """Return the inbox at an address; a drop with more files than its limits cannot be listed.

    Raises
    ------
    OSError
        If the folder cannot be opened; of an object store whatever its library raises.
    """
    return _Folder(Path(address), limits.files) if "://" not in address else _Objects(address, limits.files)


def quoted(name: str) -> str:
    """Return the name of a drop as ASCII text, whatever bytes it holds; plain names unchanged."""
    return quote(os.fsencode(name), safe="=")


def unquoted(name: str) -> str:
    """Return the name that :func:`quoted` wrote."""
    return os.fsdecode(unquote_to_bytes(name))


def is_drop(name: str) -> bool:
    """Whether a folder of an inbox is a drop by its name, and neither hidden nor the inbox's own."""
    return not name.startswith((".", "_")) and name not in (DONE, QUARANTINE)


class _Folder:
    """An inbox that is a folder."""

    def __init__(self, path: Path, most_files: int) -> None:
        self.path, self._most = path, most_files

    def drops(self) -> list[str]:
        with os.scandir(self.path) as entries:
            return sorted(
                quoted(entry.name)
                for entry in entries
                if is_drop(entry.name) and (entry.is_dir(follow_symlinks=False) or entry.is_symlink())
            )

    def listing(self, place: str) -> list[Seen]:
        with self._folder(place) as folder, os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, self._most + _OTHER_FILES)]
            _see_how_many(names, self._most)
            return [_seen(folder, name) for name in sorted(names)]

    def changed(self, place: str) -> float | None:
        try:
            with self._parent(place) as (parent, name):
                last = os.lstat(name, dir_fd=parent).st_ctime
        except FileNotFoundError:
            return None
        with contextlib.suppress(DropRefused):
            last = max([last, *(seen.changed for seen in self.listing(place))])
        return last

    def open(self, place: str, name: str) -> IO[bytes]:
        with self._folder(place) as folder:
            try:
                # Opening a pipe would block until somebody writes.
                descriptor = os.open(
                    name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
                )
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                descriptor = -1
        if descriptor >= 0 and _is_plain(os.fstat(descriptor)):
            return io.FileIO(descriptor, "rb")
        if descriptor >= 0:
            os.close(descriptor)
        raise DropRefused("is no plain file, not there, or may not be read", where=name, hint=_AGAIN)

    def has(self, place: str) -> bool:
        try:
            with self._parent(place) as (parent, name):
                os.lstat(name, dir_fd=parent)
        except FileNotFoundError:
            return False
        return True

    def move(self, place: str, target: str) -> None:
        with self._parent(target, make=True) as (there, new), self._parent(place) as (here, old):
            with contextlib.suppress(FileNotFoundError):  # moved before, or taken away
                os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)
            os.fsync(there)

    def write(self, place: str, text: str) -> None:
        with self._parent(place, make=True) as (parent, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o640, dir_fd=parent)
            try:
                os.write(descriptor, text.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def delete(self, place: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._parent(place) as (parent, name):
            _remove_all(parent, name)

    @contextlib.contextmanager
    def _parent(self, place: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the parent folder of a place; yield it and the name inside."""
        above, _, name = place.rpartition("/")
        descriptor = os.open(self.path, _DIRECTORY)
        try:
            if above:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(above, stat.S_IMODE(os.fstat(descriptor).st_mode), dir_fd=descriptor)
                inner = os.open(above, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, unquoted(name)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _folder(self, place: str) -> Iterator[int]:
        with self._parent(place) as (parent, name):
            try:
                folder = os.open(name, _DIRECTORY, dir_fd=parent)
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                folder = -1
        if folder < 0:
            raise DropRefused("is a link, not there, or may not be read", where="the drop", hint=_AGAIN)
        try:
            yield folder
        finally:
            os.close(folder)


def _remove_all(parent: int, name: str) -> None:
    """Remove a file or a folder, however deep: folders inside it are first moved up to its top."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    top = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        while inside := _without_files(top):
            for folder in inside:
                inner = os.open(folder, _DIRECTORY, dir_fd=top)
                try:
                    for deeper in _without_files(inner):
                        os.rename(deeper, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(folder, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _without_files(folder: int) -> list[str]:
    """Remove all files of an open folder; return the names of the folders that are left."""
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in names if is_folder]


def _see_how_many(entries: Sized, most: int) -> None:
    if len(entries) >= most + _OTHER_FILES:
        raise too_much("holds more files", str(most), "the drop")


def _seen(folder: int, name: str) -> Seen:
    try:
        status = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:  # removed just now
        return Seen(name, False, 0, 0.0)
    return Seen(name, _is_plain(status), status.st_size, status.st_ctime)


def _is_plain(status: os.stat_result) -> bool:
    """Whether it is a plain file with only this name: another name might belong to somebody else's file."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


class _Objects:
    """An inbox that is a prefix in an object store, which knows neither links nor moving."""

    def __init__(self, address: str, most_files: int) -> None:
        from fsspec.core import url_to_fs

        self._most = most_files
        self._store, root = url_to_fs(address, use_listings_cache=False)
        self._root = str(root).rstrip("/")

    def drops(self) -> list[str]:
        objects = self._list(self._root)
        folders = (_name(entry) for entry in objects if entry["type"] == "directory")
        return sorted(quoted(name) for name in folders if name and is_drop(name))

    def listing(self, place: str) -> list[Seen]:
        objects = self._list(self._at(place))
        if not objects:
            raise DropRefused("is not there", where="the drop", hint=_AGAIN)
        _see_how_many(objects, self._most)
        return [
            Seen(_name(entry), entry["type"] == "file", int(entry.get("size") or 0), _changed(entry))
            for entry in sorted(objects, key=_name)
        ]

    def changed(self, place: str) -> float | None:
        return max((_changed(entry) for entry in self._list(self._at(place))), default=None)

    def open(self, place: str, name: str) -> IO[bytes]:
        try:
            opened: IO[bytes] = self._store.open(f"{self._at(place)}/{name}", "rb")
        except FileNotFoundError:
            pass
        else:
            return opened
        raise DropRefused("is not there", where=name, hint=_AGAIN)

    def has(self, place: str) -> bool:
        self._store.invalidate_cache()
        return bool(self._store.exists(self._at(place)))

    def move(self, place: str, target: str) -> None:
        source, into = self._at(place), self._at(target)
        keys = self._keys(source)
        for key in keys:
            self._copy(key, into + key.removeprefix(source))
        for key in keys:
            self._remove(key)

    def write(self, place: str, text: str) -> None:
        self._store.pipe_file(self._at(place), text.encode())

    def delete(self, place: str) -> None:
        for key in self._keys(self._at(place)):
            self._remove(key)

    def _at(self, place: str) -> str:
        return "/".join([self._root, *map(unquoted, place.split("/"))])

    def _list(self, path: str) -> list[dict[str, Any]]:
        self._store.invalidate_cache()
        try:
            entries = self._store.ls(path, detail=True)
        except FileNotFoundError:
            return []
        # The prefix itself may be an object of no bytes, by which some tools mark a folder.
        return [entry for entry in entries if entry["name"].strip("/") != path.strip("/")]

    def _keys(self, path: str) -> list[str]:
        self._store.invalidate_cache()
        return [str(key) for key in self._store.find(path)]

    def _copy(self, key: str, target: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another watcher is further on
            self._store.cp_file(key, target)

    def _remove(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._store.rm_file(key)


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rstrip("/").rpartition("/")[2]


def _changed(entry: dict[str, Any]) -> float:
    when = next(
        (entry[key] for key in ("LastModified", "last_modified", "created", "mtime") if entry.get(key)), 0
    )
    return float(when.timestamp()) if hasattr(when, "timestamp") else float(when)


_BLOCK = 1 << 20
_DAY = 86_400.0


@bare_errors
def deliver(files: Sequence[Path], inbox: Inbox, period: str, *, name: str | None = None) -> Path:
    """Copy files into an inbox as one drop, its manifest last.

    Parameters
    ----------
    inbox
        A folder; that of a product is known to its home.
    name
        Of the drop's folder; by default the period.

    Raises
    ------
    InputError
        A file is missing or cannot be read, no manifest can hold the name of one, the product or the period,
        the inbox is no folder that is there, or a drop of this name lies in it. Nothing is left in the inbox
        then.
    """
    folder = Path(inbox.address)
    if not inbox.is_folder:
        raise InputError(
            "this inbox lies in an object store, and deliver writes only into folders",
            where=f"inbox {inbox.address}",
            hint=f"copy the files there with the store's own tools, and {MANIFEST} last",
        )
    if not folder.is_dir():
        raise InputError("there is no such folder", where=f"inbox {folder}", hint="name one with --inbox")
    see_name(inbox.product, "product", f"--product {inbox.product}")
    see_name(period, "period", f"--period {period}")
    drop = folder / (name or period)
    if drop.parent != folder or not is_drop(drop.name):
        raise InputError(
            "an inbox takes no drop of this name",
            where=f"--name {name or period}",
            hint="give one without slashes, without . or _ at its start, and neither done nor quarantine",
        )
    _see_free(drop)
    _see_files(files)
    _manifest([{"name": file.name, "size": _size(file), "sha256": "0" * 64} for file in files], inbox, period)
    aside, unnamed = folder / f".{drop.name}.{secrets.token_hex(4)}.part", f".{MANIFEST}"
    try:
        _clear_remains(drop)
        aside.mkdir()
        manifest = _manifest([_copied(file, aside) for file in files], inbox, period)
        with (aside / unnamed).open("xb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(aside)
        try:
            aside.rename(drop)
        except OSError:
            _see_free(drop)  # another delivery was faster
            raise
        (drop / unnamed).rename(drop / MANIFEST)
        sync_folder(drop)
        sync_folder(folder)
    except OSError as error:
        raise InputError(
            f"the drop could not be written ({error.strerror})",
            where=str(folder),
            hint="make room or give the right to write there, and deliver again",
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return drop


def _see_free(drop: Path) -> None:
    if os.path.lexists(drop):
        raise InputError(
            "a drop of this name lies in the inbox",
            where=str(drop),
            hint="wait until it is taken, or give this one another --name",
        )


def _see_files(files: Sequence[Path]) -> None:
    names: set[str] = set()
    for file in files:
        see_name(file.name, "file name", str(file))
        if file.name.casefold() in names:
            raise InputError(
                "two files have one name",
                where=file.name,
                hint="rename one of them; capitals do not tell names apart",
            )
        names.add(file.name.casefold())


def _clear_remains(drop: Path) -> None:
    """Remove the remains of killed deliveries of this name, unchanged for a day."""
    for part in drop.parent.iterdir():
        if part.name.startswith(f".{drop.name}.") and part.name.endswith(".part"):
            last = max(path.lstat().st_mtime for path in (part, *part.iterdir()))
            if last < time.time() - _DAY:
                shutil.rmtree(part, ignore_errors=True)


@bare_errors
def _size(file: Path) -> int:
    with _readable(file):
        return file.stat().st_size


def _readable(file: Path) -> AbstractContextManager[None]:
    return os_errors_as(InputError, "the file cannot be read ({reason})", where=file, hint="check its name")


@bare_errors
def _copied(file: Path, aside: Path) -> dict[str, object]:
    """Copy a file and return its entry in a manifest."""
    with _readable(file):
        source = file.open("rb")
    digest, size = hashlib.sha256(), 0
    with source, (aside / file.name).open("xb") as copy:
        while block := source.read(_BLOCK):
            copy.write(block)
            digest.update(block)
            size += len(block)
        copy.flush()
        os.fsync(copy.fileno())
    shutil.copymode(file, aside / file.name)
    return {"name": file.name, "size": size, "sha256": digest.hexdigest()}


@bare_errors
def _manifest(files: list[dict[str, object]], inbox: Inbox, period: str) -> bytes:
    """Return a manifest, checked as the inbox would read it."""
    manifest = {"product": inbox.product, "period": period, "files": files}
    text = (json.dumps(manifest, indent=2) + "\n").encode()
    try:
        read_manifest(text, inbox.limits)
    except DropRefused as error:
        raise InputError(
            f"the inbox would refuse this drop: its manifest {error.what}",
            where=f"inbox {inbox.address}",
            hint=error.hint,
        ) from None
    return text
