"""Files that somebody else may have written: only plain ones are opened, at once, and read within limits.

Nothing is looked at by name first and opened afterwards: the file is opened without waiting and without
following a link, and what was opened is judged.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from tabularium.validations.redaction import reason_of

MIB = 1 << 20
LARGEST_JSON = 256 * MIB
MOST_VALUES = 1 << 23  # of one JSON text
MOST_CONTAINERS = 1 << 21  # lists and objects among them
DEEPEST = 100  # lists and objects in one another
LONGEST_INTEGER = 100  # digits
MOST_PARTS = 4096  # between the holes of a file

_LINKS = (errno.ELOOP, errno.EMLINK)  # Linux; FreeBSD
_ODD = (errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)  # a socket, or a device that is not there
_ABSURD = re.compile(r"\s*[-+]?([\d_.]*[eE][-+]?[\d_]{4,}|[\d_./]{1000,})\s*")
"""A number whose digits fill the memory, or would."""


class Unreadable(Exception):
    """Why a file cannot be read, to be put behind its name: "is a link", "is larger than 256 MiB".

    ``kind``: ``missing``, ``odd`` (no plain file), ``large``, ``closed`` (to this user), or ``text``.
    """

    def __init__(self, why: str, kind: str = "text") -> None:
        super().__init__(why)
        self.kind = kind


def open_plain(path: Path, largest: int | None = None, *, links: bool = False) -> BinaryIO:
    """Open a plain file for reading.

    Parameters
    ----------
    largest
        Bytes that it may have.
    links
        Whether the name itself may be a link; folders above it always may.

    Raises
    ------
    Unreadable
        It is missing, no plain file, larger, or large by what was never written.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise _refused(error) from None
    except ValueError:  # a name with a zero byte
        raise Unreadable("is missing", "missing") from None
    about = os.fstat(descriptor)
    if why := odd(about):
        os.close(descriptor)
        raise Unreadable(why, "odd")
    if largest is not None and about.st_size > largest:
        os.close(descriptor)
        raise too_large(largest)
    if about.st_size > LARGEST_JSON and _is_hollow(descriptor, about.st_size):
        os.close(descriptor)
        raise Unreadable("is mostly a hole", "odd")
    return os.fdopen(descriptor, "rb")


def _is_hollow(descriptor: int, size: int) -> bool:
    """Tell whether less than half of a file was ever written: it takes hours to read, and no room to send."""
    at = written = 0
    try:
        for _ in range(MOST_PARTS):
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, begin, os.SEEK_HOLE)
            written += at - begin
            if 2 * written >= size:
                return False
    except OSError as error:
        if error.errno != errno.ENXIO:  # a file system that knows no holes
            return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return True


def odd(about: os.stat_result) -> str | None:
    """Return why something is no plain file, or None."""
    if stat.S_ISLNK(about.st_mode):
        return "is a link"
    if stat.S_ISDIR(about.st_mode):
        return "is a folder"
    if not stat.S_ISREG(about.st_mode):
        return "is neither a file nor a folder"
    return None


def too_large(largest: int) -> Unreadable:
    """Return the error for a file of more than ``largest`` bytes."""
    return Unreadable(f"is larger than {largest // MIB:,} MiB" if largest >= MIB else "is too large", "large")


def _refused(error: OSError) -> Unreadable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Unreadable("is missing", "missing")
    if error.errno in _LINKS:
        return Unreadable("is a link", "odd")
    if error.errno in _ODD:
        return Unreadable("is neither a file nor a folder", "odd")
    return Unreadable(f"cannot be read ({reason_of(error)})", "closed")


def read_plain(path: Path, largest: int = LARGEST_JSON, *, links: bool = False) -> bytes:
    """Return what a plain file of at most ``largest`` bytes holds; see :func:`open_plain`."""
    with open_plain(path, largest, links=links) as file:
        try:
            content = file.read(largest + 1)
        except OSError as error:
            raise _refused(error) from None
    if len(content) > largest:  # it grew
        raise too_large(largest)
    return content


def json_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object that a text holds, in which every number can be worked with.

    Raises
    ------
    Unreadable
        It is none, is too deep or has too many values, or a number, or a text that is one, is of absurd size.
    """
    value = json_value(raw)
    if not isinstance(value, dict):
        raise Unreadable("is not a JSON object")
    return value


def json_value(raw: bytes) -> Any:
    """Return the value that a JSON text holds; see :func:`json_object`."""
    containers = raw.count(b"[") + raw.count(b"{")
    if containers > MOST_CONTAINERS or containers + raw.count(b",") > MOST_VALUES:
        raise Unreadable("holds more values than any file of a release")
    try:
        value = json.loads(raw, parse_int=_integer, parse_float=_number, parse_constant=_number)
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        raise Unreadable("is not JSON") from None
    _see_sober(value)
    return value


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise Unreadable("holds a number of absurd size")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Unreadable("holds a number of absurd size")
    return number


def _see_sober(value: Any) -> None:
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                if _ABSURD.fullmatch(one):
                    raise Unreadable("holds a number of absurd size")
            elif isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        level, depth = below, depth + 1
        if depth > DEEPEST:
            raise Unreadable("is nested too deep")


def read_text(
    path: Path, largest: int, report: Callable[[int | None, str, str], None], *, find: str, shorten: str
) -> tuple[str, str] | None:
    """Return the text of a UTF-8 file and its SHA-256 in hexadecimal; None where it cannot be had.

    Parameters
    ----------
    path
        The file; a byte order mark at its beginning is left out of the text.
    largest
        Bytes that it may have, whole MiB.
    report
        Called with the 1-based line (or None), what is wrong, and a hint.
    find, shorten
        Hints for a name at which there is no file, and for a file that is too large.
    """
    try:
        content = read_plain(path, largest, links=True)
    except Unreadable as error:
        what, hint = {
            "missing": ("there is no such file", find),
            "odd": ("this is a folder or a device", find),
            "large": (f"the file is larger than {largest // MIB} MiB", shorten),
        }.get(error.kind, ("the file cannot be read", "check its name and its permissions"))
        report(None, what, hint)
        return None
    try:
        return content.decode("utf-8-sig"), hashlib.sha256(content).hexdigest()
    except UnicodeDecodeError as error:
        report(content.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text", "save the file as UTF-8")
        return None
