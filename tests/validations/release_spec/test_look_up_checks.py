"""Look-ups in a spec: what would move the records of others is refused, each mistake in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.exact_facts import neighbours
from tabularium.validations.release_spec.load import published
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.summary import summarise
from tests.validations.release_spec.spec_samples import load, problems_of

PUBLIC = "path: places.csv, key: code, from: place, public: the list of places"
SPEC = """\
product: persons
dataset: census
period: "2026"
source: {{path: persons.csv}}
lookups:
  homes: {{{homes}}}
  places: {{{places}}}
privacy: {{unit: {unit}, max_contributions: 1, budget: "1"}}
columns:
  tenure: {{from: {tenure}, categories: [own, rent]}}
  region: {{from: places.region, categories: [north, south]}}
tables:
  - {{name: t, dimensions: [tenure, region]}}
"""
GOOD = {
    "homes": "path: homes.parquet, unit: person, key: home",
    "places": PUBLIC,
    "unit": "{entity: person, column: person}",
    "tenure": "homes.tenure",
}


def text(**changes: str) -> str:
    return SPEC.format(**{**GOOD, **changes})


@pytest.fixture(autouse=True)
def places(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("code,region\nA,north\n")
    (tmp_path / "persons.csv").write_text("person,home,place\n")


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        (
            {"homes": "path: homes.csv, key: home"},
            "lookups.homes",
            "is neither public nor of the privacy unit, so that its rows could change the records of others",
        ),
        (
            {"homes": "path: homes.csv, key: home", "unit": "{entity: household, column: home}"},
            "lookups.homes",
            "write unit: home instead of key",
        ),
        (
            {"homes": "path: homes.csv, key: place, unit: person", "unit": "record"},
            "lookups.homes.unit",
            "each record is a privacy unit, and no look-up can carry it",
        ),
        (
            {"homes": "path: homes.csv, key: place, unit: person", "unit": "{entity: person}"},
            "lookups.homes.unit",
            "no look-up can carry it: it has no column; name the column that tells units apart",
        ),
        ({"places": f"{PUBLIC}, unit: person"}, "lookups.places.unit", "is public too; keep public, or"),
        ({"places": "path: places.csv, public: yes it is"}, "lookups.places", "`key` is missing; name the"),
        ({"homes": "path: h.csv, unit: person, from: home"}, "lookups.homes.from", "there is no key"),
        ({"homes": "unit: person"}, "lookups.homes", "there is no path"),
        ({"homes": "path: h.data, unit: person"}, "lookups.homes.path", "the ending does not say how"),
        (
            {"homes": "path: https://h.csv, unit: person"},
            "lookups.homes.path",
            "is a URL; write the path of a file",
        ),
        (
            {"homes": "path: h.csv, delimiter: ab, unit: person"},
            "lookups.homes.delimiter",
            "must be one char",
        ),
        ({"homes": "url: x://y, unit: person"}, "lookups.homes.url", "there is no key `url` here"),
        ({"places": PUBLIC.replace("places", "gone")}, "lookups.places.path", "there is no file `gone.csv`"),
        ({"places": PUBLIC.replace("places.csv", "'*.csv'")}, "lookups.places.path", "is one file"),
        (
            {"places": PUBLIC.replace("places.csv", "persons.csv")},
            "lookups.places.public",
            "is the file of the source, which is not public",
        ),
        (
            {"homes": "path: h.csv, unit: person, key: id, from: places.home"},
            "lookups.homes.from",
            "`places` does not stand above it; write `places` first",
        ),
        (
            {"tenure": "tenure"},
            "lookups.homes",
            "no column is taken from it; write for instance from: homes.",
        ),
        (
            {"tenure": "home.tenure"},
            "columns.tenure.from",
            "there is no look-up `home`; did you mean `homes`?",
        ),
        (
            {"unit": "{column: homes.person}"},
            "privacy.unit",
            "stands in a look-up; name a column of the source",
        ),
    ],
)
def test_what_is_wrong_gets_one_line(changes: dict[str, str], field: str, said: str, tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, text(**changes))
    assert found.field == field
    assert said in str(found)


def test_a_null_of_the_look_up_s_own_file_cannot_be_a_code(tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, text(homes='path: h.csv, unit: person, nulls: ["own"]'))
    assert "take it out of lookups.homes.nulls" in str(found)


def test_what_is_right_is_said_and_is_a_part_of_the_digest(tmp_path: Path) -> None:
    made = load(tmp_path, text())
    summary = summarise(made)
    (fact,) = (fact.what for fact in summary.exact if fact.kind == "look-up")
    assert fact == "places: taken for public and fixed, and not protected (the list of places)"
    assert any("look-up homes: a unit (person) finds only its own rows" in line for line in summary.advice)
    # Where it lies is not published, nor part of the digest; what a public one holds, and how it is joined, is.
    assert "path" not in made.published_spec["lookups"]["homes"]
    assert published(ReleaseSpec.model_validate(made.published_spec)) == made.published_spec
    same = load(
        tmp_path, text(homes=GOOD["homes"].replace("homes.parquet", "'elsewhere/h-{period}.parquet'"))
    )
    assert same.digest == made.digest
    assert load(tmp_path, text(homes="path: homes.parquet, unit: person")).digest != made.digest
    assert load(tmp_path, text(places=PUBLIC.replace("the list", "a list"))).digest != made.digest
    (tmp_path / "places.csv").write_text("code,region\nA,south\n")
    assert load(tmp_path, text()).digest != made.digest


def test_a_look_up_of_the_unit_itself_needs_no_key(tmp_path: Path) -> None:
    made = load(tmp_path, text(homes="path: h.csv, unit: id", unit="{entity: household, column: home}"))
    assert made.spec.lookups["homes"].looked_up is None


def test_a_public_look_up_of_units_is_doubted(tmp_path: Path) -> None:
    made = load(tmp_path, text(places=f"{PUBLIC}".replace("from: place", "from: person")))
    (said,) = (line for line in summarise(made).advice if "look-up places" in line)
    assert "nothing in it is protected: if it tells of them, write unit: code instead" in said


def test_what_a_public_look_up_gives_goes_with_what_is_looked_up(tmp_path: Path) -> None:
    """So of an invariant over it nobody can say what the smallest change is that keeps it."""
    known = "invariants:\n  - {name: regions, dimensions: [region], values: known.csv, reason: known}\n"
    (tmp_path / "known.csv").write_text("region,count\nnorth,1\nsouth,2\n")
    made = load(tmp_path, text() + known)
    assert neighbours(made.spec, made.domains).units is None
