"""What was published, read by whoever knows pandas."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars
import pytest

import tabularium as tb
from tabularium.mechanisms.errors import InputError, PublicationError
from tests.flows.release.scene import write_scene


def written(folder: Path, formats: str = "[csv, parquet]") -> tuple[Path, Path]:
    """A spec with flags of quality, and its home."""
    spec, home = write_scene(folder)
    wanted = f'{{folder: releases, formats: {formats}, quality: {{unreliable: "30%"}}}}'
    spec.write_text(spec.read_text().replace("{folder: releases}", wanted))
    return spec, home.path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A product with two periods."""
    folder = tmp_path_factory.mktemp("read")
    spec, home = written(folder)
    for period in ("2027", "2026"):
        tb.publish(spec, period=period, home=home, same_input=True)
    return folder / "releases" / "small", home


@pytest.fixture(scope="module")
def release(scene: tuple[Path, Path]) -> tb.Release:
    return tb.open(scene[0] / "2026" / "current")


def test_each_level_counts_everybody_once(release: tb.Release) -> None:
    table = release["area_age_sex"]
    assert table.levels == ("nation", "province", "place")
    sums = {level: int(table.to_pandas(level=level)["count"].sum()) for level in table.levels}
    assert len(set(sums.values())) == 1
    assert table.to_pandas()["count"].sum() == sums["place"], "the last level unless said"
    several = table.to_pandas(level=["nation", "place"])
    assert several.groupby("level", observed=True)["count"].sum().to_dict() == {
        "nation": sums["nation"],
        "place": sums["place"],
    }
    assert list(table.to_pandas(level="province")["area"].cat.categories) == ["A", "B"]


def test_bins_of_numbers_are_in_their_order(release: tb.Release) -> None:
    frame = release["age_sex"].to_pandas()
    assert set(frame[frame["age"] >= "20-64"]["age"]) == {"20-64", "65-99"}
    with pytest.raises(TypeError):
        frame[frame["sex"] >= "1"]


def test_answers_say_what_to_quote_and_come_in_the_order_of_the_table(release: tb.Release) -> None:
    answer = release.query("count by age", source="measurements")
    assert list(answer.to_pandas()["age"].cat.categories) == ["0-19", "20-64", "65-99"]
    assert "Quote the answer with its interval" in repr(answer)
    tables = release.query("count by age", source="tables")
    assert tables.advice == ""
    one = release.query("count where age < 20")
    assert one.standard_error == pytest.approx(one.to_pandas()["standard_error"][0])
    with pytest.raises(InputError, match="no such source; measurements, or tables"):
        release.query("count", source="published")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`age` is an attribute, and no measure of this kind"):
        release.query("rate(age)")


def test_a_folder_of_periods_is_named_with_what_lies_in_it(scene: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match=r"it holds those of 2026, 2027: name for instance .*2027/current"):
        tb.open(scene[0])
    with pytest.raises(InputError, match=r"name .*2026/current, or a release next to it"):
        tb.open(scene[0] / "2026")


def test_what_a_desktop_put_there_is_to_be_taken_away(release: tb.Release, tmp_path: Path) -> None:
    folder = shutil.copytree(release.folder, tmp_path / "release")
    (folder / ".DS_Store").write_bytes(b"")
    with pytest.raises(PublicationError, match=r"'.DS_Store' is no part of the release; take it out"):
        tb.open(folder)


def test_it_is_what_stands_in_the_file(release: tb.Release) -> None:
    raw = pd.read_csv(release.folder / "area_age_sex.csv", dtype={"sex": str}, keep_default_na=False)
    found = release["area_age_sex"].to_pandas(level=release["area_age_sex"].levels)
    pd.testing.assert_frame_equal(found.astype(object), raw.astype(object), check_dtype=False)
    assert not {"sex_label", "area_label"} & set(release["area_age_sex"].to_pandas(labels=False))


def test_csv_alone_is_read_as_parquet_is(scene: tuple[Path, Path], tmp_path: Path) -> None:
    spec, home = written(tmp_path, "[csv]")
    release = tb.publish(spec, home=home)
    for name in release:
        arrow = release[name].to_arrow()
        likes = tb.open(scene[0] / "2026" / "current")[name].to_arrow()
        assert arrow.schema.remove_metadata().equals(likes.schema.remove_metadata())
        assert arrow.drop_columns(["count", "margin", "quality"]).equals(
            likes.drop_columns(["count", "margin", "quality"])
        )


def test_other_libraries_take_it_as_it_is(release: tb.Release) -> None:
    numbers = release["age_sex"]
    total = int(numbers.to_pandas()["count"].sum())
    assert polars.DataFrame(numbers)["count"].sum() == total
    assert numbers.to_polars()["count"].sum() == total
    assert duckdb.sql("SELECT sum(count) FROM numbers").fetchall() == [(total,)]


def test_answers_have_intervals(release: tb.Release) -> None:
    answer = release.query("count where sex = 1")
    assert answer.value is not None
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low < answer.value < answer.high
    by = release.query("count by sex", confidence=0.5).to_pandas()
    assert list(by["sex_label"]) == ["male", "female"]
    assert abs(by["value"].sum() - release.query("count").value) < 1e-6
    with pytest.raises(InputError, match="the answer has 2 rows"):
        _ = release.query("count by sex").value
    with pytest.raises(InputError, match="not between 0 and 1"):
        release.query("count", confidence=95)


def test_a_series_has_a_row_for_each_cell_and_period(scene: tuple[Path, Path], tmp_path: Path) -> None:
    series = tb.series(scene[0])
    frame = series["area_age_sex"].to_pandas(level="nation")
    assert [each.period for each in series.releases] == ["2026", "2027"]
    for release in series.releases:
        own = release["area_age_sex"].to_pandas(level="nation")["count"].tolist()
        assert frame[frame["period"] == release.period]["count"].tolist() == own
    series.write(tmp_path / "all.duckdb")
    with duckdb.connect(str(tmp_path / "all.duckdb")) as database:
        tables = {name for (name,) in database.sql("SHOW TABLES").fetchall()}
        assert tables == {"age_sex", *(f"area_age_sex__{level}" for level in ("nation", "province", "place"))}
        assert database.sql("SELECT count(DISTINCT period) FROM age_sex").fetchall() == [(2,)]
    series.write(tmp_path / "one.csv", table="area_age_sex", level="province")
    assert set(pd.read_csv(tmp_path / "one.csv")["area"]) == {"A", "B"}
    for name, words in {
        "one.csv": "is there already",
        "one.xls": "is of no kind",
        "none/one.csv": "its folder is not there",
        "two.csv": "name one of its tables",
    }.items():
        with pytest.raises(InputError, match=words):
            series.write(tmp_path / name)


def test_a_series_with_a_hole_is_refused(scene: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "small"
    shutil.copytree(scene[0], copy, symlinks=True)
    folder = (copy / "2027" / "current").resolve()
    shutil.rmtree(folder)
    with pytest.raises(PublicationError, match="names it, and it is not there"):
        tb.series(copy)
    (copy / "2027" / "index.json").unlink()
    (copy / "2027" / "current").unlink()
    assert [each.period for each in tb.series(copy).releases] == ["2026"], "a period that is not there"
    index = json.loads((copy / "2026" / "index.json").read_text())
    index["releases"][0]["state"] = "withdrawn"
    (copy / "2026" / "index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="no current release"):
        tb.series(copy)


def test_what_is_not_as_it_was_is_refused(scene: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "release"
    shutil.copytree((scene[0] / "2026" / "current").resolve(), copy)
    assert tb.verify(copy)
    with (copy / "age_sex.csv").open("a") as file:
        file.write(" ")
    with pytest.raises(PublicationError, match=r"age_sex\.csv"):
        tb.open(copy)
    assert not tb.verify(copy)
    assert "UNVERIFIED" in repr(tb.open(copy, verify=False))


def test_a_release_stays_the_one_that_was_opened(scene: tuple[Path, Path], tmp_path: Path) -> None:
    """Although `current` leads to its revision by the time a table is read."""
    period = tmp_path / "2026"
    shutil.copytree(scene[0] / "2026", period, symlinks=True)
    shutil.copytree((scene[0] / "2027" / "current").resolve(), period / "revision")
    opened = tb.open(period / "current")
    (period / "current").unlink()
    (period / "current").symlink_to("revision")
    own = pd.read_csv(opened.folder / "age_sex.csv")["count"].tolist()
    assert opened["age_sex"].to_pandas()["count"].tolist() == own
    assert opened.folder.name == opened.id


def test_names_that_are_not_there_are_told(release: tb.Release, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="the tables of small 2026 are area_age_sex, age_sex"):
        _ = release["people"]
    with pytest.raises(InputError, match="known are nation, province, place"):
        release["area_age_sex"].to_pandas(level="street")
    with pytest.raises(InputError, match="this table has no levels"):
        release["age_sex"].to_pandas(level="nation")
    with pytest.raises(InputError, match="no release lies in this folder"):
        tb.open(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        tb.series(tmp_path / "nowhere")


def test_results_print_what_they_are(scene: tuple[Path, Path], release: tb.Release) -> None:
    shown = [
        release,
        release["age_sex"],
        release.query("count by sex"),
        tb.series(scene[0]),
        tb.open_ledger(scene[1]),
        tb.verify(release.folder),
    ]
    for each in shown:
        first = repr(each).splitlines()[0]
        assert first
        assert "<table" in each._repr_html_()
        assert len(repr(each).splitlines()) < 20


def test_the_books_can_be_looked_at(scene: tuple[Path, Path]) -> None:
    books = tb.open_ledger(scene[1])
    (account,) = books.accounts
    history = books.history("people")
    assert history["amount"].sum() == account.spent == 2
    assert history["period"].tolist() == ["2027", "2026"]
    with pytest.raises(InputError, match="known are people"):
        books.history("nobody")


@pytest.mark.parametrize("source", [None, "measurements", "tables"])
def test_a_total_is_the_count_that_is_asked_for(release: tb.Release, source: Any) -> None:
    for name, codes, query in (
        ("age_sex", {}, "count from age_sex"),
        ("age_sex", {"sex": 1}, "count from age_sex where sex = 1"),
        (
            "age_sex",
            {"sex": "1", "age": ["0-19", "20-64"]},
            "count from age_sex where sex = male and age < 65",
        ),
        (
            "area_age_sex",
            {"area": ["A", "A1", "B1"], "sex": "2"},
            "count from area_age_sex where (area = A or area = B1) and sex = 2",
        ),
    ):
        found = release[name].total(codes, source=source, confidence=0.8)
        likes = release.query(query, source=source, confidence=0.8)
        assert (found.value, found.low, found.high, found.published, found.table) == (
            *(likes.value, likes.low, likes.high, likes.published),
            name,
        )
        assert found.explanation == likes.explanation
        again = release.query(found.query, source=source, confidence=0.8)
        assert (again.value, again.low, again.high) == (found.value, found.low, found.high)
    table = release["age_sex"].to_pandas()
    women = table[(table["sex"] == "2") & (table["age"] != "0-19")]["count"].sum()
    assert release["age_sex"].total(sex=2, age=["20-64", "65-99"]).published == women
    assert release["age_sex"].total(sex=2, age=["20-64", "65-99"], source="tables").value == women


def test_a_total_of_unknown_codes_names_the_column_and_what_is_near(
    release: tb.Release, scene: tuple[Path, Path]
) -> None:
    for codes, words in (
        ({"age": ["0-19", "20-46"]}, r"column age: there is no code `20-46`; did you mean `20-64`"),
        ({"sex": "femal"}, r"column sex: there is no code `femal`; did you mean `2`"),
        ({"sex": "x"}, r"column sex: there is no code `x`; known are `1`, `2`"),
        ({"sex": []}, r"column sex: no code is named"),
        ({"region": "A"}, r"column region: is no column that table area_age_sex crosses; known are `area`"),
    ):
        with pytest.raises(InputError) as refused:
            release["area_age_sex"].total(codes)
        assert re.search(words, refused.value.line()), refused.value.line()
    with pytest.raises(InputError, match="open one release"):
        tb.series(scene[0])["age_sex"].total(sex=1)
