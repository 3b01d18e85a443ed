"""Delivering a drop into the folder of an inbox, so that nobody ever sees half of it.

::

    files ─▶ .NAME.RANDOM.part/ ─▶ NAME/ ─▶ NAME/drop.json, the last of all
              hidden, durable
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tabularium.ledger.durable_files import sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.arrival.manifest import MANIFEST, DropRefused, read_manifest, see_name
from tabularium.tasks.arrival.places import is_drop
from tabularium.validations.redaction import bare_errors, os_errors_as

_BLOCK = 1 << 20
_DAY = 86_400.0


@bare_errors
def deliver(files: Sequence[Path], inbox: Inbox, period: str, *, name: str | None = None) -> Path:
    """Copy files into an inbox as one drop, and say last what they are.

    Parameters
    ----------
    inbox
        A folder; that of a product is known to its home.
    name
        Of the drop's folder; the period unless said.

    Returns
    -------
    The drop

    Raises
    ------
    InputError
        A file is missing or cannot be read, no manifest can hold the name of one, the product or the period,
        the inbox is no folder that is there, or a drop of this name lies in it. Nothing is left in the inbox
        then.
    """
    place = Path(inbox.address)
    if not inbox.is_folder:
        raise InputError(
            "this inbox lies in an object store, and deliver writes only into folders",
            where=f"inbox {inbox.address}",
            hint=f"copy the files there with the store's own tools, and {MANIFEST} last",
        )
    if not place.is_dir():
        raise InputError("there is no such folder", where=f"inbox {place}", hint="name one with --inbox")
    see_name(inbox.product, "product", f"--product {inbox.product}")
    see_name(period, "period", f"--period {period}")
    drop = place / (name or period)
    if drop.parent != place or not is_drop(drop.name):
        raise InputError(
            "an inbox takes no drop of this name",
            where=f"--name {name or period}",
            hint="give one without slashes, without . or _ at its start, and neither done nor quarantine",
        )
    _see_free(drop)
    _see_files(files)
    _manifest([{"name": file.name, "size": _size(file), "sha256": "0" * 64} for file in files], inbox, period)
    aside, unnamed = place / f".{drop.name}.{secrets.token_hex(4)}.part", f".{MANIFEST}"
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
        sync_folder(place)
    except OSError as error:
        raise InputError(
            f"the drop could not be written ({error.strerror})",
            where=str(place),
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
    """Remove what killed deliveries of this name left: nothing was written into it for a day."""
    for part in drop.parent.iterdir():
        if part.name.startswith(f".{drop.name}.") and part.name.endswith(".part"):
            last = max(each.lstat().st_mtime for each in (part, *part.iterdir()))
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
    """Copy a file and return what a manifest says of it."""
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
    """Return a manifest, which the inbox would read."""
    told = {"product": inbox.product, "period": period, "files": files}
    text = (json.dumps(told, indent=2) + "\n").encode()
    try:
        read_manifest(text, inbox.limits)
    except DropRefused as error:
        raise InputError(
            f"the inbox would refuse this drop: its manifest {error.what}",
            where=f"inbox {inbox.address}",
            hint=error.hint,
        ) from None
    return text
