"""Many processes race for one cap, forked from a process that has used the ledger itself.

python -m tests.ledger.measurement.race_driver FOLDER PROCESSES ATTEMPTS CHARGES
"""

from __future__ import annotations

import os
import sys
import time
from fractions import Fraction
from pathlib import Path

from tabularium.ledger import BudgetExhausted, Ledger
from tests.ledger.measurement.boundaries import in_child, wait_for
from tests.ledger.scene import census, keep_witnesses, open_books, reserve, witness_file


def racer(books: Ledger, folder: Path, number: int, attempts: int, charges: int) -> None:
    assert not inherited(), "SQLite's files must not be open across a fork"
    won, last = [], 0.0
    books.head()  # connected, as a process is that charges more than once
    (folder / f"ready-{number}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    for attempt in range(attempts):
        try:
            reserve(books, f"r-{number}-{attempt}", amount=Fraction(1, charges), period=f"{attempt % 3}")
            won.append(f"r-{number}-{attempt}")
            last = time.monotonic()
        except BudgetExhausted:
            pass
    (folder / f"won-{number}").write_text("\n".join(won))
    (folder / f"last-{number}").write_text(str(last))


def inherited() -> list[str]:
    """Open files of the ledger, where the system can tell."""
    table = Path("/proc/self/fd")
    links = (
        [str(entry.readlink()) for entry in table.iterdir() if entry.is_symlink()] if table.exists() else []
    )
    return [link for link in links if "ledger.db" in link]


def main(folder: Path, processes: int, attempts: int, charges: int) -> None:
    with open_books(folder) as books:
        census(books)
        children = [
            in_child(lambda number=number: racer(books, folder, number, attempts, charges))  # type: ignore[misc]
            for number in range(processes)
        ]
        while len([*folder.glob("ready-*")]) < processes:
            time.sleep(0.01)
        began = time.monotonic()
        (folder / "go").touch()
        assert [wait_for(child) for child in children] == [0] * processes
        seconds = time.monotonic() - began
        charging = max(float(path.read_text()) for path in folder.glob("last-*")) - began
        won = [name for path in folder.glob("won-*") for name in path.read_text().split()]
        assert len(won) == len(set(won)) == charges
        assert sorted(charge.release_id for charge in books.charges("census")) == sorted(won)
        assert books.balance("census") == 0
        assert books.verify().entries == 1 + charges
        witness = witness_file(folder).read_text()
        assert books.head().hash in witness, "the witness ends at the head"
    print(
        f"{charges} charges, {processes * attempts / seconds:.0f} attempts/s, {charges / charging:.0f} charges/s until"
        f" the cap, {processes} processes, {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    keep_witnesses(Path(sys.argv[1]))
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
