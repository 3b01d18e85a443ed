"""Drops in an object store become published releases with nobody typing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tabularium.tasks.arrival.inboxes import inbox_of, remove
from tests.flows.operations.installations import Up
from tests.flows.operations.products import deployed, history, published_once, runs_of, state, until
from tests.tasks.arrival.drops import FILES, manifest

POLL = 5.0  # seconds
pytestmark = [pytest.mark.audit, pytest.mark.slow, pytest.mark.xdist_group("operations")]


def test_a_drop_in_a_store_is_published_and_one_with_a_wrong_digest_is_not(
    on_postgresql: Up, store: Any, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up, place = on_postgresql, f"{bucket}/inbox"

    def put(name: str, **others: Any) -> float:
        about = json.dumps(manifest(product="from-store", **others)).encode()
        for each, content in {**FILES, "drop.json": about}.items():
            store.pipe_file(f"{place}/{name}/{each}", content)
        return time.time()

    def lies(path: str) -> bool:
        store.invalidate_cache()
        return bool(store.exists(f"{place}/{path}"))

    with up.client() as client:
        product = deployed(up, client, tmp_path, "from-store")
        (tmp_path / "people.csv").unlink()
        words = ["--on-arrival", f"s3://{place}", "--poll", str(POLL), "--periods", "202[56]"]
        up.run_cli("deploy", str(product.spec), *words)
        try:
            dropped = put("good")
            put("bad", digest="0" * 64, period="2025")
            until("the good one is done", lambda: lies("done/good/drop.json"), 150, lambda: runs(client))
            (only,) = runs_of(client, product.deployment)
            until("its run ends", lambda: state(client, only.id) == "Completed", 60, lambda: runs(client))
            until("the bad one is put away", lambda: lies("quarantine/bad/drop.json"), 60)
        finally:
            inbox = inbox_of(up.home, product.name)
            remove(up.home, product.name)
        (run,) = runs_of(client, product.deployment)
        assert inbox is not None and (inbox.poll, inbox.address) == (POLL, f"s3://{place}")
        assert run.state.is_completed() and "period:2026" in run.tags, history(client, run.id)
        published_once(product)
        assert store.cat_file(f"{place}/quarantine/bad.why.txt").decode().count("\n") == 1
        assert not lies("good") and not lies("bad")
        took = run.created.timestamp() - dropped
        with capsys.disabled():
            print(
                f"\nfrom a complete drop in a store to its scheduled run: {took:.1f} s, polled every {POLL:.0f} s"
            )
        assert took < POLL + 10


def runs(client: Any) -> list[Any]:
    return [run.state for run in client.read_flow_runs(limit=20)]
