"""``tabularium query`` on real release folders: what is read from them, and what is said of errors."""

from __future__ import annotations

import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.queries import ask
from tabularium.tasks.query.query_release import OpenRelease, open_release
from tests.flows.release import scene as release_scene
from tests.flows.release.scene import write_scene

pytestmark = pytest.mark.xdist_group("query")
Z = 1.6448536269514722
PLAIN = "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
WITHHELD = ("{folder: releases}", '{measurements: {withhold: "a test"}}')


def publish(folder: Path, *changes: tuple[str, str], more: str = "", **scene: Any) -> Path:
    """Publish the scene with its spec changed; return the release folder."""
    spec, home = write_scene(folder, **scene)
    text = spec.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    spec.write_text(text + more)
    return Path(release_scene.publish(spec, home).folder)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("released"), rows=3000)


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    change = ("    dimensions:", "    mechanism: sreb_gca\n    dimensions:")
    return publish(tmp_path_factory.mktemp("adaptive"), change, rows=3000, budget="2")


def query(*words: str) -> Result:
    return CliRunner().invoke(app, ["query", *words], env={"COLUMNS": "250"})


def asked(folder: Path, text: str, *options: str) -> dict[str, Any]:
    done = query(str(folder), text, "--json", *options)
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measured(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / "measurements" / f"{name}.parquet")


def certificate_of(folder: Path) -> Any:
    return json.loads((folder / "certificate.json").read_text())["tables"]["age_sex"]


# --- answers


@pytest.mark.parametrize("where", ["released", "adaptive"])
@pytest.mark.parametrize(
    ("text", "each"),
    [("share by sex", 1.0), ("percent by province within sex", 100.0), ("share by place", 1.0)],
)
@pytest.mark.parametrize("source", ["measurements", "tables"])
def test_shares_make_up_the_whole(
    where: str, text: str, each: float, source: str, request: pytest.FixtureRequest
) -> None:
    rows = asked(request.getfixturevalue(where), text, "--source", source)["rows"]
    wholes: dict[str, float] = {}
    for row in rows:
        of = row["group"]["sex"]["code"] if "within" in text else ""
        wholes[of] = wholes.get(of, 0.0) + row["value"]
        assert row["low"] <= row["value"] <= row["high"]
    # Of chosen sums each row has its own best estimate of its whole.
    near = 1e-2 if (where, source) == ("adaptive", "measurements") else 1e-9
    assert list(wholes.values()) == pytest.approx([each] * len(wholes), rel=near)


def test_a_question_may_come_in_pieces(released: Path) -> None:
    """As a shell passes on what stands in no quotes."""
    whole, pieces = query(str(released), "count by sex"), query(str(released), "count", "by", "sex")
    assert pieces.exit_code == 0
    assert pieces.stdout == whole.stdout


def test_rows_are_printed_as_csv(released: Path) -> None:
    done = query(str(released), "count by sex", "--csv")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout), dtype={"sex": str})
    answer = asked(released, "count by sex")
    assert found["sex"].tolist() == ["1", "2"]
    assert found["value"].tolist() == [row["value"] for row in answer["rows"]]
    assert query(str(released), "--csv").exit_code == 1


def test_a_plain_table_is_answered_from_its_noisy_cells(released: Path) -> None:
    answer = asked(released, "count where 20 <= age < 65")
    assert (answer["table"], answer["method"], answer["cells"]) == ("age_sex", "noise", 2)
    frame = measured(released, "age_sex")
    (row,) = answer["rows"]
    assert row["value"] == frame.loc[frame["age"] == "20-64", "measured"].sum()
    half = laplace_margin(3.0, 0.9, terms=2)  # a third of ε = 1
    assert (row["low"], row["high"]) == (row["value"] - half, row["value"] + half)
    assert row["standard_error"] == pytest.approx(math.sqrt(2 * laplace_variance(3.0)))
    tables = pd.read_parquet(released / "age_sex.parquet")
    assert row["published"] == tables.loc[tables["age"] == "20-64", "count"].sum()


def test_levels_are_answered_by_least_squares(released: Path) -> None:
    """The nation's females, from three measurements: by inverse variance up the tree, as far as it goes.

    Beta has one place, so that its two measurements are of one number.
    """
    answer = asked(released, "count where sex = female", "--table", "area_age_sex")
    assert answer["method"] == "least squares"
    scales = {"nation": 6.0, "province": 6.0, "place": 3.0}
    noise = {level: laplace_variance(scale) for level, scale in scales.items()}
    sums = {}
    for level in scales:
        frame = measured(released, f"area_age_sex.{level}")
        sums |= frame[frame["sex"] == "2"].groupby("area", observed=True)["measured"].sum().to_dict()

    def blend(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
        weights = 1 / one[1], 1 / other[1]
        return (one[0] * weights[0] + other[0] * weights[1]) / sum(weights), 1 / sum(weights)

    alpha = blend((sums["A"], noise["province"]), (sums["A1"] + sums["A2"], 2 * noise["place"]))
    beta = blend((sums["B"], noise["province"]), (sums["B1"], noise["place"]))
    value, variance = blend((sums["N"], noise["nation"]), (alpha[0] + beta[0], alpha[1] + beta[1]))
    (row,) = answer["rows"]
    assert row["value"] == pytest.approx(value)
    assert row["standard_error"] == pytest.approx(math.sqrt(3 * variance))  # three bins of age
    assert row["low"] < row["value"] < row["high"]
    # What is published agrees with the other table as well, so one time in ten it is outside of the interval.
    tables = pd.read_parquet(released / "area_age_sex.parquet")
    females = (tables["area"] == "N") & (tables["sex"] == "2")
    assert row["published"] == tables.loc[females, "count"].sum()


def test_groups_by_level_and_category(released: Path) -> None:
    answer = asked(released, "count by province, sex where age >= 20")
    groups = [(row["group"]["province"]["code"], row["group"]["sex"]["label"]) for row in answer["rows"]]
    assert groups == [("A", "male"), ("A", "female"), ("B", "male"), ("B", "female")]
    frame = pd.read_parquet(released / "area_age_sex.parquet")
    for row in answer["rows"]:
        cells = frame[
            (frame["area"] == row["group"]["province"]["code"])
            & (frame["sex"] == row["group"]["sex"]["code"])
            & (frame["age"] != "0-19")
        ]
        assert row["published"] == cells["count"].sum()
        assert abs(row["value"] - row["published"]) < 40  # standard deviation 3.4: fails in one of 10^10 runs


def test_averages_and_extremes(released: Path) -> None:
    (row,) = asked(released, "average(age) where area = A1")["rows"]
    assert 0 < row["low"] < row["value"] < row["high"] < 99
    assert 40 < row["value"] < 60
    (row,) = asked(released, "max(age) by nation")["rows"]
    assert (row["value"], row["low"], row["high"], row["published"]) == (65, 65, 99, None)


def test_the_level_can_be_chosen(released: Path) -> None:
    (row,) = asked(released, "count where age < 20", "--level", "0.99")["rows"]
    assert row["high"] - row["value"] == laplace_margin(3.0, 0.99, terms=2)


# --- how errors are known


def test_tables_of_simulated_margins_are_added_up(released: Path) -> None:
    answer = asked(released, "count where age < 20 and sex = 1", "--from", "tables")
    assert (answer["method"], answer["table"]) == ("added up", "age_sex")
    about = json.loads((released / "certificate.json").read_text())["tables"]["age_sex"]
    assert about["margins"]["method"] == "simulated"
    frame = pd.read_parquet(released / "age_sex.parquet").iloc[0]
    (row,) = answer["rows"]
    assert row["value"] == row["published"] == frame["count"]
    # What non-negativity moved is known of no single cell: never less than the margin, nor than the noise.
    noise = Z * math.sqrt(about["noise_variance"][""])
    assert row["high"] - row["value"] == pytest.approx(max(frame["margin"], noise))


def test_an_adaptive_mechanism_is_answered_from_what_it_first_measured_or_in_the_worst_case(
    adaptive: Path,
) -> None:
    noisy = asked(adaptive, "count where sex = 1", "--from", "measurements", "--table", "age_sex")
    assert noisy["method"] in {"noise", "chosen sums"}
    frame = measured(adaptive, "age_sex.cells")
    assert noisy["rows"][0]["value"] == frame.loc[frame["sex"] == "1", "measured"].sum()
    rough = asked(adaptive, "count where sex = 1", "--from", "tables", "--table", "age_sex")
    assert rough["method"] == "added up"
    assert "worst case" in rough["explanation"]
    published = pd.read_parquet(adaptive / "age_sex.parquet")
    own = published[published["sex"] == "1"]
    (row,) = rough["rows"]
    assert row["value"] == own["count"].sum()
    spread = Z * math.sqrt(certificate_of(adaptive)["margins"]["mean_squared_error"][""])
    assert row["high"] - row["value"] == pytest.approx(np.maximum(own["margin"], spread).sum())
    best = asked(adaptive, "count where sex = 1", "--table", "age_sex")
    widths = {
        each["method"]: each["rows"][0]["high"] - each["rows"][0]["low"] for each in (noisy, rough, best)
    }
    assert widths[best["method"]] == min(widths.values())


def test_withheld_measurements_leave_the_tables(tmp_path: Path) -> None:
    folder = publish(tmp_path, WITHHELD, rows=3000)
    answer = asked(folder, "count by province")
    assert answer["method"] == "added up"
    frame = pd.read_parquet(folder / "area_age_sex.parquet")
    assert [row["value"] for row in answer["rows"]] == [
        frame.loc[frame["area"] == code, "count"].sum() for code in "AB"
    ]
    done = query(str(folder), "count", "--from", "measurements")
    assert done.exit_code == 1
    assert "holds no measurements" in done.stderr


def test_unknown_errors_are_said_to_be_unknown(tmp_path: Path) -> None:
    change = ("    dimensions:", "    mechanism: sreb_gca\n    margin_share: 0\n    dimensions:")
    one_level = ('levels: {nation: "1/4", province: "1/4", place: "1/2"}', "levels: {place: 1}")
    answer = asked(publish(tmp_path, change, WITHHELD, one_level), "count where sex = 1")
    assert answer["method"] == "unknown"
    assert [answer["rows"][0][key] for key in ("standard_error", "low", "high")] == [None] * 3
    assert "no intervals" in answer["explanation"]


def test_tables_that_do_not_add_up_are_the_measurements(tmp_path: Path) -> None:
    """Without consistency each level is published as it was measured: whole again, from tables alone."""
    folder = publish(tmp_path, WITHHELD, more=PLAIN, rows=3000)
    withheld = asked(folder, "count where sex = 1", "--table", "area_age_sex")
    assert withheld["method"] in {"noise", "least squares"}
    frame = pd.read_parquet(folder / "area_age_sex.parquet")
    both = frame[(frame["area"] == "B") & (frame["sex"] == "1")]["count"].sum()
    one = frame[(frame["area"] == "B1") & (frame["sex"] == "1")]["count"].sum()
    (row,) = asked(folder, "count where area = B and sex = 1")["rows"]
    assert min(both, one) - 40 < row["value"] < max(both, one) + 40  # fails in one of 10^17 runs
    spread = 3 / (1 / laplace_variance(6.0) + 1 / laplace_variance(3.0))
    assert 0.8 * math.sqrt(spread) < row["standard_error"] < math.sqrt(spread)


def test_gaussian_noise(tmp_path: Path) -> None:
    folder = publish(tmp_path, rows=3000, definition="zcdp", budget="1/2")
    (row,) = asked(folder, "count where age < 20", "--table", "age_sex")["rows"]
    sigma = math.sqrt(1 / (2 * (1 / 6)))  # ρ = 1/6
    assert row["standard_error"] == pytest.approx(math.sqrt(2) * sigma, rel=1e-6)
    assert row["high"] - row["value"] == pytest.approx(Z * math.sqrt(2 * sigma**2 + 1 / 12) + 0.5)
    assert "none" in asked(folder, "count", "--bounds")["posterior"]


def test_csv_alone_is_enough(tmp_path: Path) -> None:
    folder = publish(tmp_path, ("{folder: releases}", "{formats: [csv]}"))
    frame = pd.read_csv(folder / "age_sex.csv")
    assert asked(folder, "count", "--table", "age_sex")["rows"][0]["published"] == frame["count"].sum()


def test_codes_below_the_published_level(tmp_path: Path) -> None:
    levels = 'levels: {nation: "1/4", province: "1/4", place: "1/2"}'
    folder = publish(tmp_path, (levels, "levels: {province: 1}"), rows=3000)
    assert [row["group"]["area"]["code"] for row in asked(folder, "count by area")["rows"]] == ["A", "B"]
    done = query(str(folder), "count where area = A1")
    assert "`A1` lies below what this table is published for; its deepest level is `province`" in done.stderr


def test_what_is_promised_beforehand(released: Path) -> None:
    answer = asked(released, "count where age < 20", "--bounds")
    error, privacy = answer["usefulness"], answer["posterior"]
    assert (error["epsilon"], error["table_cells"], error["query_cells"]) == ("1/3", 6, 2)
    assert error["this_query"] == laplace_margin(3.0, 0.9, terms=2)
    assert error["any_query_paper"] == pytest.approx(6 * math.log(60) * 3)
    assert privacy["presence"] == pytest.approx(0.2319693)
    shown = query(str(released), "count where age < 20", "--bounds")
    assert "at most 23.2 % sure afterwards" in shown.stdout
    assert "Theorem 4.2, promises 74 for any count, 18 for 2 cells" in shown.stdout


def test_nothing_is_promised_of_noise_on_something_else(tmp_path: Path) -> None:
    """Wavelet coefficients carry Laplace noise too, and their variances are exact; a cell has far more."""
    spec, home = write_scene(tmp_path)
    text = spec.read_text().replace("    dimensions:", "    mechanism: privelet\n    dimensions:")
    spec.write_text(text)
    done = release_scene.publish(spec, home)
    folder = Path(done.folder)
    assert "none" in asked(folder, "count where age < 20", "--bounds", "--table", "age_sex")["usefulness"]


# --- the folder


@pytest.fixture
def altered(released: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "altered"
    shutil.copytree(released, folder)
    path = folder / "age_sex.csv"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("male", "Male"))
    return folder


def test_an_altered_folder_is_not_asked(altered: Path) -> None:
    done = query(str(altered), "count")
    assert done.exit_code == 1
    assert "age_sex.csv is missing or altered" in done.stderr
    assert not done.stdout
    with pytest.raises(PublicationError):
        open_release(altered)


def test_unless_it_is_asked_unverified(altered: Path) -> None:
    done = query(str(altered), "count", "--unverified")
    assert done.exit_code == 0
    assert "UNVERIFIED" in done.stdout
    assert asked(altered, "count", "--unverified")["release"]["verified"] is False


def test_a_verified_answer_names_the_certificate(released: Path) -> None:
    import hashlib

    digest = hashlib.sha256((released / "certificate.json").read_bytes()).hexdigest()
    assert asked(released, "count")["release"]["certificate"] == digest
    assert f"SHA-256 {digest[:16]}" in query(str(released), "count").stdout


def test_every_table_of_a_release_reads_back_as_it_was_published(released: Path) -> None:
    release: OpenRelease = open_release(released)
    assert release.level == 0.9
    for table in release.tables:
        frame = pd.read_parquet(released / f"{table.name}.parquet")
        assert table.published is not None
        assert np.array_equal(table.published.values.reshape(-1), frame["count"])
        for code, count in frame.groupby("age", observed=True)["count"].sum().items():
            if table.axes.tree is None:
                row = ask(f"count where age = {code}", [table], source="tables").rows[0]
                assert row.value == count


# --- what is said


def test_the_answer_as_a_table(released: Path) -> None:
    done = query(str(released), "count by province where sex = 2")
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines() if "Alpha" in line or "Beta" in line]
    assert [line[:2] for line in lines] == [["Alpha", "(A)"], ["Beta", "(B)"]]
    assert "90 % from" in done.stdout
    assert "weighted least squares" in done.stdout


def test_without_a_query_it_says_what_can_be_asked(released: Path) -> None:
    done = query(str(released))
    assert done.exit_code == 0
    for word in ("area_age_sex", "levels nation, province, place", "0-19, 20-64, 65-99", "1 male, 2 female"):
        assert word in done.stdout
    listed = json.loads(query(str(released), "--json").stdout)
    assert [table["name"] for table in listed["tables"]] == ["area_age_sex", "age_sex"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["count where agee < 3"], "query, character 13: there is no attribute `agee`; did you mean `age`?"),
        (["count where age < 30"], "query, character 19: `30` lies inside the bin `20-64`"),
        (["count where sex = man"], "query, character 19: `sex` has no value `man`"),
        (["count wear"], "query, character 7: `wear` does not fit here"),
        (["count", "--level", "90"], "--level: the level is not between 0 and 1; 0.9 means 90 percent"),
        (["count", "--from", "there"], "--from there: there is no such source; write measurements or tables"),
        (
            ["count", "--table", "ages"],
            "--table ages: the release has no table of this name; known are area_age_sex",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(released: Path, words: list[str], line: str) -> None:
    done = query(str(released), *words)
    assert done.exit_code == 1
    assert not done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert line in done.stderr


def test_a_folder_that_is_no_release(tmp_path: Path) -> None:
    done = query(str(tmp_path), "count")
    assert done.exit_code == 1
    assert "no release lies in this folder; name the folder that holds certificate.json" in done.stderr
    (tmp_path / "certificate.json").write_text("{}")
    with pytest.raises(PublicationError, match="is not what it should be: format"):
        open_release(tmp_path)


def test_a_certificate_of_another_format(released: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(released, folder)
    path = folder / "certificate.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"format": 1', '"format": 9', 1))
    with pytest.raises(PublicationError, match="another format"):
        open_release(folder)


def test_help_has_examples() -> None:
    shown = query("--help")
    assert shown.exit_code == 0
    assert shown.output.count("Example:") == 4
