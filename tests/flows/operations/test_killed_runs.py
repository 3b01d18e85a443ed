"""A worker and its runs are killed (-9), the server too: each release is published once and charged once, without a hand."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.flows.operations.installation import Installation
from tabularium.flows.operations.prefect_api import url_of_home
from tabularium.flows.operations.watcher import SILENCE
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.progress import reporting_to
from tests.flows.operations.installations import Up, halting, worker
from tests.flows.operations.products import Product, deployed, history, published_once, state, until
from tests.flows.operations.test_waiting import waits_for_its_officer
from tests.flows.release.scene import Finished, publish, write_scene

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("operations")]

STAGES = [
    "look up in the ledger",
    "dry run",
    "ingest",
    "validate microdata",
    "count",
    "tally",
    "reserve budget",
    "measure",
    "consistency",
    "non-negativity",
    "rounding",
    "margins",
    "check publication",
    "publish",
    "close the charge",
]


def test_the_stages_are_these(tmp_path: Path) -> None:
    heard = Finished()
    with reporting_to(heard):
        publish(*write_scene(tmp_path))
    assert heard.stages == STAGES


@pytest.mark.audit
def test_a_worker_and_its_runs_killed_in_two_stages_while_another_waits_for_its_officer(
    installation: Up, tmp_path: Path
) -> None:
    with installation.client() as client:

        def meanwhile() -> None:
            # For a moment the one that was killed is still there.
            said = "the worker was killed (signal 9)"
            until("that is noticed", lambda: said in installation.said.read_text(), 30)
            until("a worker runs again", lambda: installation.part("tabularium.flows.operations.worker"), 30)
            waits_for_its_officer(installation, client, tmp_path / "waits")

        killed_and_started_again(
            installation, client, tmp_path, ["measure", "publish"], seconds=150, meanwhile=meanwhile
        )


@pytest.mark.audit
@pytest.mark.parametrize("stages", [STAGES[0::3], STAGES[1::3], STAGES[2::3]], ids=lambda stages: stages[0])
def test_a_worker_and_its_runs_killed_in_each_stage(
    on_postgresql: Up, tmp_path: Path, stages: list[str]
) -> None:
    with on_postgresql.client() as client:
        took = killed_and_started_again(on_postgresql, client, tmp_path, stages, seconds=300)
    print("seconds from the kill to running again:", *(f"{each:.0f}" for each in took))
    assert max(took) < 180


@pytest.mark.audit
def test_a_run_killed_alone_is_started_again_at_once(on_postgresql: Up, tmp_path: Path) -> None:
    """The worker sees its process end, and need not wait for the silence."""
    with on_postgresql.client() as client:
        took = killed_and_started_again(
            on_postgresql, client, tmp_path, ["count", "margins"], seconds=120, worker_too=False
        )
    print("seconds from the kill to running again:", *(f"{each:.0f}" for each in took))
    assert max(took) < SILENCE.total_seconds()


@pytest.mark.audit
def test_a_worker_killed_alone(on_postgresql: Up, tmp_path: Path) -> None:
    """Its run goes on until it has something to log, which nobody reads any more; then it is started again."""
    with on_postgresql.client() as client:
        product = deployed(on_postgresql, client, tmp_path, "orphan")
        on_postgresql.halt(product.name, "measure")
        run = product.start(client)
        until("it halts where it is told", lambda: on_postgresql.halted(product.name), 90)
        on_postgresql.kill("tabularium.flows.operations.worker")
        until("a worker runs again", lambda: on_postgresql.part("tabularium.flows.operations.worker"), 30)
        on_postgresql.go_on(product.name)
        until("it ends", lambda: state(client, run) == "Completed", 120, lambda: history(client, run))
        published_once(product)


@pytest.mark.audit
def test_the_server_is_gone_for_a_minute(on_postgresql: Up, tmp_path: Path) -> None:
    with on_postgresql.client() as client:
        runs = []
        for number, stage in enumerate(["count", "measure", "close the charge"]):
            product = deployed(on_postgresql, client, tmp_path / str(number), f"minute-{number}")
            on_postgresql.halt(product.name, stage)
            runs.append((product, product.start(client)))
        for product, _ in runs:
            until("it halts where it is told", lambda p=product: on_postgresql.halted(p.name), 120)
    # The one who would start it again at once has to be stopped first.
    on_postgresql.process.send_signal(signal.SIGSTOP)
    on_postgresql.kill("prefect_server")
    for product, _ in runs:
        on_postgresql.go_on(product.name)
    time.sleep(60)
    on_postgresql.process.send_signal(signal.SIGCONT)
    until("a server answers again", lambda: url_of_home(on_postgresql.home) is not None, 120)
    start = time.monotonic()
    with on_postgresql.client() as client:
        for product, run in runs:
            until(
                "it ends",
                lambda r=run: state(client, r) == "Completed",
                400,
                lambda r=run: history(client, r),
            )
            print(f"after {time.monotonic() - start:.0f} s:", *history(client, run))
            published_once(product)


@pytest.mark.audit
def test_two_workers_and_one_release(on_postgresql: Up, tmp_path: Path) -> None:
    """The second run waits for the first, which holds the release, and then says that it is published."""
    up = on_postgresql
    pool = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "tabularium", "--type", "process"]
    environment = Installation(up.home, "127.0.0.1", urlsplit(up.url).port or 0).environment()
    environment |= halting(up.halts)  # either worker may take the first run
    with worker(pool, environment, tmp_path, tmp_path / "worker.log"), up.client() as client:
        first = deployed(up, client, tmp_path / "product", "two-workers")
        again = deploy(client, Wanted("two-workers-2", "a test", first.parameters))
        up.halt(first.name, "measure")
        holding = first.start(client)
        until("it holds the release", lambda: up.halted(first.name), 90)
        waiting = client.create_flow_run_from_deployment(again).id
        until("it waits", lambda: state(client, waiting) == "AwaitingRetry", 90)
        up.go_on(first.name)
        for run in (holding, waiting):
            until(
                "it ends",
                lambda r=run: state(client, r) == "Completed",
                180,
                lambda r=run: history(client, r),
            )
        published_once(first)


def killed_and_started_again(
    up: Up,
    client: Any,
    folder: Path,
    stages: list[str],
    *,
    seconds: float,
    worker_too: bool = True,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[float]:
    """Kill a run in each of ``stages``, all at the same moment; return after how many seconds each runs again.

    ``meanwhile`` is done while nothing is heard of them.
    """
    runs: list[tuple[Product, Any]] = []
    for number, stage in enumerate(stages):
        # Named for the test, too: what another has published never comes to this stage.
        name = f"killed-{'too' if worker_too else 'alone'}-{stage.replace(' ', '-')}"
        product = deployed(up, client, folder / str(number), name)
        up.halt(product.name, stage)
        runs.append((product, product.start(client)))
    for product, _ in runs:
        until(
            f"{product.name} halts where it is told",
            lambda p=product: up.halted(p.name),
            60 + 20 * len(stages),
        )
    if worker_too:
        up.kill("tabularium.flows.operations.worker")
    for product, _ in runs:
        up.kill_halted(product.name)
    killed = datetime.now(UTC)
    meanwhile()
    took = []
    for product, run in runs:
        until(
            f"{product.name} is published",
            lambda r=run: state(client, r) == "Completed",
            seconds,
            lambda r=run: history(client, r),
        )
        published_once(product)
        of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
        tasks = partial(client.read_task_runs, flow_run_filter=of_run)
        until(  # the server records the states of tasks after those of their run
            f"no task of {product.name} seems to run",
            lambda t=tasks: {each.state_name for each in t()} <= {"Completed", "Crashed"},
            60,
            lambda t=tasks: [(each.name, each.state_name) for each in t()],
        )
        times = {each.name: each.timestamp for each in client.read_flow_run_states(run)}
        took.append((times["Running"] - killed).total_seconds())
        print(f"{product.name}, killed at {killed:%H:%M:%S}:", *history(client, run), sep="\n  ")
    with Ledger.connect(up.home.ledger_url) as books:
        books.verify()
    assert not [path for path in up.home.workspaces.iterdir() if not path.name.startswith(".new-")]
    return took
