"""``tabularium demo``: told to its end by a real installation, and the second time without one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tabularium.lab.demo import deliver, drop_lies_in
from tabularium.ledger import Ledger
from tabularium.tasks.arrival.manifest import read_manifest
from tests.flows.operations.installations import CLI, plant_modules

pytestmark = pytest.mark.xdist_group("demo")


def demo(folder: Path) -> str:
    done = subprocess.run(
        [*CLI, "demo", "--rows", "3000"],
        cwd=folder,
        # Whatever another shell set is not the demo's: neither ledger nor server.
        env={**os.environ, "COLUMNS": "300", "TABULARIUM_LEDGER": "sqlite:////nowhere/books.db",
             "PREFECT_API_URL": "http://127.0.0.1:9/api", "HOME": str(folder)},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_delivery_is_made_once_and_its_manifest_fits(tmp_path: Path) -> None:
    data = tmp_path / "people.parquet"
    data.write_bytes(b"people")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    deliver(data, inbox, "people", "2025")
    drop = drop_lies_in(inbox)
    manifest = read_manifest((drop / "drop.json").read_bytes())
    assert (manifest.product, manifest.period, [file.name for file in manifest.files]) == (
        "people", "2025", ["people.parquet"]
    )  # fmt: skip
    assert {path.name for path in drop.iterdir()} == {"drop.json", "people.parquet"}
    (inbox / "done").mkdir()
    drop.rename(inbox / "done" / drop.name)
    deliver(data, inbox, "people", "2025")
    assert [path.name for path in inbox.iterdir()] == ["done"]


@pytest.mark.slow
@pytest.mark.audit
def test_the_story_is_told_to_its_end_and_costs_once(tmp_path: Path) -> None:
    plant_modules(tmp_path)
    first = demo(tmp_path)
    commands = [line.split()[2] for line in first.splitlines() if line.startswith("$ tabularium")]
    assert commands == ["sample", "ledger", "ledger", "ledger", "up", "deploy", "ledger", "run", "ledger"]
    assert "Suspended after" in first
    assert "1 waiting run goes on" in first
    assert "Completed after" in first
    folder = tmp_path / "demo"
    assert (folder / "inbox" / "done" / "delivery-1" / "drop.json").exists()
    assert not (folder / "home" / "server" / "address.json").exists(), "the installation was stopped"

    second = demo(tmp_path)
    assert "already published" in second
    assert "$ tabularium up " not in second
    with Ledger.connect(f"sqlite:///{folder / 'home' / 'ledger.db'}") as books:
        (charge,) = books.charges("people")
    assert charge.state == "published"
    (certificate,) = (folder / "releases").rglob("certificate.json")
    assert json.loads(certificate.read_text())
    assert (folder / "age-pyramid.svg").read_text().startswith("<?xml")
    made = {path.name for path in tmp_path.iterdir() if path.suffix != ".py"} - {
        ".cache",
        ".config",
    }  # of libraries, fonts and such
    assert made == {"demo"}, "neither a home nor Prefect's was made elsewhere"
