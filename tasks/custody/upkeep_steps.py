"""What is done every night and every week, so that a backup that is needed is there and good."""

from __future__ import annotations

import filecmp
import os
from pathlib import Path

from tabularium.ledger import Ledger
from tabularium.ledger import export as exported
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.ledger.refusals import ChainBroken
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.custody.restore import remove_remains, scratch_folder
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.workspace import sweep

_NAME = "ledger-{seq:010d}-{hash}.txt"
_PATTERN = "ledger-*-*.txt"


def verify_and_export(home: Home, export_to: Path | None) -> str:
    """Verify the ledger, and write its export to another place; return what was found, in one line.

    An export is named after its head: where the ledger has no new entry, the one that is there is verified.

    Raises
    ------
    LedgerError
        If the ledger does not verify, is an old copy, or the export cannot be written or does not verify.
    InputError
        If that place is not there.
    """
    with _open(home) as ledger:
        found = ledger.verify(MeasurementStore(home.measurements).heads())
        if ledger.read_only not in (None, ledger.unconfirmed):
            raise ChainBroken(
                f"its {found.entries} entries are in order, but {ledger.read_only}",
                where=ledger.name,
                hint="see docs/how-to/back-up-and-restore.md",
            )
        told = f"{found.entries} entries are in order"
        if export_to is None:
            return told
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
    if exported.verify_export(file).head.seq < found.head.seq:
        raise ChainBroken("the export lacks entries", where=str(file), hint="remove it, and run again")
    return f"{told}; exported to {file}"


def drill_restore(home: Home, export_to: Path | None) -> str:
    """Put the newest export into a scratch database and compare; return what was found, in one line.

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
        found = exported.restore(file, url, scratch=True)
        with Ledger.connect(url) as put_back:
            exported.export(put_back, folder / "again.txt")
        if not filecmp.cmp(file, folder / "again.txt", shallow=False):
            raise ChainBroken(
                "what was put back is not what was exported",
                where=str(file),
                hint="take another copy of the export, and check the disks",
            )
        if not ledger.holds(found.head):
            raise ChainBroken(
                f"the ledger does not hold entry {found.head.seq} of this export",
                where=str(file),
                hint="find out which of the two is the agency's; see docs/how-to/repair-a-ledger.md",
            )
        behind = ledger.head().seq - found.head.seq
    return f"{found.entries} entries were put back and are the same; {behind} are newer"


def sweep_workspaces(home: Home) -> str:
    """Remove the workspaces of runs that died, and what restores left; return what was done, in one line."""
    removed = sweep(home) + remove_remains(home)
    return f"{removed} folders of dead runs were removed" if removed else "nothing was left behind"


def _open(home: Home) -> Ledger:
    return Ledger.connect(home.ledger_url)


def _newest(folder: Path) -> Path:
    found = sorted(path for path in folder.glob(_PATTERN) if os.access(path, os.R_OK))
    if found:
        return found[-1]
    raise InputError(
        "no export of the ledger is here to put back",
        where=str(folder),
        hint="let verify-ledger write one, or name the folder that it writes to",
    )
