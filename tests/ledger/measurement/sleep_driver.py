"""Suspend a release at its n-th boundary, let another take over, wake the first; for n in steps.

    python -m tests.ledger.measurement.sleep_driver FOLDER FIRST STEP

The sleeper's lock file is removed, as a careless operator would. If it sleeps while it keeps the database
itself locked, nobody can take over, and that is tried as well.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tabularium.ledger import LedgerError, LockTimeout, StorageFailed
from tests.ledger.measurement.boundaries import Boundaries, check, in_child, release, store_in, wait_for
from tests.ledger.scene import database, keep_witnesses, new_place, open_books, remove_place

REFUSED, NAP = 3, 0.05


def asleep(folder: Path, at: int) -> int | None:
    """Start a release that stops itself at boundary ``at``; return it, or ``None`` if it never came there."""

    def sleeper() -> None:
        boundaries = Boundaries(lambda: os.kill(os.getpid(), signal.SIGSTOP), at)
        boundaries.arm()
        try:
            release(folder, boundaries.cross)
        except LedgerError as error:
            (folder / "refused").write_text(type(error).__name__)
            os._exit(REFUSED)

    child = in_child(sleeper)
    status = os.waitpid(child, os.WUNTRACED)[1]
    if os.WIFSTOPPED(status):
        return child
    assert os.waitstatus_to_exitcode(status) == 0, f"boundary {at}"
    return None


def taken_over(folder: Path, wait: float = NAP) -> bool:
    """Remove the sleeper's lock and run the release; return whether it could be finished."""
    for lock in database(folder).with_name("ledger.db.locks").glob("release-*"):
        lock.unlink()

    def other() -> None:
        try:
            check(folder, release(folder, wait=wait))
        except (LockTimeout, StorageFailed):
            os._exit(REFUSED)

    code = wait_for(in_child(other))
    assert code in (0, REFUSED)
    return code == 0


def state(folder: Path) -> list[object]:
    """All that the late riser must leave as it is."""
    with open_books(folder) as books:
        entries: list[object] = [entry.hash for entry in books.entries()]
    return entries + [
        (path.name, path.read_bytes()) for path in sorted((store_in(folder).folder / "r1").iterdir())
    ]


def main(folder: Path, at: int, step: int) -> None:
    overtaken = stale = 0
    while True:
        place = new_place(folder, str(at))
        sleeper = asleep(place, at)
        if sleeper is None:
            break
        try:
            finished = taken_over(place)
            before = state(place) if finished else []
            os.kill(sleeper, signal.SIGCONT)
            code = wait_for(sleeper)
            assert code in (0, REFUSED), f"boundary {at}"
            if finished:
                overtaken += 1
                stale += (place / "refused").exists() and (place / "refused").read_text() == "StaleFence"
                assert state(place) == before, f"the late riser wrote something at boundary {at}"
            else:
                assert taken_over(place, wait=60), f"boundary {at}"
        except BaseException:
            with suppress(ProcessLookupError):
                os.kill(sleeper, signal.SIGKILL)  # or it would keep the pipes open for ever
            raise
        remove_place(place)
        at += step
    print(f"boundaries {at - step} overtaken {overtaken} stale {stale}")


if __name__ == "__main__":
    keep_witnesses(Path(sys.argv[1]))
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
