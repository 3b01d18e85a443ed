"""The units: systemd can read them, runs what is there, and finds them well closed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


def verified(unit: Path, text: str, folder: Path) -> str:
    """What systemd says of a unit, where the programs that it starts are there."""
    program = folder / "bin" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copied = folder / unit.name.replace("@", "@1")
    copied.write_text(re.sub(r"/opt/tabularium/bin/[\w-]+", str(program), text))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", copied],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_has_nothing_to_say(unit: Path, tmp_path: Path) -> None:
    assert not verified(unit, unit.read_text(), tmp_path)


@needs_systemd
def test_systemd_would_say_so(tmp_path: Path) -> None:
    wrong = UNITS[0].read_text().replace("ProtectSystem=strict", "ProtectSystem=strictly\nProtectSytem=yes")
    said = verified(UNITS[0], wrong, tmp_path)
    assert "ProtectSytem" in said
    assert "Failed to parse" in said


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_calls_the_exposure_low(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_both_units_are_closed_alike() -> None:
    closing = [path.read_text().split("EnvironmentFile=")[1] for path in UNITS]
    assert len(closing) == 2
    assert closing[0] == closing[1]
