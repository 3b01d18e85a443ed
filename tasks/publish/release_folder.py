"""Folders of releases: where they lie, whether one can be written, and whether it is still what it was."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.durable_files import sync_folder
from mechanisms.errors import PublicationError
from tasks.runtime.run import Run

CERTIFICATE = "certificate.json"
HEADS = ".heads"  # in the folder of each product: see tasks.published_heads


def release_folder(run: Run, release_id: str) -> Path:
    """Return the folder in which this release is, or will be, published."""
    spec = run.loaded.spec
    return run.loaded.folder / spec.publication.folder / spec.product / spec.period / release_id


def check_writable(run: Run) -> None:
    """See, before anything is paid for, that a release and its head file could be written where they go.

    Raises
    ------
    PublicationError
        Naming the folder.
    """
    spec = run.loaded.spec
    product = run.loaded.folder / spec.publication.folder / spec.product
    for folder in (product / HEADS, product / spec.period):
        _try_writing(folder)


def _try_writing(folder: Path) -> None:
    # What is missing is made when there is something to publish: a run that is refused leaves no folders.
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    probe = there / f".{uuid.uuid4().hex}.probe"
    try:
        probe.mkdir(mode=0o700)
        probe.rmdir()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        failure = PublicationError(
            f"no release can be written here: {reason}",
            where=str(folder),
            mend="give the right to write there, or change publication.folder; nothing was charged",
        )
    else:
        return
    raise failure


def make_public_folder(folder: Path) -> None:
    """Make a folder that everybody may read, and whatever is missing above it, durably."""
    missing = [folder, *folder.parents]
    missing = missing[: next(n for n, path in enumerate(missing) if path.exists())]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)  # mkdir's own mode is cut by the umask of a run
        sync_folder(path.parent)


def check_release(folder: Path, release_id: str, measured: str | None = None) -> str:
    """See that a published folder is whole and is this release; return its certificate's SHA-256.

    Raises
    ------
    PublicationError
        If the folder is missing, or naming the first file that is missing, altered or foreign.
    """
    if not folder.is_dir():
        raise PublicationError(
            "the ledger says published, and no release lies in this folder",
            where=str(folder),
            mend="put it back, or name the folder it was published to in publication.folder",
        )
    raw, found = certificate_in(folder)
    if found["release_id"] != release_id or measured not in (None, found["measurements"]["digest"]):
        raise PublicationError(
            "another release lies in this folder",
            where=str(folder),
            mend="if the ledger was restored, restore its newest backup; else find out who put it there",
        )
    there = {str(path.relative_to(folder)) for path in files_in(folder)} - {CERTIFICATE}
    foreign = sorted(there - found["files"].keys())
    if foreign:
        raise damaged(folder, f"{foreign[0]!r} is no part of the release")
    for name, digest in found["files"].items():
        if name not in there or digest_of(folder / name) != digest:
            raise damaged(folder, f"{name} is missing or altered")
    return hashlib.sha256(raw).hexdigest()


def certificate_in(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the certificate in a release folder, raw and read."""
    try:
        raw = (folder / CERTIFICATE).read_bytes()
        found: dict[str, Any] = json.loads(raw)
        if isinstance(found["files"], dict) and found["measurements"]["digest"] and found["release_id"]:
            return raw, found
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise damaged(folder, f"{CERTIFICATE} is missing or altered")


def damaged(folder: Path, what: str) -> PublicationError:
    """Return the error for a release folder that is not what it was."""
    return PublicationError(what, where=str(folder), mend="restore the folder from a copy")


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every file in a folder, at any depth."""
    return (path for path in folder.rglob("*") if path.is_file())


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a public file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
