"""``tabularium query`` on a real release with measures, and with a table of a universe beside one of all."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tests.flows.cli.test_query import asked, measured, query
from tests.flows.release.scene import publish, write_scene
from tests.flows.release.test_measures import SHARED, with_measures

pytestmark = pytest.mark.xdist_group("query")
GROWN = """\
  - name: grown
    dimensions: [sex]
    where: "age >= 20"
    share: "1/6"
    measures:
      own: {mean: balance, from: -50, to: 100}
      old: {rate: "age >= 65", per: 1000}
      old_of_all: {percent: "age >= 65", over: everyone}
rules:"""


INVARIANTS = """\
invariants:
  - {name: everyone, count: 600, reason: a register}
  - {name: provinces, dimensions: [area, sex], level: province, values: known.csv, reason: a register}
"""
KNOWN = "area,sex,count\nA,1,200\nA,2,200\nB,1,100\nB,2,100\n"


def edited(text: str) -> str:
    text = text.replace('    share: "1/3"\n', '    share: "1/6"\n').replace("rules:", GROWN)
    return text.replace("[csv, parquet, xlsx, sdmx], sdmx: {agency: TEST}", "[parquet]") + INVARIANTS


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    (folder / "known.csv").write_text(KNOWN)
    spec, home = with_measures(folder, budget="8", edit=edited)
    assert SHARED.strip() in spec.read_text()
    return Path(publish(spec, home).folder)


def test_a_sum_over_cells_of_any_shape(release: Path) -> None:
    """From the noisy sums of every cell, and the exact quantile of so many errors; in steps of ten."""
    answer = asked(release, "sum(total) where age < 20 or sex = female")
    frame = measured(release, "age_sex-total")
    chosen = (frame["age"] == "0-19") | (frame["sex"] == "2")
    (row,) = answer["rows"]
    assert (answer["table"], answer["measure"], answer["method"], answer["cells"]) == (
        "age_sex",
        "total",
        "noise",
        4,
    )
    assert row["value"] == 10 * frame.loc[chosen, "measured"].sum()
    half = laplace_margin(100 / (8 / 6 / 2), 0.9, terms=4)
    assert row["high"] - row["value"] == pytest.approx(10 * half)
    shown = pd.read_parquet(release / "age_sex.parquet")
    assert row["published"] == shown.loc[(shown["age"] == "0-19") | (shown["sex"] == "2"), "total"].sum()
    assert "Values of income count as far as their bounds, 0 to 1000, in steps of 10" in answer["explanation"]


def test_an_or_over_nodes_of_the_hierarchy(release: Path) -> None:
    """A province with what lies below it, and women elsewhere; the published sums stand beside it."""
    answer = asked(release, "sum(income) where area = A or (place = B1 and sex = female)")
    shown = pd.read_parquet(release / "area_age_sex.parquet")
    own = (shown["area"] == "A") | ((shown["area"] == "B1") & (shown["sex"] == "2"))
    (row,) = answer["rows"]
    assert answer["method"] == "least squares"
    assert row["published"] == shown.loc[own, "income"].sum()
    assert row["low"] < row["value"] < row["high"]
    assert abs(row["value"] - row["published"]) < 6 * row["standard_error"]


def test_a_mean_of_several_cells_comes_from_both_of_its_arrays(release: Path) -> None:
    (row,) = asked(release, "average(mean_income) where place = A1 and sex = 1", "--from", "measurements")[
        "rows"
    ]
    (other,) = asked(release, "average(balance)", "--table", "grown")["rows"]
    pair = measured(release, "grown-own")["measured"].to_numpy().reshape(-1, 2).sum(axis=0)
    assert other["value"] == pytest.approx(-50 + 150 * pair[0] / pair.sum())
    assert other["published"] is None, "two cells"
    assert 0 < row["low"] < row["value"] < row["high"] < 1000
    # To first order, the interval of a ratio of two sums of two numbers each.
    scale, share = 150 / (8 / 6 / 4), pair[0] / pair.sum()
    first_order = 150 * math.sqrt(2 * laplace_variance(scale) * ((1 - share) ** 2 + share**2)) / pair.sum()
    assert other["high"] - other["low"] == pytest.approx(2 * 1.645 * first_order, rel=0.05)


def test_published_means_and_medians_stand_beside_rows_of_one_cell(release: Path) -> None:
    shown = pd.read_parquet(release / "area_age_sex.parquet")
    grown = shown[(shown["level"] == "place") & (shown["age"] == "20-64")]
    for asking, name in (("mean", "mean_income"), ("median", "typical")):
        # B1 is all of its province, whose cells answer for it with their margins. Noise hides some cells.
        own = grown[(grown["area"] != "B1") & grown[name].notna()].iloc[:1]
        place, sex = own["area"].item(), own["sex"].item()
        where = f"place = {place} and age = 20-64 and sex = {sex}"
        (row,) = asked(release, f"{asking}({name}) where {where}")["rows"]
        assert row["published"] == own[name].item()
        single = asked(release, f"{asking}({name}) where {where}", "--from", "tables")
        assert single["method"] == "single cell"
        (row,) = single["rows"]
        assert row["value"] == own[name].item()
        assert row["high"] - row["value"] == pytest.approx(own[f"{name}_margin"].item())
    done = query(str(release), "median(typical) by sex", "--from", "tables")
    assert "published numbers of this measure do not make those of several cells" in done.stderr


def test_a_median_of_cells_where_some_are_impossible(tmp_path: Path) -> None:
    """Its tree of 101 numbers has inner nodes; 480 of 600 have at least 20 years, and a fee that is even."""
    spec, home = write_scene(tmp_path, budget="50", cap="50")
    text = spec.read_text()
    tables = """tables:
  - {name: grown, dimensions: [age, sex], where: "age >= 20", measures: {fee: {median: fee, from: 0, to: 100}}}
rules:"""
    spec.write_text(text[: text.index("tables:")] + tables + text.split("rules:")[1])
    people = pd.read_csv(tmp_path / "people.csv", dtype=str)
    people["fee"] = 2 * (people.index // 3 % 50)
    people.to_csv(tmp_path / "people.csv", index=False)
    folder = Path(publish(spec, home).folder)
    grown = people[people.age.astype(int) >= 20]
    for row in asked(folder, "median(fee) by sex where age >= 20")["rows"]:
        true = grown[grown.sex == row["group"]["sex"]["code"]].fee.median()
        assert row["low"] - 6 <= true <= row["high"] + 6
        assert row["high"] - row["low"] < 40


def test_a_rate_is_of_the_records_of_the_cells_that_are_asked_for(release: Path) -> None:
    pair = measured(release, "grown-old")["measured"].to_numpy().reshape(-1, 2).sum(axis=0)
    (row,) = asked(release, "rate(old) from grown")["rows"]
    assert row["value"] == pytest.approx(1000 * pair[0] / pair.sum())
    assert abs(row["value"] - 1000 * 35 / 80) < 6 * row["standard_error"] + 40
    assert asked(release, "sum(old) from grown")["rows"][0]["value"] == pytest.approx(pair[0])
    single = asked(release, "rate(old) by sex from grown")["rows"]
    shown = pd.read_parquet(release / "grown.parquet")
    assert [each["published"] for each in single] == shown["old"].tolist()
    done = query(str(release), "rate(old_of_all) from grown")
    assert "no rate of `old_of_all` was measured; ask for sum(old_of_all)" in done.stderr
    assert "another number" in asked(release, "sum(old_of_all) from grown")["explanation"]
    done = query(str(release), "percent(old) from grown")
    assert "`old` is a rate per 1000, and no percentage; ask for rate(old)" in done.stderr
    assert "`age` is an attribute, and no measure" in query(str(release), "rate(age)").stderr


def test_quantiles_rise(release: Path) -> None:
    found = [asked(release, f"quantile(typical, {q})")["rows"][0] for q in (0.1, 0.25, 0.5, 0.75, 0.9)]
    values = [row["value"] for row in found]
    assert values == sorted(values)
    assert found[2] == asked(release, "median(typical)")["rows"][0]
    assert all(row["low"] <= row["value"] <= row["high"] for row in found)


def test_a_measure_of_other_records_is_not_taken_for_that_of_all(release: Path) -> None:
    done = query(str(release), "mean(own)")
    assert done.exit_code == 1
    assert "table grown counts only some of them; write `from grown`" in done.stderr
    named = asked(release, "mean(own) from grown")
    assert named["counted"].endswith("of these only records where age >= 20")
    assert asked(release, "mean(own) where age >= 20")["rows"] == named["rows"]
    assert (
        "It counts every record; of these only records where age >= 20"
        in query(str(release), "mean(own) where age >= 20").stdout
    )
    assert "there is no attribute `age`" in query(str(release), "mean(own) where age >= 65").stderr


def test_invariants_are_exact_and_make_their_parts_better_known(release: Path) -> None:
    answer = asked(release, "count by province, sex")
    assert [row["value"] for row in answer["rows"]] == [200, 200, 100, 100]
    assert all(row["low"] == row["value"] == row["high"] for row in answer["rows"])
    assert (answer["invariants_used"], answer["invariants_not_used"]) == (["provinces"], ["everyone"])
    exact = asked(release, "count where area = A or (place = B1 and sex = male)")["rows"][0]
    assert (exact["value"], exact["standard_error"], exact["low"], exact["high"]) == (500, 0, 500, 500)
    # By sex and age alone only the total over all provinces is known.
    (all_men,) = asked(release, "count where sex = male", "--table", "age_sex")["rows"]
    assert all_men["value"] == all_men["high"] == 300
    (part,) = asked(release, "count where sex = male and age >= 65", "--table", "age_sex")["rows"]
    noise = laplace_variance(1 / (8 / 6 / 2))
    assert part["standard_error"] == pytest.approx(math.sqrt(noise * (1 - 1 / 3)))  # one of three ages
    assert 0 <= part["low"] <= part["value"] <= part["high"] <= 300
    shown = query(str(release), "count where sex = male").stdout
    assert "Made use of are the public numbers" in shown


def test_what_can_be_asked_names_the_measures(release: Path) -> None:
    shown = query(str(release)).stdout
    assert "average(mean_income), sum(mean_income): Values of income count" in shown
    assert "median(typical), average(typical), sum(typical)" in shown


def test_nothing_is_promised_beforehand_of_measures(release: Path) -> None:
    assert "none" in asked(release, "sum(total)", "--bounds")["usefulness"]
