"""``tabularium diagnose``: why data were refused is shown at home, without a value or a count."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import DataRefused, Finding, RunRefused
from tabularium.tasks.runtime import diagnoses
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import write_scene

ABOUT = {"spec": "/s.yaml", "product": "p", "period": "2026"}


def tabularium(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path / "home")


def test_a_refused_run_says_why_and_how_to_see_it_again(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, extra=[("A1", "", "7"), ("A1", "x", "1"), ("A1", "100", "1")])
    done = tabularium("run", str(spec), "--home", str(home.path))
    assert done.exit_code == 1
    why = "max_rejected (age: null, not a whole number, out of range; sex: not in the code list)"
    assert f"error: source: the microdata break {why}" in done.stderr
    *_, again = done.stderr.splitlines()
    assert again.startswith("see it again: tabularium diagnose ")
    words = shlex.split(again.removeprefix("see it again: tabularium"))

    shown = tabularium(*words)
    assert shown.exit_code == 0
    assert all(text in shown.stdout for text in ("small, 2026", "out of range", "not in the code list"))
    assert "603" not in shown.stdout, "no count"
    (run,) = json.loads(tabularium("diagnose", "--home", str(home.path), "--json").stdout)
    assert json.loads(tabularium(*words, "--json").stdout) == run
    assert (run["run"], run["stage"], run["product"]) == (words[1], "validate microdata", "small")
    assert [(each["column"], each["kind"]) for each in run["findings"]] == [
        ("age", "null"),
        ("age", "not a whole number"),
        ("age", "out of range"),
        ("sex", "not in the code list"),
    ]


def test_without_a_run_the_last_one_is_shown_and_earlier_ones_named(home: Home) -> None:
    for run in ("20260101T000000-aa", "20260102T000000-bb"):
        diagnoses.record(home, run, ABOUT, "ingest", DataRefused(f"why {run}", findings=[Finding(line=3)]))
    shown = tabularium("diagnose", "--home", str(home.path)).stdout
    assert "why 20260102T000000-bb" in shown
    assert "Earlier: 20260101T000000-aa" in shown


def test_a_run_that_was_not_refused_is_one_line(home: Home) -> None:
    assert tabularium("diagnose", "--home", str(home.path)).exit_code == 0
    for name in ("20260101T000000-aa", "../secret", "*"):
        done = tabularium("diagnose", name, "--home", str(home.path))
        assert done.exit_code == 1
        assert "no data of this run were refused" in done.stderr


def test_a_diagnosis_is_closed_and_written_once(home: Home) -> None:
    first = DataRefused("one")
    diagnoses.record(home, "r", ABOUT, "ingest", first)
    diagnoses.record(home, "r", ABOUT, "run", first)
    assert diagnoses.find(home, "r").stage == "ingest"
    (file,) = home.diagnoses.iterdir()
    assert (file.stat().st_mode & 0o777, home.diagnoses.stat().st_mode & 0o777) == (0o600, 0o700)


def test_only_the_newest_are_kept(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnoses, "KEPT", 3)
    for day in "52341":
        diagnoses.record(home, f"2026010{day}", ABOUT, "ingest", DataRefused("why"))
    assert diagnoses.names(home) == ["20260103", "20260104", "20260105"]


def test_where_nothing_can_be_written_the_refusal_is_told_all_the_same(home: Home) -> None:
    home.diagnoses.write_text("in the way")
    error = DataRefused("why", findings=[Finding(column="age")])
    diagnoses.record(home, "r", ABOUT, "ingest", error)
    assert (error.run, error.again) == ("", "")
    public = error.in_public()
    assert type(public) is RunRefused
    assert public.line() == "refused: data rules; run it at a terminal"
    assert diagnoses.for_local_terminal(home, public) is error, (
        "the terminal of this very process is told why"
    )
