"""Putting a backup back: every file first, the ledger last, so that nothing runs on half of it.

A file that is there with other bytes is never replaced. What was cut off is finished by the same command.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ledger import Ledger
from ledger.chain import export as exported
from ledger.chain.verify import Verified
from ledger.durable_files import make_folder, sync_folder
from ledger.refusals import Conflict
from mechanisms.errors import InputError, TabulariumError
from tasks.custody.backing_up import BASES, LEDGER, read_about
from tasks.custody.sealing import Lock, unseal
from tasks.publish.kept_documents import PLACE
from tasks.publish.release_folder import HEADS, make_readable_folder
from tasks.runtime.home import Home


@dataclass(frozen=True)
class PutBack:
    """What was put back.

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


def restore(source: Path, home: Home, lock: Lock, publications: Path | None = None) -> PutBack:
    """Put a backup into a home that holds nothing else.

    Parameters
    ----------
    publications
        Where publication folders go; without it, to where they were.

    Raises
    ------
    InputError
        If the backup is damaged or does not open, or another file is where one of its files goes.
    LedgerError
        If the ledger does not verify, is older than a witness knows, or its database holds entries.
    """
    read_about(source)
    exported.verify_export(source / LEDGER)
    failure: TabulariumError
    try:
        with tempfile.TemporaryDirectory(prefix=".restoring-", dir=home.path) as folder:
            scratch = Path(folder)
            unseal(source, lock, scratch)
            bases = _bases(scratch, publications)
            moves = _moves(scratch, home, bases)
            for path, target in moves.items():
                if target.exists() and not filecmp.cmp(path, target, shallow=False):
                    raise InputError(
                        "another file is there than the backup's, and is not replaced; nothing was put back",
                        where=str(target),
                        mend="restore into a new home (--home), or move that file away",
                    )
            for path, target in moves.items():
                _put(path, target, public=path.is_relative_to(scratch / "publications"))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        failure = InputError(
            f"the backup could not be put back: {reason}",
            where=str(getattr(error, "filename", None) or home.path),
            mend="make room or give the right to write there (--publications names another folder), and run "
            "again",
        )
    else:
        return PutBack(_put_ledger(source, home), len(moves), [str(base) for base in bases])
    raise failure


def _bases(scratch: Path, publications: Path | None) -> list[Path]:
    """Return where each publication folder of the backup goes, and write that down where runs look."""
    were = [Path(base) for base in json.loads((scratch / BASES).read_text())]
    if publications is None:
        return were
    there = publications.absolute()
    bases = [there] if len(were) == 1 else [there / str(number) for number in range(len(were))]
    now = dict(zip(were, bases, strict=True))
    for place in scratch.glob(f"beside/measurements/*/{PLACE}"):
        before = Path(os.fsdecode(place.read_bytes()))
        place.write_bytes(os.fsencode(now.get(before, before)))
    for record in scratch.glob("beside/drafts/*"):
        told = json.loads(record.read_bytes())
        release = Path(told["release"])
        base = next((base for base in were if release.is_relative_to(base)), None)
        told["release"] = str(release if base is None else now[base] / release.relative_to(base))
        told["draft"] = str(there / "drafts" / record.name)
        record.write_text(json.dumps(told))
    return bases


def _moves(scratch: Path, home: Home, bases: list[Path]) -> dict[Path, Path]:
    """Return where each unpacked file goes."""
    moves = {}
    for path in sorted(path for path in scratch.rglob("*") if path.is_file()):
        kind, *rest = path.relative_to(scratch).parts
        if kind == "home":
            moves[path] = home.path.joinpath(*rest)
        elif kind == "beside":
            moves[path] = home.beside_ledger.joinpath(*rest)
        elif kind == "drafts":
            told = json.loads((scratch / "beside" / "drafts" / rest[0]).read_bytes())
            moves[path] = Path(told["draft"]).joinpath(*rest[1:])
        elif kind == "publications":
            moves[path] = bases[int(rest[0])].joinpath(*rest[1:])
    # The secret goes last: without it nothing is released.
    return dict(sorted(moves.items(), key=lambda move: move[1] == home.secret_file))


def _put(path: Path, target: Path, *, public: bool) -> None:
    if target.exists():
        return
    if public:
        make_readable_folder(target.parent.parent if HEADS in target.parts else target.parent)
    public = public and HEADS not in target.parts
    make_folder(target.parent)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    shutil.copyfile(path, aside)
    aside.chmod(0o444 if public else 0o600)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.rename(target)
    sync_folder(target.parent)


def _put_ledger(source: Path, home: Home) -> Verified:
    """Restore the ledger, unless an attempt before this one has done it."""
    try:
        return exported.restore(source / LEDGER, home.ledger_url)
    except Conflict:
        found = exported.verify_export(source / LEDGER)
        with Ledger.connect(home.ledger_url) as ledger:
            if ledger.head() != found.head:
                raise
        return found
