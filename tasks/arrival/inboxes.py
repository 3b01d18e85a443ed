"""The inboxes that an installation watches, one for each product, and the periods that drops may name.

They are listed in ``<home>/inboxes.json``. A drop may name only a period that has really come: each new
period of a product is an automatic charge, and two releases of nearly the same data show their difference.
So a person who writes into an inbox gets no more periods than the calendar has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from tabularium.ledger.durable_files import create, sync_folder, turn
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

_FILE = "inboxes.json"
_WAIT_SECONDS = 60.0


# --- limits of an inbox: how much of the watcher's time and disk a delivery may take
#
# A person who may write into an inbox may write anything, any number of times. So what a drop costs before
# it is refused has an end, and so has what one look does; ``tabularium deploy --limit NAME=VALUE`` sets
# them.

_VALUE = re.compile(r"(?P<name>[a-z]+)=(?P<number>[1-9][0-9]{0,14}) ?(?P<unit>[kKMGT]i?B)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_BYTES = {"size", "manifest"}
_SPARE_BYTES = 1 << 28  # of a disk: so much is left to others


@dataclass(frozen=True)
class InboxLimits:
    """Limits of what an inbox takes.

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
        """Return these limits with changes written as ``files=500`` or ``size=20GB``.

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
    match = _VALUE.fullmatch(written.strip())
    names = [field.name for field in fields(InboxLimits)]
    if match is None or match["name"] not in names or (match["unit"] and match["name"] not in _BYTES):
        raise InputError(
            "is no limit of an inbox",
            where=f"--limit {written}",
            hint=f"write one of {', '.join(names)} with a number, such as files=500 or size=20GB",
        )
    number, unit = int(match["number"]), match["unit"]
    if unit:
        number *= (1024 if "i" in unit else 1000) ** _POWERS[unit[0]]
    return match["name"], number


def has_room(size: int, folder: Path) -> bool:
    """Whether so many bytes fit on the disk of a folder, with room left for others."""
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
        (:func:`tabularium.tasks.arrival.inboxes.has_come`).
    retention
        Days after which what was published or quarantined is deleted, with its manifest.
    poll
        Seconds between two looks, also where something reports changes.
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
    """Return an inbox with absolute paths, checked before it is added.

    Raises
    ------
    InputError
        If the folder is not there, another product has it, or a password stands in the address.
    """
    inbox = replace(inbox, address=_address(inbox.address), spec=str(Path(inbox.spec).absolute()))
    others = [other for other in inboxes(home) if other.product != inbox.product]
    for other in others:
        if other.address == inbox.address:
            raise InputError(
                f"product {other.product} has this inbox",
                where=f"inbox {inbox.address}",
                hint="give each product an inbox of its own",
            )
    return inbox


def add(home: Home, inbox: Inbox) -> Inbox:
    """Watch an inbox instead of the product's earlier one; adding it again changes nothing.

    Raises
    ------
    InputError
        As ``checked``.
    """
    inbox = checked(home, inbox)
    _change(home, inbox.product, [inbox])
    return inbox


def remove(home: Home, product: str) -> bool:
    """Stop watching the inbox of a product; return whether it had one. Its drops stay where they are."""
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
        return [Inbox(**{**entry, "limits": InboxLimits(**entry.get("limits", {}))}) for entry in kept]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    raise InputError(
        "the list of inboxes cannot be read",
        where=str(path),
        hint="correct its permissions, or remove it and deploy each product again",
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


_FORMS = {
    "year": r"(\d{4})",
    "half": r"(\d{4})-H([12])",
    "quarter": r"(\d{4})-Q([1-4])",
    "month": r"(\d{4})-(\d\d)",
    "week": r"(\d{4})-W(\d\d)",
    "day": r"(\d{4})-(\d\d)-(\d\d)",
}
_MONTHS = {"year": 12, "half": 6, "quarter": 3, "month": 1}


def has_come(period: str, period_of_spec: str, today: date) -> bool:
    """Whether a product whose spec is of the period ``period_of_spec`` may receive data of ``period``.

    That is ``period_of_spec`` itself, or, if that is a period of the calendar (``2026``, ``2026-H1``,
    ``2026-Q1``, ``2026-03``, ``2026-W09``, ``2026-03-01``), a later one of the same form that has begun by
    ``today``.
    """
    if period == period_of_spec:
        return True
    asked, first = _begins(period), _begins(period_of_spec)
    return asked is not None and first is not None and asked[0] == first[0] and first[1] < asked[1] <= today


def first_and_last(period: str) -> tuple[date, date] | None:
    """Return the first and the last day of a calendar period; None for any other period."""
    interval = _begins(period)
    if interval is None:
        return None
    form, first = interval
    if form in _MONTHS:
        year, month = divmod(first.year * 12 + first.month - 1 + _MONTHS[form], 12)
        return first, date(year, month + 1, 1) - timedelta(days=1)
    return first, first + timedelta(days=6 if form == "week" else 0)


def periods_ending(period: str, first: date, until: date) -> Iterator[tuple[str, date, date]]:
    """Yield the calendar periods of a product that end between two days.

    Each is ``period`` or a later one of its form, with its first and its last day.

    Parameters
    ----------
    period
        The period of the product's spec; of one that is none of the calendar's nothing follows.
    first, until
        Both included.
    """
    interval = _begins(period)
    if interval is None:
        return
    form, day = interval[0], max(interval[1], first)
    while day <= until and (days := first_and_last(_containing(form, day))) is not None and days[1] <= until:
        yield _containing(form, day), *days
        day = days[1] + timedelta(days=1)


def _containing(form: str, day: date) -> str:
    """Return the period of a form that contains a day."""
    if form == "week":
        of = day.isocalendar()
        return f"{of.year:04}-W{of.week:02}"
    year, month = f"{day.year:04}", day.month - 1
    written: dict[str, str] = {
        "year": year,
        "half": f"{year}-H{1 + month // 6}",
        "quarter": f"{year}-Q{1 + month // 3}",
        "month": f"{year}-{1 + month:02}",
        "day": day.isoformat(),
    }
    return written[form]


def _begins(period: str) -> tuple[str, date] | None:
    """Return the form of a period and its first day; None if it is not a calendar period."""
    for form, pattern in _FORMS.items():
        if match := re.fullmatch(pattern, period, re.ASCII):
            year, *parts = map(int, match.groups())
            try:
                return form, _first_day(form, year, parts)
            except ValueError:  # such as month 13
                return None
    return None


def _first_day(form: str, year: int, parts: list[int]) -> date:
    if form == "day":
        return date(year, *parts)
    if form == "week":
        return date.fromisocalendar(year, parts[0], 1)
    number = parts[0] if parts else 1
    return date(year, (number - 1) * _MONTHS[form] + 1, 1)


# --- when data of a period should have been delivered into an inbox
#
# Nobody says when a delivery is due; a period of the calendar says when it has ended. Data count as due
# some days after that: as many as the inbox was deployed with, otherwise as many as the period has, 30 at
# most. Of a period that is none of the calendar's nothing is known.

_MOST_DAYS = 30


def due_deliveries(
    inbox: Inbox, period_of_spec: str, *, since: datetime, now: datetime
) -> Iterator[tuple[str, datetime]]:
    """Yield each period whose data were due in an inbox after ``since`` and by now, and when.

    Parameters
    ----------
    period_of_spec
        The period of the product's spec.
    since
        When the product was deployed: what was due before was not looked for.
    """
    zone = ZoneInfo(inbox.timezone)
    longest = timedelta(days=1 + (_MOST_DAYS if inbox.due is None else inbox.due))
    last_days = (since.astimezone(zone) - longest).date(), now.astimezone(zone).date()
    for period, first, last in periods_ending(period_of_spec, *last_days):
        at = _midnight_after(last, zone) + timedelta(
            days=min(_MOST_DAYS, (last - first).days + 1) if inbox.due is None else inbox.due
        )
        if since < at <= now and (not inbox.periods or re.fullmatch(inbox.periods, period, re.ASCII)):
            yield period, at


def _midnight_after(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day + timedelta(days=1), time(), zone)
