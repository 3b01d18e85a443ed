"""Public files as text: the spec, its code lists and its invariants, read whole and never beyond a limit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from tabularium.validations.public_files import MIB, Unreadable, read_plain


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
        Called with the 1-based line (or None), what is wrong, and how to mend it.
    find, shorten
        How to mend a name at which there is no file, and a file that is too large.
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
