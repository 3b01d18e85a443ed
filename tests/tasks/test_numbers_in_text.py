"""Numbers that stand in text: read as the source says they are written, or refused; nothing is lost silently."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import RuleFailed
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.tasks.validate import validate_microdata
from tabularium.validations.release_spec.load import Loaded, examine, load_spec
from tests.flows.release.scene import publish
from tests.tasks import front

SPEC = """\
product: pay
dataset: survey
period: "2026"
source: {{path: people.csv, delimiter: ";"{source}}}
lookups: {{homes: {{path: homes.csv, key: home, public: the list of homes, delimiter: ";"{look_up}}}}}
privacy: {{unit: record, budget: "1"}}
columns:
  sex: {{categories: [f, m, x], invalid: other, nulls: other, other: x}}
  size: {{from: homes.size, integer: {{from: 0, to: 9999, edges: [1000]}}}}
  age: {{integer: {{from: 0, to: 9999, edges: [1000]}}}}
tables:
  - name: pay
    dimensions: [sex]
    measures: {{sum: {{sum: pay, from: 0, to: 5000, step: "1/2", weight: {{column: weight, to: 3}}}}}}
  - {{name: ages, dimensions: [age, size]}}
{rules}"""
HEADER = "sex;age;pay;weight;home"
GERMAN = ', thousands: ".", decimal: ","'
SWISS = ''', thousands: "'"'''


@dataclass
class Listener(NullReporter):
    notes: list[str] = field(default_factory=list)

    def noted(self, text: str) -> None:
        self.notes.append(text)


def spec(folder: Path, *rows: str, source: str = "", look_up: str = "", rules: str = "") -> Loaded:
    (folder / "people.csv").write_text("\n".join([HEADER, *rows, ""]))
    (folder / "homes.csv").write_text("home;size\nh;1'234\n" if look_up else "home;size\nh;1234\n")
    (folder / "spec.yaml").write_text(SPEC.format(source=source, look_up=look_up, rules=rules))
    found = examine(folder / "spec.yaml")
    assert found.loaded is not None, found.problems
    return found.loaded


def counted(loaded: Loaded) -> tuple[dict[str, list[int]], list[str]]:
    """Validate and count; return the arrays, and what the local terminal shows."""
    scratch, listener = loaded.folder / "scratch", Listener()
    scratch.mkdir(mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    with reporting_to(listener):
        validate_microdata(loaded, handle, scratch, None)
    found = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return {name: cells for (name, _), cells in front.arrays(found).items()}, listener.notes


def test_numbers_are_read_as_the_source_and_the_look_up_write_them(tmp_path: Path) -> None:
    rows = ("f;1.234;1.234,5;1,0;h", "f;7;3;2;h", "m;0.999;0,5;1;h", "m;1.000;;1;h")
    loaded = spec(tmp_path, *rows, source=f'{GERMAN}, max_rejected: "25%"', look_up=SWISS)
    arrays, notes = counted(loaded)
    assert arrays["pay-sum"] == [2 * 1234.5 + 2 * 2 * 3, 0, 0]  # in steps of 1/2; 0.999 is no number
    assert arrays["ages"] == [[0, 1], [0, 2]]
    assert notes == []


@pytest.mark.parametrize(
    ("marks", "rows", "total"),
    [
        ('thousands: ","', ('f,"1,234"', 'm,"1,234,567"', 'f,"2,345.5"', "f,7"), [3586.5, 1_234_567, 0]),
        ('decimal: ","', ('f,"1,5"', "m,20", 'f,"0,5"', "m,"), [2, 20, 0]),
    ],
)
def test_a_quoted_number_holds_the_delimiter(
    marks: str, rows: tuple[str, ...], total: list[float], tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("\n".join(["sex,pay", *rows, ""]))
    (tmp_path / "spec.yaml").write_text(QUOTED.format(marks=marks))
    home = Home.at(tmp_path / "home")
    with Ledger.connect(home.ledger_url) as books:
        books.open_account(
            "survey", unit="record", relation="add-remove", definition="pure", cap=Fraction(10**9)
        )
    folder = Path(publish(tmp_path / "spec.yaml", home).folder)
    with (folder / "pay.csv").open(newline="") as file:
        assert [float(row["total"]) for row in csv.DictReader(file)] == total


@pytest.mark.parametrize(
    ("value", "source"),
    [
        *((value, "") for value in ("1,234", "1.234,5", "1'234", "1 234", "sixty", "nan", "-", "12€")),
        *((value, GERMAN) for value in ("12.34", "1,234.5", "0.123", "1.23.456", "1234.567", "1.234.56")),
    ],
)
@pytest.mark.parametrize("column", ["pay", "weight"])
def test_text_that_is_no_number_is_refused_and_names_the_column(
    column: str, value: str, source: str, tmp_path: Path
) -> None:
    pay, weight = (value, "1") if column == "pay" else ("1", value)
    loaded = spec(tmp_path, f"f;7;{pay};{weight};h", "f;7;1;1;h", source=source)
    with pytest.raises(RuleFailed, match=rf"break numbers\({column}\) \(not a number\); say how") as caught:
        counted(loaded)
    assert value not in str(caught.value) and [each.column for each in caught.value.findings] == [column]


@pytest.mark.parametrize(("most", "passes"), [("49%", False), ("50%", True)])
def test_a_rule_allows_some_and_the_terminal_says_how_many(most: str, passes: bool, tmp_path: Path) -> None:
    rules = f'rules: [{{rule: numbers, column: pay, at_most: "{most}"}}]\n'
    loaded = spec(tmp_path, "f;7;1,2;1;h", "f;7;9000;1;h", "m;7;;1;h", ";7;x;1;h", rules=rules)
    if not passes:
        with pytest.raises(RuleFailed, match=r"numbers\(pay\)"):
            counted(loaded)
        return
    arrays, notes = counted(loaded)
    assert arrays["pay-sum"] == [2 * 5000, 0, 0] and arrays["pay"] == [2, 1, 1]
    assert notes == [
        "column sex: 1 record that is null went to 'x'",
        "column pay: 2 of 4 records hold no number and no null",
        "table pay, measure sum: 1 value of pay beyond 0 to 5,000, counted as the nearer bound",
    ]


def test_what_goes_to_other_is_counted_before_it_does(tmp_path: Path) -> None:
    rules = (
        'rules: [{rule: invalid, column: sex, at_most: "50%"}, {rule: nulls, column: sex, at_most: "0%"}]\n'
    )
    loaded = spec(tmp_path, "z;7;1;9;h", "z;7;1;1;h", ";7;1;1;h", "f;7;1;1;h", rules=rules)
    with pytest.raises(RuleFailed, match=r"break nulls\(sex\) \(null\)"):
        counted(loaded)
    loaded = spec(tmp_path, "z;7;1;9;h", "q;7;1;1;h", "f;7;1;1;h")
    (tmp_path / "scratch" / "metrics.json").unlink()
    listener = Listener()
    with reporting_to(listener):
        handle = ingest_source(loaded, front.SECRET, tmp_path / "scratch")
        validate_microdata(loaded, handle, tmp_path / "scratch", None)
    assert listener.notes == [
        "column sex: 2 records that are invalid went to 'x'",
        "table pay, measure sum: 1 weight of weight beyond 0 to 3, counted as the nearer of them",
    ]


@pytest.mark.parametrize(
    ("source", "field", "what"),
    [
        (', thousands: "."', "source.thousands", "is `.`, and so is what stands before decimals"),
        (', thousands: ",", decimal: ","', "source.thousands", "is `,`, and so is what stands"),
        (', thousands: ";"', "source.thousands", "is not what may stand between thousands"),
        (', thousands: ".."', "source.thousands", "is not what may stand between thousands"),
        (', thousands: "1"', "source.thousands", "is not what may stand between thousands"),
        (', delimiter: ",", quote: none, decimal: ","', "source.decimal", "is `,`, and so is the delimiter"),
        (
            ', delimiter: ",", quote: none, thousands: ","',
            "source.thousands",
            "is `,`, and so is the delimiter",
        ),
        (
            ', delimiter: "_", quote: none, thousands: "_"',
            "source.thousands",
            "is `_`, and so is the delimiter",
        ),
    ],
)
def test_check_refuses_separators_that_mean_something_else(
    source: str, field: str, what: str, tmp_path: Path
) -> None:
    text = SPEC.format(source=source, look_up="", rules="").replace('delimiter: ";", delimiter', "delimiter")
    (tmp_path / "homes.csv").write_text("home;size\nh;1\n")
    (tmp_path / "spec.yaml").write_text(text)
    (problem,) = examine(tmp_path / "spec.yaml").problems
    assert problem.field == field and problem.what.startswith(what) and problem.hint


@pytest.mark.parametrize(
    ("column", "hint"), [("sex", "write rule: invalid"), ("pya", "did you mean `pay`"), ("weight", None)]
)
def test_a_rule_watches_columns_that_are_measured(column: str, hint: str | None, tmp_path: Path) -> None:
    rules = f'rules: [{{rule: numbers, column: {column}, at_most: "1%"}}]\n'
    (tmp_path / "homes.csv").write_text("home;size\nh;1\n")
    (tmp_path / "spec.yaml").write_text(SPEC.format(source="", look_up="", rules=rules))
    problems = examine(tmp_path / "spec.yaml").problems
    assert [each.field for each in problems] == ([] if hint is None else ["rules[0].column"])
    assert all(hint is not None and hint in each.hint for each in problems)


QUOTED = """\
product: pay
dataset: survey
period: "2026"
source: {{path: people.csv, {marks}}}
privacy: {{unit: record, budget: "1000000000"}}
columns: {{sex: {{categories: [f, m, x]}}}}
tables:
  - {{name: pay, dimensions: [sex], measures: {{total: {{sum: pay, from: 0, to: 2000000, step: "1/2"}}}}}}
"""

DATABASE = """\
product: pay
dataset: survey
period: "2026"
source: {url: "duckdb:///people.duckdb", table: people}
privacy: {unit: record, budget: "1"}
columns: {sex: {categories: [f, m]}}
tables:
  - {name: pay, dimensions: [sex], measures: {sum: {sum: pay, from: 0, to: 50}}}
"""


def test_not_a_number_of_a_database_is_null_and_its_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(DATABASE)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as base:
        base.execute("CREATE TABLE people (sex text, pay double)")
        base.execute("INSERT INTO people VALUES ('f', 'nan'), ('f', 7.5), ('m', NULL), ('m', 'inf')")
    loaded = load_spec(tmp_path / "spec.yaml")
    assert counted(loaded)[0]["pay-sum"] == [8, 50]
    with duckdb.connect(str(tmp_path / "people.duckdb")) as base:
        base.execute("ALTER TABLE people ALTER pay TYPE text")
    shutil.rmtree(tmp_path / "scratch")
    with pytest.raises(RuleFailed, match=r"numbers\(pay\)"):
        counted(loaded)
