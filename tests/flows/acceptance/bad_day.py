"""A bad day of an installation, and the account of it.

    python -m tests.flows.acceptance.bad_day --products 21 --drops 120

Many products, ledger and Prefect on PostgreSQL. All drops come at once. While they are worked on, worker,
watcher, server and a run are killed, the database is away, a publication folder is gone, and an officer
approves while nobody can be told of it. In the end every drop is published once, and nothing waits.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabularium.flows.operations.installation import most_runs
from tabularium.flows.operations.prefect_api import runs_of
from tabularium.ledger import Ledger
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.inboxes import Inbox, add, inbox_of
from tabularium.tasks.custody.home_health import account_for
from tabularium.tasks.runtime.home import Home
from tests.flows.operations.installations import Up, children, running
from tests.flows.operations.products import officer_of, open_account, until
from tests.flows.release.scene import write_scene
from tests.ledger.storage.postgres import Server
from tests.ledger.storage.postgres import running as postgresql_running
from tests.tasks.arrival.drops import TEXT, write_drop

FIRST_YEAR = 1990
_NOWHERE = "http://127.0.0.1:9/api"
_SAMPLE_SECONDS = 3.0
_ENDED = ("COMPLETED", "FAILED", "CANCELLED")
#: Of this many products one takes approved specs alone.
_ONE_IN = 10


@dataclass(frozen=True)
class Product:
    """A product that drops arrive for."""

    name: str
    spec: Path
    inbox: Path
    approved: bool

    @property
    def releases(self) -> Path:
        """Where it is published."""
        return self.spec.parent / "releases"


@dataclass
class Day:
    """What came of it.

    Attributes
    ----------
    seconds
        From each drop to its publication.
    lasted
        Seconds from the first drop to the last publication.
    runs
        How many flow runs each drop had.
    states
        In which states the runs ended, and the drops.
    suspended
        For how many runs a person was asked.
    memory
        The most that all processes had together, in MB; what they share counts once.
    amiss
        What did not fit: lines about drops, charges and folders.
    """

    seconds: list[float] = field(default_factory=list)
    lasted: float = 0.0
    runs: Counter[int] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    suspended: int = 0
    memory: int = 0
    amiss: list[str] = field(default_factory=list)

    def told(self) -> str:
        """Return it as a small table."""
        at = sorted(self.seconds)
        made = sum(number * times for number, times in self.runs.items())
        rows = [
            ("drops", f"{len(at)}"),
            ("runs per drop", f"{made / max(len(at), 1):.2f}"),
            ("drop to published, p50 / p95 / worst",
             f"{statistics.median(at):.0f} / {at[math.ceil(0.95 * len(at)) - 1]:.0f} / {at[-1]:.0f} s"),
            ("published a minute", f"{60 * len(at) / self.lasted:.1f}"),
            ("most memory", f"{self.memory} MB"),
            ("runs that asked for a person", f"{self.suspended}"),
            ("how runs and drops ended", ", ".join(f"{n} {name}" for name, n in sorted(self.states.items()))),
            ("what does not fit", "; ".join(self.amiss) or "nothing"),
        ]  # fmt: skip
        return "\n".join(f"{name:38} {value}" for name, value in rows)


def bad_day(folder: Path, products: int, drops: int, *, faults: bool = True, seconds: float) -> Day:
    """Live through it in a folder; see :class:`Day`.

    Parameters
    ----------
    drops
        Of all products together.
    faults
        Whether anything is killed, closed or away.
    seconds
        How long it may take until all is published.
    """
    with postgresql_running() as server:
        ledger, prefect = server.new_database(), server.new_database()
        home = folder / "home"
        settings = {"TABULARIUM_LEDGER": server.url(ledger), "TMPDIR": str(folder)}
        with (
            running(home, "--database", server.url(prefect), "--runs", str(most_runs()), **settings) as up,
            up.client() as client,
            _memory_watched(up) as memory,
        ):
            open_account(up.home)
            officer = officer_of(up.home)
            made = [_deployed(up, folder, number) for number in range(products)]
            put = _burst(made, drops)
            start = time.time()
            if faults:
                _faults(up, server, [ledger, prefect], made, officer, put)
            else:
                _approve(up, made, officer, put)
            until(
                "every drop has ended",
                lambda: not _open(up.home),
                seconds,
                lambda: Counter(f"{drop.product} {drop.state}" for drop in _known(up.home)),
            )
            return _account(up, client, start, put, memory)


def _deployed(up: Up, folder: Path, number: int) -> Product:
    name = f"product-{number:02}"
    spec, _ = write_scene(folder / name)
    approved = number % _ONE_IN == 1
    text = spec.read_text().replace("product: small", f"product: {name}")
    text = text.replace('period: "2026"', f'period: "{FIRST_YEAR}"').replace('budget: "1"', 'budget: "1/10"')
    spec.write_text(text.replace("dataset: people", "dataset: approved") if approved else text)
    inbox = folder / name / "inbox"
    inbox.mkdir()
    up.call("deploy", str(spec), "--on-arrival", str(inbox), "--periods", "(19|20)[0-9]{2}")
    known = inbox_of(up.home, name)
    assert known is not None
    add(up.home, Inbox(**{**vars(known), "patience": 1.0}))
    return Product(name, spec, inbox, approved)


def _burst(products: list[Product], drops: int) -> dict[tuple[str, str], float]:
    """Drop them all; return when each came, by product and period."""
    put = {}
    for number in range(drops):
        product, year = products[number % len(products)], FIRST_YEAR + number // len(products)
        content = {"people.csv": TEXT + b"A1,1,1\n" * (1 + number)}  # two accounts never share an input
        aside = write_drop(product.spec.parent, f"of-{year}", content, product=product.name, period=str(year))
        aside.rename(product.inbox / aside.name)
        put[product.name, str(year)] = time.time()
    return put


def _faults(
    up: Up,
    server: Server,
    databases: list[str],
    products: list[Product],
    officer: Path,
    put: dict[tuple[str, str], float],
) -> None:
    gone = products[0].releases
    gone.mkdir(exist_ok=True)
    aside = gone.with_name("unmounted")
    gone.rename(aside)
    gone.symlink_to("/nonexistent")  # as an automatic mount that fails
    time.sleep(15)
    for part in (
        "tabularium.flows.operations.worker",
        "tabularium.flows.cli.app watch",
        "tabularium.flows.operations.prefect_server",
    ):
        until(f"{part} is there", lambda part=part: up.part(part), 60)
        up.kill(part)
        time.sleep(10)
    # The officer decides while nobody can be told.
    _approve(up, products, officer, put, PREFECT_API_URL=_NOWHERE)
    if runs := [run for run, words in _descendants(up.process.pid) if "prefect.engine" in words]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(runs[0], signal.SIGKILL)
    with contextlib.ExitStack() as stack:
        for database in databases:
            stack.enter_context(server.away(database))
        time.sleep(10)
    time.sleep(10)
    gone.unlink()
    aside.rename(gone)


def _approve(
    up: Up, products: list[Product], officer: Path, put: dict[tuple[str, str], float], **environment: str
) -> None:
    for product in products:
        periods = [word for name, year in put if name == product.name for word in ("--period", year)]
        if product.approved and periods:
            up.run_cli("ledger", "approve", str(product.spec), "--key", str(officer), *periods, **environment)


def _known(home: Home) -> list[Drop]:
    return Claims.known(home)


def _open(home: Home) -> list[Drop]:
    """The drops that are not published and put away; those of which nothing is known yet are among them."""
    with contextlib.suppress(Exception):  # the database may be away
        lying = list(home.path.parent.glob("product-*/inbox/of-*"))
        if not lying:
            return [
                drop for drop in _known(home) if drop.state not in ("published", "quarantined", "refused")
            ]
    return [None]  # type: ignore[list-item]


def _account(
    up: Up, client: Any, start: float, put: dict[tuple[str, str], float], memory: Callable[[], int]
) -> Day:
    day = Day(memory=memory())
    drops = _known(up.home)
    until("no run is left", lambda: not _live(client), 120, lambda: _live(client))
    runs = [run for run in runs_of(client) if str(run.parameters.get("source", "")).startswith("drop:")]
    per_drop = Counter(run.parameters["source"] for run in runs)
    day.runs = Counter(per_drop[f"drop:{drop.id}"] for drop in drops)
    day.states = Counter(f"runs {run.state_name}" for run in runs)
    day.states += Counter(f"drops {drop.state}" for drop in drops)
    histories = [client.read_flow_run_states(run.id) for run in runs]
    day.suspended = sum(any(state.name == "Suspended" for state in states) for states in histories)
    ended = {(drop.product, drop.period): drop.ended_at or 0.0 for drop in drops}
    day.seconds = [ended[key] - when for key, when in put.items()]
    day.lasted = max(ended.values()) - start
    day.amiss = [look.said for look in account_for(up.home) if look.state != "ok"]
    day.amiss += [f"{run.name}: {run.state.message}" for run in runs if run.state_name != "Completed"]
    with Ledger.connect(up.home.ledger_url) as books:
        books.verify()
        charges = [charge for account in books.accounts() for charge in books.all_charges(account.name)]
    if sorted((charge.product, charge.period) for charge in charges) != sorted(put):
        day.amiss.append(f"{len(charges)} charges for {len(put)} drops")
    return day


def _live(client: Any) -> list[str]:
    return [
        f"{run.name} {run.state_name}"
        for run in runs_of(client)
        if run.parameters.get("source") and run.state_type.name not in _ENDED
    ]


@contextlib.contextmanager
def _memory_watched(up: Up) -> Iterator[Callable[[], int]]:
    """Yield what tells the most memory that an installation has had, in MB."""
    most, stop = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(_SAMPLE_SECONDS):
            processes = [up.process.pid, *(process for process, _ in _descendants(up.process.pid))]
            most = max(most, sum(map(_proportional, processes)) // 1024)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: most
    finally:
        stop.set()
        watcher.join()


def _descendants(process: int) -> list[tuple[int, str]]:
    found = children(process)
    return found + [each for child, _ in found for each in _descendants(child)]


def _proportional(process: int) -> int:
    """The memory of a process in kB, what it shares divided among those who share it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def main() -> None:
    """Live through a day, and print the account of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--products", type=int, default=21)
    parser.add_argument("--drops", type=int, default=120)
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600, help="how long it may take")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bad-day-"))
    try:
        day = bad_day(folder, given.products, given.drops, faults=not given.no_faults, seconds=given.seconds)
        print(day.told())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
