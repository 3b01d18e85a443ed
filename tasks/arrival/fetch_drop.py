"""Fetching a drop: its files are copied into the workspace of a run, and are what was verified, bit for bit.

Whoever writes into the inbox may have changed them since, or change them now. So what is counted is the copy,
which is hashed while it is written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tabularium.ledger import Ledger
from tabularium.ledger.durable_files import write_all
from tabularium.mechanisms.errors import (
    DataRefused,
    InputError,
    InputMissing,
    InputRefused,
    LedgerError,
    TabulariumError,
)
from tabularium.tasks.arrival import kept_digests
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.inbox_limits import has_room
from tabularium.tasks.arrival.inboxes import Inbox, inbox_of
from tabularium.tasks.arrival.manifest import DropRefused, NamedFile
from tabularium.tasks.arrival.places import Place, opened
from tabularium.tasks.runtime.run import Run, drop_of
from tabularium.validations.redaction import bare_errors, note_data_opened
from tabularium.validations.spec.source import Files

_BLOCK = 1 << 20


def fetch(run: Run) -> Path | None:
    """Copy the drop that a run is for into its workspace; return the folder, or None if it is for none.

    Raises
    ------
    InputError
        If the drop is not known here, or is for another product or period.
    InputMissing
        If the inbox does not answer.
    InputRefused
        If a file is not the one that was verified, or the disk is too full: how large they are is said to
        nobody.
    LedgerError
        If its period was charged for another release, whatever became of the drop.
    """
    found = drop_of(run.request.source)
    if found is None:
        return None
    note_data_opened()
    home = run.installation
    with Claims.at(home) as claims:
        drop = claims.find(found)
        if drop is None or not drop.place or drop.state in ("gone", "deleted"):
            raise InputError("is not known, or no longer there", where=f"drop {found}", hint="drop it again")
        _see_that_it_fits(run, drop)
        if run.loaded.spec.revises is None:
            _see_that_it_is_the_first(run, claims, drop)
    inbox = inbox_of(home, drop.product)
    if inbox is None:
        raise InputError("the product has no inbox", where=f"product {drop.product}", hint="deploy it again")
    files, folder = kept_digests.kept(home, drop.id), run.folder("drop")
    see_that_there_is_room(sum(file.size for file in files), "the drop", folder)
    _copy_all(inbox, drop, files, folder)
    return folder


def _see_that_it_fits(run: Run, drop: Drop) -> None:
    spec = run.loaded.spec
    if not isinstance(spec.source, Files):
        raise InputError(
            "reads a database, and drops are files", where="source.url", hint="write source.path in the spec"
        )
    if (spec.product, spec.period) != (drop.product, drop.period):
        raise InputError(
            "is of another product or period than this run",
            where=f"drop {drop.id}",
            hint=f"run product {drop.product} with --period {drop.period}"
            if drop.period
            else "drop it again",
        )


def _see_that_it_is_the_first(run: Run, claims: Claims, drop: Drop) -> None:
    """Refuse a second charge for the period, as where the spec was edited while the run waited or after it.

    Only a revision may have one, which an officer approves.
    """
    spec = run.loaded.spec
    with Ledger.connect(run.installation.ledger_url) as books:
        charged = books.is_charged(spec.dataset, spec.product, spec.period)
        ours = books.charge(run.release_id) is not None
    if charged and not ours and drop.release_id != run.release_id:
        raise LedgerError(
            "period already published, or charged for: by another spec, or without this drop",
            where=f"product {spec.product}, period {spec.period}",
            hint="run it as a revision, with --revises REASON, which an officer approves",
        )
    if drop.release_id != run.release_id:
        claims.change(drop, release_id=run.release_id)


def see_that_there_is_room(size: int, what: str, folder: Path) -> None:
    """Refuse to copy so many bytes into a folder of a workspace whose disk they would fill.

    Raises
    ------
    InputRefused
        Which a flow tells at home alone: how large the input is, is nobody's business.
    """
    if not has_room(size, folder):
        raise no_room(what)


@contextmanager
def refused_by_its_files(drop: Path | None) -> Iterator[None]:
    """Refuse the data of a drop inside the block where another source would be waited for, or mended.

    Whoever delivered it cannot mend the spec, and nobody changes what lies in the workspace. So the drop goes
    into quarantine, and a corrected one has its period.

    Raises
    ------
    InputRefused
        Instead of any ``InputError`` about the source, or about a file of the drop.
    """
    try:
        yield
        return
    except InputError as error:
        ours = drop is not None and (error.where.startswith("source") or (drop / error.where).is_file())
        if not ours or isinstance(error, DataRefused):
            raise
        where = "the drop" if error.where.startswith("source") else error.where
        raise InputRefused(error.what, where=where, hint="drop it again as the spec says") from None


def no_room(what: str) -> InputRefused:
    """Return the error for bytes that a disk has no room for."""
    return InputRefused(f"{what} does not fit on its disk", where="workspaces", hint="free some space")


@bare_errors
def _copy_all(inbox: Inbox, drop: Drop, files: tuple[NamedFile, ...], folder: Path) -> None:
    try:
        place = opened(inbox.address)
        for file in files:
            _copy(place, drop, file, folder / file.name)
    except TabulariumError:
        raise
    except Exception as error:
        raise InputMissing(
            f"the inbox does not answer ({type(error).__name__})",
            where=f"inbox of {drop.product}",
            hint="check that it is up, and the rights of this user",
        ) from None


def _copy(place: Place, drop: Drop, file: NamedFile, target: Path) -> None:
    target.unlink(missing_ok=True)
    digest, rest = hashlib.sha256(), file.size + 1  # one more: it may have grown
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with place.open(drop.place, file.name) as source:
            while rest and (block := source.read(min(_BLOCK, rest))):
                digest.update(block)
                write_all(descriptor, block)
                rest -= len(block)
        same = digest.hexdigest() == file.sha256
    except DropRefused:
        same = False
    finally:
        os.close(descriptor)
    if not same:
        raise InputRefused("is no longer the file that was verified", where=file.name, hint="drop it again")
