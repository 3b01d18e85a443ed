"""A worker and its runs are killed (-9), the server too: each release is published once and charged once, without a hand."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.operations import dead_runs
from ledger import Ledger
from tasks.runtime.progress import Quiet, reporting_to
from tests.flows.operations.installations import Up
from tests.flows.operations.products import Product, deployed, history, state, until
from tests.flows.release.scene import publish, write_scene

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
    quiet = Quiet()
    with reporting_to(quiet):
        publish(*write_scene(tmp_path))
    assert list(quiet.stages) == STAGES


def test_a_worker_and_its_runs_killed_in_two_stages(installation: Up, tmp_path: Path) -> None:
    with installation.client() as client:
        dead_runs.ensure(client, silence=timedelta(seconds=10))  # their heartbeats come every two seconds
        try:
            killed_and_started_again(installation, client, tmp_path, ["measure", "publish"], seconds=60)
        finally:
            dead_runs.ensure(client)


def killed_and_started_again(
    up: Up, client: Any, folder: Path, stages: list[str], *, seconds: float, worker_too: bool = True
) -> list[float]:
    """Kill a run in each of ``stages``, all at the same moment; return after how many seconds each runs again."""
    runs: list[tuple[Product, Any]] = []
    for number, stage in enumerate(stages):
        product = deployed(up, client, folder / str(number), f"killed-{stage.replace(' ', '-')}")
        up.halt(product.name, stage)
        runs.append((product, product.start(client)))
    for product, _ in runs:
        until(
            f"{product.name} stops where it is told",
            lambda p=product: up.halted(p.name),
            60 + 20 * len(stages),
        )
    if worker_too:
        os.kill(up.part("prefect worker"), signal.SIGKILL)
    for product, _ in runs:
        os.kill(up.halted(product.name) or 0, signal.SIGKILL)
    took = []
    for product, run in runs:
        until(
            f"{product.name} is published",
            lambda r=run: state(client, r) == "Completed",
            seconds,
            lambda r=run: history(client, r),
        )
        (_folder,) = product.published()
        (charge,) = product.charges()
        assert charge.state == "published"
        times = {each.name: each.timestamp for each in client.read_flow_run_states(run)}
        took.append((times["Running"] - times["Crashed"]).total_seconds())
    with Ledger.connect(up.home.ledger_url) as books:
        books.verify()
    assert not [path for path in up.home.workspaces.iterdir() if not path.name.startswith(".new-")]
    return took
