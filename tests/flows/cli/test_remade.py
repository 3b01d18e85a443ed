"""A mend of post-processing: a revision from stored measurements, without data and without cost."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.ledger.keys import read_private
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.custody.home_health import health_checks
from tabularium.tasks.remake import require_same_cells
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import SPEC, let_sign, publish, write_scene
from tests.tasks.report.reported import lines

REASON = "sums of rounded cells"
TABLE = '  - {{name: by_sex, dimensions: [sex], share: "1/6"MEASURES\n'


def run(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


class Scene:
    """A release that was published, its home, and an officer's key."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        self.folder = folder
        self.spec, self.home = write_scene(folder, rows=60, **spec)
        self.key = folder / "officer.pem"
        self.period = folder / "releases" / "small" / "2026"
        assert run("ledger", "keys", "new", self.key)[0] == 0
        public = self.key.with_suffix(".pub.pem")
        assert run("ledger", "keys", "enrol", public, "--officer", "A. Ro", "--key", self.key)[0] == 0
        self.first = publish(self.spec, self.home).release_id
        (folder / "people.csv").unlink()

    @property
    def words(self) -> tuple[str | Path, ...]:
        return self.spec, "--revises", REASON, "--measurements-of", self.first

    def change(self, old: str, new: str) -> None:
        text = self.spec.read_text()
        assert old in text
        self.spec.write_text(text.replace(old, new))

    def approve(self) -> None:
        code, said, told = run("ledger", "approve", *self.words, "--key", self.key)
        assert code == 0, told
        assert f"made from the measurements of release {self.first}, and costs nothing" in said

    def remake(self) -> Path:
        code, said, told = run("run", *self.words, "--json")
        assert code == 0, told
        return Path(json.loads(said)["folder"])

    def refused(self) -> str:
        code, _, told = run("run", *self.words, "--json")
        assert code == 1 and len(told.strip().splitlines()) == 1, told
        return told

    def books(self) -> Ledger:
        return Ledger.connect(self.home.ledger_url)

    def verified(self, folder: Path, *words: str | Path) -> dict[str, str]:
        """What was not in order, by what was looked at."""
        found = json.loads(run("verify", folder, *words, "--json")[1])
        findings = [each for release in found["releases"] for each in release["findings"]]
        findings += found.get("series", [])
        return {each["what"]: each["said"] for each in findings if each["outcome"] == "failed"}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return Scene(tmp_path)


def certificate_of(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "certificate.json").read_bytes())
    return told


def test_other_rounding_and_titles_of_the_same_measurements(scene: Scene) -> None:
    """Its input is gone, its account is full, and its noise stays as it is."""
    let_sign(scene.home, read_private(scene.key, None))
    with scene.books() as books:
        before, sums = books.balance("people"), books.sums("people")
    scene.change(
        "publication: {", "postprocessing: {rounding: false}\nabout: {title: Mended}\npublication: {"
    )
    scene.change("folder: releases", "folder: releases, formats: [csv, parquet], confidence: 95%")
    assert "no disclosure officer has approved this spec" in scene.refused()
    scene.approve()
    folder, first = scene.remake(), scene.period / scene.first
    with scene.books() as books:
        charge = books.charge(folder.name)
        assert (books.balance("people"), books.sums("people")) == (before, sums)
        books.verify()
        export(books, scene.folder / "books.txt")
    assert charge is not None
    assert (charge.state, charge.amount, charge.measurements_of) == ("published", 0, scene.first)
    old, new = certificate_of(first), certificate_of(folder)
    assert new["measurements"]["digest"] == old["measurements"]["digest"]
    assert new["transcript"] == old["transcript"] and new["privacy"] == old["privacy"]
    assert (new["ledger"]["amount"], old["ledger"]["rests_on"]) == ("0", None)
    rests_on = {"release_id": scene.first, "measurements": old["measurements"]["digest"], "amount": "1"}
    assert new["ledger"]["rests_on"] == rests_on
    assert new["account"]["cumulative"]["used"] == old["account"]["cumulative"]["used"] == "1"
    assert (new["account"]["reserved"]["amount"], new["approval"]["needed"]) == ("0", True)
    assert "Mended" in (folder / "report.html").read_text()
    assert "tells nothing new about anybody" in (folder / "report.html").read_text()
    assert "tells nothing new about anybody" not in (first / "report.html").read_text()
    same = "measurements/age_sex.parquet"
    assert new["files"][same] == old["files"][same]
    assert any("." in line.split(",")[-2] for line in (folder / "age_sex.csv").read_text().splitlines()[1:])
    index = json.loads((scene.period / "index.json").read_text())
    assert [each["state"] for each in index["releases"]] == ["superseded", "current"]
    assert (scene.period / "current").readlink() == Path(folder.name)

    books_file = scene.folder / "books.txt"
    for words in ((), ("--export", books_file), ("--since", first, "--export", books_file)):
        assert not scene.verified(folder, *words), words
    series = json.loads(run("verify", folder, "--since", first, "--json")[1])["series"]
    assert series[-1]["outcome"] == "checked" and "rests on" in series[-1]["said"]
    assert json.loads(run("run", *scene.words, "--json")[1])["status"] == "already published"
    shutil.rmtree(folder)
    assert scene.remake() == folder and certificate_of(folder) == new, "it is rebuilt of the same"
    history = run("ledger", "history")[1]
    assert "remade" in history and f"made from the measurements of release {scene.first}" in history
    (account,) = json.loads(run("ledger", "show", "--json")[1])
    assert [each["measurements_of"] for each in account["charges"]] == [None, scene.first]
    assert next(look for look in health_checks(scene.home) if look.thing == "measurements").state == "ok"


def test_corrected_figures_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    (tmp_path / "all.csv").write_text("sex,count\n1,1000\n2,2000\n")
    rate = ', measures: {old: {rate: "age > 64", over: all}}}'
    figures = "figures: [{name: all, dimensions: [sex], values: all.csv, reason: register}]\nrules: []"
    monkeypatch.setattr(
        "tests.flows.release.scene.SPEC",
        SPEC.replace("rules: {rules}", TABLE + figures.replace("{", "{{").replace("}", "}}"))
        .replace('share: "1/3"', 'share: "1/6"')
        .replace("MEASURES", rate.replace("{", "{{").replace("}", "}}")),
    )
    scene = Scene(tmp_path)
    (tmp_path / "all.csv").write_text("sex,count\n1,500\n2,2000\n")
    scene.approve()
    folder, first = scene.remake(), scene.period / scene.first
    with scene.books() as books:
        assert books.balance("people") == 9
    assert not scene.verified(folder)
    lines = [(each / "by_sex.csv").read_text().splitlines() for each in (first, folder)]
    old, new = (next(csv.DictReader(each)) for each in lines)
    assert (old["count"], old["margin"]) == (new["count"], new["margin"])
    assert float(new["old"]) == pytest.approx(2 * float(old["old"]), abs=0.2)


def test_measurements_of_cells_that_are_empty_now_are_refused(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    text = spec.read_text()
    spec.write_text(text.replace('share: "1/3"', 'share: "1/3"\n    where: sex = 1'))
    loaded = load_spec(spec)
    now = {"area_age_sex": None, "age_sex": 3}
    require_same_cells(loaded, now, "release r")
    with pytest.raises(InputError, match=r"measured by an earlier version.*of table age_sex.*run it again"):
        require_same_cells(loaded, {**now, "age_sex": None}, "release r")


OTHER_PLANS = (
    ('share: "1/3"', 'share: "1/3"\n    mechanism: privelet', "tables[1].mechanism"),
    ('province: "1/4", place: "1/2"', 'province: "1/2", place: "1/4"', "tables[0].levels.province"),
    ("edges: [20, 65]", "edges: [21, 65]", "columns.age.integer.edges[0]"),
    ('budget: "1"', 'budget: "1/2"', "privacy.budget"),
    ("rules: []", "rules: [{rule: row_count, min: 1}]", "rules"),
)


def test_another_plan_is_refused_by_its_first_difference(scene: Scene) -> None:
    text = scene.spec.read_text()
    for old, new, named in OTHER_PLANS:
        scene.spec.write_text(text)
        scene.change(old, new)
        scene.approve()
        with scene.books() as books:
            head = books.head()
        assert f"{named}: is not as it was when release {scene.first} was measured" in scene.refused()
        with scene.books() as books:
            assert books.head() == head
    scene.spec.write_text(text)
    path = scene.folder / "areas.csv"
    path.write_text(path.read_text().replace("Alpha one", "Alpha 1"))
    scene.approve()
    assert "code_lists.areas.csv: is not as it was" in scene.refused()


def test_without_what_was_stored_it_is_refused(scene: Scene) -> None:
    scene.approve()
    stored = scene.home.measurements / scene.first
    (stored / "1").rename(scene.folder / "1")
    assert "the measurement file is missing" in scene.refused()
    (scene.folder / "1").rename(stored / "1")
    (stored / "certificate.json").write_text("{}")
    assert "certificate that was kept with its measurements is missing or altered" in scene.refused()
    with scene.books() as books:
        assert [each.release_id for each in books.charges("people")] == [scene.first]


def test_what_is_no_release_or_no_revision_is_named(scene: Scene) -> None:
    def told(*words: str) -> str:
        return run("run", scene.spec, *words)[2]

    assert "--measurements-of: is no release's id" in told("--revises", "x", "--measurements-of", "first")
    assert "measurements_of" in (said := told("--measurements-of", scene.first))
    assert "is of a revision only" in said
    assert f"release {'0' * 32}: was never reserved" in told("--revises", "x", "--measurements-of", "0" * 32)


def test_it_is_reviewed_where_the_spec_says_so(scene: Scene) -> None:
    """A draft of it that is withheld stays withheld, and costs nothing."""
    scene.change("folder: releases", "folder: releases, review: officer")
    scene.approve()
    assert "is laid out as a draft" in scene.refused()
    with scene.books() as books:
        (charge,) = (each for each in books.charges("people") if each.measurements_of)
        left = books.balance("people")
    accepted = run("ledger", "accept", charge.release_id, "--key", scene.key)
    assert accepted[0] == 0, accepted
    folder = scene.period / charge.release_id
    assert not scene.verified(folder)
    with scene.books() as books:
        assert books.balance("people") == left
        books.verify()


def test_tallies_come_with_the_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    rules = '[{rule: row_count, min: 1, noisy: {share: "1/10"}}]'
    scene = Scene(tmp_path, rules=rules)
    scene.change("rules: [", "postprocessing: {rounding: false}\nrules: [")
    scene.approve()
    folder = scene.remake()
    old, new = certificate_of(scene.period / scene.first), certificate_of(folder)
    assert new["tallies"] == old["tallies"]
    assert new["ledger"]["tally_charges"] == old["ledger"]["tally_charges"] != []
    assert new["ledger"]["rests_on"]["amount"] == "9/10"
    assert {"used before: 1", "this release: 0"} <= set(lines((folder / "report.html").read_bytes()))
    with scene.books() as books:
        assert books.balance("people") == 9
        export(books, tmp_path / "books.txt")
    assert not scene.verified(folder, "--export", tmp_path / "books.txt")


NEED_NO_LEDGER = {
    "it fits itself: what follows from spec, transcript and digests is what it says",
    "spec, code lists and invariants are the ones that it names",
}
LIES: tuple[dict[str, Any], ...] = (
    {"ledger": {"rests_on": {"release_id": "0" * 32}}},
    {"ledger": {"rests_on": {"release_id": "0" * 32}}, "spec": {"measurements_of": "0" * 32}},
    {"ledger": {"rests_on": {"amount": "1/2"}}},
    {"ledger": {"rests_on": {"measurements": hashlib.sha256(b"").hexdigest()}}},
    {"ledger": {"rests_on": None}},
    {"ledger": {"amount": "1"}},
    {"privacy": {"epsilon": "0"}},
)


def told_otherwise(told: dict[str, Any], lie: dict[str, Any]) -> dict[str, Any]:
    return told | {
        name: told_otherwise(told[name], said) if isinstance(said, dict) else said
        for name, said in lie.items()
    }


def test_verify_finds_a_wrong_word_on_what_it_rests_on(scene: Scene) -> None:
    scene.change("rules: []", "rules: []\npostprocessing: {rounding: false}")
    scene.approve()
    folder = scene.remake()
    with scene.books() as books:
        export(books, scene.folder / "books.txt")
    path, told = folder / "certificate.json", certificate_of(folder)
    path.chmod(0o644)
    for lie in LIES:
        path.write_text(json.dumps(told_otherwise(told, lie), indent=2, ensure_ascii=False) + "\n")
        found = scene.verified(folder, "--export", scene.folder / "books.txt")
        assert found.keys() & NEED_NO_LEDGER, f"{lie} is seen without any ledger"
        assert "it has published this very certificate" in found, lie
