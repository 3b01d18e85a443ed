"""A release with look-ups: published, verified, bound to all of its input, and charged for its people once."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.flows.release_chain import Outcome, release_tables
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import DataRefused, InputRefused
from tabularium.tasks.ingest.ingest import files_digest
from tabularium.tasks.input_binding import has_source, is_bound
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Request
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.load import load_spec

SECRET_PLACE = "Zweckverband7319"
SPEC = """\
product: homes
dataset: people
period: "2026"
source: {path: people.csv}
lookups:
  homes: {path: homes.csv, unit: person, key: home}
  places: {path: places.csv, key: code, from: homes.place, public: the list of places}
privacy: {unit: {entity: person, column: person}, max_contributions: 1, budget: "1"}
columns:
  region: {from: places.region, categories: [north, south, unknown], nulls: other, other: unknown}
tables:
  - {name: regions, dimensions: [region], measures: {income: {sum: homes.income, from: 0, to: 9}}}
publication: {folder: releases}
"""


def write_look_ups(folder: Path) -> tuple[Path, Home]:
    """Write people, what is looked up of them, and the spec; open two accounts."""
    rows = [(f"p{i}", f"h{i // 3}") for i in range(90)]
    with (folder / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("person", "home"), *rows])
    with (folder / "homes.csv").open("w", newline="") as file:
        homes = [(*row, i % 9, "A" if i % 4 else SECRET_PLACE) for i, row in enumerate(rows)]
        csv.writer(file).writerows([("person", "home", "income", "place"), *homes])
    (folder / "places.csv").write_text("code,region\nA,north\nB,south\n")
    (folder / "spec.yaml").write_text(SPEC)
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as books:
        for account in ("people", "others"):
            terms = {"unit": "person", "relation": "add-remove", "definition": "pure", "cap": Fraction(9)}
            books.open_account(account, **terms)
    return folder / "spec.yaml", home


@pytest.fixture
def scene(tmp_path: Path) -> tuple[Path, Home]:
    return write_look_ups(tmp_path)


def publish(spec: Path, home: Home, **options: str) -> Outcome:
    return release_tables(Request.of(spec, None, options.get("period"), home.path))


def edit(spec: Path, name: str, old: str, new: str) -> None:
    path = spec.with_name(name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_it_is_published_and_verified_and_says_where_it_looked(scene: tuple[Path, Home]) -> None:
    spec, home = scene
    first = publish(spec, home)
    folder = Path(first.folder)
    told = json.loads((folder / "certificate.json").read_bytes())
    of_unit, public = told["lookups"]
    assert (of_unit["is"], of_unit["unit"], of_unit["sha256"]) == ("of the privacy unit", "person", None)
    assert (public["is"], public["reason"], public["from"]) == (
        *("public and fixed", "the list of places"),
        "homes.place",
    )
    facts = [fact for fact in told["outside_the_guarantee"] if fact["kind"] == "look-up"]
    assert [fact["name"] for fact in facts] == ["places"]
    assert "looked up in the table <b>homes</b>" in (folder / "report.html").read_text()
    outcomes = list(verify_release(Subject(folder)))
    assert outcomes
    assert not [each for each in outcomes if each.outcome == "failed"]
    assert all(SECRET_PLACE.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    # With another digest of the public look-up the certificate is not the one of its spec.
    public["sha256"] = "0" * 64
    (folder / "certificate.json").chmod(0o600)
    (folder / "certificate.json").write_text(json.dumps(told))
    assert [each for each in verify_release(Subject(folder)) if each.outcome == "failed"]


def test_another_look_up_is_another_input_and_the_same_people(scene: tuple[Path, Home]) -> None:
    spec, home = scene
    first = publish(spec, home)
    assert publish(spec, home).status == "already published"
    edit(spec, "homes.csv", "p1,h0,1,A", "p1,h0,2,A")
    with pytest.raises(DataRefused, match="another input was bound to this release"):
        publish(spec, home)
    with pytest.raises(DataRefused, match="the same input was charged for period 2026"):
        publish(spec, home, period="2027")
    plain = files_digest(str(spec.with_name("people.csv")), home.subkey("input"))
    assert (is_bound(home, first.release_id, plain), has_source(home, first.release_id, plain)) == (
        False,
        True,
    )
    edit(spec, "spec.yaml", "dataset: people", "dataset: others")
    with pytest.raises(DataRefused, match="the same input was charged in account people"):
        publish(spec, home)


def test_what_is_public_is_a_part_of_the_spec_and_has_each_key_once(scene: tuple[Path, Home]) -> None:
    spec, home = scene
    edit(spec, "places.csv", "B,south", "B,south\nA,south")
    with pytest.raises(InputRefused, match=r"lookups\.places: a key stands in more than one row"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert not list(books.charges("people"))
    edit(spec, "places.csv", "\nA,south", "")
    first = load_spec(spec).digest
    edit(spec, "places.csv", "B,south", "B,north")
    assert load_spec(spec).digest != first
