"""A planted error: shown in full before any data were opened, in a closed file of the home afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.release.scene import write_scene

ROOT = Path(__file__).parents[3]
PLANT = """
import importlib, sys
module, name = sys.argv.pop(1).rsplit(".", 1)
def planted(*_, **__):
    raise RuntimeError("Zebedee, planted")
setattr(importlib.import_module(module), name, planted)
from tabularium.flows.cli.app import app
app()
"""


@pytest.mark.parametrize(
    ("command", "place", "shown"),
    [
        ("check", "tabularium.validations.release_spec.summary.check", True),
        ("check", "tabularium.tasks.dry_run.dry_run_priors", True),
        ("run", "tabularium.validations.release_spec.load.check_source", True),
        ("run", "tabularium.tasks.ingest.csv_text.compression", False),
        ("run", "tabularium.validations.suites.microdata.kept", False),
    ],
)
def test_a_planted_error(command: str, place: str, shown: bool, tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PLANT, place, command, str(spec)],
        env={"PYTHONPATH": str(ROOT), "TABULARIUM_HOME": str(home.path), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1 and not done.stdout
    assert ("Traceback (most recent call last)" in done.stderr) == shown
    assert ("Zebedee, planted" in done.stderr) == shown
    files = list(home.tracebacks.glob("*"))
    if shown:
        assert "unexpected RuntimeError at" in done.stderr and not files
        return
    (file,) = files
    assert "RuntimeError: Zebedee, planted" in file.read_text() and str(file) in done.stderr
    assert [each.stat().st_mode & 0o777 for each in (file, file.parent)] == [0o600, 0o700]
