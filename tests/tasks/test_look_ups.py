"""Look-ups: every record finds its row by hand, and taking a unit out of all sources moves nobody else."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import opened, stream
from tabularium.tasks.validate import measure_source
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.sizes import runs
from tests.tasks import front

SPEC = """\
product: homes
dataset: census
period: "2026"
source: {path: people.csv, max_rejected: "100%"}
lookups:
  homes: {path: homes.csv, unit: person, key: home}
  places: {path: "places-{period}.csv", key: code, from: homes.place, public: "the list of places of 2026"}
privacy: {unit: {entity: person, column: person}, max_contributions: 2, budget: "1"}
columns:
  tenure: {from: homes.tenure, categories: [own, rent, none], nulls: other, invalid: other, other: none}
  region: {from: places.region, categories: [north, south, none], nulls: other, invalid: other, other: none}
tables:
  - name: tenures
    dimensions: [tenure, region]
    measures: {income: {sum: homes.income, from: 0, to: 9, weight: {column: homes.weight, to: 2}}}
  - {name: owners, dimensions: [region], where: "tenure = own"}
"""
PEOPLE, HOMES = ("person", "home"), ("person", "home", "tenure", "income", "weight", "place")
PLACES = "code,region\nA,north\nB,south\n01,north\n"
Rows = Sequence[Sequence[str | None]]


def loaded(folder: Path, people: Rows, homes: Rows, spec: str = SPEC) -> Loaded:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "scratch").mkdir(exist_ok=True, mode=0o700)
    for name, header, rows in (("people", PEOPLE, people), ("homes", HOMES, homes)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
    (folder / "places-2026.csv").write_text(PLACES)
    (folder / "spec.yaml").write_text(spec)
    return load_spec(folder / "spec.yaml")


def records(made: Loaded) -> Counter[tuple[Any, ...]]:
    """Every record with what it found, by the names of the spec."""
    scratch = made.folder / "scratch"
    with opened(made, ingest_source(made, front.SECRET, scratch), scratch) as source:
        found = pa.Table.from_batches(
            stream(source.engine, source.table), schema=source.table.schema().to_pyarrow()
        )
        names = ("person", "homes.tenure", "homes.income", "places.region")
        return Counter(zip(*(found[source.raw[name]].to_pylist() for name in names), strict=True))


def counts(made: Loaded) -> dict[Any, Any]:
    scratch = made.folder / "scratch"
    handle = ingest_source(made, front.SECRET, scratch)
    found = count_tables(made, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return {name: np.array(cells) for name, cells in front.arrays(found).items()}


def test_by_hand(tmp_path: Path) -> None:
    people = [("p1", "h1"), ("p2", "h1"), ("p3", "h1"), ("p1", "h2"), ("p4", ""), ("", "h1"), ("p5", "h5")]
    homes = [
        ("p1", "h1", "own", "5", "1", "A"),
        ("p2", "h1", "rent", "7", "2", "B"),
        ("p1", "h2", "rent", "1", "1", "01"),
        ("p5", "h5", "own", "1", "1", "A"),
        ("p5", "h5", "own", "1", "1", "A"),  # twice: which is meant?
        ("p4", "", "own", "1", "1", "A"),
        ("", "h1", "own", "1", "1", "A"),
    ]
    made = loaded(tmp_path, people, homes)
    assert records(made) == Counter(
        [
            ("p1", "own", "5", "north"),
            ("p2", "rent", "7", "south"),
            ("p3", None, None, None),  # of the same home, but no row of theirs
            ("p1", "rent", "1", "north"),
            ("p4", None, None, None),
            (None, None, None, None),
            ("p5", None, None, None),
        ]
    )
    found = counts(made)
    # tenure own, rent, none; region north, south, none
    assert found["tenures", ""].tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 3]]
    assert found["owners", ""].tolist() == [1, 0, 0]
    income = next(cells for (name, _), cells in found.items() if name not in ("tenures", "owners"))
    assert income.tolist() == [[5, 0, 0], [1, 14, 0], [0, 0, 0]]
    metrics = measure_source(made, ingest_source(made, front.SECRET, tmp_path / "scratch"), tmp_path)
    assert (metrics.rows, metrics.kept, metrics.columns["tenure"].nulls) == (7, 6, 4)


def test_a_household_has_one_row_and_needs_no_key(tmp_path: Path) -> None:
    spec = SPEC.replace("unit: person, key: home", "unit: home").replace(
        "entity: person, column: person", "entity: household, column: home"
    )
    people = [("p1", "h1"), ("p2", "h1"), ("p3", "h2"), ("p4", "h3"), ("p5", "")]
    homes = [
        *[("", "h1", "own", "3", "1", "A"), ("", "h2", "rent", "4", "1", "B")],
        *[("", "h3", "own", "5", "1", "A"), ("", "h3", "own", "5", "1", "A")],
    ]
    found = counts(loaded(tmp_path, people, homes, spec))
    assert found["tenures", ""].tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]


# --- one unit less, in all sources

WHO, HOME = st.sampled_from(["p1", "p2", "p3", "P1", ""]), st.sampled_from(["h1", "h2", "1", "01", ""])
PERSON = st.tuples(WHO, HOME)
HOMED = st.tuples(
    *(WHO, HOME, st.sampled_from(["own", "rent", "", "ówn"]), st.sampled_from(["0", "9", "77", "x", ""])),
    *(st.sampled_from(["1", "2", ""]), st.sampled_from(["A", "B", "01", "1", ""])),
)
Read = Callable[[Loaded], Any]


def each_moves_its_own(folder: Path, people: Rows, homes: Rows, twist: Callable[[Loaded], Loaded]) -> bool:
    """Whether all records are those of each unit alone, put together: whoever leaves takes theirs, and no more."""
    whole = records(twist(loaded(folder / "all", people, homes)))
    parts: Counter[Any] = Counter()
    for unit in {row[0] for row in people}:
        own = [[row for row in rows if row[0] == unit] for rows in (people, homes)]
        parts += records(twist(loaded(folder / f"unit {unit}", own[0], own[1])))
    assert len(people) == sum(whole.values())
    return whole == parts


@settings(max_examples=runs(6, 150), deadline=None)
@given(people=st.lists(PERSON, min_size=1, max_size=8), homes=st.lists(HOMED, max_size=12))
def test_a_unit_moves_its_own_records_alone(
    people: Rows, homes: Rows, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert each_moves_its_own(tmp_path_factory.mktemp("units"), people, homes, lambda made: made)


def keyed_by_home_alone(made: Loaded) -> Loaded:
    """The broken twin: whoever lives there finds the row, whosever it is."""
    lookups = {
        name: look if look.unit is None else look.model_copy(update={"unit": None})
        for name, look in made.spec.lookups.items()
    }
    return replace(made, spec=made.spec.model_copy(update={"lookups": lookups}))


def test_a_row_of_a_shared_home_would_move_others(tmp_path: Path) -> None:
    people, homes = [("p1", "h1"), ("p2", "h1")], [("p1", "h1", "own", "5", "1", "A")]
    assert each_moves_its_own(tmp_path / "right", people, homes, lambda made: made)
    assert not each_moves_its_own(tmp_path / "broken", people, homes, keyed_by_home_alone)
    # So does a second row for the home, by which the first is no longer found.
    more = [*homes, ("p2", "h1", "rent", "5", "1", "A")]
    assert each_moves_its_own(tmp_path / "again", people, more, lambda made: made)
    assert not each_moves_its_own(tmp_path / "broken again", people, more, keyed_by_home_alone)


@settings(max_examples=runs(2, 60), deadline=None)
@given(
    people=st.lists(PERSON, min_size=4, max_size=14),
    homes=st.lists(HOMED, min_size=4, max_size=12),
    data=st.data(),
)
def test_without_a_unit_every_array_moves_by_its_sensitivity_at_most(
    people: Rows, homes: Rows, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("arrays")
    unit = data.draw(st.sampled_from(sorted({row[0] or "" for row in people})))
    kept = [[row for row in rows if row[0] != unit] for rows in (people, homes)]
    made = loaded(folder / "all", people, homes)
    whole, rest = counts(made), counts(loaded(folder / "rest", kept[0] or [("", "")], kept[1]))
    for array in made.spec.arrays:
        most = 1 if array.measured is None else array.measured.sensitivity
        moved = np.abs(whole[array.name, ""] - rest[array.name, ""]).sum()
        assert moved <= made.spec.privacy.max_contributions * most
