"""Which inboxes an installation watches: a list in ``<home>/inboxes.json``, one inbox for each product."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from tabularium.ledger.durable_files import create, sync_folder, turn
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

_FILE = "inboxes.json"
_WAIT_SECONDS = 60.0


# --- limits of an inbox: how much of the watcher's time and room whoever delivers may take
#
# Whoever may write into an inbox may write anything, and any number of times. So what a drop costs before
# it is refused has an end, and so has what one look does; ``tabularium deploy --limit NAME=VALUE`` sets
# them.

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


# --- inboxes


@dataclass(frozen=True)
class Inbox:
    """Where the data of one product arrive.

    Attributes
    ----------
    product
        Name of the product; drops of any other are refused here.
    address
        Absolute path of a folder, or an address that fsspec knows, such as ``s3://bucket/inbox``; without a
        password in it.
    spec
        Absolute path of the release spec.
    periods
        A regular expression that the period of a drop has to match: each one that does is charged when it
        comes. Without one only periods that the calendar had since that in the spec are taken
        (:func:`tabularium.tasks.arrival.calendar_periods.has_come`).
    retention
        Days after which what was published or quarantined is deleted, with its manifest.
    poll
        Seconds between two looks where nothing tells of changes, and beside what does.
    patience
        Seconds for which a drop that does not match its manifest may still be growing: so long nothing in it
        may have changed before it is quarantined.
    timezone
        Where a day begins, from which on a drop may name a period.
    due
        Days after the end of a period of the calendar until when its data are due; None for as many as the
        period has, 30 at most.
    limits
        How large drops may be, and how many are looked at in one look.
    """

    product: str
    address: str
    spec: str
    periods: str = ""
    retention: float = 30.0
    poll: float = 60.0
    patience: float = 30.0
    timezone: str = "UTC"
    due: float | None = None
    limits: InboxLimits = DEFAULT

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of this machine, and not an object store."""
        return "://" not in self.address


def checked(home: Home, inbox: Inbox) -> Inbox:
    """Return an inbox as it would be kept, its paths absolute, having seen that it may be added.

    Raises
    ------
    InputError
        If the folder is not there, another product has it, or a password stands in the address.
    """
    inbox = replace(inbox, address=_address(inbox.address), spec=str(Path(inbox.spec).absolute()))
    others = [each for each in inboxes(home) if each.product != inbox.product]
    for other in others:
        if other.address == inbox.address:
            raise InputError(
                f"product {other.product} has this inbox",
                where=f"inbox {inbox.address}",
                hint="give each product an inbox of its own",
            )
    return inbox


def add(home: Home, inbox: Inbox) -> Inbox:
    """Watch an inbox, instead of the one that the product had; the same again changes nothing.

    Returns
    -------
    Inbox
        As it is kept.

    Raises
    ------
    InputError
        As ``checked``.
    """
    inbox = checked(home, inbox)
    _change(home, inbox.product, [inbox])
    return inbox


def remove(home: Home, product: str) -> bool:
    """Watch the inbox of a product no longer; return whether it had one. Its drops stay where they are."""
    had = any(inbox.product == product for inbox in inboxes(home))
    if had:
        _change(home, product, [])
    return had


def inboxes(home: Home) -> list[Inbox]:
    """Return the inboxes of a home, by product.

    Raises
    ------
    InputError
        If the list cannot be read.
    """
    path = home.path / _FILE
    try:
        kept = json.loads(path.read_bytes())
        return [Inbox(**{**each, "limits": InboxLimits(**each.get("limits", {}))}) for each in kept]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    raise InputError(
        "the list of inboxes cannot be read",
        where=str(path),
        hint="correct its rights, or remove it and deploy each product again",
    )


def inbox_of(home: Home, product: str) -> Inbox | None:
    """Return the inbox of a product, if it has one."""
    return next((inbox for inbox in inboxes(home) if inbox.product == product), None)


def _change(home: Home, product: str, new: Iterable[Inbox]) -> None:
    path = home.path / _FILE
    with turn(home.path / f".{_FILE}.lock", _WAIT_SECONDS) as mine:
        if not mine:
            raise InputError("another process changes the list of inboxes", where=str(path), hint="try again")
        kept = [*(inbox for inbox in inboxes(home) if inbox.product != product), *new]
        kept.sort(key=lambda inbox: inbox.product)
        aside = path.with_name(f".{_FILE}.new")
        create(aside, json.dumps([asdict(inbox) for inbox in kept], indent=1).encode())
        aside.rename(path)
        sync_folder(home.path)


def _address(written: str) -> str:
    if "://" in written:
        if "@" in urlsplit(written).netloc:
            raise InputError(
                "holds a name or a password",
                where="inbox",
                hint="leave it out; the store's own settings or environment hold it",
            )
        return written.rstrip("/")
    path = os.path.realpath(written)
    if not Path(path).is_dir():
        raise InputError("there is no such folder", where=f"inbox {path}", hint="make it, then deploy again")
    return path
