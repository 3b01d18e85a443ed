"""Verifying a drop: its files are those of its manifest, to the last bit.

Names, sizes and digests that were verified are kept in a file of the home (mode 0600), and removed with the
drop. A digest of data is as confidential as the data: no database has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO

from tabularium.ledger.durable_files import create, make_folder, sync_folder, write_all
from tabularium.mechanisms.errors import (
    DataRefused,
    InputError,
    InputMissing,
    InputRefused,
    LedgerError,
    TabulariumError,
)
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.inboxes import Inbox, InboxLimits, has_room, inbox_of
from tabularium.tasks.arrival.manifest import MANIFEST, DropRefused, Manifest, NamedFile, read_manifest
from tabularium.tasks.arrival.places import Place, Seen, opened, quoted
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Run, drop_of
from tabularium.validations.redaction import bare_errors, note_data_opened
from tabularium.validations.release_spec.kinds import format_of, is_ignored
from tabularium.validations.release_spec.source import Files

_BLOCK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,99}")
_LONGEST_SHOWN = 100
_PARQUET = b"PAR1"
_NO_TEXT = {_PARQUET: "a Parquet file", b"PK\3\4": "a spreadsheet or an archive", b"%PDF": "a PDF"}
_AGAIN = "drop it again with a manifest that is made from its files"


def manifest_in(
    place: Place, name: str, product: str, limits: InboxLimits
) -> tuple[Manifest, list[Seen]] | None:
    """Return the manifest of a drop and its entries; None as long as there is no manifest.

    Raises
    ------
    DropRefused
        If it is not for this product, or beyond the limits: not yet, or never.
    """
    lying = place.listing(name)
    manifest_file = _manifest_of(lying)
    if manifest_file is None:
        return None
    manifest = read_manifest(_small(place, name, manifest_file, limits.manifest), limits)
    if not is_plain(name):
        raise DropRefused(
            "has a name that is not of letters, digits, dots, dashes, = and underscores",
            where="the drop",
            hint="drop it again under another name",
        )
    if manifest.product != product:
        raise DropRefused(
            f"names another product than the one of this inbox, {product}",
            where=MANIFEST,
            hint="drop it into the inbox of that product",
        )
    return manifest, lying


def see_that_all_is_read(
    manifest: Manifest, lying: list[Seen], ignored: Collection[str], kind: str | None
) -> None:
    """Check that the files of a drop are those in its manifest, and that a run would read all of them.

    Parameters
    ----------
    ignored
        Patterns of what may be left out, as ``source.ignore`` has them.
    kind
        How the spec says that the files are written; None where their endings say it.

    Raises
    ------
    DropRefused
        With the name of the file.
    """
    manifest_file = _manifest_of(lying)
    seen = {file.name: file for file in lying if file != manifest_file}
    for name in sorted(seen.keys() - {file.name for file in manifest.files}):
        if not is_ignored(name, ignored):
            hint = "list it in the manifest, take it away, or name it under source.ignore in the spec"
            raise DropRefused("is not listed in the manifest", where=_shown(name), hint=hint)
    kinds = set()
    for file in manifest.files:
        _see_that_it_lies_there(file, seen.get(file.name))
        if is_ignored(file.name, ignored):
            continue
        kinds.add(kind or format_of(file.name))
        if None in kinds:
            raise DropRefused(
                "has an ending that does not say how it is written",
                where=file.name,
                hint="name it .csv or .parquet, or name it under source.ignore in the spec",
            )
    if len(kinds) != 1:
        what = "lists CSV files and Parquet files" if kinds else "lists no file that would be read"
        raise DropRefused(what, where=MANIFEST, hint="drop it again with data files of one kind")


def is_whole(
    place: Place,
    name: str,
    manifest: Manifest,
    lying: list[Seen],
    ignored: Collection[str] = (),
    kind: str | None = None,
) -> bool:
    """Whether the files of a drop are those of its manifest, to the last bit; False while they change.

    Every file is read once, and never beyond the size that the manifest says.

    Raises
    ------
    DropRefused
        If one is not, or does not begin as files of its kind do: no run is needed to see that.
    """
    for file in manifest.files:
        with place.open(name, file.name) as content:
            digest, first = _digest(content, file.size)
        if digest != file.sha256:
            raise DropRefused("is not the file that the manifest describes", where=file.name, hint=_AGAIN)
        if not is_ignored(file.name, ignored):
            _see_that_it_begins_well(file.name, kind or format_of(file.name), first)
    return place.listing(name) == lying


def _see_that_it_begins_well(name: str, kind: str | None, first: bytes) -> None:
    what = None
    if not first:
        what = "is empty"
    elif kind == "parquet" and first != _PARQUET:
        what = "is not a Parquet file"
    elif kind == "csv" and first in _NO_TEXT:
        what = f"is {_NO_TEXT[first]}, not a CSV file"
    if what is not None:
        raise DropRefused(what, where=name, hint="write it in the format that its ending or the spec names")


def is_plain(name: str) -> bool:
    """Whether a name has the form of a drop's name."""
    return _NAME.fullmatch(name) is not None


def _small(place: Place, name: str, seen: Seen, most: int) -> bytes:
    if seen.size > most:
        return b" " * (most + 1)  # to be refused as it is
    with place.open(name, seen.name) as file:
        return _read(file, most + 1)


def _manifest_of(lying: list[Seen]) -> Seen | None:
    """Return the manifest among the entries of a drop, however its name is capitalised.

    Raises
    ------
    DropRefused
        If there is one only under a name that is not quite it.
    """
    manifests = [file for file in lying if file.name.lower() == MANIFEST]
    if len(manifests) > 1:
        raise DropRefused("lies there twice", where=MANIFEST, hint="leave one of them, in small letters")
    if not manifests and any(file.name.lower() == f"{MANIFEST}.txt" for file in lying):
        raise DropRefused("is called drop.json.txt", where=MANIFEST, hint="drop it again as drop.json")
    return manifests[0] if manifests else None


def _see_that_it_lies_there(file: NamedFile, there: Seen | None) -> None:
    if there is None:
        raise DropRefused("is listed and not there", where=file.name, hint=_AGAIN)
    if not there.plain:
        raise DropRefused(
            "is no plain file of its own", where=file.name, hint="drop it again without links or folders"
        )
    if there.size != file.size:
        raise DropRefused("has another size than the manifest says", where=file.name, hint=_AGAIN)


def _shown(name: str) -> str:
    """Return an untrusted name as plain text."""
    shown = quoted(name)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


def _digest(content: IO[bytes], size: int) -> tuple[str, bytes]:
    """Return the digest of a file and its first four bytes."""
    note_data_opened()
    digest, first, rest = hashlib.sha256(), b"", size + 1  # one more: it may have grown
    while rest and (block := content.read(min(_BLOCK, rest))):
        digest.update(block)
        first = (first + block[:4])[:4]
        rest -= len(block)
    return digest.hexdigest(), first


def _read(file: IO[bytes], most: int) -> bytes:
    blocks = []
    while most and (block := file.read(most)):
        blocks.append(block)
        most -= len(block)
    return b"".join(blocks)


# --- fetching a drop: its files are copied into the workspace of a run, and are what was verified
#
# The files may have changed since, or change now. So what is counted is the
# copy, which is hashed while it is written.


def fetch(run: Run) -> Path | None:
    """Copy the drop of a run into its workspace; return the folder, or None if the run is not for a drop.

    Raises
    ------
    InputError
        If the drop is not known here, or is for another product or period.
    InputMissing
        If the inbox does not answer.
    InputRefused
        If a file is not the one that was verified, or the disk is too full: how large they are is shown to
        nobody.
    LedgerError
        If its period was charged for another release, whatever became of the drop.
    """
    drop_id = drop_of(run.request.source)
    if drop_id is None:
        return None
    note_data_opened()
    home = run.installation
    with Claims.at(home) as claims:
        drop = claims.find(drop_id)
        if drop is None or not drop.place or drop.state in ("gone", "deleted"):
            raise InputError(
                "is not known, or no longer there", where=f"drop {drop_id}", hint="drop it again"
            )
        _see_that_it_fits(run, drop)
        if run.loaded.spec.revises is None:
            _see_that_it_is_the_first(run, claims, drop)
    inbox = inbox_of(home, drop.product)
    if inbox is None:
        raise InputError("the product has no inbox", where=f"product {drop.product}", hint="deploy it again")
    files, folder = verified_files(home, drop.id), run.folder("drop")
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
    """Refuse a second charge for the period, as when the spec was edited while the run waited or after it.

    Only a revision may have one, which an officer approves.
    """
    spec = run.loaded.spec
    charged = run.ledger.is_charged(spec.dataset, spec.product, spec.period)
    ours = run.ledger.charge(run.release_id) is not None
    if charged and not ours and drop.release_id != run.release_id:
        raise LedgerError(
            "period already published, or charged for: by another spec, or without this drop",
            where=f"product {spec.product}, period {spec.period}",
            hint="run it as a revision, with --revises REASON, which an officer approves",
        )
    if drop.release_id != run.release_id:
        claims.change(drop, release_id=run.release_id)


def see_that_there_is_room(size: int, what: str, folder: Path) -> None:
    """Refuse to copy bytes that would fill the disk of a workspace.

    Raises
    ------
    InputRefused
        Which a flow shows only at home: the size of the input is confidential.
    """
    if not has_room(size, folder):
        raise no_room(what)


@contextmanager
def refused_by_its_files(drop: Path | None) -> Iterator[None]:
    """Refuse the data of a drop inside the block, where another source would be waited for or corrected.

    The person who delivered it cannot correct the spec, and the workspace does not change. So the drop goes
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


_ENDING = ".json"
_ORPHANED_SECONDS = 3600.0


def keep_verified(home: Home, drop: str, files: tuple[NamedFile, ...]) -> None:
    """Keep the names, sizes and digests of a verified drop."""
    path = _file(home, drop)
    make_folder(path.parent)
    create(path, json.dumps([asdict(file) for file in files]).encode())
    sync_folder(path.parent)


def verified_files(home: Home, drop: str) -> tuple[NamedFile, ...]:
    """Return the verified files of a drop.

    Raises
    ------
    InputError
        If it is not in this home.
    """
    try:
        return tuple(NamedFile(**file) for file in json.loads(_file(home, drop).read_bytes()))
    except (OSError, ValueError, TypeError):
        pass
    raise InputError(
        "what was verified of it is not in this home",
        where=f"drop {drop}",
        hint="drop the data again, or run them by hand with --source",
    )


def forget_verified(home: Home, drop: str) -> None:
    """Remove the digests of a drop."""
    _file(home, drop).unlink(missing_ok=True)


def orphaned(home: Home) -> list[str]:
    """Return the drops of digests older than an hour, whose watcher may have died before the claim."""
    before = time.time() - _ORPHANED_SECONDS
    paths = (home.path / "arrivals").glob(f"*{_ENDING}")
    return [path.name.removesuffix(_ENDING) for path in paths if path.stat().st_mtime < before]


def _file(home: Home, drop: str) -> Path:
    return home.path / "arrivals" / f"{drop}{_ENDING}"
