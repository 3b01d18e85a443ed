"""A rehearsal opens nothing that is confidential, spends nothing, and is taken for no release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tabularium as tb
from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import InputError, PublicationError, TabulariumError
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate
from tabularium.validations.public_files import Unreadable
from tests.flows.rehearsing.test_made_up_records import SPEC
from tests.flows.release.scene import AREAS, publish, write_scene

STAMP = "REHEARSAL of made-up records"


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tb.Release:
    """A rehearsal of a spec of which nothing lies on this machine but its code list."""
    folder = tmp_path_factory.mktemp("rehearsed")
    (folder / "areas.csv").write_text(AREAS)
    text = SPEC.replace("by_age, ", f"by_age, mechanism: identity, prior: {'ab' * 16}, ")
    (folder / "clinic.yaml").write_text(
        text + "publication: {folder: /nowhere, review: officer, formats: [csv, parquet, xlsx]}\n"
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


def test_everything_says_that_it_is_a_rehearsal(rehearsed: tb.Release) -> None:
    folder = rehearsed.folder
    assert not (folder / CERTIFICATE).exists()
    told = json.loads((folder / REHEARSAL).read_text())
    assert told["rehearsal"]["records"] == 3_000
    assert "no budget was spent" in told["rehearsal"]["says"]
    assert STAMP in (folder / "report.html").read_text()
    assert STAMP.split(maxsplit=1)[0] in repr(rehearsed)
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
    ],
    ids=["verify", "series", "plan"],
)
def test_it_is_taken_for_no_release(
    rehearsed: tb.Release, tmp_path: Path, use: Callable[[Path, Path], object]
) -> None:
    place = tmp_path / "releases" / "clinic" / "2026" / rehearsed.id
    place.parent.mkdir(parents=True)
    place.symlink_to(rehearsed.folder)
    with pytest.raises(TabulariumError):
        use(place, rehearsed.folder.parent / "clinic.yaml")


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


def test_one_that_is_there_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    release = tb.open(publish(spec, home).folder)
    before = {path: path.stat().st_mtime_ns for path in home.path.rglob("*")}
    done = CliRunner().invoke(app, ["rehearse", str(spec), "--like", str(release.folder), "--json"])
    assert done.exit_code == 0, done.output
    folder = Path(json.loads(done.stdout)["folder"])
    told = json.loads((folder / REHEARSAL).read_text())["rehearsal"]
    assert told["like"] == release.id
    assert told["records"] == max(each.total for each in release.certificate.tables.values())
    spec.write_text(spec.read_text().replace("rules:", "size: 20\nrules:"))
    tb.rehearse(spec, folder=folder)
    assert json.loads((folder / REHEARSAL).read_text())["rehearsal"]["records"] == 20
    assert {path: path.stat().st_mtime_ns for path in home.path.rglob("*")} == before
    with pytest.raises(InputError, match="something else lies here"):
        tb.rehearse(spec, rows=10, folder=spec.parent)


def test_what_is_wrong_with_a_spec_is_said_of_its_own_lines(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("budget:", "epsilon:"))
    with pytest.raises(tb.SpecError) as caught:
        tb.rehearse(spec)
    assert {each.line for each in caught.value.problems if each.field.startswith("privacy")} == {5}
