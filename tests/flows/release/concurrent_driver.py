"""Runs that overlap: forked children that stop themselves at a chosen durable event.

    python -m tests.flows.release.concurrent_driver FOLDER

A holder that sleeps keeps its lock, so nobody can pass it; to let another pass, as a lost network
lock would, the driver removes the lock file.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.publish.documents import KEPT
from tabularium.tasks.publish.release_folder import PLACE
from tabularium.tasks.runtime.home import Home
from tests.flows.release.crash_driver import Bomb, import_ahead, in_child, run_once, state
from tests.flows.release.scene import write_scene


class Nap(Bomb):
    """Stops the process at the first event of a given name, once."""

    def __init__(self, name: str, log: Path) -> None:
        super().__init__(0, log)
        self.name = name

    def tick(self, name: str) -> None:
        if name == self.name:
            self.name = ""
            os.kill(os.getpid(), signal.SIGSTOP)


def sleeper(spec: Path, home: Home, event: str) -> int:
    """Fork a run that stops itself at ``event``; return its process id once it sleeps."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Nap(event, spec.parent / "events").arm()
            run_once(spec, home)
            code = 0
        except TabulariumError as error:
            code = 3
            (spec.parent / "late-error").write_text(str(error))
        finally:
            os._exit(code)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    return child


def wake(child: int) -> int:
    os.kill(child, signal.SIGCONT)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(spec: Path, home: Home) -> None:
    try:
        run_once(spec, home)
    except TabulariumError as error:
        assert "another" in str(error), error
    else:
        raise AssertionError("two runs of one release went on at once")


def finished_once(spec: Path, home: Home) -> None:
    charges, parts = state(home)
    assert [charge.state for charge in charges] == ["published"]
    store = MeasurementStore(home.measurements)
    store.read(charges[0].release_id, charges[0].fence, digest=charges[0].measurement_digest)
    (folder,) = (spec.parent / "releases" / "small" / "2026").glob("*[0-9a-f]/")
    files = {path.name for path in (home.measurements / charges[0].release_id).iterdir()}
    documents = {name for name in KEPT if (folder / name).exists()}
    assert files == {str(charges[0].fence), *parts, *documents, PLACE}, files
    assert not list(home.workspaces.iterdir())


def main(root: Path) -> None:
    import_ahead(root / "ahead")
    spec, home = write_scene(root / "two")
    first = sleeper(spec, home, "after laplace")
    assert in_child(lambda: refused(spec, home)) == 0
    print("the second run stops while the first holds the release")
    assert wake(first) == 0
    finished_once(spec, home)
    print("the first finishes; there is one charge")

    for event, words, code in (
        ("before laplace", "before its draw wrote nothing", 3),
        ("after laplace", "after its draw wrote nothing", 3),
        ("before rename", "before publication left one release", None),
    ):
        spec, home = write_scene(root / event.replace(" ", "-"))
        late = sleeper(spec, home, event)
        for lock in lock_files(home):
            lock.unlink()
        assert in_child(lambda s=spec, h=home: run_once(s, h) and None) == 0  # type: ignore[misc]
        exit_code = wake(late)
        assert code in (None, exit_code), exit_code
        finished_once(spec, home)
        print(f"a sleeper woken {words}")


def lock_files(home: Home) -> list[Path]:
    return [
        path
        for path in home.path.rglob("*")
        if path.is_file()
        and "lock" in str(path.relative_to(home.path)).lower()
        and home.workspaces not in path.parents
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
