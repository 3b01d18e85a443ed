"""A rehearsal opens nothing that is confidential, spends nothing, and is taken for no release."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tabularium as tb
from tabularium.flows.cli.app import app
from tabularium.flows.rehearsing import rehearse as rehearsing
from tabularium.mechanisms.errors import InputError, InternalError, PublicationError, TabulariumError
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate
from tabularium.validations.public_files import Unreadable
from tests.flows.rehearsing.test_made_up_records import SPEC
from tests.flows.release.scene import AREAS, publish, write_scene

STAMP = "REHEARSAL of made-up records"
PRIOR = f"prior: {'ab' * 16}, "
FIXED = "[{rule: row_count, min: 600, max: 600}, {rule: nulls, column: age, at_most: 0%}]"
NOISY = '[{rule: row_count, min: 1, noisy: {share: "1/10"}}, {rule: nulls, column: sex, at_most: 0%}]'


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tb.Release:
    """A rehearsal of a spec of which nothing lies on this machine but its code list."""
    folder = tmp_path_factory.mktemp("rehearsed")
    (folder / "areas.csv").write_text(AREAS)
    text = SPEC.replace("by_age, ", f"by_age, mechanism: identity, {PRIOR}")
    (folder / "clinic.yaml").write_text(
        text + "publication: {folder: /nowhere, review: officer, formats: [csv, parquet, xlsx]}\n"
        f"about: {{title: {'t' * 980}}}\n"
    )
    nowhere = str(folder / "no-home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TABULARIUM_HOME", "TABULARIUM_LEDGER", "TABULARIUM_WITNESS"):
            patch.setenv(name, f"sqlite:///{nowhere}" if name.endswith("LEDGER") else nowhere)
        patch.setenv("TABULARIUM_SECRET_COMMAND", "false")
        found = tb.rehearse(folder / "clinic.yaml", rows=3_000)
    assert sorted(each.name for each in folder.iterdir()) == ["areas.csv", "clinic.yaml", "rehearsal"]
    return found


def test_source_look_up_prior_and_home_are_not_opened(rehearsed: tb.Release) -> None:
    """None of them is there, and the home's ledger and secret would fail."""
    assert rehearsed.is_rehearsal
    counts = rehearsed["by_area"].to_pandas(level="nation")["count"]
    assert abs(counts.sum() - 3_000) < 200
    means = rehearsed["by_area"].to_pandas(level="nation")["pay"]
    assert means.between(200, 300).all()  # of 0 to 500, evenly
    assert rehearsed.query("count").value == pytest.approx(3_000, abs=200)


def test_everything_says_that_it_is_a_rehearsal(rehearsed: tb.Release, tmp_path: Path) -> None:
    folder = rehearsed.folder
    assert not (folder / CERTIFICATE).exists()
    told = json.loads((folder / REHEARSAL).read_text())
    assert told["rehearsal"]["records"] == 3_000
    assert told["rehearsal"]["why"] == "given as rows"
    assert "no budget was spent" in told["rehearsal"]["says"]
    assert f"{STAMP}: ttt" in (folder / "report.html").read_text()
    rehearsed.report(tmp_path / "again.html")
    assert "<p>REHEARSAL of 3,000 made-up records" in (tmp_path / "again.html").read_text()
    assert "REHEARSAL of 3,000 made-up records" in repr(rehearsed)
    assert "REHEARSAL" in repr(rehearsed["by_area"])
    for name in ("by_area", "by_age", "wards"):
        assert STAMP in (folder / f"{name}.csv-metadata.json").read_text()
        assert STAMP.encode() in pq.read_schema(folder / f"{name}.parquet").metadata[b"title"]


@pytest.mark.parametrize(
    "use",
    [
        lambda place, spec: tb.verify(place),
        lambda place, spec: tb.series(place.parent.parent),
        lambda place, spec: tb.plan(spec, budget="1", like=place),
        lambda place, spec: tb.check(spec, like=place),
        lambda place, spec: tb.diff(place, place),
    ],
    ids=["verify", "series", "plan", "check", "diff"],
)
def test_it_is_taken_for_no_release(
    rehearsed: tb.Release, tmp_path: Path, use: Callable[[Path, Path], object]
) -> None:
    place = tmp_path / "releases" / "clinic" / "2026" / rehearsed.id
    place.parent.mkdir(parents=True)
    place.symlink_to(rehearsed.folder)
    spec = rehearsed.folder.parent / "clinic.yaml"
    spec.write_text(spec.read_text().replace(PRIOR, ""))
    with pytest.raises(TabulariumError, match=r"rehearsal|certificate.json is missing|no current release"):
        use(place, spec)


def test_answers_say_it_and_ask_nobody_to_quote_them(
    rehearsed: tb.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabularium._answer.advice", lambda answer: "Quote it.")
    answer = rehearsed.query("count")
    assert answer.advice == ""
    assert repr(answer).startswith("REHEARSAL")
    command = ["query", str(rehearsed.folder)]
    told = [CliRunner().invoke(app, [*command, *more, "--json"]).stdout for more in ((), ("count",))]
    assert [json.loads(each)["release"]["rehearsal"] for each in told] == [True, True]
    for more in ((), ("count",)):
        text = CliRunner().invoke(app, [*command, *more]).stdout
        assert "REHEARSAL of made-up records" in text
        assert "as the certificate says" not in text
        assert "Quote" not in text


@pytest.mark.parametrize("rules", [FIXED, NOISY], ids=["exact", "noisy"])
def test_what_is_outside_the_guarantee_is_what_a_release_says(tmp_path: Path, rules: str) -> None:
    """And what the guarantee compares then, and what it says of the rules."""
    spec, home = write_scene(tmp_path, rules=rules, max_rejected="5", definition="zcdp")
    release = tb.open(publish(spec, home).folder).certificate.document()
    sample = tb.rehearse(spec, rows=200).certificate.document()
    for section in ("outside_the_guarantee", "privacy", "validation"):
        assert sample[section] == release[section]


def test_a_site_shows_none(rehearsed: tb.Release, tmp_path: Path) -> None:
    place = tmp_path / "releases" / "clinic" / "2026" / rehearsed.id
    place.parent.mkdir(parents=True)
    place.symlink_to(rehearsed.folder)
    done = CliRunner().invoke(app, ["site", str(tmp_path / "releases"), "--out", str(tmp_path / "site")])
    assert done.exit_code == 1
    assert not (tmp_path / "site").exists()


def test_as_a_certificate_it_is_refused(rehearsed: tb.Release) -> None:
    with pytest.raises(Unreadable, match="rehearsal"):
        Certificate.read((rehearsed.folder / REHEARSAL).read_bytes())


def test_an_altered_rehearsal_is_refused(rehearsed: tb.Release, tmp_path: Path) -> None:
    for path in rehearsed.folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(PublicationError, match="is missing or altered"):
        tb.open(tmp_path)


def test_one_that_is_there_is_replaced_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    release = tb.open(publish(spec, home).folder)
    before = {path: path.stat().st_mtime_ns for path in home.path.rglob("*")}
    done = CliRunner().invoke(app, ["rehearse", str(spec), "--like", str(release.folder), "--json"])
    assert done.exit_code == 0, done.output
    folder = Path(json.loads(done.stdout)["folder"])
    told = json.loads((folder / REHEARSAL).read_text())["rehearsal"]
    assert told["like"] == release.id
    assert told["records"] == max(each.total for each in release.certificate.tables.values())
    assert "the release that they are like counts" in told["why"]
    spec.write_text(spec.read_text().replace("rules:", "size: 80\nrules:"))
    monkeypatch.setattr(rehearsing, "_MOST_CHOSEN", 20)
    sample = tb.rehearse(spec, folder=folder)
    assert json.loads((folder / REHEARSAL).read_text())["rehearsal"]["records"] == 20
    for text in (repr(sample), (folder / "report.html").read_text()):
        assert "the spec expects 80, and a rehearsal makes at most 20" in text
    assert {path: path.stat().st_mtime_ns for path in home.path.rglob("*")} == before
    with pytest.raises(InputError, match="something else lies here"):
        tb.rehearse(spec, rows=10, folder=spec.parent)


def test_what_is_wrong_with_a_spec_is_said_of_its_own_lines(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("budget:", "epsilon:"))
    with pytest.raises(tb.SpecError) as caught:
        tb.rehearse(spec)
    assert {each.line for each in caught.value.problems if each.field.startswith("privacy")} == {5}


@pytest.mark.parametrize("name", ["notes.txt", "inner/notes.txt", CERTIFICATE])
def test_a_folder_that_holds_more_than_a_rehearsal_is_left_alone(
    rehearsed: tb.Release, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "rehearsal"
    shutil.copytree(rehearsed.folder, folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    with pytest.raises(InputError, match=r"notes.txt|something else lies here"):
        tb.rehearse(rehearsed.folder.parent / "clinic.yaml", rows=10, folder=folder)
    assert (folder / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rows": 0}, "rows: the number is out of range; give at least 1 and at most"),
        ({"rows": 99_999_999_999_999}, "rows: the number is out of range"),
        ({"seed": -1}, "seed: the number is out of range; give at least 0$"),
        ({"folder": "/proc/x/y"}, "/proc/x/y: no release can be written here"),
    ],
)
def test_what_cannot_be_made_is_refused_before_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], said: str
) -> None:
    spec, _ = write_scene(tmp_path)
    monkeypatch.setattr(rehearsing, "MadeUpRecords", None)
    with pytest.raises(InputError, match=said):
        tb.rehearse(spec, **asked)


LOOK_UP = """\
product: visits
dataset: visits
period: "2026"
source: {path: nowhere.csv}
lookups: {homes: {path: homes.csv, public: a list, key: code, from: home}}
privacy: {unit: record, budget: "1"}
columns: {kind: {from: homes.kind, categories: [a, b]}}
tables: [{name: kinds, dimensions: [kind]}]
"""


def test_keys_of_a_public_look_up_are_looked_up(tmp_path: Path) -> None:
    spec, homes = tmp_path / "visits.yaml", tmp_path / "homes.csv"
    spec.write_text(LOOK_UP)
    homes.write_text("key,kind\n01,a\n02,a\n")
    with pytest.raises(InputError, match=r"homes.csv: the header lacks the column 'code'"):
        tb.rehearse(spec)
    homes.write_text("code,kind\n01,a\n02,a\n")
    counts = tb.rehearse(spec, rows=2_000)["kinds"].to_pandas().set_index("kind")["count"]
    assert counts["a"] > 1_900


CHILD = """\
import os, sys
if sys.orig_argv[-1].endswith("home"):
    from tabularium.tasks.validate import validate
    def fail(run, source):
        {fails}
    validate.function = fail
"""


@pytest.mark.parametrize(
    ("fails", "said", "shown"),
    [
        ("raise ValueError('a bug')", "validate microdata: an unexpected error", "ValueError: a bug"),
        ("os._exit(3)", "ended with exit code 3 and no result", ""),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL; if memory ran out, give fewer --rows", ""),
    ],
    ids=["bug", "exit", "killed"],
)
def test_how_the_child_process_failed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, said: str, shown: str
) -> None:
    spec, _ = write_scene(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(CHILD.format(fails=fails))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(InternalError, match=said) as caught:
        tb.rehearse(spec, rows=100)
    assert shown in getattr(caught.value, "traceback", "")


def test_limits_of_memory_hold_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_ENGINE_MEMORY", "plenty")
    with pytest.raises(InputError, match="TABULARIUM_ENGINE_MEMORY: the engine does not start"):
        tb.rehearse(write_scene(tmp_path)[0], rows=100)


def test_problems_of_the_rehearsed_spec_name_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(loaded: object, target: Path, **_: object) -> None:
        target.write_text("product: x\n")

    monkeypatch.setattr(rehearsing, "write_rehearsed", broken)
    with pytest.raises(tb.SpecError) as caught:
        tb.rehearse(write_scene(tmp_path)[0], rows=100)
    assert {(each.file, each.line) for each in caught.value.problems} == {("small.yaml", None)}
