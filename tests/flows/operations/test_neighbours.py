"""What another user of the machine can see and do: the rows of the page, tried as another user."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.flows.operations.installations import CLI, halting, plant_modules
from tests.flows.release.scene import write_scene

PAGE = DOCS / "explanation" / "other-users.md"
NOBODY = 65534
pytestmark = [
    pytest.mark.xdist_group("other users"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

# What a curious neighbour tries, in words of the shell: everything that may be read of what is named.
READ = 'find "$@" -type f -readable 2>/dev/null; true'
LIST = 'find "$@" 2>/dev/null; true'
WRITE = 'for each; do touch "$each/planted" 2>/dev/null && echo "$each"; done; true'


def as_another(words: str, *places: Path | str) -> list[str]:
    """The lines that a shell of another user prints."""
    done = subprocess.run(
        ["/bin/sh", "-c", words, "sh", *places],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


@dataclass(frozen=True)
class Neighbourhood:
    """A run that halts while it holds true counts, in a folder that everybody may enter.

    Attributes
    ----------
    temporary
        The folder for temporary files, which everybody may write to.
    process
        Of ``tabularium run``.
    """

    folder: Path
    home: Path
    temporary: Path
    process: int


@pytest.fixture(scope="module")
def running() -> Iterator[Neighbourhood]:
    """``tabularium run``, which has counted and is about to measure."""
    folder = Path(tempfile.mkdtemp(prefix="tabularium-neighbours-"))
    folder.chmod(0o755)
    spec, home = write_scene(folder)
    temporary, halts = folder / "tmp", folder / "halts"
    temporary.mkdir()
    temporary.chmod(0o1777)
    halts.mkdir()
    (halts / "small").write_text("measure")
    plant_modules(temporary)
    with (folder / "run.out").open("w") as out:
        process = subprocess.Popen(
            [*CLI, "run", spec, "--home", home.path],
            env={
                **os.environ,
                **halting(halts),
                "TMPDIR": str(temporary),
                "TABULARIUM_KEY_PASSPHRASE": "hidden words",
            },
            cwd=temporary,
            stdout=out,
            stderr=out,
            umask=0o022,
        )
    halted = halts / "small.halted"
    try:
        end = time.monotonic() + 120
        while not halted.exists():
            assert process.poll() is None, (folder / "run.out").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield Neighbourhood(folder, home.path, temporary, process.pid)
        halted.unlink()
        assert process.wait(120) == 0, (folder / "run.out").read_text()
        published_is_for_everybody(folder / "releases", home.path)
        assert not [line for line in as_another(READ, temporary) if not line.endswith(".py")]
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def published_is_for_everybody(releases: Path, home: Path) -> None:
    certificate = next(releases.rglob("certificate.json"))
    files = {str(path) for path in certificate.parent.rglob("*") if path.is_file()}
    assert set(as_another(READ, certificate.parent)) == files
    assert not as_another(WRITE, *sorted({str(Path(each).parent) for each in files}))
    assert not as_another(LIST, *releases.rglob(".heads/*"))
    assert json.loads("\n".join(as_another('cat "$1"', certificate)))["product"] == "small"
    assert len(as_another(LIST, home)) == 1


def test_the_home_is_closed(running: Neighbourhood) -> None:
    assert as_another(LIST, running.home) == [str(running.home)], "it is there, and that is all"
    assert not as_another(WRITE, running.home)
    assert sum(1 for path in running.home.rglob("*") if path.is_file()) > 5


def test_a_home_that_others_may_enter_still_has_closed_rooms(running: Neighbourhood) -> None:
    running.home.chmod(0o755)
    try:
        assert not as_another(READ, running.home)
    finally:
        running.home.chmod(0o700)


def test_temporary_files_lie_in_the_workspace(running: Neighbourhood) -> None:
    assert {Path(line).suffix for line in as_another(READ, running.temporary)} == {".py"}  # the planted ones


def test_the_words_of_a_command_are_seen(running: Neighbourhood) -> None:
    (words,) = as_another('tr "\\0" " " < "/proc/$1/cmdline"; echo', str(running.process))
    assert words.split()[2:] == ["run", str(running.folder / "small.yaml"), "--home", str(running.home)]


def test_the_environment_and_the_memory_are_closed(running: Neighbourhood) -> None:
    for what in ("environ", "mem", "maps", "fd/1"):
        assert not as_another('cat "/proc/$1/$2" 2>/dev/null; true', str(running.process), what), what


def test_time_and_memory_of_a_run_are_seen(running: Neighbourhood) -> None:
    (resident,) = as_another('grep VmRSS "/proc/$1/status"', str(running.process))
    assert int(resident.split()[1]) > 0


@pytest.mark.parametrize(
    ("name", "text", "owner", "mode", "refused"),
    [
        ("prefect.toml", '[logging]\nconfig_path = "/tmp/theirs.yml"\n', NOBODY, 0o644, True),
        (".env", "PREFECT_LOGGING_SETTINGS_PATH=/tmp/theirs.yml\n", NOBODY, 0o644, True),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://127.0.0.1:9"\n', 0, 0o646, True),
        ("prefect.toml", '[api]\nurl = "http://127.0.0.1:9/api"\n', 0, 0o644, False),
        (".env", "SOMETHING=else\n", NOBODY, 0o644, False),
    ],
)
def test_settings_of_prefect_that_others_wrote_are_refused(
    name: str, text: str, owner: int, mode: int, refused: bool, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text)
    file.chmod(mode)
    os.chown(file, owner, -1)
    done = subprocess.run(
        [*CLI, "run", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == refused, done.stderr
    assert ("others can write this file, from which Prefect would take settings" in done.stderr) == refused


#: The rows of the page -> what tries it: a name of this module, or a test of another one.
ROWS = {
    "read or list the home": "test_the_home_is_closed",
    "read temporary files of a run": "test_temporary_files_lie_in_the_workspace",
    "read what is published": "published_is_for_everybody",
    "read a draft that waits for review": "test_reviewed.test_a_group_of_officers_reads_a_draft",
    "read the words of a command": "test_the_words_of_a_command_are_seen",
    "read the environment or the memory of a process": "test_the_environment_and_the_memory_are_closed",
    "watch how long a run takes and how much memory it uses": "test_time_and_memory_of_a_run_are_seen",
    "plant a Python file where a command is started": "running",
    "plant settings of Prefect where a command is started": (
        "test_settings_of_prefect_that_others_wrote_are_refused"
    ),
    "use the server of `tabularium up`": (
        "test_up.test_the_server_lets_in_whoever_knows_the_password_of_the_home"
    ),
    "use the server that `tabularium run --prefect` starts": (
        "test_other_users.test_another_user_neither_signs_in_nor_listens_in_the_place_of_the_server"
    ),
    "take the port of a server": "test_other_users.test_nobody_takes_the_port_of_a_server_that_died",
    "have a run load a result of theirs": (
        "test_prefect_limits.test_a_pending_run_whose_state_is_forged_at_the_server"
    ),
    "use a server that Prefect starts by itself": (
        "test_prefect_limits.test_a_flow_that_is_called_without_an_api_starts_no_server"
    ),
}


def test_every_row_of_the_page_has_a_test() -> None:
    told = PAGE.read_text().partition("What listens")[0]
    rows = re.findall(r"^\| ([^|]+) \|", told, re.MULTILINE)
    assert [row for row in rows if row != "another user tries to"] == list(ROWS)
    for name in ROWS.values():
        module, _, test = name.rpartition(".")
        (source,) = Path(__file__).parents[1].rglob(f"{module or Path(__file__).stem}.py")
        assert f"def {test}(" in source.read_text(), name
