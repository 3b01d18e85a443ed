"""Nothing confidential leaves the secure workspace, whatever happens."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.flows.release.leak_driver import COUNT, INVALID, NAME
from tests.sizes import full

ROOT = Path(__file__).parents[3]
# One worker for the whole file: what its tests look at is made once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("leaks")]
EXPECTED = {
    "success": "published",
    "rule stops": "RunRefused",
    "invalid values": "RunRefused",
    "not UTF-8": "RunRefused",
    "mechanism raises after it drew": "MechanismFailed",
    "engine raises": "InternalError",
    "disk full": "PlaceClosed",
}
if full():
    EXPECTED |= {
        "warned": "published",
        "no budget": "BudgetExhausted",
        "column of another type": "RunRefused",
        "ragged row": "RunRefused",
        "truncated gzip": "RunRefused",
    }


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the runs left behind: homes, Prefect's database, temporary files, output."""
    return left_behind(tmp_path_factory.mktemp("leaks"))


def left_behind(root: Path, driver: str = "leak_driver", *arguments: str) -> Path:
    """Do the runs of a driver in ``root``."""
    (root / "tmp").mkdir()
    (root / "user").mkdir()
    environment = {
        **os.environ,
        "HOME": str(root / "user"),
        "PREFECT_HOME": str(root / "user" / "prefect"),
        "TMPDIR": str(root / "tmp"),
        "PYTHONPATH": str(ROOT),
        "PREFECT_LOGGING_LEVEL": "DEBUG",  # say everything there is to say
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    }
    with (root / "output.txt").open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", f"tests.flows.release.{driver}", str(root), *arguments],
            cwd=root,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, (root / "output.txt").read_text()[-3000:]
    return root


def traces(data: bytes) -> list[str]:
    """The sentinels found in some bytes."""
    found = [s for s in (NAME, INVALID) if s.encode() in data]
    if re.search(rb"(?<![0-9A-Za-z.])%d(?![0-9A-Za-z])" % COUNT, data):
        found.append("the count as text")
    if struct.pack("<q", COUNT) in data:
        found.append("the count as an integer")
    return found


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    assert traces(f"x{NAME}".encode()) == [NAME]
    assert traces(f"count={COUNT},".encode()) == ["the count as text"]
    assert traces(b"\0" + struct.pack("<q", COUNT)) == ["the count as an integer"]
    assert not traces(f"{COUNT}7 a{COUNT}f".encode())


@pytest.mark.parametrize("scenario", EXPECTED)
def test_each_run_ended_as_meant(aftermath: Path, scenario: str) -> None:
    lines = (aftermath / "output.txt").read_text().splitlines()
    assert any(line.startswith(f"{scenario}: {EXPECTED[scenario]}") for line in lines), [
        line for line in lines if line.startswith(f"{scenario}:")
    ]


def searched(root: Path) -> dict[str, list[str]]:
    """Return the files that hold a sentinel, and which; tracebacks in homes are meant to."""
    found = {}
    looked_at = 0
    for path in root.rglob("*"):
        if not path.is_file() or root / "input" in path.parents or path.parent.name == "tracebacks":
            continue
        looked_at += 1
        data = pd.read_parquet(path).to_csv().encode() if path.suffix == ".parquet" else path.read_bytes()
        if hits := traces(data):
            found[str(path.relative_to(root))] = hits
    assert looked_at > 20
    return found


def test_no_sentinel_is_found_anywhere(aftermath: Path, tmp_path: Path) -> None:
    """A noisy number may happen to be the count, in one run of five hundred; what leaks does so every time."""
    found = searched(aftermath)
    for attempt in range(2):
        if any(hit in {NAME, INVALID} for hits in found.values() for hit in hits):
            break
        if found:
            again = tmp_path / str(attempt)
            again.mkdir()
            found = searched(left_behind(again))
    assert not found


def test_prefect_kept_a_record_of_the_runs(aftermath: Path) -> None:
    """Otherwise the search above would have searched nothing."""
    stored = b"".join(path.read_bytes() for path in (aftermath / "user" / "prefect").glob("prefect.db*"))
    assert b"read the input" in stored
    assert b"its text is withheld" in stored


def test_a_traceback_stands_in_a_closed_file_of_the_home_and_prefect_has_its_name_alone(
    aftermath: Path,
) -> None:
    stored = b"".join(path.read_bytes() for path in (aftermath / "user" / "prefect").glob("prefect.db*"))
    (file,) = (aftermath / "engine" / "tracebacks").iterdir()
    assert "in says_too_much" in file.read_text() and str(file).encode() in stored
    assert [each.stat().st_mode & 0o777 for each in (file, file.parent)] == [0o600, 0o700]
    assert not [word for word in (b"says_too_much", b"leak_driver", b"ValueError at") if word in stored]
    (drawing,) = (aftermath / "mechanism" / "tracebacks").iterdir()
    assert "in after_drawing" in drawing.read_text()


REFUSED = {
    "rule": "row_count (too many)",
    "invalid": "max_rejected (sex: not in the code list)",
    "bytes": "people.csv: the text is not UTF-8, first in line 43179",
}
if full():
    REFUSED |= {
        "type": "max_rejected (age: not a whole number)",
        "ragged": "people.csv, line 43179: more values than the header",
        "gzip": "people.csv.gz: the gzip file is damaged or cut off",
    }


@pytest.mark.parametrize("name", REFUSED)
def test_why_data_were_refused_stands_at_home(aftermath: Path, name: str) -> None:
    (file,) = (aftermath / name / "diagnoses").iterdir()
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert REFUSED[name] in json.loads(file.read_text())["message"]


def test_why_data_were_refused_stands_nowhere_else(aftermath: Path) -> None:
    """Not in Prefect's database, in its logs, or in what the runs printed: only that they were, and which."""
    kinds = {each.encode() for each in ("too many", "not in the code list", "not a whole number")}
    kinds |= {b"max_rejected (", b"not UTF-8", b"more values than", b"damaged or cut off"}
    told = aftermath / "output.txt"
    for path in [told, *(aftermath / "user").rglob("*"), *(aftermath / "tmp").rglob("*")]:
        if path.is_file():
            data = path.read_bytes()
            assert not [kind for kind in kinds if kind in data.replace(b"not UTF-8: Run", b"")], path
            # By itself: among the digits of ids and times any five stand by chance.
            assert not re.search(rb"(?<!\w)43179(?!\w)", data), path
    runs = {file.stem for name in REFUSED for file in (aftermath / name / "diagnoses").iterdir()}
    stored = b"".join(path.read_bytes() for path in (aftermath / "user" / "prefect").glob("prefect.db*"))
    assert len(runs) == len(REFUSED)
    for run in runs:
        words = f"refused: data rules; ask where it ran: tabularium diagnose {run}"
        assert words in told.read_text() and words.encode() in stored


def test_the_workspaces_are_gone(aftermath: Path) -> None:
    homes = [path.parent for path in aftermath.glob("*/workspaces")]
    assert len(homes) == len(EXPECTED)
    assert not [left for home in homes for left in (home / "workspaces").iterdir()]
    assert all(home.stat().st_mode & 0o077 == 0 for home in homes)
