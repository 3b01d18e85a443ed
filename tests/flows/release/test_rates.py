"""Rates through the whole chain: what pandas says of records, published beside counts, and verified."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import publish
from tests.flows.release.test_measures import require_verified
from tests.tasks.report.reported import lines

AREAS = "code,label,parent\nN,Nation,\nP,Upper,N\nQ,Lower,N\nP1,P1,P\nP2,P2,P\nQ1,Q1,Q\n"
#: Of the places P1, P2 and Q1, by sex f and m; Q1 has nobody.
POPULATION = [[900, 800], [50, 70], [0, 0]]
SPEC = """\
product: labour
dataset: survey
period: "2026"
source: {{path: people.csv}}
privacy: {{unit: record, relation: add-remove, definition: {definition}, budget: "{budget}"{delta}}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  sex: {{categories: [f, m]}}
  status: {{categories: [employed, idle, unknown], nulls: other, other: unknown}}
tables:
  - name: people
    dimensions: [area, sex]
    share: "99/100"
    levels: {{province: "1/2", place: "1/2"}}
    measures:
      working: {{rate: "status = employed", per: 100}}
      known: {{percent: "status is not null"}}
      paid: {{percent: "pay is not null and status = employed", weight: {{column: weight, to: 3}}}}
      per_head: {{rate: "status = employed", over: population}}
      of_women: {{percent: "status = employed", over: everybody}}
  - {{name: everybody, dimensions: [sex], share: "1/100"}}
figures:
  - {{name: population, dimensions: [sex, area], values: population.csv, reason: "civil registry"}}
publication: {{folder: releases, formats: [csv, parquet, xlsx, sdmx], sdmx: {{agency: TEST}}}}
"""


def people() -> pd.DataFrame:
    """Records with unknown status, pay or weight here and there; weights also above their bound."""
    rows = [
        (
            ("P1", "P2")[i % 7 == 0],
            "fm"[i % 3 == 0],
            ("employed", "idle", None, "unknown")[i * i % 5 % 4],
            None if i % 4 == 0 else i,
            None if i % 11 == 0 else 1 + i % 5,
        )
        for i in range(400)
    ]
    return pd.DataFrame(rows, columns=["area", "sex", "status", "pay", "weight"])


def write(folder: Path, records: pd.DataFrame, budget: str, definition: str = "pure") -> Path:
    folder.mkdir(exist_ok=True)
    records.to_csv(folder / "people.csv", index=False)
    (folder / "areas.csv").write_text(AREAS)
    with (folder / "population.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ("area", "sex", "count"),
                *(
                    (area, sex, number)
                    for area, row in zip(("P1", "P2", "Q1"), POPULATION, strict=True)
                    for sex, number in zip("fm", row, strict=True)
                ),
            ]
        )
    delta = ', delta: "1/1000000"' if definition == "zcdp" else ""
    (folder / "spec.yaml").write_text(SPEC.format(budget=budget, definition=definition, delta=delta))
    return folder / "spec.yaml"


def home_for(folder: Path, definition: str) -> Home:
    home = Home.at(folder / "home")
    options = {"delta": "1/1000000"} if definition == "zcdp" else {}
    with Ledger.connect(home.ledger_url) as books:
        books.open_account(
            "survey", unit="record", relation="add-remove", definition=definition, cap=10**7, **options
        )
    return home


def by_pandas(records: pd.DataFrame, areas: list[str], sex: str) -> dict[str, float]:
    """Each measure of one cell, from the raw records alone."""
    own = records[records.area.isin(areas) & (records.sex == sex)]
    known = own[own.status.notna()]
    places = [POPULATION[("P1", "P2", "Q1").index(area)]["fm".index(sex)] for area in areas]
    employed = own.status == "employed"
    both = np.where(own.pay.isna(), 0.0, np.where(own.status.isna(), np.nan, employed))
    weight = own.weight.clip(0, 3).where(~np.isnan(both))
    return {
        "working": 100 * (known.status == "employed").mean(),
        "known": 100 * own.status.notna().mean(),
        "paid": 100 * (weight * both).sum() / (weight.sum() or np.nan),
        "per_head": 1000 * employed.sum() / sum(places) if sum(places) else np.nan,
        "of_women": 100 * employed.sum() / (records.sex == sex).sum(),
    }


def test_rates_are_what_pandas_says(tmp_path: Path) -> None:
    """A budget so large that rounding takes the noise away."""
    records = people()
    folder = Path(publish(write(tmp_path, records, "6000"), home_for(tmp_path, "pure")).folder)
    found = pd.read_csv(folder / "people.csv")
    below = {
        "N": ["P1", "P2", "Q1"],
        "P": ["P1", "P2"],
        "Q": ["Q1"],
        "P1": ["P1"],
        "P2": ["P2"],
        "Q1": ["Q1"],
    }
    for row in found.to_dict("records"):
        for name, wanted in by_pandas(records, below[row["area"]], row["sex"]).items():
            assert row[name] == pytest.approx(wanted, abs=0.06, nan_ok=True), (row["area"], row["sex"], name)
            assert np.isnan(row[name]) or row[f"{name}_margin"] < 1
    assert list(found["of_women"].round(2)) == list(found["of_women"])
    require_verified(folder)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_release_of_rates_is_verified(definition: str, tmp_path: Path) -> None:
    spec = write(tmp_path, people(), "1", definition)
    folder = Path(publish(spec, home_for(tmp_path, definition)).folder)
    require_verified(folder)
    certificate = json.loads((folder / "certificate.json").read_bytes())
    said = certificate["tables"]["people"]["measures"]
    assert (said["working"]["of"], said["working"]["per"]) == ("status = employed", "100")
    assert said["per_head"]["over"] == "population"
    assert said["paid"]["largest_change_by_one_record"] == "3"
    assert (folder / "figures" / "population.csv").read_bytes() == (tmp_path / "population.csv").read_bytes()
    page = " ".join(lines((folder / "report.html").read_bytes()))
    assert "how many of 100 records where it is known pass status = employed" in page
    assert "how many of 1000 in population pass status = employed" in page
    arrays = {each.name: each.measured for each in load_spec(spec).spec.arrays if each.measured}
    assert {name: each.parts for name, each in arrays.items()} == {
        "people-working": 2,
        "people-known": 2,
        "people-paid": 2,
        "people-per_head": 1,
        "people-of_women": 1,
    }
