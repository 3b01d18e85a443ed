"""Sums beside the counts of a universe: published as they are, verified, and no unit changes more than is paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabularium.ledger import Ledger
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import publish
from tests.sizes import runs
from tests.tasks import front

WHERE = "age >= 15 and status = employed"
SPEC = """\
product: labour
dataset: survey
period: "2026"
source: {{path: people.csv}}
privacy:
  unit: {{entity: person, column: person}}
  max_contributions: {most}
  relation: add-remove
  budget: "{budget}"
columns:
  years: {{from: age, integer: {{from: 0, to: 99, edges: [15, 65]}}}}
  age: {{integer: {{from: 0, to: 99, edges: [15]}}}}
  sex: {{categories: [f, m]}}
  status: {{categories: [employed, idle]}}
tables:
  - {{name: everybody, dimensions: [years, sex], measures: {{all: {{sum: pay, from: -20, to: 50, share: "9/10"}}}}}}
  - name: workers
    dimensions: [years, sex]
    where: "{where}"
    measures:
      pay: {{sum: pay, from: -20, to: 50, share: "6/10"}}
      mean_pay: {{mean: pay, from: -20, to: 50, share: "3/10"}}
  - name: work_sexes
    dimensions: [sex]
    where: "{where}"
    measures: {{pay: {{sum: pay, from: -20, to: 50, share: "9/10"}}}}
postprocessing: {{nonnegativity: true, rounding: true}}
publication: {{folder: releases}}
"""
#: What one record changes of each array, at most.
DECLARED = {
    "everybody": 1,
    "everybody-all": 50,
    "workers": 1,
    "workers-pay": 50,
    "workers-mean_pay": 70,
    "work_sexes": 1,
    "work_sexes-pay": 50,
}


def people() -> pd.DataFrame:
    """Persons of one to three records, in and out of the universe, with pay far outside its bounds too."""
    rows = [
        (f"p{who}", (7 * who + 31 * each) % 99, "fm"[(who + each) % 2], status, pay)
        for who in range(6)
        for each in range(1 + who % 3)
        for status in [("employed", "employed", "idle")[(who + 2 * each) % 3]]
        for pay in [(who * 37 + each * 90) % 240 - 120]
    ]
    return pd.DataFrame(rows, columns=["person", "age", "sex", "status", "pay"])


def write(folder: Path, records: pd.DataFrame, most: int, budget: str = "1") -> Path:
    folder.mkdir(parents=True)
    records.to_csv(folder / "people.csv", index=False)
    (folder / "spec.yaml").write_text(SPEC.format(most=most, budget=budget, where=WHERE))
    return folder / "spec.yaml"


def arrays(folder: Path, records: pd.DataFrame, most: int) -> dict[str, Any]:
    loaded = load_spec(write(folder, records, most))
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    found = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return {name: np.array(cells) for (name, _), cells in front.arrays(found).items()}


def by_cell(records: pd.DataFrame, *names: str) -> Any:
    """Count, sum and mean of clamped pay in every cell, by pandas alone."""
    bins = pd.cut(records.age, [0, 15, 65, 100], right=False, labels=["0-14", "15-64", "65-99"])
    made = records.assign(
        years=bins, sex=pd.Categorical(records.sex, ["f", "m"]), pay=records.pay.clip(-20, 50)
    )
    return made.groupby(list(names), observed=False).pay.agg(["count", "sum", "mean"])


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.audit), 2])
def test_no_unit_changes_counts_or_sums_of_a_universe_by_more_than_is_declared(
    most: int, tmp_path: Path
) -> None:
    records = people()
    loaded = load_spec(write(tmp_path / "spec", records, most))
    assert {
        each.name: 1 if each.measured is None else each.measured.sensitivity for each in loaded.spec.arrays
    } == DECLARED
    whole = arrays(tmp_path / "all", records, most)
    largest = dict.fromkeys(DECLARED, 0)
    for who in records.person.unique()[-runs(3, 6) :]:  # the last have one, two and three records
        left = arrays(tmp_path / who, records[records.person != who], most)
        for name, declared in DECLARED.items():
            change = np.abs(whole[name] - left[name])
            assert change.sum() <= most * declared, (who, name)
            assert (change**2).sum() <= (most * declared) ** 2
            largest[name] = max(largest[name], int(change.sum()))
    assert largest["workers-mean_pay"] == most * 70, "no more is declared than is needed"


def test_counts_and_sums_of_a_universe_are_what_pandas_says(tmp_path: Path) -> None:
    """A budget so large that rounding takes the noise away, and every record counted."""
    records = people()
    spec = write(tmp_path / "work", records, 3, budget="13500")
    home = Home.at(tmp_path / "home")
    with Ledger.connect(home.ledger_url) as books:
        books.open_account("survey", unit="person", relation="add-remove", definition="pure", cap=10**7)
    folder = Path(publish(spec, home).folder)
    inside = records[(records.age >= 15) & (records.status == "employed")]
    for table, own, keys, measure in (
        ("everybody", records, ("years", "sex"), "all"),
        ("workers", inside, ("years", "sex"), "pay"),
        ("work_sexes", inside, ("sex",), "pay"),
    ):
        wanted = by_cell(own, *keys)
        found = pd.read_csv(folder / f"{table}.csv")
        assert found["count"].tolist() == wanted["count"].tolist(), table
        assert found[measure].tolist() == wanted["sum"].tolist(), table
        if table == "workers":
            some = found["count"] > 0
            assert found.mean_pay[some].tolist() == pytest.approx(wanted["mean"].dropna().tolist(), abs=2)
    certificate = json.loads((folder / "certificate.json").read_bytes())
    assert WHERE in certificate["tables"]["workers"]["counted"]
    outcomes = list(verify_release(Subject(folder)))
    assert [each for each in outcomes if each.outcome == "failed"] == []
