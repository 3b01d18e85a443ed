"""Nothing confidential leaves the home: a hunt through all that a real installation writes, says and starts.

Sentinels stand in the microdata, in a drop's manifest, and in the agency's secret. What publishes, what is
refused for its data and what crashes runs on a real server and worker; at full size also what waits for an
officer, what is tried again, and what is quarantined. Then everything that they left behind is searched, and,
while they run, the environment and the words of every process.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.ledger import Ledger
from tabularium.ledger.measurement.release_lock import hold
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import Inbox, add
from tabularium.tasks.runtime.run import Request, opened
from tests.flows.desk.desk_process import addresses, answers, client_of, in_vain, started
from tests.flows.desk.desk_scene import Browser, Place, close_all
from tests.flows.operations.installations import Up, children
from tests.flows.operations.products import officer_of, open_account, state, until
from tests.flows.release.leak_driver import COUNT, INVALID, NAME, scene
from tests.ledger.storage.postgres import OWNER, Server
from tests.sizes import full

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("operations")]
NOTE = "Quillfeather-Obadiah"  # in the manifest of a drop
_LAST = {"Completed", "Failed", "Crashed", "Suspended"}
#: Of the home, where what a drop is, or why data were refused, may stand.
ALLOWED = (
    *("arrivals", "arrivals.db", "arrivals.db-shm", "arrivals.db-wal"),
    *("diagnoses", "tracebacks", "secret"),
)


@dataclass
class Prey:
    """What is hunted: name -> bytes."""

    sentinels: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, up: Up, files: list[Path]) -> Prey:
        """The sentinels, in every form in which they could be carried off."""
        secret = up.home.secret()
        found = {name: name.encode() for name in (NAME, INVALID, NOTE)}
        found |= {"secret": secret, "secret, hex": secret.hex().encode()}
        found |= {"secret, base64": base64.b64encode(secret)[:40]}
        for file in files:
            digest = hashlib.sha256(file.read_bytes()).digest()
            found |= {f"digest of {file.name}": digest, f"digest of {file.name}, hex": digest.hex().encode()}
            found |= {f"digest of {file.name}, base64": base64.b64encode(digest)[:40]}
        found |= {"count": f'"{COUNT}"'.encode(), "count, as a number": f": {COUNT},".encode()}
        return cls(found)

    def traces(self, content: bytes) -> list[str]:
        """Which of them are in some bytes."""
        return [name for name, sentinel in self.sentinels.items() if sentinel in content]


def hunt(up: Up, prey: Prey, folders: list[Path], database: bytes) -> dict[str, list[str]]:
    """Search the server's database, the home, and other folders; return where something was found."""
    found = {"the server's database": prey.traces(database)}
    searched = 0
    for folder in [up.home.path, *folders]:
        for path in folder.rglob("*"):
            inside = path.relative_to(folder).parts[0]
            if path.is_file() and not (folder == up.home.path and inside in ALLOWED):
                searched += 1
                found[str(path)] = prey.traces(path.read_bytes())
    assert searched > 20 and len(database) > 100_000, "there was nothing to search"
    return {place: traces for place, traces in found.items() if traces}


def dumped_sqlite(up: Up) -> bytes:
    """The server's database as text: in the file itself a value may lie across two pages."""
    database = up.home.path / "server" / "prefect" / "prefect.db"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60) as connection:
        return "\n".join(connection.iterdump()).encode()


@contextmanager
def watched(up: Up, prey: Prey, seen: set[int]) -> Iterator[dict[str, list[str]]]:
    """Look at environment and words of every process of the installation, again and again, while the block runs."""
    found: dict[str, list[str]] = {}
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            for pid in offspring(up.process.pid):
                for what in ("environ", "cmdline"):
                    try:
                        traces = prey.traces(Path(f"/proc/{pid}/{what}").read_bytes())
                    except OSError:
                        continue  # it ended
                    seen.add(pid)
                    if traces:
                        found[f"{what} of {pid}"] = traces

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def offspring(pid: int) -> set[int]:
    """A process, and all that it and its children started."""
    return {pid}.union(*(offspring(child) for child, _ in children(pid)))


@dataclass
class Hunted:
    """What the runs left behind."""

    up: Up
    prey: Prey
    folders: list[Path]
    dump: Callable[[], bytes]
    database: bytes
    processes: dict[str, list[str]]
    seen: int
    states: dict[str, str]
    specs: list[Path]


def written(up: Up, folder: Path, name: str, **options: Any) -> Path:
    """Write microdata with sentinels, and a spec for them; return the spec."""
    spec = scene(folder / name, **options)
    shutil.rmtree(folder / name / "home")
    spec.write_text(spec.read_text().replace("product: small", f"product: {name}"))
    return spec


def dropped(inbox: Path, product: str, data: Path, name: str = "first", /, **others: Any) -> None:
    """Put a drop into an inbox, its manifest last, with ``others`` put over what it should say."""
    drop = inbox / name
    drop.mkdir()
    shutil.copy(data, drop / data.name)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    listed = [{"name": data.name, "size": data.stat().st_size, "sha256": digest}]
    about = {"product": product, "period": "2026", "files": listed, "note": NOTE, "rows": COUNT}
    (drop / "drop.json").write_text(json.dumps({**about, **others}))


def damaged(inbox: Path, product: str, data: Path) -> None:
    """Put drops into an inbox that are not what they say, each in another way."""
    wrong = {"name": data.name, "size": data.stat().st_size, "sha256": "0" * 64}
    for name, others in (
        ("other-period", {"period": NAME}),
        ("other-product", {"product": NAME}),
        ("no-list", {"files": [NAME]}),
        ("other-digest", {"files": [wrong]}),
    ):
        dropped(inbox, product, data, name, **others)


@contextmanager
def held(up: Up, spec: Path) -> Iterator[None]:
    """Hold the release of a spec, so that its runs wait and try again."""
    with opened(Request.of(spec, home=up.home.path), to_publish=False) as here:
        release_id = here.release_id
    with Ledger.connect(up.home.ledger_url) as books, hold(books, release_id):
        yield


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.audit)])
def grounds(
    request: pytest.FixtureRequest,
) -> tuple[Up, Callable[[], bytes]]:
    """An installation whose server keeps its database in that engine, and what dumps it."""
    if request.param == "sqlite":
        up: Up = request.getfixturevalue("installation")
        return up, lambda: dumped_sqlite(up)
    up = request.getfixturevalue("on_postgresql")
    server: Server = request.getfixturevalue("server")
    words = ["-h", "127.0.0.1", "-p", str(server.port), "-U", OWNER, up.database]
    return up, lambda: subprocess.check_output([server.programs / "pg_dump", *words])


@pytest.fixture(scope="module")
def hunted(grounds: tuple[Up, Callable[[], bytes]], tmp_path_factory: pytest.TempPathFactory) -> Hunted:
    """Products whose data arrive, each for one of the ends; one is held at first, and nobody delivers it."""
    (up, dump), folder = grounds, tmp_path_factory.mktemp("hunt")
    open_account(up.home)
    specs = {name: written(up, folder, name) for name in ("hunt-good", "hunt-crash")}
    if full():
        specs["hunt-refused"] = written(up, folder, "hunt-refused", extra=[("A1", "30", INVALID)] * 5)
        specs["hunt-again"] = written(up, folder, "hunt-again")
        # One input is charged to one account: this is another by a row.
        waits = specs["hunt-waits"] = written(up, folder, "hunt-waits", extra=[("B1", "30", "2")])
        officer_of(up.home)
        waits.write_text(waits.read_text().replace("dataset: people", "dataset: approved"))
        draft = specs["hunt-draft"] = written(up, folder, "hunt-draft")
        draft.write_text(draft.read_text().replace("releases}", "releases, review: officer}"))
    up.fail("hunt-crash", "count", f"could not convert {INVALID!r} near {NAME}, {COUNT} times")
    prey = Prey.of(up, [spec.with_name("people.csv") for spec in specs.values()])
    seen: set[int] = set()
    with up.client() as client, watched(up, prey, seen) as processes:
        for name, spec in specs.items():
            (folder / f"inbox-{name}").mkdir()
            add(up.home, Inbox(name, str(folder / f"inbox-{name}"), str(spec), patience=1))
            parameters = {"spec": str(spec), "home": str(up.home.path)}
            made = deploy(client, Wanted(name, "hunted", parameters))
            if name == "hunt-again":
                with held(up, spec):
                    run = client.create_flow_run_from_deployment(made).id
                    until("it is tried again", lambda r=run: state(client, r) == "AwaitingRetry", 120)
        for name, spec in specs.items():
            if name != "hunt-again":
                dropped(folder / f"inbox-{name}", name, spec.with_name("people.csv"))
        bad = folder / "inbox-hunt-good"
        if full():
            damaged(bad, "hunt-good", specs["hunt-good"].with_name("people.csv"))
        states: dict[str, str] = {}

        def ended() -> bool:
            for run in client.read_flow_runs():
                for tag in run.tags:
                    if tag.removeprefix("product:") in specs:
                        states[tag.removeprefix("product:")] = state(client, run.id)
            quarantined = len(list((bad / "quarantine").glob("*.why.txt"))) == (4 if full() else 0)
            return quarantined and len(states) == len(specs) and set(states.values()) <= _LAST

        until("all drops come to an end", ended, 240, lambda: states)
        time.sleep(3)  # what is sent at the end, logs and events, arrives
        database = dump()
    folders = [up.home.path.parent / "tmp"]
    folders += [spec.parent / name for spec in specs.values() for name in ("releases", "drafts")]
    places = [each for each in [*folders, Path(os.environ["HOME"])] if each.is_dir()]
    return Hunted(up, prey, places, dump, database, processes, len(seen), states, list(specs.values()))


def test_the_runs_ended_as_meant_and_the_server_knows_them(hunted: Hunted) -> None:
    """Otherwise the hunt would hunt nothing."""
    ends = {"hunt-good": "Completed", "hunt-crash": "Failed"}
    told = ["its text is withheld", "tabularium.data.arrived"]
    if full():
        ends |= {"hunt-refused": "Failed", "hunt-waits": "Suspended", "hunt-again": "Completed"}
        ends |= {"hunt-draft": "Suspended"}
        told += ["refused: data rules", "tabularium ledger approve", "another live process"]
        told += ["tabularium.drop.quarantined"]
    assert hunted.states == ends
    assert not [line for line in told if line.encode() not in hunted.database]
    assert hunted.seen >= 5, "server, worker, watcher and two runs"


def test_nothing_is_found_anywhere(hunted: Hunted) -> None:
    assert not hunt(hunted.up, hunted.prey, hunted.folders, hunted.database)


def test_no_process_was_given_anything(hunted: Hunted) -> None:
    assert not hunted.processes


def test_what_stays_at_home_is_closed_and_the_workspaces_are_gone(hunted: Hunted) -> None:
    home = hunted.up.home
    assert not list(home.workspaces.iterdir())
    for name in ALLOWED:
        for path in [home.path / name, *(home.path / name).rglob("*")]:
            assert not path.exists() or path.stat().st_mode & 0o077 == 0, path


def desk_prey(hunted: Hunted) -> Prey:
    """What no page may show: beside the rest a count as pages write it, and what stays at home alone."""
    home = hunted.up.home
    found = {"workspaces": str(home.workspaces).encode(), "traceback": b"Traceback", "frame": b'File "/'}
    found |= {"count, with a comma": f"{COUNT:,}".encode(), "count, in a cell": f">{COUNT}<".encode()}
    found |= {"the officer's key": officer_of(home).read_bytes().splitlines()[1]}
    for path in (home.path / "diagnoses").iterdir():
        found[f"diagnosis {path.name}"] = json.loads(path.read_bytes())["message"].encode()
    assert any(each.startswith("diagnosis") for each in found)
    return Prey(hunted.prey.sentinels | found)


def desk_addresses(hunted: Hunted) -> list[str]:
    """Return all pages of the desk, then what it is asked for in vain: files that are no specs, broken addresses."""
    home = hunted.up.home
    folders = home.path, hunted.specs[0].parents[1]
    files = {path.name: path for folder in folders for path in folder.rglob("*") if path.is_file()}
    no_specs = [f"/approve?spec={path}" for path in files.values()]
    return addresses(home.path, hunted.specs) + no_specs + in_vain(hunted.specs[0])


def shown(client: httpx.Client, hunted: Hunted, prey: Prey) -> dict[str, list[str]]:
    """Ask a desk for everything; return on which pages something was found."""
    pages = [(each, html.unescape(text)) for each, text in answers(client, desk_addresses(hunted))]
    assert len(pages) > 150, "there was nothing to ask for"
    assert not [address for address, content in pages if "An unexpected" in content]
    return {address: traces for address, content in pages if (traces := prey.traces(content.encode()))}


@pytest.mark.audit
def test_no_page_of_the_desk_shows_any_of_it(hunted: Hunted, tmp_path: Path) -> None:
    home, prey = hunted.up.home, desk_prey(hunted)
    with started(home.path, tmp_path, "--key", str(officer_of(home))) as desk, client_of(desk) as client:
        assert client.get("/").text.count("hunt-") >= 3, "something waits"
        token = {"the token": desk.enter.partition("=")[2].encode()}
        assert shown(client, hunted, Prey(prey.sentinels | token)) == {}
        assert desk.said.read_text().split() == [desk.enter], "nothing but the address"
        assert desk.complained.read_text() == ""


@pytest.mark.audit
def test_a_page_of_the_desk_that_shows_a_value_is_found(
    hunted: Hunted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def telling(*_: Any, **__: Any) -> Any:
        raise InputError(f"of {NAME} there are {COUNT:,}", where="releases", hint="ask nobody")

    monkeypatch.setattr("tabularium.Books.newest_releases", telling)
    home = hunted.up.home
    here = Browser(Place(hunted.specs[0], home, officer_of(home), "", ""), officer_of(home))
    try:
        assert shown(here.client, hunted, desk_prey(hunted)) == {"/releases": [NAME, "count, with a comma"]}
    finally:
        close_all()


PLANTED = "Planted-Peregrine"


@pytest.mark.parametrize(
    "place", ["event", "artifact", "log", "state", "variable", "temporary file", "process"]
)
def test_the_hunt_finds_what_is_planted(place: str, hunted: Hunted) -> None:
    up, prey = hunted.up, Prey({PLANTED: f"{PLANTED}-{place}".encode()})
    with up.client() as client:
        assert plant(hunted, client, place, prey)


def plant(hunted: Hunted, client: Any, place: str, prey: Prey) -> dict[str, list[str]]:
    """Put a sentinel where none may be, and hunt for it."""
    from prefect.client.schemas.actions import ArtifactCreate, LogCreate
    from prefect.states import Failed

    text, up = prey.sentinels[PLANTED].decode(), hunted.up
    if place == "process":
        child = subprocess.Popen([sys.executable, "-c", "input()", text], stdin=subprocess.PIPE, text=True)
        with watched(replace(up, process=child), prey, set()) as found:
            time.sleep(1)
        child.communicate()
        return found
    if place == "event":
        from prefect.events import Event

        # Not by emit_event: its worker keeps to the first API of this process.
        about = {"prefect.resource.id": "tabularium.upkeep.planted"}
        planted = Event(event="tabularium.upkeep.failed", resource=about, payload={"what": text})
        client.request("POST", "/events", json=[planted.model_dump(mode="json")])
    elif place == "artifact":
        client.create_artifact(ArtifactCreate(key="planted", type="markdown", data=text))
    elif place == "log":
        client.create_logs(
            [LogCreate(name="planted", level=20, message=text, timestamp="2026-01-01T00:00:00Z")]
        )
    elif place == "state":
        (run, *_) = client.read_flow_runs()
        client.set_flow_run_state(run.id, Failed(message=text), force=True)
    elif place == "variable":
        from prefect.variables import Variable

        Variable.set("planted", text, overwrite=True)
    else:
        (up.home.path.parent / "tmp" / "planted").write_bytes(b"x" * 5000 + text.encode())
    for _ in range(40):
        found = hunt(up, prey, [up.home.path.parent / "tmp"], hunted.dump())
        if found:
            (up.home.path.parent / "tmp" / "planted").unlink(missing_ok=True)
            return found
        time.sleep(0.5)
    return {}
