"""Delivering a drop into the folder of an inbox, so that nobody ever sees half of it.

::

    files ─▶ .NAME.part/ ─▶ NAME/ ─▶ NAME/drop.json, the last of all
          hidden, durable
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tabularium.ledger.durable_files import sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.arrival.manifest import MANIFEST, DropRefused, read_manifest
from tabularium.tasks.arrival.places import is_drop

_BLOCK = 1 << 20


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
        A file is missing, cannot be read or has a name that no manifest takes, the inbox is no folder that is
        there, or a drop of this name lies in it. Nothing is left in the inbox then.
    """
    place = Path(inbox.address)
    if not inbox.is_folder:
        raise InputError(
            "is no folder of this machine",
            where=f"inbox {inbox.address}",
            mend=f"copy the files there with the store's own tools, and {MANIFEST} last",
        )
    if not place.is_dir():
        raise InputError("there is no such folder", where=f"inbox {place}", mend="name one with --inbox")
    drop = place / (name or period)
    if drop.parent != place or not is_drop(drop.name):
        raise InputError("is no name of a folder", where="--name", mend="use letters, digits, . _ and -")
    if os.path.lexists(drop):
        raise InputError(
            "a drop of this name lies in the inbox",
            where=str(drop),
            mend="wait until it is taken, or give this one another --name",
        )
    aside, unnamed = place / f".{drop.name}.part", f".{MANIFEST}"
    failure: InputError
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        manifest = _manifest([_copied(file, aside) for file in files], inbox, period)
        with (aside / unnamed).open("xb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(aside)
        aside.rename(drop)
        (drop / unnamed).rename(drop / MANIFEST)
        sync_folder(drop)
        sync_folder(place)
    except OSError as error:
        failure = InputError(
            f"the drop could not be written ({error.strerror})",
            where=str(place),
            mend="make room or give the right to write there, and deliver again",
        )
    else:
        return drop
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    raise failure


def _copied(file: Path, aside: Path) -> dict[str, object]:
    """Copy a file and return what a manifest says of it."""
    target = aside / file.name
    if os.path.lexists(target):
        raise InputError("two files have one name", where=file.name, mend="rename one of them")
    failure: InputError
    try:
        source = file.open("rb")
    except OSError as error:
        failure = InputError(f"cannot be read ({error.strerror})", where=str(file), mend="check its name")
    else:
        digest, size = hashlib.sha256(), 0
        with source, target.open("xb") as copy:
            while block := source.read(_BLOCK):
                copy.write(block)
                digest.update(block)
                size += len(block)
            copy.flush()
            os.fsync(copy.fileno())
        shutil.copymode(file, target)
        return {"name": file.name, "size": size, "sha256": digest.hexdigest()}
    raise failure


def _manifest(files: list[dict[str, object]], inbox: Inbox, period: str) -> bytes:
    """Return a manifest, which the inbox would read."""
    told = {"product": inbox.product, "period": period, "files": files}
    text = (json.dumps(told, indent=2) + "\n").encode()
    failure: InputError
    try:
        read_manifest(text, inbox.limits)
    except DropRefused as error:
        failure = InputError(f"would be refused: its manifest {error.what}", where="drop", mend=error.mend)
    else:
        return text
    raise failure
