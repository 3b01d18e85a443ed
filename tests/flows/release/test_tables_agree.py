"""Tables that share dimensions, and public invariants, through the whole chain."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import PublicationError, TabulariumError
from tabularium.mechanisms.inference import Violation
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import people, publish, states, write_scene
from tests.validations.release_spec.spec_samples import write_spec

pytestmark = pytest.mark.xdist_group("agreement")

TABLES = """\
tables:
  - {name: area_age, dimensions: [area, age], levels: {nation: "1/4", province: "1/4", place: "1/2"}}
  - {name: area_sex, dimensions: [area, sex], levels: {province: "1/2", place: "1/2"}}
  - {name: age_sex, dimensions: [age, sex]}
  - {name: sex, dimensions: [sex], mechanism: efpa}
invariants:
"""
ROWS = 600
AGES = ("0-19", "20-64", "65-99")
SEXES = [sum(sex == code for _, _, sex in people(ROWS)) for code in "12"]


class Heard(NullReporter):
    """Keeps what operators are told."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def noted(self, text: str) -> None:
        self.notes.append(text)


def scene(folder: Path, invariants: str, budget: str = "1/2") -> tuple[Path, Home]:
    spec, home = write_scene(folder, rows=ROWS, budget=budget)
    text = spec.read_text()
    start, end = text.index("tables:"), text.index("rules:")
    tables = TABLES + invariants if invariants else TABLES.replace("invariants:\n", "")
    spec.write_text(text[:start] + tables + text[end:])
    (folder / "sexes.csv").write_text(f"sex,count\n1,{SEXES[0]}\n2,{SEXES[1]}\n")
    (folder / "provinces.csv").write_text("area,count\nA,400\nB,200\n")
    return spec, home


def read(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.csv", dtype={"sex": str, "age": str})


KNOWN = """\
  - {name: sexes, dimensions: [sex], values: sexes.csv, reason: "civil registry"}
  - {name: provinces, dimensions: [area], level: province, values: provinces.csv, reason: "civil registry"}
"""


@pytest.fixture(scope="module", params=["", KNOWN], ids=["plain", "invariants"])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    return Path(publish(*scene(folder, request.param)).folder)


def test_every_shared_margin_is_the_same_in_both_tables(published: Path) -> None:
    by_age, by_sex, flat = (read(published, name) for name in ("area_age", "area_sex", "age_sex"))
    places = [frame.groupby("area")["count"].sum() for frame in (by_age, by_sex)]
    assert places[0].equals(places[1]), "at every node of the hierarchy, the nation included"
    nation = by_age[by_age["area"] == "N"].groupby("age")["count"].sum()
    assert nation.equals(flat.groupby("age")["count"].sum())
    nation = by_sex[by_sex["area"] == "N"].groupby("sex")["count"].sum()
    assert nation.equals(flat.groupby("sex")["count"].sum())
    assert all((frame["count"] >= 0).all() for frame in (by_age, by_sex, flat))
    certificate = json.loads((published / "certificate.json").read_text())
    agreement = certificate["agreement"]
    assert agreement["rounding"]["violations"] == {}
    assert agreement["not_made_to_agree_on"] == []
    assert not (published / "rounding_exceptions.txt").exists()


def test_invariants_are_shown_exactly_and_named_as_unprotected(published: Path) -> None:
    certificate = json.loads((published / "certificate.json").read_text())
    if not certificate["invariants"]:
        assert not (published / "invariants").exists()
        assert not any(fact["kind"] == "invariant" for fact in certificate["outside_the_guarantee"])
        return
    flat, by_age = read(published, "age_sex"), read(published, "area_age")
    assert flat.groupby("sex")["count"].sum().tolist() == SEXES
    areas = by_age.groupby("area")["count"].sum()
    assert (areas["N"], areas["A"], areas["B"]) == (600, 400, 200)
    facts = [fact for fact in certificate["outside_the_guarantee"] if fact["kind"] == "invariant"]
    assert [fact["name"] for fact in facts] == [known["name"] for known in certificate["invariants"]]
    sexes, provinces = certificate["invariants"]
    assert (sexes["reason"], sexes["numbers"], provinces["level"]) == ("civil registry", 2, "province")
    assert certificate["files"]["invariants/sexes.csv"] == sexes["sha256"]


def test_a_release_with_invariants_is_asked_and_says_so(published: Path) -> None:
    asked = CliRunner().invoke(app, ["query", str(published), "count by sex", "--json"])
    assert asked.exit_code == 0, asked.output
    answer = json.loads(asked.stdout)
    known = json.loads((published / "certificate.json").read_text())["invariants"]
    names = [each["name"] for each in known]
    assert sorted(answer["invariants_used"] + answer["invariants_not_used"]) == sorted(names)
    assert len(answer["rows"]) == 2
    if known:
        assert [(row["value"], row["low"], row["high"]) for row in answer["rows"]] == [
            (n, n, n) for n in SEXES
        ]


def test_what_is_known_has_no_margin_whatever_measured_it(published: Path) -> None:
    known = json.loads((published / "certificate.json").read_text())["invariants"]
    table = read(published, "sex")
    assert (table["margin"] == 0).all() == bool(known)
    if known:
        assert table["count"].tolist() == SEXES
    assert (read(published, "age_sex")["margin"] > 0).all()


def test_invariants_that_contradict_each_other_stop_the_run_before_it_costs_anything(tmp_path: Path) -> None:
    spec, home = scene(
        tmp_path,
        '  - {name: sexes, dimensions: [sex], values: sexes.csv, reason: "r"}\n'
        '  - {name: both, dimensions: [area, sex], level: province, values: both.csv, reason: "r"}\n',
    )
    (tmp_path / "both.csv").write_text(
        f"area,sex,count\nA,1,{SEXES[0] + 1}\nA,2,0\nB,1,0\nB,2,{SEXES[1] - 1}\n"
    )
    with pytest.raises(TabulariumError, match="contradicts"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert not list(books.charges("people"))


def test_an_invariant_beyond_chance_stops_before_publication(tmp_path: Path) -> None:
    """Three hundred records and an invariant of 99 999: it must not be published with tiny margins."""
    spec, home = scene(tmp_path, '  - {name: people, count: 99999, reason: "r"}\n')
    for _ in range(2):
        with pytest.raises(PublicationError, match="invariant people: the measurements contradict it beyond"):
            publish(spec, home)
    assert states(home) == ["measured"], "spent, drawn once, and not published"
    assert not list((tmp_path / "releases").rglob("certificate.json"))


@pytest.mark.parametrize(("count", "wrong"), [(ROWS, 0), (5 * ROWS, 3)])
def test_what_is_published_against_the_measurements_says_so(tmp_path: Path, count: int, wrong: int) -> None:
    known = f'  - {{name: people, count: {count}, reason: "r", on_conflict: publish}}\n'
    heard = Heard()
    with reporting_to(heard):
        folder = Path(publish(*scene(tmp_path, known)).folder)
    (said,) = json.loads((folder / "certificate.json").read_text())["invariants"]
    assert (said["compared"], said["beyond_chance"]) == (3, wrong), "three tables of known variance show it"
    assert any("beyond chance" in note for note in heard.notes) == bool(wrong)
    assert read(folder, "age_sex")["count"].sum() == count, "the spec's word is law"
    asked = CliRunner().invoke(app, ["query", str(folder), "count"], env={"COLUMNS": "250"})
    assert ("WARNING: the measurements contradict invariant people beyond" in asked.stdout) == bool(wrong)


def test_invariants_that_fit_in_pairs_but_not_together_cost_nothing(tmp_path: Path) -> None:
    """Area decides age, area decides sex, yet age and sex are crossed: no counts are like that."""
    spec, home = scene(
        tmp_path,
        '  - {name: ages, dimensions: [area, age], level: province, values: ages.csv, reason: "r"}\n'
        '  - {name: sexes, dimensions: [area, sex], level: province, values: sexes.csv, reason: "r"}\n'
        '  - {name: both, dimensions: [age, sex], values: both.csv, reason: "r"}\n',
    )
    text = spec.read_text()
    start, end = text.index("tables:"), text.index("invariants:")
    whole = 'tables:\n  - {name: all, dimensions: [area, age, sex], levels: {province: "1"}}\n'
    spec.write_text(text[:start] + whole + text[end:])
    cells = [
        (area, age, 9 * ((area, age) in (("A", "0-19"), ("B", "20-64")))) for area in "AB" for age in AGES
    ]
    (tmp_path / "ages.csv").write_text("area,age,count\n" + "".join(f"{a},{g},{n}\n" for a, g, n in cells))
    (tmp_path / "sexes.csv").write_text("area,sex,count\nA,1,9\nA,2,0\nB,1,0\nB,2,9\n")
    crossed = {("0-19", "2"): 9, ("20-64", "1"): 9}
    rows = "".join(f"{age},{sex},{crossed.get((age, sex), 0)}\n" for age in AGES for sex in "12")
    (tmp_path / "both.csv").write_text("age,sex,count\n" + rows)
    with pytest.raises(TabulariumError, match="no non-negative tables") as raised:
        publish(spec, home)
    assert "nothing was charged" in str(raised.value)
    with Ledger.connect(home.ledger_url) as books:
        assert not list(books.charges("people"))


def test_named_exceptions_are_published_by_code(tmp_path: Path) -> None:
    agreement = Agreement.of(load_spec(write_spec(tmp_path)))
    marginal = Violation("marginal", ("area_age", "sex_status"), "sex", None, {"sex": 1}, 1.0)
    cell = Violation("cell", ("area_age",), "age x area x sex", 1, {"age": 0, "sex": 1}, -1.25)
    assert agreement.groups[0].in_words(marginal) == "area_age and sex_status differ at sex 2: +1"
    assert agreement.groups[0].in_words(cell) == (
        "table area_age is more than 1 from its unrounded number at area N, age 0-4, sex 2: -1.25"
    )
