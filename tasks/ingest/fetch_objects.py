"""Fetching a source from an object store: its objects are copied into the workspace of the run.

::

    address ──▶ listing ──▶ copies in the workspace ──▶ the same listing again ──▶ read as files

Objects are replaced while others read them. Digest, rules and counts are of the copies, to which nobody else
writes; that the listing after the last byte is that before the first shows that they lay there together. A
copy is read as the file at home would be, so it has the same digest. No library keeps copies of its own.

Who may read is settled between the store and the environment. What the store's package says of a failure may
quote what it was sent, and goes nowhere.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tabularium.mechanisms.errors import InputError, InputMissing, TabulariumError
from tabularium.tasks.arrival.verify_drop import no_room, see_that_there_is_room
from tabularium.tasks.ingest.find_files import require_data, require_few
from tabularium.tasks.ingest.open_source import changed
from tabularium.tasks.runtime.progress import reporter
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.kinds import is_ignored
from tabularium.validations.release_spec.source import WILD, Files, package_of

_BLOCK = 1 << 20
_LONGEST = 255  # bytes of a file's name
_SECONDS = 1.0  # between two words of how far it is
#: By these stores tell one state of an object from another, each by some; the size is not enough.
_SIGNS = (
    *("ETag", "etag", "generation", "VersionId", "version_id", "md5Hash", "content_md5"),
    *("LastModified", "last_modified", "updated", "modified", "mtime"),
)

# In the names of what packages raise where nobody, or the wrong one, is logged in.
_WHO = re.compile("credential|auth", re.IGNORECASE)

T = TypeVar("T")


@dataclass(frozen=True)
class _Object:
    """An object in a listing.

    Attributes
    ----------
    place
        Where its copy lies: below the folders that hold values of columns (``sex=F/``), under its own name.
    signs
        What tells this state of it from others.
    """

    key: str
    place: str
    size: int
    signs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Asked:
    """An object-store address, and how its failures become our errors."""

    address: str
    field: str

    def answer(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``; a failure of the store becomes our error."""
        kinds: list[type[Exception]] = []

        def asking() -> T:
            try:
                return work()
            except Exception as error:
                kinds.append(type(error))
                raise

        return redacted(asking, lambda: self._failure(kinds[0]))

    def missing(self) -> InputMissing:
        """Return the error for objects that are not there."""
        return InputMissing(
            "there is no such object, or no such bucket",
            where=f"{self.field} {self.address}",
            hint=f"check {self.field}.path and {self.field}.format in the spec",
        )

    def _failure(self, kind: type[Exception]) -> TabulariumError:
        where = f"{self.field} {self.address}"
        if issubclass(kind, FileNotFoundError):
            return self.missing()
        if issubclass(kind, PermissionError) or _WHO.search(kind.__name__):
            hint = "see that the environment holds credentials that may list and read there"
            return InputError("the store gives no access", where=where, hint=hint)
        if issubclass(kind, ImportError):
            package = package_of(self.address)
            ours = '"tabularium-dp[s3]"' if package == "s3fs" else package
            return InputError(f"the package {package} is missing", where=where, hint=f"pip install {ours}")
        hint = "check that it is up, and what the environment says of it"
        return InputMissing(f"the store does not answer ({kind.__name__})", where=where, hint=hint)


def fetch_objects(address: str, files: Files, folder: Path, field: str = "source") -> Path:
    """Copy the objects that an address names; return the file or folder to read instead.

    Parameters
    ----------
    address
        An object, a pattern, or what a folder would be: all below it.
    files
        What the spec says of them.
    folder
        Inside the secure workspace; it is created.
    field
        Where the spec speaks of them.

    Raises
    ------
    InputMissing
        If there is no such object, or the store does not answer.
    InputError
        If it gives no access, its package is missing, or an object changed meanwhile.
    InputRefused
        If the disk is too full, there are too many, or one is neither data nor ignored.
    """
    asked = _Asked(address, field)
    store, path = asked.answer(lambda: _opened(address))
    objects, single = asked.answer(lambda: _listed(store, path, files, field))
    if any(_is_no_name(part) for remote in objects for part in remote.place.split("/")):
        what = "an object has a name that no file can have"
        raise InputError(
            what, where=f"{field} {address}", hint="give it a shorter one, of letters and digits"
        )
    if not objects:
        raise asked.missing()
    if any(not remote.signs for remote in objects):
        what = "the store does not tell when an object changes"
        raise InputError(what, where=f"{field} {address}", hint="copy the files to this machine")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    see_that_there_is_room(sum(remote.size for remote in objects), "the source", folder)
    copies = [folder / f"{number:09}" / remote.place for number, remote in enumerate(objects)]
    try:
        _copy_all(asked, store, objects, copies)
    except InputError as error:
        failure: InputError | None = error
    except OSError as error:  # of the disk: what a store raises has become another error by then
        if error.errno != errno.ENOSPC:
            raise
        failure = no_room("the source")
    else:
        failure = None
    if asked.answer(lambda: _state(store, path, files, field)) != objects:
        raise changed()
    if failure is not None:
        raise failure
    return copies[0] if single else folder


def _opened(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    store, path = url_to_fs(address, use_listings_cache=False)
    return store, str(path).rstrip("/") + ("/" if address.endswith("/") else "")


def _is_no_name(part: str) -> bool:
    return part in (".", "..") or "\0" in part or len(os.fsencode(part)) > _LONGEST


def _state(store: Any, path: str, files: Files, field: str) -> tuple[_Object, ...]:
    """Return the current listing, empty if all objects are gone."""
    try:
        return _listed(store, path, files, field)[0]
    except FileNotFoundError:
        return ()


def _listed(store: Any, path: str, files: Files, field: str) -> tuple[tuple[_Object, ...], bool]:
    """Return the objects that a path names, sorted, and whether it names a single object."""
    store.invalidate_cache()
    folder = path.endswith("/")  # as its author says, whatever object may have the name before the slash
    base = path = path.rstrip("/")
    try:
        info = store.info(path)
    except FileNotFoundError:
        if not any(mark in path for mark in WILD):
            raise
        base = path[: min(path.find(mark) for mark in WILD if mark in path)].rpartition("/")[0]
        entries = store.glob(path, detail=True)
        for key in [key for key, entry in entries.items() if entry["type"] == "directory"]:
            entries |= store.find(key, detail=True)
    else:
        if info["type"] == "file" and not folder:
            return (_object(path, path.rpartition("/")[2], info),), True
        entries = store.find(path, detail=True)
    objects = []
    for key, entry in sorted(entries.items()):
        *folders, name = key.removeprefix(base).lstrip("/").split("/")
        # Some tools mark a folder by an object whose name is empty.
        below = "/".join([*folders, name])
        if entry["type"] != "file" or not name or is_ignored(below, files.ignore):
            continue
        require_data(below, files.file_format, field)
        values = [folder for folder in folders if "=" in folder]
        objects.append(_object(key, "/".join([*values, name]), entry))
        require_few(len(objects), files.limits, field)
    return tuple(objects), False


def _object(key: str, place: str, entry: dict[str, Any]) -> _Object:
    signs = tuple((sign, str(entry[sign])) for sign in _SIGNS if entry.get(sign) is not None)
    return _Object(key, place, int(entry["size"]), signs)


def _copy_all(asked: _Asked, store: Any, objects: tuple[_Object, ...], copies: list[Path]) -> None:
    total, done, noted = sum(remote.size for remote in objects), 0, time.monotonic()
    for remote, target in zip(objects, copies, strict=True):
        target.parent.mkdir(parents=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with (
            os.fdopen(descriptor, "wb") as copy,
            asked.answer(partial(store.open, remote.key, "rb")) as source,
        ):
            rest = remote.size + 1  # one more: it may have grown
            while rest and (block := asked.answer(partial(source.read, min(_BLOCK, rest)))):
                copy.write(block)
                rest, done = rest - len(block), done + len(block)
                if time.monotonic() - noted > _SECONDS:
                    noted = time.monotonic()
                    reporter().fetched(100 * min(done, total) // max(total, 1))
        if rest != 1:
            raise changed()
