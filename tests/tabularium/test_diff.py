"""What differs between two specs, and between two releases."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tabularium as tb
from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import InputError
from tests.flows.release.scene import AREAS, write_scene
from tests.flows.release.test_measures import with_measures


def diff(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["diff", *map(str, words)], env={"COLUMNS": "140"})


def test_specs_differ_by_fields_and_by_what_they_do(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    other = spec.with_name("other.yaml")
    text = spec.read_text().replace('budget: "1"', 'budget: "2"')
    other.write_text(text.replace("edges: [20, 65]", "edges: [25, 65]"))
    found = tb.diff(spec, other)
    assert isinstance(found, tb.SpecDiff)
    assert dict(zip(found.fields["field"], found.fields["after"], strict=True)) == {
        "privacy.budget": "2",
        "columns.age.integer.edges": [25, 65],
    }
    margins = found.margins.set_index(["table", "level"])
    assert tuple(margins.loc["area_age_sex", "place"]) == (7, 3)  # of scale 3, and then 1.5
    assert not tb.diff(spec, spec)
    done = diff(spec, other)
    assert done.exit_code == 0, done.output
    assert "2 fields differ; ε = 1, then ε = 2" in done.output
    assert (diff(spec, other, "--exit-code").exit_code, diff(spec, spec, "--exit-code").exit_code) == (1, 0)
    assert json.loads(diff(spec, other, "--json").output)["budget"] == {"before": "1", "after": "2"}


def test_tables_go_by_their_names(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    head, first, second, tail = _split(spec.read_text())
    other = spec.with_name("other.yaml")
    other.write_text(head + second + first + tail)
    assert tb.diff(spec, other).fields.empty
    other.write_text(head + first + second.replace("name: age_sex", "name: ages") + tail)
    fields = tb.diff(spec, other).fields["field"].tolist()
    assert fields == ["tables.age_sex", "tables.ages"]


def _split(text: str) -> tuple[str, str, str, str]:
    head, rest = text.split("  - name: area_age_sex")
    first, rest = rest.split("  - name: age_sex")
    second, tail = rest.split("rules:")
    return head, f"  - name: area_age_sex{first}", f"  - name: age_sex{second}", f"rules:{tail}"


def test_releases_differ_by_more_than_chance_where_something_changed(tmp_path: Path) -> None:
    """A thousand more in one area; everything else is noise."""
    spec, home = write_scene(tmp_path)
    before = tb.publish(spec, home=home.path, notes=lambda _: None)
    with (tmp_path / "people.csv").open("a", newline="") as file:
        file.write("A1,30,1\r\n" * 1000)
    after = tb.publish(spec, home=home.path, period="2027", notes=lambda _: None)
    found = tb.diff(before, after)
    assert isinstance(found, tb.Changes)
    assert not found.reasons
    places = found["area_age_sex"].to_pandas(level="place").set_index(["area", "age", "sex"])
    changed = places.loc["A1", "20-64", "1"]
    assert changed["after"] - changed["before"] == changed["difference"]
    assert changed["beyond"] and abs(changed["difference"] - 1000) < 5 * changed["margin"]
    one, other = (
        each["area_age_sex"].to_pandas().set_index(["area", "age", "sex"]) for each in (before, after)
    )
    margins = [each.loc[("A1", "20-64", "1"), "margin"] for each in (one, other)]
    assert changed["margin"] == pytest.approx((margins[0] ** 2 + margins[1] ** 2) ** 0.5)
    line = found.summary.set_index(["table", "level"]).loc["area_age_sex", "place"]
    assert (line["cells"], line["compared"], line["came"], line["went"]) == (18, 18, 0, 0)
    assert line["by_chance"] == pytest.approx(1.8)
    assert line["beyond"] >= 1
    done = diff(before.folder, after.folder)
    assert done.exit_code == 0, done.output
    assert "by chance" in done.output
    assert "<table" in found._repr_html_()


def test_cells_that_came_or_went_have_no_difference(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    before = tb.publish(spec, home=home.path, notes=lambda _: None)
    (tmp_path / "areas.csv").write_text(AREAS + "B2,Beta two,B\n")
    spec.write_text(spec.read_text() + "# \n")
    after = tb.publish(spec, home=home.path, period="2027", same_input=True, notes=lambda _: None)
    found = tb.diff(before, after)
    rows = found["area_age_sex"].to_pandas(level="place")
    assert found["area_age_sex"].levels == ("nation", "province", "place"), "as in the release"
    codes = [each["area_age_sex"].to_pandas()[["area", "age", "sex"]].astype(str) for each in (found, after)]
    assert codes[0].equals(codes[1])
    new = rows[rows["area"] == "B2"]
    assert len(new) == 6
    assert new["before"].isna().all() and new["difference"].isna().all() and new["beyond"].isna().all()
    assert set(new["only_in"]) == {"after"} and rows["only_in"].isna().sum() == 18
    assert found.summary.set_index(["table", "level"]).loc[("area_age_sex", "place"), "came"] == 6


def test_a_series_says_what_changed_from_period_to_period(tmp_path: Path) -> None:
    """Three periods: a new area comes in the second, and one table is measured otherwise in the third."""
    spec, home = write_scene(tmp_path)
    publish = partial(tb.publish, spec, home=home.path, same_input=True, notes=lambda _: None)
    first = publish(period="2025")
    (tmp_path / "areas.csv").write_text(AREAS + "B2,Beta two,B\n")
    spec.write_text(spec.read_text() + "# \n")
    second = publish(period="2026")
    text = spec.read_text().replace("  - name: age_sex\n", "  - name: age_sex\n    where: sex = 1\n")
    spec.write_text(text)
    publish(period="2028")
    found = tb.series(tmp_path / "releases" / "small").changes()
    assert list(found.columns) == [
        *("period", "previous", "table", "area", "age", "sex", "count", "change", "margin", "reason")
    ]
    assert list(found.groupby(["period", "previous"]).groups) == [("2026", "2025"), ("2028", "2026")]
    rows = found[(found["period"] == "2026") & (found["table"] == "area_age_sex")]
    shown = tb.diff(first, second)["area_age_sex"].to_pandas().sort_values(["area", "age", "sex"])
    for column, likes in {"count": "after", "change": "difference", "margin": "margin"}.items():
        assert np.array_equal(
            rows.sort_values(["area", "age", "sex"])[column], shown[likes].astype(float), equal_nan=True
        )
    new = rows[rows["area"] == "B2"]
    assert set(new["reason"]) == {"the previous period has no such cell"} and new["change"].isna().all()
    assert rows.loc[rows["area"] != "B2", "reason"].isna().all()
    (refused,) = found[(found["period"] == "2028") & (found["table"] == "age_sex")].to_dict("records")
    assert "no table of this name with the same dimensions" in refused["reason"]
    assert np.isnan(refused["change"]) and refused["previous"] == "2026"
    nation = tb.series(tmp_path / "releases" / "small").changes("area_age_sex", level="nation")
    assert len(nation) == 2 * 6 and nation["change"].notna().all() and "area" in nation
    with pytest.raises(InputError, match="there is no table people"):
        tb.series(tmp_path / "releases" / "small").changes("people")


def test_measures_differ_as_counts_do(tmp_path: Path) -> None:
    """And not where they measure something else: here the bounds of one sum are others."""
    spec, home = with_measures(tmp_path, budget="20", cap="40")
    publish = partial(tb.publish, spec, home=home.path, same_input=True, notes=lambda _: None)
    before = publish(period="2025")
    spec.write_text(spec.read_text().replace("measures: {total: {sum: income, from: 0, to: 1000", _LARGER))
    after = publish(period="2026")
    found = tb.diff(before, after)
    assert isinstance(found, tb.Changes)
    keys = ["area", "age", "sex"]
    for name in ("income", "mean_income", "typical"):
        rows = found[f"area_age_sex.{name}"].to_pandas(level="province").set_index(keys)
        one, other = (
            each["area_age_sex"].to_pandas(level="province").set_index(keys) for each in (before, after)
        )
        assert len(rows) == 12 and rows["margin"].notna().any()
        assert np.allclose(rows["difference"], other[name] - one[name], equal_nan=True)
        margin = np.sqrt(one[f"{name}_margin"] ** 2 + other[f"{name}_margin"] ** 2)
        assert np.allclose(rows["margin"], margin, equal_nan=True)
    assert "another" in found.reasons["age_sex.total"] and "age_sex.total" not in found
    assert "age_sex" in found
    rows = tb.series(tmp_path / "releases" / "small").changes("area_age_sex.income", level="province")
    assert np.allclose(rows["change"], found["area_age_sex.income"].to_pandas(level="province")["difference"])
    lines = found.summary.set_index(["table", "level"])
    assert lines.loc[("area_age_sex.income", "nation"), "cells"] == 6
    assert "area_age_sex.income" in diff(before.folder, after.folder).output


_LARGER = "measures: {total: {sum: income, from: 0, to: 2000"


def test_what_cannot_be_compared_says_why(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    before = tb.publish(spec, home=home.path, notes=lambda _: None)
    spec.write_text(
        spec.read_text().replace("  - name: age_sex\n", "  - name: age_sex\n    mechanism: dawa\n")
    )
    after = tb.publish(spec, home=home.path, period="2027", same_input=True, notes=lambda _: None)
    found = tb.diff(before, after)
    assert "not only independent noise" in found.reasons["age_sex"]
    assert found["age_sex"].to_pandas()["margin"].isna().all()
    assert "spec.tables.age_sex.mechanism" in found.fields["field"].tolist()
    with pytest.raises(InputError, match="a spec and a release cannot be compared"):
        tb.diff(spec, after)
    other, their = write_scene(tmp_path / "other")
    other.write_text(other.read_text().replace("product: small", "product: large"))
    with pytest.raises(InputError, match="give two releases of one product"):
        tb.diff(after, tb.publish(other, home=their.path, notes=lambda _: None))
