"""Kill processes, and the server, at random instants during many releases; then finish and look at the books.

    python -m tests.ledger.measurement.kill_driver FOLDER sqlite|postgresql RELEASES KILLS SEED

Three processes share the releases. One of them is killed (``SIGKILL``) at random instants and started again,
and every third time the server is stopped as ``immediate`` does and started again. In the end every release
is published once, of one measurement, for one charge.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tabularium.ledger import ClockBehind, LedgerError, LockTimeout, NotApproved, StaleFence, StorageFailed
from tabularium.ledger.measurement.measure_once import measure_once
from tabularium.ledger.measurement.release_lock import hold
from tests.ledger.measurement.boundaries import in_child, store_in, wait_for
from tests.ledger.scene import census, keep_witnesses, open_books, reserve
from tests.ledger.storage.postgres import Server, running

WORKERS = 3
AGAIN = (LockTimeout, StaleFence, StorageFailed, ClockBehind)


def release(folder: Path, name: str) -> None:
    """Do all of one release; what is published is a file made once, as a release's folder is."""

    def draw(part: str) -> tuple[dict[str, Any], dict[str, Any]]:
        with (folder / "draws").open("a") as log:
            log.write(f"{name}/{part}\n")
        return {}, {"cells": np.frombuffer(os.urandom(48), np.int64)}

    with open_books(folder, wait=20) as books:
        reserve(books, name, amount=1)  # type: ignore[arg-type]
        with hold(books, name):
            stored = measure_once(
                books, store_in(folder), name, {part: partial(draw, part) for part in ("a", "b")}
            )
            target = folder / "published" / name
            if not target.exists():
                draft = target.with_name(f".{name}-{os.getpid()}")
                draft.write_text(stored.digest)
                draft.replace(target)
            books.published(name, stored.fence, digest=f"publication of {target.read_text()}")


def work(folder: Path, names: list[str], patience: float) -> None:
    """Finish every release, however often something is in the way."""
    deadline = time.monotonic() + patience
    for name in names:
        while True:
            try:
                release(folder, name)
            except NotApproved:  # killed three times while it was drawn
                with open_books(folder) as books:
                    books.allow_attempts(name, reason="processes are killed at random")
            except AGAIN as error:
                assert "\n" not in str(error)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                break


def check(folder: Path, names: list[str]) -> None:
    """See that nothing was lost and nothing was done twice."""
    drawn = (folder / "draws").read_text().split()
    with open_books(folder) as books:
        assert books.read_only is None
        found = books.verify()
        assert found.charges == len(names)
        charges = {charge.release_id: charge for charge in books.charges("census")}
        assert sorted(charges) == sorted(names)
        assert books.account("census").spent == len(names)
    for name, charge in charges.items():
        assert charge.state == "published"
        assert (folder / "published" / name).read_text() == charge.measurement_digest
        stored = store_in(folder).read(name, charge.fence, digest=charge.measurement_digest)
        kept = [path.name for path in (folder / "measurements" / name).iterdir()]
        assert len(kept) == 3, kept
        for part in stored.parts:
            assert drawn.count(f"{name}/{part}") <= charge.attempts


def main(folder: Path, kind: str, number: int, kills: int, seed: int) -> None:
    chance, names = random.Random(seed), [f"release-{place}" for place in range(number)]
    (folder / "published").mkdir()
    with ExitStack() as stack:
        server: Server | None = None
        if kind == "postgresql":
            server = stack.enter_context(running(durable=True))
            (folder / "url").write_text(server.url(server.new_database()))
        with open_books(folder) as books:
            census(books, cap=number)
        shares = [names[place::2] for place in range(2)] + [names]  # the third meets the others
        children = {in_child(lambda share=share: work(folder, share, 300)): share for share in shares}  # type: ignore[misc]
        restarts = 0
        for kill in range(kills):
            time.sleep(chance.uniform(0.02, 0.4))
            child = chance.choice(list(children))
            share = children.pop(child)
            os.kill(child, signal.SIGKILL)
            wait_for(child)
            if server is not None and kill % 3 == 2:
                server.stop(signal.SIGQUIT)
                time.sleep(0.05)
                server.start()
                restarts += 1
            children[in_child(lambda share=share: work(folder, share, 300))] = share  # type: ignore[misc]
        assert [wait_for(child) for child in children] == [0] * len(children)
        work(folder, names, 300)
        check(folder, names)
    attempts = len((folder / "draws").read_text().split())
    print(f"{number} releases, {kills} kills, {restarts} restarts of the server, {attempts} draws")


if __name__ == "__main__":
    keep_witnesses(Path(sys.argv[1]))
    try:
        main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
    except LedgerError as error:
        sys.exit(str(error))
