"""Restoring a backup, and the upkeep that keeps backups good.

Every file is put back first, then the ledger, so that nothing runs on half of it. A file that is there with
other bytes is never replaced, and nothing is put next to another ledger. A restore that was cut off is
finished by the same command.
"""

from __future__ import annotations

import filecmp
import grp
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tabularium.ledger import Ledger
from tabularium.ledger import export as exported
from tabularium.ledger.durable_files import lock, make_folder, sync_folder, unlock
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.ledger.records import EMPTY, Head
from tabularium.ledger.refusals import ChainBroken, Conflict, LockTimeout
from tabularium.ledger.verify import Verified
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.custody.backup import ACCESS, BASES, CLAIMS, LEDGER, read_about
from tabularium.tasks.custody.sealing import Lock, unseal
from tabularium.tasks.publish.period_index import renew_index
from tabularium.tasks.publish.release_folder import HEADS, PLACE, PUBLIC, Access, make_readable_folder
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.workspace import sweep
from tabularium.validations.redaction import os_errors_as


@dataclass(frozen=True)
class RestoreResult:
    """The result of a restore.

    Attributes
    ----------
    files
        How many, the ledger's own not counted.
    publications
        The publication folders, where they are now.
    """

    ledger: Verified
    files: int
    publications: list[str]


def restore(source: Path, home: Home, lock: Lock, publications: Path | None = None) -> RestoreResult:
    """Restore a backup into an empty home.

    ``publications``: where publication folders go; without it, to where they were.

    Raises
    ------
    InputError
        If the backup is damaged or does not open, or another file is where one of its files goes.
    LedgerError
        If the ledger does not verify, is older than a witness knows, or its database holds another.
    """
    read_about(source)
    export = exported.verify_export(source / LEDGER)
    failing = os_errors_as(
        InputError,
        "the backup could not be put back: {reason}",
        where=home.path,
        hint="make room or give the right to write there (--publications names another folder), and run "
        "again",
        named=True,
    )
    with failing, scratch_folder(home) as scratch:
        unseal(source, lock, scratch)
        bases = _bases(scratch, publications)
        moves = _moves(scratch, home, bases)
        for path, target in moves.items():
            if target.exists() and not filecmp.cmp(path, target, shallow=False):
                raise InputError(
                    "another file is there than the backup's, and is not replaced; nothing was put back",
                    where=str(target),
                    hint="restore into a new home (--home), or move that file away",
                )
        is_back = _holds(home, export.head)
        accesses = _accesses(scratch)
        for path, target in moves.items():
            _put(path, target, accesses.get(path))
        if not is_back:
            exported.restore(source / LEDGER, home.ledger_url)
        _put_claims(scratch / CLAIMS, home)
        _say_what_is_current(home, bases)
    return RestoreResult(export, len(moves), [str(base) for base in bases])


def _bases(scratch: Path, publications: Path | None) -> list[Path]:
    """Return the target of each publication folder of the backup, and record it for runs."""
    were = [Path(base) for base in json.loads((scratch / BASES).read_text())]
    if publications is None:
        return were
    there = publications.absolute()
    bases = [there] if len(were) == 1 else [there / str(number) for number in range(len(were))]
    now = dict(zip(were, bases, strict=True))
    for path in scratch.glob(f"beside/measurements/*/{PLACE}"):
        before = Path(os.fsdecode(path.read_bytes()))
        path.write_bytes(os.fsencode(now.get(before, before)))
    for record in scratch.glob("beside/drafts/*"):
        record_of_base = json.loads(record.read_bytes())
        release = Path(record_of_base["release"])
        base = next((base for base in were if release.is_relative_to(base)), None)
        record_of_base["release"] = str(release if base is None else now[base] / release.relative_to(base))
        record_of_base["draft"] = str(there / "drafts" / record.name)
        record.write_text(json.dumps(record_of_base))
    return bases


def _moves(scratch: Path, home: Home, bases: list[Path]) -> dict[Path, Path]:
    """Return the target of each unpacked file."""
    moves = {}
    for path in sorted(path for path in scratch.rglob("*") if path.is_file()):
        kind, *rest = path.relative_to(scratch).parts
        if kind == "home":
            moves[path] = home.path.joinpath(*rest)
        elif kind == "beside":
            moves[path] = home.ledger_folder.joinpath(*rest)
        elif kind == "drafts":
            draft = json.loads((scratch / "beside" / "drafts" / rest[0]).read_bytes())
            moves[path] = Path(draft["draft"]).joinpath(*rest[1:])
        elif kind == "publications":
            moves[path] = bases[int(rest[0])].joinpath(*rest[1:])
    # The secret goes last: without it nothing is released.
    return dict(sorted(moves.items(), key=lambda move: move[1] == home.secret_file))


def _accesses(scratch: Path) -> dict[Path, Access]:
    """Return the access of each unpacked file that others may read."""
    accesses = {}
    for base in scratch.glob("publications/*"):
        files = (path for path in base.rglob("*") if HEADS not in path.parts)
        accesses.update(dict.fromkeys(files, PUBLIC))
    for release_id, of_release in json.loads((scratch / ACCESS).read_bytes()).items():
        with suppress(KeyError):  # no such group here: a draft is its owner's then
            access = Access(
                of_release["folders"], of_release["files"], grp.getgrnam(of_release["group"]).gr_gid
            )
            accesses.update(dict.fromkeys((scratch / "drafts" / release_id).rglob("*"), access))
    return accesses


def _put(path: Path, target: Path, access: Access | None) -> None:
    if target.exists():
        return
    if access is not None:
        with suppress(PermissionError):  # a group without the restoring user
            make_readable_folder(target.parent, access)
    elif HEADS in target.parts:
        make_readable_folder(target.parent.parent)
    make_folder(target.parent)
    aside = target.with_name(f".{target.name}.partial")
    aside.unlink(missing_ok=True)
    shutil.copyfile(path, aside)
    aside.chmod(0o600)
    if access is not None:
        with suppress(PermissionError):
            access.give(aside, access.files)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.rename(target)
    sync_folder(target.parent)


def _holds(home: Home, head: Head) -> bool:
    """Whether the ledger was restored before; another ledger is refused."""
    with Ledger.connect(home.ledger_url) as ledger:
        there = ledger.head()
        if there == EMPTY and head != EMPTY:
            return False
        after = [entry.body["kind"] for entry in ledger.last_entries(1) if entry.seq == head.seq + 1]
        if ledger.holds(head) and (there == head or after == ["restored"]):
            return True
        raise Conflict(
            "another ledger is there than the backup's; nothing was put back",
            where=ledger.name,
            hint="restore into a new home (--home), or a new database (TABULARIUM_LEDGER)",
        )


def _say_what_is_current(home: Home, bases: list[Path]) -> None:
    with Ledger.connect(home.ledger_url) as ledger:
        for period in {folder.parent for base in bases for folder in base.glob("*/*/*/") if folder.is_dir()}:
            renew_index(ledger, period)


def _put_claims(path: Path, home: Home) -> None:
    """Restore the claims of drops; a drop that is known already stays as it is."""
    drops = [Drop(**values) for values in json.loads(path.read_bytes())]
    if drops:
        with Claims.at(home) as claims:
            for drop in drops:
                claims.take(drop)


# --- folders of the home in which backups are unpacked for a moment; what a killed process left is removed

_PREFIX = ".unpacked-"
_WAIT_SECONDS = 60


@contextmanager
def scratch_folder(home: Home) -> Iterator[Path]:
    """Yield a new folder of the home; it is removed at the end, or by the next process.

    Raises
    ------
    LockTimeout
        If another process keeps having one: there is never more than one in a home.
    """
    with _locked(home, _WAIT_SECONDS) as mine:
        if not mine:
            raise LockTimeout(
                "another process is restoring in this home", where=str(home.path), hint="wait, then run again"
            )
        _clear(home)
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=home.path) as folder:
            yield Path(folder)


def remove_remains(home: Home) -> int:
    """Remove the remains of killed processes, unless one is at work; return the number of folders."""
    with _locked(home, 0) as mine:
        return _clear(home) if mine else 0


def _clear(home: Home) -> int:
    paths = list(home.path.glob(f"{_PREFIX}*"))
    for folder in paths:
        shutil.rmtree(folder, ignore_errors=True)
    return len(paths)


@contextmanager
def _locked(home: Home, wait: float) -> Iterator[bool]:
    descriptor = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield lock(descriptor, wait)
    finally:
        unlock(descriptor)


# Upkeep of every night and every week: verify and export the ledger, restore an export, sweep workspaces.


_NAME = "ledger-{seq:010d}-{hash}.txt"
_PATTERN = "ledger-*-*.txt"


def verify_and_export(home: Home, export_to: Path | None) -> str:
    """Verify the ledger, and write its export to a folder; return the result, in one line.

    An export is named after its head: where the ledger has no new entry, the one that is there is verified.

    Raises
    ------
    LedgerError
        If the ledger does not verify, is an old copy, or the export cannot be written or does not verify.
    InputError
        If that place is not there.
    """
    with _open(home) as ledger:
        check = ledger.verify(MeasurementStore(home.measurements).heads())
        if ledger.read_only not in (None, ledger.unconfirmed):
            raise ChainBroken(
                f"its {check.entries} entries are in order, but {ledger.read_only}",
                where=ledger.name,
                hint="see docs/how-to/back-up-and-restore.md",
            )
        message = f"{check.entries} entries are in order"
        if export_to is None:
            return message
        if not export_to.is_dir():
            raise InputError(
                "this folder for exports is not there",
                where=str(export_to),
                hint="mount it, or name another with --export-to",
            )
        head = ledger.head()
        file = export_to / _NAME.format(seq=head.seq, hash=head.hash[:16])
        if not file.exists():
            exported.export(ledger, file)
    if exported.verify_export(file).head.seq < check.head.seq:
        raise ChainBroken("the export lacks entries", where=str(file), hint="remove it, and run again")
    return f"{message}; exported to {file}"


def drill_restore(home: Home, export_to: Path | None) -> str:
    """Restore the newest export to a scratch database and compare; return the result, in one line.

    Without a place of exports one is written and put back. What is put back is exported again, and must be
    the same bytes; and the ledger must hold its last entry.

    Raises
    ------
    LedgerError
        If the export does not verify, cannot be put back, or is of another ledger.
    InputError
        If there is no export in that place.
    """
    with scratch_folder(home) as folder, _open(home) as ledger:
        if export_to is None:
            file = folder / "export.txt"
            exported.export(ledger, file)
        else:
            file = _newest(export_to)
        url = f"sqlite:///{folder / 'ledger.db'}"
        export = exported.restore(file, url, scratch=True)
        with Ledger.connect(url) as put_back:
            exported.export(put_back, folder / "again.txt")
        if not filecmp.cmp(file, folder / "again.txt", shallow=False):
            raise ChainBroken(
                "what was put back is not what was exported",
                where=str(file),
                hint="take another copy of the export, and check the disks",
            )
        if not ledger.holds(export.head):
            raise ChainBroken(
                f"the ledger does not hold entry {export.head.seq} of this export",
                where=str(file),
                hint="find out which of the two is the agency's; see docs/how-to/repair-a-ledger.md",
            )
        behind = ledger.head().seq - export.head.seq
    return f"{export.entries} entries were put back and are the same; {behind} are newer"


def sweep_workspaces(home: Home) -> str:
    """Remove the workspaces of dead runs, and remains of restores; return the result, in one line."""
    removed = sweep(home) + remove_remains(home)
    return f"{removed} folders of dead runs were removed" if removed else "nothing was left behind"


def _open(home: Home) -> Ledger:
    return Ledger.connect(home.ledger_url)


def _newest(folder: Path) -> Path:
    exports = sorted(path for path in folder.glob(_PATTERN) if os.access(path, os.R_OK))
    if exports:
        return exports[-1]
    raise InputError(
        "no export of the ledger is here to put back",
        where=str(folder),
        hint="let verify-ledger write one, or name the folder that it writes to",
    )
