"""What ``tabularium doctor`` says under each fault.

    python -m tests.flows.acceptance.doctor

Ledger and Prefect are on PostgreSQL, and the command runs without the environment of the service.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.flows.operations.installations import Up, running
from tests.flows.operations.products import Product, deployed, officer_of, open_account, state, until
from tests.ledger.storage.postgres import Server
from tests.ledger.storage.postgres import running as postgresql_running
from tests.tasks.arrival.drops import TEXT, write_drop

_NOWHERE = "http://127.0.0.1:9/api"


@dataclass
class Scene:
    """An installation with a product that was published, and one that officers approve."""

    up: Up
    server: Server
    client: Any
    ledger: str
    mills: Product
    farms: Product
    inbox: Path

    def doctor(self, *words: str) -> list[str]:
        """Return what it says, line by line."""
        return self.up.run_cli("doctor", *words, check=False).stdout.splitlines()


def _folder_gone(scene: Scene) -> AbstractContextManager[None]:
    return _away(scene.mills.spec.parent / "releases")


def _page_gone(scene: Scene) -> AbstractContextManager[None]:
    return _away(scene.up.home.path / "server" / "ui")


def _folder_lost(scene: Scene) -> AbstractContextManager[None]:
    (folder,) = scene.mills.published()
    return _away(folder)


@contextmanager
def _away(path: Path) -> Iterator[None]:
    aside = path.with_name(".aside")
    path.rename(aside)
    yield
    aside.rename(path)


@contextmanager
def _no_manifest(scene: Scene) -> Iterator[None]:
    drop = scene.inbox / "half"
    drop.mkdir()
    (drop / "people.csv").write_bytes(TEXT)
    os.utime(drop, (time.time() - 7200,) * 2)
    yield
    shutil.rmtree(drop)


@contextmanager
def _quarantine(scene: Scene) -> Iterator[None]:
    drop = write_drop(scene.mills.spec.parent, "bad", {"people.csv": TEXT}, product="other", period="2026")
    drop.rename(scene.inbox / "bad")
    until("it is put aside", lambda: list(scene.inbox.glob("quarantine/bad*")), 90)
    yield


def _run(scene: Scene, run_state: Any) -> Any:
    from tabularium.flows.release import release

    tags = ["product:mills", "period:2027"]
    return scene.client.create_flow_run(release, parameters={"spec": "x"}, tags=tags, state=run_state).id


@contextmanager
def _failed(scene: Scene) -> Iterator[None]:
    from prefect.states import Failed

    run = _run(scene, Failed(message="the spec is gone"))
    yield
    scene.client.delete_flow_run(run)


@contextmanager
def _late(scene: Scene) -> Iterator[None]:
    from prefect.states import Scheduled

    run = _run(scene, Scheduled(scheduled_time=datetime.now(UTC) - timedelta(minutes=12.2)))
    yield
    scene.client.delete_flow_run(run)


@contextmanager
def _nobody_decided(scene: Scene) -> Iterator[None]:
    run = scene.farms.start(scene.client, **scene.farms.parameters)
    until("it waits", lambda: state(scene.client, run) == "Suspended", 120)
    yield


@contextmanager
def _decided_untold(scene: Scene) -> Iterator[None]:
    watcher = scene.up.part("tabularium.flows.cli.app watch")
    os.kill(watcher, signal.SIGSTOP)
    key = str(officer_of(scene.up.home))
    scene.up.run_cli("ledger", "approve", str(scene.farms.spec), "--key", key, PREFECT_API_URL=_NOWHERE)
    time.sleep(61)
    yield
    os.kill(watcher, signal.SIGCONT)


@contextmanager
def _worker_killed(scene: Scene) -> Iterator[None]:
    scene.up.kill("tabularium.flows.operations.worker")
    until("another one runs", lambda: scene.up.part("tabularium.flows.operations.worker"), 60)
    time.sleep(15)
    yield


@contextmanager
def _prefect_away(scene: Scene) -> Iterator[None]:
    with scene.server.away(scene.up.database):
        yield


@contextmanager
def _ledger_away(scene: Scene) -> Iterator[None]:
    with scene.server.away(scene.ledger):
        yield


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, and how the line about it begins.

    Attributes
    ----------
    words
        Further words of the command.
    """

    named: str
    planted: Callable[[Scene], AbstractContextManager[None]]
    line: str
    words: tuple[str, ...] = ()


FAULTS = (
    Fault("nothing", lambda _: contextlib.nullcontext(), "ok   worker        1 online"),
    Fault("the publication folder is gone", _folder_gone, "fail publication"),
    Fault("a published folder is lost", _folder_lost, "fail folders", ("--account-for",)),
    Fault("the page is gone", _page_gone, "fail page"),
    Fault("a drop without a manifest", _no_manifest, "warn drops         mills: half without drop.json"),
    Fault("a drop in quarantine", _quarantine, "warn drops         mills: 1 in quarantine"),
    Fault("a run failed", _failed, "warn runs          1 failed in the last 7 days, the last one mills"),
    Fault("a run is late", _late, "warn runs          1 should have begun, the first 12 minutes ago"),
    Fault("a run waits for an officer", _nobody_decided, "warn runs          waiting for an officer: farms"),
    Fault("it was approved, nobody told", _decided_untold, "warn runs          1 wait though an officer has"),
    Fault("the worker was killed", _worker_killed, "ok   worker        1 online"),
    Fault("Prefect's database is away", _prefect_away, "fail server        Prefect at"),
    Fault("the ledger's database is away", _ledger_away, "fail ledger"),
)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Run the installation in a folder while the block does."""
    with postgresql_running() as server:
        ledger, prefect = server.new_database(), server.new_database()
        settings = {"TABULARIUM_LEDGER": server.url(ledger), "TMPDIR": str(folder)}
        with (
            running(folder / "home", "--database", server.url(prefect), **settings) as up,
            up.client() as client,
        ):
            up.database = prefect
            open_account(up.home)
            officer_of(up.home)
            mills = deployed(up, client, folder / "mills", "mills")
            farms = deployed(up, client, folder / "farms", "farms")
            farms.spec.write_text(farms.spec.read_text().replace("dataset: people", "dataset: approved"))
            (folder / "inbox").mkdir()
            up.run_cli("deploy", str(mills.spec), "--on-arrival", str(folder / "inbox"))
            up.run_cli("run", str(mills.spec))
            yield Scene(up, server, client, ledger, mills, farms, folder / "inbox")


def main() -> None:
    """Print the lines that are new under each fault."""
    folder = Path(tempfile.mkdtemp(prefix="doctor-"))
    try:
        with scene(folder) as here:
            well = here.doctor()
            for fault in FAULTS:
                with fault.planted(here):
                    lines = here.doctor(*fault.words)
                print(f"\n{fault.named}:")
                for line in lines if fault is FAULTS[0] else [line for line in lines if line not in well]:
                    print(f"  {line}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
