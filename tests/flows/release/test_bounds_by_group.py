"""Bounds by group through the whole chain: published as pandas says, verified, and refused where they cannot be."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from tabularium.validations.release_spec.load import examine
from tabularium.validations.release_spec.summary import check
from tests.flows.release.scene import publish
from tests.flows.release.test_measures import require_verified
from tests.flows.release.test_rates import AREAS, home_for
from tests.tasks.report.reported import lines

TO = "{by: sector, values: {private: 300, public: 100}}"
SPEC = """\
product: pay
dataset: survey
period: "2026"
source: {path: people.csv}
privacy: {unit: record, relation: add-remove, definition: DEFINITION, budget: "BUDGET"DELTA}
columns:
  area: {hierarchy: areas.csv, levels: [nation, province, place]}
  sector: {categories: [public, private]}
  sex: {categories: [f, m]}
tables:
  - name: pay
    dimensions: [area, sector]
    levels: {province: "1/2", place: "1/2"}
    measures:
      total: {sum: pay, from: 0, to: TO, share: "12/25"}
      average: {mean: pay, from: 0, to: TO, share: "12/25"}
  - {name: sexes, dimensions: [sex, sector], measures: {total: {sum: pay, from: 0, to: TO, share: "49/50"}}}
publication: {folder: releases, formats: [csv, parquet, sdmx], sdmx: {agency: TEST}}
"""


def people() -> pd.DataFrame:
    rows = [
        (("P1", "P2", "Q1")[i * i % 5 % 3], ("public", "private")[i % 3 == 0], "fm"[i % 2], i * 13 % 350)
        for i in range(300)
    ]
    return pd.DataFrame(rows, columns=["area", "sector", "sex", "pay"])


def write(folder: Path, budget: str, definition: str = "pure") -> Path:
    people().to_csv(folder / "people.csv", index=False)
    (folder / "areas.csv").write_text(AREAS)
    text = SPEC.replace("BUDGET", budget).replace("DEFINITION", definition).replace("TO", TO)
    (folder / "spec.yaml").write_text(
        text.replace("DELTA", ', delta: "1/1000000"' if definition == "zcdp" else "")
    )
    return folder / "spec.yaml"


def test_sums_and_means_are_what_pandas_says(tmp_path: Path) -> None:
    """A budget so large that rounding takes the noise away."""
    folder = Path(publish(write(tmp_path, "60000"), home_for(tmp_path, "pure")).folder)
    records = people()
    records["pay"] = records.pay.clip(upper=records.sector.map({"public": 100, "private": 300}))
    found = pd.read_csv(folder / "pay.csv").set_index(["area", "sector"])
    below = {"N": ["P1", "P2", "Q1"], "P": ["P1", "P2"], "Q1": ["Q1"], "P2": ["P2"]}
    for area, places in below.items():
        for sector in ("public", "private"):
            own = records[records.area.isin(places) & (records.sector == sector)].pay
            assert found.total[area, sector] == own.sum()
            assert found.average[area, sector] == pytest.approx(own.mean(), abs=0.02, nan_ok=True)
    said = json.loads((folder / "certificate.json").read_bytes())["tables"]["pay"]["measures"]
    assert said["average"]["total"] == pytest.approx(records.pay.mean(), abs=0.02)
    sexes = pd.read_csv(folder / "sexes.csv").groupby("sector").total.sum()
    assert sexes["private"] == found.total["N", "private"]
    require_verified(folder)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_release_is_verified_and_its_tables_agree(definition: str, tmp_path: Path) -> None:
    spec = write(tmp_path, "1", definition)
    folder = Path(publish(spec, home_for(tmp_path, definition)).folder)
    require_verified(folder)
    certificate = json.loads((folder / "certificate.json").read_bytes())
    found, sexes = pd.read_csv(folder / "pay.csv"), pd.read_csv(folder / "sexes.csv")
    for sector in ("public", "private"):
        nation = found[(found.area == "N") & (found.sector == sector)].total.sum()
        assert sexes[sexes.sector == sector].total.sum() == nation
        wider = found[(found.level == "place") & (found.sector == sector)].total_margin.mean()
        assert (sector == "private") == (wider > found[found.level == "place"].total_margin.mean())
    draws = next(each for each in certificate["measured"] if each["purpose"] == "pay-total/place")["draws"]
    assert [each["sensitivity"] for each in draws] == ["100/1", "300/1"]
    losses = {Fraction(each["loss"]) for each in draws}
    assert losses == {
        Fraction(next(e for e in certificate["measured"] if e["purpose"] == "pay-total/place")["per_record"])
    }
    page = " ".join(lines((folder / "report.html").read_bytes()))
    assert "where sector is public, below 0 and above 100, sector is private, below 0 and above 300" in page
    groups = certificate["tables"]["pay"]["measures"]["total"]["groups"]
    assert [each["group"] for each in groups] == ["public", "private"], "in the order of the cells"


def test_an_invariant_makes_no_sum_certain_however_much_narrower_its_bounds_are(tmp_path: Path) -> None:
    spec = write(tmp_path, "1")
    text = spec.read_text().replace(TO, "{by: sector, values: {private: 10000000, public: 1}}")
    spec.write_text(text + "invariants: [{name: everybody, count: 300, reason: published by the registry}]\n")
    folder = Path(publish(spec, home_for(tmp_path, "pure")).folder)
    require_verified(folder)
    found, sexes = pd.read_csv(folder / "pay.csv"), pd.read_csv(folder / "sexes.csv")
    assert (found.total_margin > 0).all()
    (nation,) = found[(found.area == "N") & (found.sector == "public")].total
    assert nation == sexes[sexes.sector == "public"].total.sum()
    records = people()
    true = ((records.sector == "public") & (records.pay > 0)).sum()
    assert nation == pytest.approx(true, abs=100), "its noise is of scale 4 or less"


def test_check_says_the_noise_of_each_group(tmp_path: Path) -> None:
    loaded = check(write(tmp_path, "1")).summary
    assert loaded is not None
    levels = {
        (table.name, level.level, level.group): level for table in loaded.tables for level in table.levels
    }
    public, private = (levels["pay-total", "place", group] for group in ("public", "private"))
    assert private.scale == 3 * (public.scale or 0)
    assert public.cells == private.cells == 3
    assert public.margin is not None and private.margin is not None and private.margin > 2.9 * public.margin
    assert public.as_json()["group"] == "public" and "group" not in levels["pay", "place", ""].as_json()


@pytest.mark.parametrize(
    ("old", "new", "field", "what"),
    [
        ("by: sector", "by: sectr", "total.to.by", "`sectr` is not a dimension"),
        ("by: sector", "by: area", "total.to.by", "`area` is a hierarchy"),
        ("private: 300, ", "", "total.to.values", "has no bound for `private`"),
        ("private: 300, ", "private: 300, both: 2, ", "total.to.values", "`sector` has no code `both`"),
        ("private: 300", "private: 0", "total.to", "is not above `from`"),
        ("private: 300", "private: 0.5", "total.to.values.private", "must be a whole number"),
        ("values:", "value:", "total.to.value", "there is no key `value`"),
        ("total: {sum: pay", "total: {median: pay", "total.to", "differs by group"),
        ("from: 0", "from: {by: area, values: {N: 0}}", "total.from.by", "`area` is a hierarchy"),
    ],
)
def test_what_cannot_be_gets_one_line(old: str, new: str, field: str, what: str, tmp_path: Path) -> None:
    path = write(tmp_path, "1")
    path.write_text(path.read_text().replace(old, new, 1))
    problems = examine(path).problems
    assert (problems[0].field, what in problems[0].what) == (f"tables[0].measures.{field}", True), problems
