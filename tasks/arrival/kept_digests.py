"""What was verified of a drop: names, sizes and digests of its files, in a file of the home (mode 0600).

A digest of data is as confidential as the data: these stand in no database, and go when the drop goes.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from tabularium.ledger.durable_files import create, make_folder, sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.manifest import NamedFile
from tabularium.tasks.runtime.home import Home

_ENDING = ".json"
_ORPHANED_SECONDS = 3600.0


def keep(home: Home, drop: str, files: tuple[NamedFile, ...]) -> None:
    """Keep what was verified of a drop."""
    path = _file(home, drop)
    make_folder(path.parent)
    create(path, json.dumps([asdict(file) for file in files]).encode())
    sync_folder(path.parent)


def kept(home: Home, drop: str) -> tuple[NamedFile, ...]:
    """Return what was verified of a drop.

    Raises
    ------
    InputError
        If it is not in this home.
    """
    try:
        return tuple(NamedFile(**each) for each in json.loads(_file(home, drop).read_bytes()))
    except (OSError, ValueError, TypeError):
        pass
    raise InputError(
        "what was verified of it is not in this home",
        where=f"drop {drop}",
        hint="drop the data again, or run them by hand with --source",
    )


def forget(home: Home, drop: str) -> None:
    """Remove what was verified of a drop."""
    _file(home, drop).unlink(missing_ok=True)


def orphans(home: Home) -> list[str]:
    """Return the drops of files that are an hour old; who made one may have died before its claim."""
    before = time.time() - _ORPHANED_SECONDS
    found = (home.path / "arrivals").glob(f"*{_ENDING}")
    return [path.name.removesuffix(_ENDING) for path in found if path.stat().st_mtime < before]


def _file(home: Home, drop: str) -> Path:
    return home.path / "arrivals" / f"{drop}{_ENDING}"
