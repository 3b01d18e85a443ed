"""Flags are made of published counts and margins alone, exactly as the rules say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.published_tables import FLAGS, flags, measure_flags, published_table
from tabularium.validations.release_spec.measures.kinds import AnyMeasure
from tabularium.validations.release_spec.publication import Quality
from tests.validations.release_spec.spec_samples import SPEC, load

NONE = np.inf
EXACT = -1.0  # in place of a margin: known without having been measured


def flagged(count: float, margin: float, **rules: object) -> str:
    exact = np.array([margin == EXACT])
    margins = np.array([max(margin, 0)], float)
    return FLAGS[flags(np.array([count], float), margins, Quality.model_validate(rules), exact)[0]]


def flagged_measure(
    kind: dict[str, object], number: float, margin: float, blank: bool = False, **rules: object
) -> str:
    measure = TypeAdapter(AnyMeasure).validate_python(kind)
    found = measure_flags(
        measure,
        np.array([number]),
        np.array([max(margin, 0)]),
        np.array(measure.spans, float),
        Quality.model_validate(rules),
        blank=np.array([blank]),
        exact=np.array([margin == EXACT]),
    )
    return FLAGS[found[0]]


BOTH = {"unreliable": "30%", "suppress": "60%", "at_least": 5}


@pytest.mark.parametrize(
    ("count", "margin", "rules", "expected"),
    [
        (100, 30, BOTH, "reliable"),
        (100, 31, BOTH, "unreliable"),
        (100, 60, BOTH, "unreliable"),
        (100, 61, BOTH, "suppressed"),
        (4, 1, BOTH, "suppressed"),  # fewer than five
        (5, 1, BOTH, "reliable"),
        (4, EXACT, BOTH, "exact"),  # as an invariant
        (0, EXACT, BOTH, "exact"),
        (4, 0, BOTH, "suppressed"),  # measured with hardly any noise, which is not the same
        (0, 0, {"unreliable": "30%"}, "zero"),
        (0, 13, {"unreliable": "30%", "suppress": "60%"}, "zero"),  # no part of nothing
        (0, 13, BOTH, "suppressed"),  # fewer than five
        (0, 61, {"unreliable": 50, "suppress": 60}, "suppressed"),
        (0, NONE, {"unreliable": "30%"}, "unknown"),
        (100, NONE, BOTH, "unknown"),
        (4, NONE, BOTH, "suppressed"),
        (100, NONE, {"at_least": 5}, "reliable"),
        (4, NONE, {"at_least": 5}, "suppressed"),
        (10**6, 51, {"unreliable": 50}, "unreliable"),
        (0, 50, {"unreliable": 50}, "zero"),
        (0, 1, {"unreliable": "500%"}, "zero"),
        (-3.5, 0.25, {"suppress": "500%"}, "suppressed"),  # rounding and non-negativity are off
        (10.5, 3.15, {"unreliable": "30%"}, "reliable"),
        (10.5, 3.16, {"unreliable": "30%"}, "unreliable"),
        (100, 29, {"unreliable": "29%"}, "reliable"),  # 0.29 * 100 < 29 in binary
        (3, 1, {"unreliable": "100/3%"}, "reliable"),
        (60, 31, {"unreliable": "50%", "suppress": 40}, "unreliable"),
    ],
)
def test_flags(count: float, margin: float, rules: dict[str, object], expected: str) -> None:
    assert flagged(count, margin, **rules) == expected


MEDIAN = {"median": "pay", "from": 0, "to": 200_000, "step": 10}
RATE = {"rate": "ill = yes", "per": 1000}
SUM = {"sum": "pay", "from": 0, "to": 200_000}
SIGNED = {"sum": "balance", "from": -100, "to": 100}
THIRD = {"unreliable": "30%"}


@pytest.mark.parametrize(
    ("kind", "number", "margin", "rules", "expected"),
    [
        (MEDIAN, 42_500, 155_000, THIRD, "unreliable"),  # of a range of 200 000
        (MEDIAN, 42_500, 20_000, THIRD, "reliable"),
        (MEDIAN, 42_500, 20_001, THIRD, "unreliable"),
        (MEDIAN, 42_500, 20_001, {**THIRD, "means": {"unreliable": "20%"}}, "reliable"),
        (MEDIAN, 42_500, 20_001, {**THIRD, "means": {"unreliable": "20%", "part_of": "value"}}, "unreliable"),
        (MEDIAN, 42_500, 90_000, {**THIRD, "means": {"unreliable": "20%", "suppress": "40%"}}, "suppressed"),
        (MEDIAN, np.nan, np.nan, THIRD, "suppressed"),  # too few records to show one
        (MEDIAN, np.nan, EXACT, THIRD, "exact"),  # nobody can be there
        (RATE, 0, 100, THIRD, "reliable"),  # ten points
        (RATE, 0, 101, THIRD, "unreliable"),
        (RATE, 3, 51, {**THIRD, "rates": {"unreliable": "5%"}}, "unreliable"),
        (RATE, 3, NONE, THIRD, "unknown"),
        ({"percent": "ill = yes"}, 3, 11, THIRD, "unreliable"),
        (SUM, 1_000, 300, THIRD, "reliable"),
        (SUM, 1_000, 301, THIRD, "unreliable"),
        (SUM, 1_000, 301, {**THIRD, "sums": {"unreliable": "40%"}}, "reliable"),
        (SUM, 1_000, 301, {"unreliable": 50}, "unreliable"),  # a limit of counts is none of sums
        (SUM, 0, 301, THIRD, "zero"),
        (SIGNED, 0, 301, THIRD, "unreliable"),
        (SIGNED, -1_000, 300, THIRD, "reliable"),
    ],
)
def test_each_measure_has_the_limits_of_its_kind(
    kind: dict[str, object], number: float, margin: float, rules: dict[str, object], expected: str
) -> None:
    assert flagged_measure(kind, number, margin, **rules) == expected
    assert flagged_measure(kind, number, margin, True, **rules) == (
        "exact" if expected == "exact" else "suppressed"
    )


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 400))
def test_a_percentage_is_compared_exactly(count: int, margin: int, percent: int) -> None:
    found = flagged(count, margin, unreliable=f"{percent}%")
    assert (found == "unreliable") == (margin > Fraction(percent, 100) * count)


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_suppressed_is_blank_and_all_else_is_as_without_rules(whole: bool, tmp_path: object) -> None:
    loaded = load(tmp_path, SPEC)  # type: ignore[arg-type]
    layout = Layout.of(loaded, loaded.spec.tables[0])
    random = np.random.default_rng(3)
    values = random.integers(-2, 60, (layout.nodes, layout.cells)).astype(float)
    half = random.integers(0, 40, values.shape).astype(float)
    half[random.random(values.shape) < 0.2] = np.inf
    estimate = Estimate(values if whole else values + 0.25, np.ones((layout.nodes, 1)))
    rules = Quality.model_validate(BOTH)
    plain = published_table(layout, estimate, half, whole=whole).whole()
    judged = published_table(layout, estimate, half, whole=whole, quality=rules).whole()
    names = judged.column_names
    assert names[names.index("quality") + 1 :] == ["count", "margin"]
    assert [name for name in names if name != "quality"] == plain.column_names
    assert set(judged["quality"].to_pylist()) == {*FLAGS} - {"zero", "exact"}  # zeros are below five
    blank = pc.equal(judged["quality"].cast(pa.string()), "suppressed")
    for name in ("count", "margin"):
        assert pc.all(pc.is_null(judged[name].filter(blank))).as_py()
        assert judged[name].type == plain[name].type
        assert judged[name].filter(pc.invert(blank)).equals(plain[name].filter(pc.invert(blank)))
    # From what is published alone: a reader who has the plain table comes to the same flags.
    margin = plain["margin"].cast(pa.float64()).fill_null(np.inf).to_numpy()
    again = flags(plain["count"].cast(pa.float64()).to_numpy(), margin, rules)
    assert [FLAGS[each] for each in again] == judged["quality"].to_pylist()
