"""Kill a release at its n-th boundary, run it again plainly, and look at the books; for every n.

    python -m tests.ledger.measurement.crash_driver FOLDER once|twice STEP

``twice`` kills the second run too, at a boundary that moves along with n, and then runs a third.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.ledger.measurement.boundaries import (
    PARTS,
    Boundaries,
    check,
    draws,
    in_child,
    release,
    stored,
    wait_for,
)
from tests.ledger.scene import keep_witnesses, new_place, remove_place


def killed(folder: Path, at: int) -> bool:
    """Run a release that is killed at boundary ``at``; return whether it came to that."""

    def doomed() -> None:
        boundaries = Boundaries(lambda: os.kill(os.getpid(), signal.SIGKILL), at)
        boundaries.arm()
        release(folder, boundaries.cross)

    code = wait_for(in_child(doomed))
    assert code in (0, -signal.SIGKILL), f"boundary {at}"
    return code != 0


def finished(folder: Path, at: int) -> None:
    """Run again plainly: one charge, one release, and of each part that was stored no other draw."""
    before, drawn = stored(folder), draws(folder)

    def again() -> None:
        check(folder, release(folder))
        after = stored(folder)
        assert {part: after[part] for part in before} == before, "a stored part was drawn again"
        assert draws(folder) == {part: drawn[part] + (part not in before) for part in PARTS}

    assert wait_for(in_child(again)) == 0, f"boundary {at}"


def main(folder: Path, how: str, step: int) -> None:
    at, adopted, whole = 1, 0, 0
    while True:
        place = new_place(folder, str(at))
        if not killed(place, at):
            break
        found = len(stored(place))
        adopted, whole = adopted + (0 < found < len(PARTS)), whole + (found == len(PARTS))
        if how == "twice":
            killed(place, 1 + at * 7 % 60)
        finished(place, at)
        remove_place(place)
        at += step
    print(f"boundaries {at - 1} adopted {adopted} whole {whole}")


if __name__ == "__main__":
    keep_witnesses(Path(sys.argv[1]))
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
