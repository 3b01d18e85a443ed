"""Folders of releases that somebody else may have written: what is in them, read within limits.

Every command that opens such a folder reads it through this module and :mod:`tabularium.tasks.public_tables`.
Errors name the file, as :class:`~tabularium.validations.public_files.Unreadable`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabularium.validations.certificate import Certificate
from tabularium.validations.public_files import (
    LARGEST_JSON,
    Unreadable,
    json_object,
    odd,
    open_plain,
    read_plain,
    too_large,
)

MOST_FILES = 100_000
LONGEST_ROW = 1 << 14  # bytes that a row of any table takes in any format, labels and markup included
LARGEST_FILE = 1 << 40
_CHUNK = 1 << 20


def entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything in a folder at any depth, by its name from there; links are not followed.

    Raises
    ------
    Unreadable
        There is more than any release holds, or a name or folder that cannot be read.
    """
    waiting, seen = [folder], 0
    while waiting:
        place = waiting.pop()
        try:
            found = sorted(os.scandir(place), key=lambda each: each.name)
        except OSError as error:
            raise Unreadable(f"{place.name} cannot be read ({error.strerror})", "closed") from None
        for entry in found:
            seen += 1
            if seen > MOST_FILES:
                raise Unreadable(f"the folder holds more than {MOST_FILES:,} files")
            path = Path(entry.path)
            name = path.relative_to(folder).as_posix()
            if not name.isprintable():  # what is no text is read as surrogates, which are not printable
                raise Unreadable(f"a name cannot be read: {name!a}")
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                waiting.append(path)
            yield name, about


def plain_files(folder: Path) -> set[str]:
    """Return the names of the files in a folder at any depth, all of which must be plain ones.

    Raises
    ------
    Unreadable
        One is not, or as :func:`entries` says.
    """
    files = set()
    for name, about in entries(folder):
        if not stat.S_ISDIR(about.st_mode):
            if why := odd(about):
                raise Unreadable(f"{name} {why}", "odd")
            files.add(name)
    return files


def read(folder: Path, name: str, largest: int = LARGEST_JSON) -> bytes:
    """Return a file of a folder, which must be a plain one and no larger than ``largest`` bytes."""
    with named(name):
        return read_plain(folder / name, largest)


def document(folder: Path, name: str) -> tuple[bytes, dict[str, Any]]:
    """Return a JSON object that a file of a folder holds, raw and read."""
    raw = read(folder, name)
    with named(name):
        return raw, json_object(raw)


def largest_file(certificate: Certificate) -> int:
    """Return how many bytes a file of a release may have, from the rows that its certificate names."""
    rows = sum(about.rows for about in certificate.tables.values())
    return min(LARGEST_JSON + rows * LONGEST_ROW, LARGEST_FILE)


def sha256_of(folder: Path, name: str, largest: int, to: Path | None = None) -> str:
    """Return the SHA-256 of a file of at most ``largest`` bytes, which is copied on the way if wanted."""
    check, left = hashlib.sha256(), largest
    with named(name), open_plain(folder / name, largest) as file, Path(to or os.devnull).open("wb") as copy:
        while content := file.read(_CHUNK):
            left -= len(content)
            if left < 0:  # it grew
                raise too_large(largest)
            check.update(content)
            if to is not None:
                copy.write(content)
    return check.hexdigest()


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of a file before what is said of it."""
    try:
        yield
    except Unreadable as error:
        raise Unreadable(f"{name} {error}", error.kind) from None
