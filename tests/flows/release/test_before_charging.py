"""What would make a release fail is found before anything is charged."""

from __future__ import annotations

import json
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.mechanisms.errors import LedgerError, MechanismError, PublicationError, TabulariumError
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, states, write_scene


def test_a_lost_secret_stops_the_run_instead_of_paying_twice(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    (home.path / "secret").unlink()
    with pytest.raises(TabulariumError, match="secret is missing"):
        publish(spec, home)
    assert states(home) == ["published"]


def test_a_budget_beyond_the_sampler_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/360360000000")
    with pytest.raises(MechanismError, match="noise scale"):
        publish(spec, home)
    assert states(home) == []


def test_a_budget_off_the_quantum_is_refused_before_data_are_read(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/17")
    (tmp_path / "people.csv").unlink()
    with pytest.raises(LedgerError, match="multiple of the account's quantum"):
        publish(spec, home)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_no_secret_is_made_for_a_ledger_that_was_restored_without_its_own(
    elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        export(books, tmp_path / "books.txt")
    shutil.rmtree(tmp_path / "releases")
    if elsewhere:  # as on a server, or where secret.check was left behind
        monkeypatch.setenv("TABULARIUM_LEDGER", home.ledger_url)
        (home.path / "secret.check").unlink()
        shutil.rmtree(home.measurements)
    new = Home.at(tmp_path / "new")
    if not elsewhere:
        told = (
            CliRunner()
            .invoke(app, ["ledger", "restore", str(tmp_path / "books.txt"), "--home", str(new.path)])
            .output
        )
        assert f"secret in {new.path}; secret.check, inputs and measurements in {new.path}" in told
    with pytest.raises(TabulariumError, match="secret is missing; restore the secret"):
        publish(spec, new)
    assert not (new.path / "secret").exists()
    assert states(new) == ["published"]


def test_a_mistyped_home_is_named_in_full(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    new = tmp_path / "hme"
    with pytest.raises(LedgerError) as caught:
        publish(spec, Home(new))
    told = str(caught.value)
    assert f"account people in ledger.db, home {new}: no such account; no account was opened" in told
    assert told.endswith(f"--relation add-remove --home {new}")


def test_a_missing_guard_is_told_with_the_mend_of_verify(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    with sqlite3.connect(home.path / "ledger.db") as connection:
        connection.execute("DROP TRIGGER entries_no_update")
    with pytest.raises(LedgerError, match=r"read-only: the triggers .* put its guard back"):
        publish(spec, home)


ALL = "{entity: person, population: all of us}"


@pytest.mark.parametrize(
    ("unit", "named"),
    [
        (
            "{entity: household, column: area}, max_contributions: 900",
            "unit is 'record', the spec's is 'household'; .* "
            "ledger open NAME --cap 1 --unit household --population people --relation add-remove",
        ),
        (ALL, "unit is .* open NAME --cap 1 --unit person --population 'all of us' --relation add-remove"),
        (
            "{entity: record, population: others}",
            "population is 'people', the spec's is 'others'; .* --unit record --population others",
        ),
    ],
)
def test_another_entity_or_population_is_told_with_the_command_that_opens_its_account(
    tmp_path: Path, unit: str, named: str
) -> None:
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("unit: record,", f"unit: {unit},"))
    (tmp_path / "people.csv").unlink()
    with pytest.raises(LedgerError, match=named):
        publish(spec, home)
    assert states(home) == []


def test_a_retired_account_pays_for_nothing(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    with Ledger.connect(home.ledger_url) as books:
        books.retire_account("people", reason="misnamed")
    (tmp_path / "people.csv").unlink()
    with pytest.raises(LedgerError, match="is retired; open it again"):
        publish(spec, home)


def test_the_certificate_names_entity_population_and_column(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    unit = "{entity: place, column: area, population: all places}, max_contributions: 200"
    text = spec.read_text().replace("dataset: people", "dataset: places")
    spec.write_text(text.replace("unit: record,", f"unit: {unit},"))
    with Ledger.connect(home.ledger_url) as books:
        terms = {"unit": "place", "population": "all places", "relation": "add-remove", "definition": "pure"}
        books.open_account("places", cap=Fraction(1), **terms)
    privacy = json.loads((Path(publish(spec, home).folder) / "certificate.json").read_text())["privacy"]
    assert privacy["unit"] == {"entity": "place", "population": "all places", "column": "area"}
    assert "a certain place" in privacy["reading"][1]


def test_a_read_only_publication_folder_is_found_before_anything_is_paid(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    for name in ("releases", "releases/small/.heads"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a file where the folder should be")
        with pytest.raises(PublicationError, match="nothing was charged"):
            publish(spec, home)
        file.unlink()
    assert states(home) == []
