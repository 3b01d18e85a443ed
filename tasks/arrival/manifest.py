"""The manifest of a drop, ``drop.json``: a delivery's own description of its data.

::

    {"product": "people", "period": "2026",
     "files": [{"name": "people.parquet", "size": 123, "sha256": "…"}],
     "rows": 1000, "note": "…"}                              (both may be left out; nobody relies on them)

A person who can write into an inbox can write anything into a manifest. So it is read up to a size, every key
and type is checked, a name is that of a file in the manifest's folder and never a path, and no key is
repeated. Tools of Windows write UTF-16, a mark before UTF-8, and digests in capitals, and call it
``Drop.json``: all of that is read. A manifest is as confidential as the data: messages about it use only
words of this module.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Any

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import DEFAULT, InboxLimits, in_words

MANIFEST = "drop.json"
_LARGEST_FILE = 1 << 50
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
#: Kind of name -> its form, and the form in words.
_FORMS = {
    "file name": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,127}"),
        "1 to 128 of A to Z, a to z, digits, . _ = and -, with a letter or digit first",
    ),
    "product": (
        re.compile(r"[a-z0-9][a-z0-9-]{0,62}"),
        "1 to 63 of a to z, digits and -, with a letter or digit first",
    ),
    "period": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"),
        "1 to 63 of A to Z, a to z, digits, . _ and -, with a letter or digit first",
    ),
}
_KEYS = {"product", "period", "files", "rows", "note"}


class DropRefused(InputError):
    """A drop is refused: its message names at most a file, and a kind of fault."""


@dataclass(frozen=True)
class NamedFile:
    """A file in a manifest; ``sha256`` is hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The description of a drop."""

    product: str
    period: str
    files: tuple[NamedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def read_manifest(text: bytes, limits: InboxLimits = DEFAULT) -> Manifest:
    """Return the content of a manifest.

    Raises
    ------
    DropRefused
        If it is not a manifest from its first byte to its last.
    """
    if len(text) > limits.manifest:
        raise too_much("is larger", in_words(limits.manifest), MANIFEST)
    data = _parsed(text)
    if not isinstance(data, dict) or not data.keys() <= _KEYS or not data.keys() >= {"product", "files"}:
        raise _wrong("does not have the keys product, period and files")
    if not isinstance(data.get("rows", 0), int) or not isinstance(data.get("note", ""), str):
        raise _wrong("has rows that are no number, or a note that is no text")
    listed = data["files"]
    if not isinstance(listed, list) or not listed:
        raise _wrong("does not list any files")
    if len(listed) > limits.files:
        raise too_much("lists more files", str(limits.files), MANIFEST)
    files = tuple(_file(entry) for entry in listed)
    if len({file.name.casefold() for file in files}) < len(files):
        raise _wrong("lists a file twice")
    if MANIFEST in {file.name.lower() for file in files}:
        raise _wrong("lists itself")
    product, period = (_named(data.get(kind), kind) for kind in ("product", "period"))
    manifest = Manifest(product, period, files)
    if manifest.size > limits.size:
        raise too_much("lists files that are larger", in_words(limits.size), MANIFEST)
    return manifest


def _parsed(text: bytes) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        utf16 = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return json.loads(text.decode("utf-16" if utf16 else "utf-8-sig"), object_pairs_hook=once)
    except (ValueError, RecursionError):
        pass
    raise _wrong("is not JSON in UTF-8 or UTF-16, or says something twice")


def _file(data: Any) -> NamedFile:
    if not isinstance(data, dict) or data.keys() != {"name", "size", "sha256"}:
        raise _wrong("lists a file without just name, size and sha256")
    size = data["size"]
    if type(size) is not int or not 0 <= size <= _LARGEST_FILE:
        raise _wrong("gives a file a size that is no number of bytes")
    return NamedFile(_named(data["name"], "file name"), size, _digest(data["sha256"]))


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise _wrong("has a sha256 that is not of the form of one")
    return value.lower()


def _named(value: Any, kind: str) -> str:
    if not isinstance(value, str) or not _FORMS[kind][0].fullmatch(value):
        raise _wrong(f"has a {kind} that is not of the form of one")
    return value


def see_name(value: str, kind: str, where: str) -> None:
    """Check, before there is a manifest, that it could hold a name.

    Raises
    ------
    InputError
        Saying at ``where`` what a ``file name``, ``product`` or ``period`` looks like.
    """
    pattern, form = _FORMS[kind]
    if not pattern.fullmatch(value):
        raise InputError(f"no manifest can hold this {kind}", where=where, hint=f"write {form}")


def too_much(what: str, limit: str, where: str) -> DropRefused:
    """Return the error for a drop beyond a limit of its inbox."""
    return DropRefused(
        f"{what} than this inbox takes, {limit}",
        where=where,
        hint="deliver fewer and smaller files, or have the inbox deployed with another --limit",
    )


def _wrong(what: str) -> DropRefused:
    return DropRefused(what, where=MANIFEST, hint="see docs/how-to/receive-data.md, and drop it again")
