"""The command as a user types it: a real process, a real Prefect engine, exit codes and one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tabularium.flows.cli.app import COMMANDS, app, imported
from tabularium.ledger import Ledger
from tests.flows.release.scene import write_scene
from tests.plain_suites import BY_THE_LIBRARY

ROOT = Path(__file__).parents[3]
# One worker: Prefect makes its database once.
engine = pytest.mark.xdist_group("engine")


def tabularium(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tabularium.flows.cli.app", *words],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.slow
@engine
def test_run_twice_and_show(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    first = tabularium("run", str(spec), "--home", str(home.path), "--json", **BY_THE_LIBRARY)
    assert first.returncode == 0, first.stderr
    outcome = json.loads(first.stdout)
    assert outcome["status"] == "published"
    assert {"ingest", "count", "measure", "publish", "close the charge"} <= outcome["stages"].keys()
    assert outcome["engine"] == "process"
    assert (Path(outcome["folder"]) / "certificate.json").exists()

    second = tabularium("run", str(spec), "--home", str(home.path))
    assert second.returncode == 0, second.stderr
    assert "already published" in second.stdout

    shown = tabularium("ledger", "show", "--home", str(home.path), "--json")
    (account,) = json.loads(shown.stdout)
    assert (account["spent"], account["used"], account["left"], len(account["charges"])) == ("1", "1", "9", 1)


@pytest.mark.slow
@engine
def test_an_error_in_a_stage_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    (tmp_path / "people.csv").unlink()
    done = tabularium("run", str(spec), "--home", str(home.path))
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if not line.startswith("  ")]  # stages and notes
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert "people.csv" in errors[0]
    with Ledger.connect(home.ledger_url) as books:
        assert not books.charges("people")


def test_check_says_every_mistake_with_its_line(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(
        spec.read_text().replace('budget: "1"', "budget: 0.5").replace('share: "1/3"', 'share: "1/4"')
    )
    done = tabularium("check", str(spec))
    assert done.returncode == 1
    assert "small.yaml:5: privacy.budget" in done.stderr
    assert "small.yaml:12" in done.stderr or "tables" in done.stderr
    assert done.stderr.rstrip().endswith("2 problems")


def test_amounts_on_the_command_line_are_exact(tmp_path: Path) -> None:
    done = tabularium("ledger", "open", "x", "--cap", "a lot", "--home", str(tmp_path / "h"))
    assert done.returncode == 1
    assert (
        done.stderr.strip()
        == 'error: --cap: is not a plain positive number; write it like "1", "0.1" or "1/3"'
    )


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["check"],
        ["sample"],
        ["improve"],
        ["compare"],
        ["query"],
        ["demo"],
        ["ledger"],
        *[["ledger", c] for c in ("open", "show", "verify", "void", "abandon")],
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(words: list[str]) -> None:
    from typer.testing import CliRunner

    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert words == ["ledger"] or "Example:" in shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_command_says(name: str) -> None:
    assert COMMANDS[name][1] == imported(name).help.split("\n\n")[0]


def test_the_version_is_that_of_the_distribution() -> None:
    shown = tabularium("--version")
    assert (shown.returncode, shown.stdout) == (0, f"tabularium {version('tabularium-dp')}\n")


def test_the_list_of_commands_imports_nothing_heavy() -> None:
    """It is shown within half a second only because of that."""
    heavy = [
        "numpy",
        "scipy",
        "pandas",
        "pyarrow",
        "sqlalchemy",
        "pydantic",
        "cryptography",
        "prefect",
        "great_expectations",
    ]
    code = (
        "import sys; from typer.testing import CliRunner; from tabularium.flows.cli.app import app; "
        f"print(CliRunner().invoke(app, ['--help']).exit_code, [m for m in {heavy!r} if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.stdout == "0 []\n", shown.stderr
