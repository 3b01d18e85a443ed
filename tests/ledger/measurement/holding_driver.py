"""A killed holder lets go at once, even if a child that it forked lives on.

python -m tests.ledger.measurement.holding_driver FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tabularium.ledger import LockTimeout, WrongState
from tabularium.ledger.measurement import release_lock
from tabularium.ledger.measurement.release_lock import hold
from tests.ledger.scene import census, keep_witnesses, open_books


def main(folder: Path) -> None:
    with open_books(folder) as books:
        census(books)
    ready, told = os.pipe()
    go_on, end = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(end)
        books = open_books(folder)
        with hold(books, "r1"):
            if os.fork() == 0:
                try:
                    release_lock.require(books, "r1")
                    os.write(told, b"held")
                except WrongState:
                    os.write(told, b"not held")
                os.read(go_on, 1)  # lives on until the driver is done
                os._exit(0)
            signal.pause()
    os.close(told)
    try:
        assert os.read(ready, 9) == b"not held", "a forked child does not hold what its parent holds"
        outlived(folder, holder)
        print("finished")
    finally:
        os.close(end)
        with suppress(ProcessLookupError):
            os.kill(holder, signal.SIGKILL)


def outlived(folder: Path, holder: int) -> None:
    with open_books(folder) as books:
        try:
            with hold(books, "r1"):
                raise AssertionError("two held one release")
        except LockTimeout:
            pass
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        with hold(books, "r1"):
            pass


if __name__ == "__main__":
    keep_witnesses(Path(sys.argv[1]))
    main(Path(sys.argv[1]))
