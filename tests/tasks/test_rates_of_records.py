"""What records add to a rate: a test is true, false, or neither where a null leaves it open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.margins.measure_margins import describe_measure
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import denominator_of, total_over
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.problems import SpecProblems
from tests.sizes import runs
from tests.tasks import front

SPEC = """\
product: labour
dataset: survey
period: "2026"
source: {{path: people.parquet}}
privacy: {{unit: record, budget: "1"}}
columns:
  age: {{integer: {{from: 0, to: 99, edges: [15, 65]}}, nulls: other, other: unknown}}
  sex: {{categories: [f, m]}}
  status: {{categories: [employed, idle, other], nulls: other, invalid: other, other: other}}
tables:
  - name: people
    dimensions: [sex]
    measures:
{measures}"""

Truth = bool | None
#: Each test with what it says of the raw values of a record.
TESTS: dict[str, Any] = {
    "age >= 15": lambda r: None if r.age is None else r.age >= 15,
    "age is null": lambda r: r.age is None,
    "sex = f": lambda r: r.sex == "f",
    "status = employed": lambda r: None if r.status is None else r.status == "employed",
    "status != employed": lambda r: None if r.status is None else r.status != "employed",
    "status is not null": lambda r: r.status is not None,
    "pay is null": lambda r: r.pay is None,
    "pay is not null": lambda r: r.pay is not None,
}
SAID = st.recursive(
    st.sampled_from(sorted(TESTS)),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=5,
)
RECORD = st.tuples(
    st.one_of(st.none(), st.integers(0, 99)),
    st.sampled_from("fm"),
    st.sampled_from(["employed", "idle", "other", "moved", None]),
    st.sampled_from([1.5, -3.0, None]),
)
HEADER = ["age", "sex", "status", "pay"]


def text_of(said: Any) -> str:
    return f"({said})" if isinstance(said, str) else f"({text_of(said[1])} {said[0]} {text_of(said[2])})"


def truth_of(said: Any, record: Any) -> Truth:
    """Kleene's table, written out."""
    if isinstance(said, str):
        return None if TESTS[said](record) is None else bool(TESTS[said](record))
    one, other = (truth_of(each, record) for each in said[1:])
    decided = said[0] == "or"
    if decided in (one, other):
        return decided
    return None if None in (one, other) else not decided


@settings(max_examples=runs(4, 100), deadline=None)
@given(said=st.lists(SAID, min_size=6, max_size=6), rows=st.lists(RECORD, min_size=1, max_size=20))
def test_a_record_adds_to_true_or_to_false_or_to_neither(
    said: list[Any], rows: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rates")
    records = pd.DataFrame(rows, columns=HEADER).astype({"age": "Int64", "pay": "Float64"})
    records.to_parquet(folder / "people.parquet", index=False)
    lines = "".join(
        f'      m{place}: {{percent: "{text_of(each)}"}}\n' for place, each in enumerate([*said, "sex = f"])
    )
    (folder / "spec.yaml").write_text(SPEC.format(measures=lines))
    try:
        loaded = load_spec(folder / "spec.yaml")
    except SpecProblems as error:  # of tests that exclude each other, of one column or of several
        assert re.search("no value of .* passes its tests|no record can pass all these tests", str(error))
        return
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    found = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    cells = {name: np.array(array) for (name, _), array in front.arrays(found).items()}
    raw = list(pd.DataFrame(rows, columns=HEADER, dtype=object).itertuples())
    for place, each in enumerate(said):
        wanted = [
            [sum(r.sex == sex and truth_of(each, r) is truth for r in raw) for truth in (True, False)]
            for sex in "fm"
        ]
        assert cells[f"people-m{place}"].tolist() == wanted, text_of(each)


OVER = """\
product: labour
dataset: survey
period: "2026"
source: {path: people.csv}
privacy: {unit: record, budget: "1"}
columns:
  area: {hierarchy: areas.csv, levels: [region, place]}
  sex: {categories: [f, m]}
  age: {categories: [young, old]}
tables:
  - name: people
    dimensions: [sex, area, age]
    levels: {place: "1"}
    measures:
      of_table: {rate: "age = old", per: 10, over: others}
      of_figures: {rate: "age = old", over: heads}
      of_places: {percent: "age = old", over: known}
  - {name: others, dimensions: [area, age, sex], levels: {place: "1"}}
invariants:
  - {name: known, dimensions: [area], values: known.csv, reason: "registry"}
figures:
  - {name: heads, dimensions: [age, sex], values: heads.csv, reason: "registry"}
"""


def test_what_rates_are_over_stands_at_the_right_cells(tmp_path: Path) -> None:
    """Other dimensions first, fewer of them, sums above the leaves: each number by hand."""
    (tmp_path / "areas.csv").write_text("code,label,parent\nA,A,\nB,B,\nA1,A1,A\nA2,A2,A\nB1,B1,B\n")
    (tmp_path / "known.csv").write_text("area,count\nA1,30\nA2,10\nB1,7\n")
    (tmp_path / "heads.csv").write_text("age,sex,count\nyoung,f,1\nyoung,m,2\nold,f,3\nold,m,4\n")
    (tmp_path / "spec.yaml").write_text(OVER)
    loaded = load_spec(tmp_path / "spec.yaml")
    layouts = Agreement.of(loaded).layouts
    # Of others: node (A, B, A1, A2, B1), then age, then sex.
    counts = np.arange(20.0).reshape(5, 2, 2)
    estimates = {"others": Estimate(counts.reshape(5, 4), np.zeros((1, 1)))}
    wholes = {
        name: denominator_of(loaded, layouts[f"people-{name}"], estimates)
        for name in loaded.spec.tables[0].measures
    }
    found = {name: np.broadcast_to(each.values, (5, 4)) for name, each in wholes.items() if each is not None}
    assert found["of_table"].tolist() == counts.transpose(0, 2, 1).reshape(5, 4).tolist()
    assert found["of_figures"].tolist() == [[1, 3, 2, 4]] * 5
    assert found["of_places"].tolist() == [[each] * 4 for each in (40, 7, 30, 10, 7)]
    measures = loaded.spec.tables[0].measures
    totals = [total_over(loaded, layouts, f"people-{name}", estimates) for name in measures]
    assert totals == [float(np.arange(8).sum()), 10.0, 47.0]
    layout = layouts["people-of_places"]
    description = describe_measure(layout, measures["of_places"], np.full((2, 4), 1.0), {}, 47.0)
    assert description["total"] == pytest.approx(100 * 8 / 47)
