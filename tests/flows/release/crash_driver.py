"""Kill a run at the n-th durable event, for every n, then run it again plainly and look at the books.

Run as a program, so that a process without threads of its own can fork a child per kill. Durable events
are the calls by which a run leaves a trace that survives it: fsync, link, rename, every commit of the
ledger, and every draw of secure noise (before and after).

    python -m tests.flows.release.crash_driver FOLDER FIRST STEP [slabs]

kills at events FIRST, FIRST + STEP, … and prints one line per kill. With ``slabs`` the release is of a table
that is cut into slabs, and the beginning of every stage is an event as well.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy.event
from sqlalchemy.engine import Engine

from tabularium.flows import release_chain
from tabularium.flows.release_chain import Outcome
from tabularium.ledger import Ledger
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.mechanisms.channel import Channel
from tabularium.tasks.margins import margins
from tabularium.tasks.publish.certificate.software import bill_of_materials, code_provenance
from tabularium.tasks.publish.documents import KEPT
from tabularium.tasks.publish.period_index import CURRENT, INDEX
from tabularium.tasks.publish.release_folder import PLACE
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.suites import expectations as suites
from tests.certificates import made_up
from tests.flows.release.scene import publish, require_signed, write_signing_scene
from tests.flows.release.slab_scene import PARTS, small_memory, write_slab_scene

# Two things compute in memory, leave nothing that a kill could spoil, and yet take most of a small run's time.
# They are tested elsewhere: here every rule of Great Expectations passes, and margins are simulated with
# as few replicates as a large release has.
assert callable(suites.run_suite) and callable(release_chain.suites_apart)
assert margins.replicates(1) > 8
suites.run_suite = lambda _name, _numbers, expected: ([True] * len(expected), "{}")
release_chain.suites_apart = nullcontext
margins.replicates = lambda _cells: 8


IN_SLABS = sys.argv[4:] == ["slabs"]


class Bomb:
    """Counts durable events and kills the process at the one it is set for."""

    def __init__(self, at: int, log: Path) -> None:
        self.at, self.log, self.count = at, log, 0

    def tick(self, name: str) -> None:
        self.count += 1
        with self.log.open("a") as file:
            file.write(f"{self.count} {name}\n")
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str, *, after: bool) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if owner is Channel and args[0].insecure:  # a dry run, which leaves no trace
                return original(*args, **kwargs)
            self.tick(f"before {name}")
            result = original(*args, **kwargs)
            if after:
                self.tick(f"after {name}")
            return result

        setattr(owner, name, wrapped)

    def arm(self) -> None:
        # What is durable after one event is what is durable before the next, so "before" is enough; only
        # between a draw and the next event does something happen that no file shows.
        for name in ("fsync", "link", "rename", "replace"):
            self.around(os, name, after=False)
        self.around(Channel, "laplace", after=True)
        sqlalchemy.event.listen(Engine, "commit", lambda _: self.tick("commit"))


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child; return its wait status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1]


def import_ahead(folder: Path) -> None:
    """Import here what a run imports as it goes, so that no child has to: one child runs and says what it is.

    What a process reads once about the software that it runs, this one reads for all children.
    """
    spec, home = write_release(folder)
    names = folder / "imported"

    def say() -> None:
        run_once(spec, home)
        names.write_text("\n".join(sys.modules))

    assert in_child(say) == 0
    for name in names.read_text().splitlines():
        if name not in sys.modules:
            importlib.import_module(name)
    code_provenance()
    bill_of_materials(folder, made_up(), None)
    assert threading.active_count() == 1, "a process with threads must not be forked"


def run_once(spec: Path, home: Home, bomb: Bomb | None = None) -> Outcome:
    if not IN_SLABS:
        return publish(spec, home)
    with small_memory(), reporting_to(Stages(bomb)):
        return publish(spec, home)


def write_release(folder: Path) -> tuple[Path, Home]:
    return write_slab_scene(folder) if IN_SLABS else write_signing_scene(folder)


class Stages(NullReporter):
    """Takes the beginning of every stage for an event."""

    def __init__(self, bomb: Bomb | None) -> None:
        super().__init__()
        self.bomb = bomb

    def started(self, stage: str) -> None:
        if self.bomb is not None:
            self.bomb.tick(f"before stage {stage}")


def state(home: Home) -> tuple[list[Any], dict[str, bytes]]:
    """The charges, and every stored file of a measurement but the one that names the parts."""
    with Ledger.connect(home.ledger_url) as books:
        charges = list(books.charges("people"))
    return charges, {path.name: path.read_bytes() for path in home.measurements.glob("*/part-*")}


def kill_at(bomb: Bomb, work: Callable[[], None]) -> str | None:
    """Kill ``work`` by a bomb and return at what event; None if it ended before."""

    def doomed() -> None:
        bomb.arm()
        work()

    status = in_child(doomed)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "it failed before its kill"
        return None
    assert os.WTERMSIG(status) == signal.SIGKILL
    return bomb.log.read_text().splitlines()[-1]


def kill_and_rerun(folder: Path, at: int) -> bool:
    """Kill at event ``at``, run again, check; False when the run ended before that event."""
    shutil.rmtree(folder, ignore_errors=True)
    spec, home = write_release(folder)
    bomb = Bomb(at, folder / "events")
    last = kill_at(bomb, lambda: run_once(spec, home, bomb))
    if last is None:
        return False
    _, stored = state(home)
    assert in_child(lambda: check_rerun(spec, home, stored)) == 0, f"after a kill at event {last}"
    print(f"killed at {last}: one charge, one release", flush=True)
    return True


def check_rerun(spec: Path, home: Home, stored: dict[str, bytes]) -> None:
    outcome = run_once(spec, home)
    charges, parts = state(home)
    assert len(charges) == 1, "one charge"
    assert charges[0].state == "published"
    assert charges[0].fence <= 2
    assert len(parts) == (PARTS if IN_SLABS else 4), "three levels and a table"
    assert {name: parts[name] for name in stored} == stored, "what was stored was drawn again"
    digest = MeasurementStore(home.measurements).complete(charges[0].release_id, charges[0].fence)
    assert digest == charges[0].measurement_digest
    folder = Path(outcome.folder)
    there = {path.name for path in folder.parent.iterdir()}
    assert there == {folder.name, CURRENT, INDEX}, "one release and no remains"
    assert (folder.parent / CURRENT).resolve() == folder.resolve()
    for left in home.workspaces.iterdir():
        # A run killed before its workspace had its name has written nothing yet.
        assert left.name.startswith(".new-"), "the workspace of the killed run is swept"
        assert {path.name for path in left.iterdir()} <= {"owner.lock", "tmp"}
    with Ledger.connect(home.ledger_url) as books:
        books.verify()
        assert books.balance("people") == 9
    kept = home.measurements / charges[0].release_id
    documents = [name for name in KEPT if (folder / name).exists()]
    assert {CERTIFICATE, STATEMENT} <= set(documents)
    assert sorted(path.name for path in kept.iterdir()) == sorted(
        [str(charges[0].fence), *parts, *documents, PLACE]
    ), "what was cut off is destroyed"
    for name in documents:
        assert (kept / name).read_bytes() == (folder / name).read_bytes()
    require_signed(home, folder, charges[0])


def main(folder: Path, first: int, step: int) -> None:
    import_ahead(folder / "ahead")
    at = first
    while kill_and_rerun(folder / f"kill-{at}", at):
        shutil.rmtree(folder / f"kill-{at}", ignore_errors=True)
        at += step
    print(f"finished: no event {at}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
