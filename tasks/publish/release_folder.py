"""Folders of releases: their paths, whether one can be written, and whether it is unchanged."""

from __future__ import annotations

import hashlib
import os
import shutil
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tabularium.ledger.durable_files import sync_folder
from tabularium.mechanisms.errors import PlaceClosed, PublicationError, TabulariumError
from tabularium.tasks import public_folder
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate, OtherFormat, Rehearsed
from tabularium.validations.public_files import Unreadable
from tabularium.validations.redaction import bare_errors, os_errors_as

_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    MemoryError,
)
PLACE = "published-in"  # next to the measurements of each release: see tabularium.tasks.publish.documents
HEADS = ".heads"  # in the folder of each product: see tabularium.tasks.published_heads


def release_folder(run: Run, release_id: str) -> Path:
    """Return the folder in which this release is, or will be, published."""
    spec = run.loaded.spec
    return run.loaded.folder / spec.publication.folder / spec.product / spec.period / release_id


def publication_folders(home: Home) -> list[Path]:
    """Return every publication folder of this home."""
    places = home.measurements.glob(f"*/{PLACE}")
    return sorted({Path(os.fsdecode(marker.read_bytes())) for marker in places})


def published_in(home: Home, release_id: str) -> Path | None:
    """Return the publication folder of a release; ``None`` where this home does not know of one."""
    marker = home.measurements / release_id / PLACE
    return Path(os.fsdecode(marker.read_bytes())) if marker.is_file() else None


def check_writable(run: Run) -> None:
    """Check, before anything is paid for, that a release and its head file can be written to their folders.

    Raises
    ------
    PlaceClosed
        Naming the folder.
    """
    spec = run.loaded.spec
    base = run.loaded.folder / spec.publication.folder
    if not base.is_dir() and base.absolute() in publication_folders(run.installation):
        raise PlaceClosed(
            "releases were published in this folder, and it is gone",
            where=str(base),
            hint="mount or restore it, or create it again if that is intended; nothing was charged",
        )
    product = run.loaded.folder / spec.publication.folder / spec.product
    for folder in (product / HEADS, product / spec.period):
        try_writing(folder)


def try_writing(folder: Path) -> None:
    """Test that folders can be made in the nearest existing parent of ``folder``."""
    # What is missing is made when there is something to publish: a run that is refused leaves no folders.
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    probe = there / f".{uuid.uuid4().hex}.probe"
    with os_errors_as(
        PlaceClosed,
        "no release can be written here: {reason}",
        where=folder,
        hint="give the right to write there, or change publication.folder; nothing was charged",
    ):
        probe.mkdir(mode=0o700)
        probe.rmdir()


@dataclass(frozen=True)
class Access:
    """Who may read a folder: modes of folders and of files, and the group that they belong to."""

    folders: int
    files: int
    group: int = -1  # that of the process

    def give(self, path: Path, mode: int) -> None:
        """Set mode and group of a file or a folder."""
        if self.group != -1:
            os.chown(path, -1, self.group)
        path.chmod(mode)


PUBLIC = Access(0o755, 0o444)


def make_readable_folder(folder: Path, access: Access = PUBLIC) -> None:
    """Make a folder that others may read, and whatever is missing above it, durably."""
    missing = [folder, *folder.parents]
    missing = missing[: next(n for n, path in enumerate(missing) if path.exists())]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        access.give(path, access.folders)  # mkdir's own mode is cut by the umask of a run
        sync_folder(path.parent)


def make_durable(folder: Path, access: Access = PUBLIC) -> None:
    """Fsync every file and folder, and set who may read them: a release is never edited."""
    for path in files_in(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        access.give(path, access.files)
    for inner in (*(path for path in folder.rglob("*") if path.is_dir()), folder):
        access.give(inner, access.folders)
        sync_folder(inner)


def clear_remains(target: Path) -> None:
    """Remove the remains of killed runs of this release, whose lock this run holds."""
    for old in target.parent.glob(f".{target.name}.*.partial"):
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)


def aside_of(target: Path) -> Path:
    """Return a new temporary name in the release's parent folder."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")


@contextmanager
def new_folder(target: Path, access: Access = PUBLIC, *, what: str, hint: str) -> Iterator[Path]:
    """Give a temporary folder that becomes ``target``, complete and durable, if all goes well.

    A body that removes the folder puts nothing in place.

    Raises
    ------
    PlaceClosed
        ``what``, with the system's reason for ``{reason}``; nothing half-written stays.
    """
    aside = aside_of(target)
    with os_errors_as(PlaceClosed, what, where=target.parent, hint=hint):
        try:
            make_readable_folder(target.parent, access)
            clear_remains(target)
            aside.mkdir(mode=0o700)
            yield aside
            if aside.exists():
                make_durable(aside, access)
                aside.rename(target)
                sync_folder(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def check_release(
    folder: Path, release_id: str, measured: str | None = None, *, name: str = CERTIFICATE
) -> str:
    """Check that a published folder is complete and is this release; return its certificate's SHA-256.

    Next to the certificate and what it names, a signed statement may lie there: see :func:`check_statement`.
    ``name``: of the certificate, or of what stands in its place.

    Raises
    ------
    PublicationError
        If the folder is missing, or naming the first file that is missing, altered or foreign.
    """
    if not folder.is_dir():
        raise PublicationError(
            "the ledger says published, and no release lies in this folder",
            where=str(folder),
            hint="put it back, or name the folder it was published to in publication.folder",
        )
    raw, certificate = certificate_at(folder / name)
    if certificate.release_id != release_id or measured not in (None, certificate.measurements.digest):
        raise PublicationError(
            "another release lies in this folder",
            where=str(folder),
            hint="if the ledger was restored, restore its newest backup; else find out who put it there",
        )
    with readable(folder):
        there = public_folder.plain_files(folder) - {name, STATEMENT}
        largest = public_folder.largest_file(certificate)
    foreign = sorted(there - certificate.files.keys())
    if foreign:
        raise PublicationError(
            f"{foreign[0]!r} is no part of the release", where=str(folder), hint="take it out of the folder"
        )
    for file, digest in certificate.files.items():
        with readable(folder):
            if file not in there or public_folder.sha256_of(folder, file, largest) != digest:
                raise damaged(folder, f"{file} is missing or altered")
    return hashlib.sha256(raw).hexdigest()


def check_statement(folder: Path, statement: str | None) -> None:
    """Check that the signed statement in a folder has this SHA-256; with ``None``, that there is none.

    Raises
    ------
    PublicationError
        If it is missing, altered or foreign.
    """
    raw = statement_in(folder)
    if (None if raw is None else hashlib.sha256(raw).hexdigest()) != statement:
        what = "is no part of the release" if statement is None else "is missing or altered"
        raise damaged(folder, f"{STATEMENT} {what}")


def statement_in(folder: Path) -> bytes | None:
    """Return the signed statement in a release folder; None where there is none.

    Raises
    ------
    PublicationError
        Something lies there that cannot be read as one.
    """
    if not os.path.lexists(folder / STATEMENT):
        return None
    with readable(folder):
        return public_folder.read(folder, STATEMENT)


def is_rehearsal(folder: Path) -> bool:
    """Whether a folder holds a rehearsal and not a release."""
    return os.path.lexists(folder / REHEARSAL) and not os.path.lexists(folder / CERTIFICATE)


def certificate_in(folder: Path) -> tuple[bytes, Certificate]:
    """Return the certificate in a release folder, raw and read; raises as :func:`certificate_at`."""
    return certificate_at(folder / CERTIFICATE)


@bare_errors
def certificate_at(path: Path) -> tuple[bytes, Certificate]:
    """Return a certificate, raw and read, in its release folder or by itself.

    Raises
    ------
    PublicationError
        It cannot be read, is none, or another version of the program made it.
    """
    folder, name = path.parent, path.name
    if name == CERTIFICATE and is_rehearsal(folder):
        raise PublicationError(
            "this is a rehearsal of made-up records, and no release",
            where=str(folder),
            hint="name a folder that holds certificate.json",
        )
    with readable(folder):
        raw = public_folder.read(folder, name)
    try:
        return raw, (Rehearsed if name == REHEARSAL else Certificate).read(raw)
    except OtherFormat as error:
        raise PublicationError(
            f"{name} {error}", where=str(folder), hint="use the version that made it"
        ) from None
    except Unreadable as error:
        raise damaged(folder, f"{name} {error}") from None


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Turn errors of a file of a release into one that names its folder."""
    try:
        yield
    except Unreadable as error:
        raise damaged(folder, str(error)) from None


@contextmanager
def well_formed(folder: Path) -> Iterator[None]:
    """Turn errors of malformed content into one that names the release's folder."""
    try:
        yield
    except TabulariumError:
        raise
    except _MALFORMED as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        raise damaged(
            folder, f"{CERTIFICATE}, or a file next to it, says what no release says ({at})"
        ) from None


def damaged(folder: Path, what: str) -> PublicationError:
    """Return the error for a release folder that was altered."""
    return PublicationError(what, where=str(folder), hint="restore the folder from a copy")


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every file in a folder, at any depth."""
    return (path for path in folder.rglob("*") if path.is_file())


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a public file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
