"""Limits of an inbox: how much of the watcher's time and room whoever delivers may take.

Whoever may write into an inbox may write anything, and any number of times. So what a drop costs before it is
refused has an end, and so has what one look does; ``tabularium deploy --limit NAME=VALUE`` sets them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tabularium.mechanisms.errors import InputError

_VALUE = re.compile(r"(?P<name>[a-z]+)=(?P<number>[1-9][0-9]{0,14}) ?(?P<unit>[kKMGT]i?B)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_BYTES = {"size", "manifest"}
_SPARE_BYTES = 1 << 28  # of a disk: so much is left to others


@dataclass(frozen=True)
class InboxLimits:
    """What is taken of an inbox.

    Attributes
    ----------
    files
        Most files of one drop.
    size
        Most bytes of one drop, and never more than workspaces have room for: a file may be larger than what
        it takes up on the disk of the inbox.
    manifest
        Most bytes of its ``drop.json``.
    drops
        Most drops looked at in one look. Of more, each look takes as many by lot, so that no drop can be kept
        waiting by others for ever.
    """

    files: int = 10_000
    size: int = 64 << 30
    manifest: int = 2 << 20
    drops: int = 200

    def changed(self, written: Iterable[str]) -> InboxLimits:
        """Return these limits with what is written as ``files=500`` or ``size=20GB`` in their places.

        Raises
        ------
        InputError
            If one is not written so.
        """
        return replace(self, **dict(map(_read, written)))


DEFAULT = InboxLimits()


def in_words(size: int) -> str:
    """Return a number of bytes as it would be written: ``64 GiB``, ``2 MiB``."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1 << 10 * power:
            return f"{size / (1 << 10 * power):.4g} {unit}"
    return f"{size} bytes"


def _read(written: str) -> tuple[str, int]:
    found = _VALUE.fullmatch(written.strip())
    names = [each.name for each in fields(InboxLimits)]
    if found is None or found["name"] not in names or (found["unit"] and found["name"] not in _BYTES):
        raise InputError(
            "is no limit of an inbox",
            where=f"--limit {written}",
            hint=f"write one of {', '.join(names)} with a number, such as files=500 or size=20GB",
        )
    number, unit = int(found["number"]), found["unit"]
    if unit:
        number *= (1024 if "i" in unit else 1000) ** _POWERS[unit[0]]
    return found["name"], number


def has_room(size: int, folder: Path) -> bool:
    """Whether so many bytes fit on the disk of a folder, beside what is left to others."""
    return size + _SPARE_BYTES <= shutil.disk_usage(folder).free
