"""Shares of a whole: what they are of, and intervals that hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Hierarchy, consistency
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import (
    Answer,
    Axes,
    Measurement,
    NoisyTable,
    PublishedTable,
    QueryTable,
    TreeAttribute,
    ask,
    describe,
    measures,
    parse,
)
from tests.mechanisms.queries.scene import AREA, CUTS, FLAT, PEOPLE, SEX, TREE, counts_of, flat_sums
from tests.sizes import runs

Floats = NDArray[np.float64]


def groups(answer: Answer) -> dict[tuple[str, ...], float | None]:
    return {tuple(code for code, _ in row.group): row.value for row in answer.rows}


@pytest.mark.parametrize(
    ("text", "shares_of"),
    [
        # 302 of 603 people are women; ages by sex are 30 31, 52 48, 200 210, 20 12
        ("share by sex", {("F",): 302 / 603, ("M",): 301 / 603}),
        ("SHARE group by sex where age < 5", {("F",): 30 / 61, ("M",): 31 / 61}),
        ("share where age < 5", {(): 61 / 603}),
        ("percent where age < 5", {(): 6100 / 603}),
        ("percentage(age < 5)", {(): 6100 / 603}),
        ("share(age < 5) by sex", {("F",): 30 / 302, ("M",): 31 / 301}),
        ("share(age < 5) by sex where age < 20", {("F",): 30 / 82, ("M",): 31 / 79}),
        ("share(age < 5 or sex = F) where age < 20", {(): 113 / 161}),
        ("share(sex = F) where age < 5 or (age < 20 and sex = M)", {(): 30 / 109}),
        ("share(sex = F) by sex", {("F",): 1.0, ("M",): 0.0}),
        (
            "share by age within sex where age >= 20",
            {
                ("F", "20-64"): 200 / 220,
                ("F", "65-99"): 20 / 220,
                ("M", "20-64"): 210 / 222,
                ("M", "65-99"): 12 / 222,
            },
        ),
    ],
)
def test_shares_worked_by_hand(text: str, shares_of: dict[tuple[str, ...], float]) -> None:
    assert groups(ask(text, [PEOPLE])) == pytest.approx(shares_of)


def places(*counts: float) -> QueryTable:
    """Five places of three provinces, measured by themselves; C, A1, A2, B1, B2."""
    axes = Axes(AREA, (SEX,))
    cells = np.repeat(np.array(counts), 2).reshape(5, 2)
    return QueryTable("areas", axes, NoisyTable(axes, (Measurement(AREA.leaves, cells, 1.0),)))


def test_shares_of_a_hierarchy() -> None:
    table = places(100, 200, 300, 150, 250)
    assert groups(ask("share by province", [table])) == pytest.approx({("A",): 0.5, ("B",): 0.4, ("C",): 0.1})
    found = groups(ask("percent by place within province where area = A", [table]))
    assert found == pytest.approx({("A1",): 40.0, ("A2",): 60.0})
    assert groups(ask("share(area = A1 or sex = F) where area in (A, C)", [table])) == pytest.approx(
        {(): 800 / 1200}
    )


def test_a_percent_of_a_name_is_a_rate() -> None:
    rate = parse("percent(retired) by sex")
    assert (rate.measure, rate.percent) == ("rate", True)
    assert parse("percent(retired = yes) by sex").percent


def test_an_answer_says_what_its_shares_are_of() -> None:
    def said(text: str) -> str:
        return describe(ask(text, [PEOPLE]))

    assert "Shares are of all records of the table, and together" in said("share by sex")
    assert "Shares are in percent of all records of the table within each sex, and" in said(
        "percent by age within sex"
    )
    assert "of the records that pass the tests behind `where`, and" in said("share by sex where age < 5")
    assert "how many pass the tests, of all records of the table in its row." in said("share(age < 5) by sex")


# --- errors


def tree_of(counts: NDArray[np.int64], spread: tuple[float, ...], seed: int) -> NoisyTable:
    """Every level of ``TREE`` measured with Gaussian noise of its own spread."""
    nodes = np.zeros((len(TREE.parents), *TREE.shape))
    nodes[TREE.leaves] = counts
    for node in range(len(nodes) - 1, 0, -1):
        nodes[TREE.parents[node]] += nodes[node]
    draw = generator(seed)
    return NoisyTable(
        TREE,
        tuple(
            Measurement(cut, nodes[cut] + draw.normal(0, sigma, nodes[cut].shape), sigma**2)
            for cut, sigma in zip(CUTS.values(), spread, strict=True)
        ),
    )


LEAVES = counts_of((len(TREE.leaves), *TREE.shape))
SPREAD = (6.0, 2.0, 4.0)
ON_THE_TREE = (
    "share by province",
    "share by place within province",
    "share by sex within province",
    "share by province, sex",
    "share by place within sex where age < 20",
    "share(area = A) where age < 20 or sex = F",
    "share(area = A or sex = F) by age",
    "share(age < 20) by place",
    "share by age",
)


def as_published(source: NoisyTable, *, exact: bool) -> PublishedTable:
    """The estimates of a table as what was published, with variances that are known or merely bounded."""
    errors = np.sqrt(source.estimated_variances)
    return PublishedTable(
        source.axes,
        source.estimates,
        np.broadcast_to(1.7 * errors[:, None, None], source.estimates.shape),
        np.ones(len(errors), bool),
        errors,
        0.9,
        source if exact else None,
    )


KINDS: dict[str, Any] = {
    "measurements": lambda source: QueryTable("t", TREE, source),
    "published": lambda source: QueryTable("t", TREE, None, as_published(source, exact=True)),
    "bounds": lambda source: QueryTable("t", TREE, None, as_published(source, exact=False)),
}


def truth(text: str) -> dict[tuple[str, ...], float | None]:
    exact = NoisyTable(TREE, (Measurement(TREE.leaves, LEAVES, 1e-6),))
    return groups(ask(text, [QueryTable("t", TREE, exact)]))


def caught(text: str, kind: str, factor: float, times: int) -> Floats:
    """Return, for every row, how often its interval held the truth; noise is ``factor`` times what is said."""
    true, found = truth(text), np.zeros(1)
    for seed in range(times):
        noisy = tree_of(LEAVES, tuple(factor * sigma for sigma in SPREAD), seed)
        said = NoisyTable(
            TREE,
            tuple(
                Measurement(part.nodes, part.values, sigma**2)
                for part, sigma in zip(noisy.measurements, SPREAD, strict=True)
            ),
        )
        answer = ask(text, [KINDS[kind](said)])
        inside = []
        for row in answer.rows:
            exact = true[tuple(code for code, _ in row.group)]
            assert exact is not None
            assert row.low is not None
            assert row.high is not None
            inside.append(row.low - 1e-9 <= exact <= row.high + 1e-9)
        found = found + np.array(inside)
    return np.asarray(found / times)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ON_THE_TREE)
def test_intervals_hold_the_true_share_as_often_as_they_say(text: str, kind: str) -> None:
    found = caught(text, kind, 1.0, times := runs(30, 150))
    # At 90 %, so few come four times in a million; the seeds are the same each time.
    deviation = np.sqrt(0.09 / times)
    assert found.min() >= 0.9 - 4.9 * deviation, found
    assert found.mean() >= 0.9 - 1.2 * deviation, found


@pytest.mark.parametrize("text", ["share by province", "share(area = A) where age < 20 or sex = F"])
def test_noise_that_is_larger_than_said_is_found_out(text: str) -> None:
    """So that intervals which hold by being far too wide would not pass for good ones."""
    assert caught(text, "measurements", 1.0, runs(150, 400)).mean() < 0.95
    assert caught(text, "measurements", 1.5, runs(150, 400)).mean() < 0.85


def test_variances_are_those_of_least_squares() -> None:
    """Against the covariances of all leaves with each other, from what each measurement weighs."""
    text, source = "share by province, sex", tree_of(LEAVES, SPREAD, 3)
    answer = ask(text, [QueryTable("t", TREE, source)])
    leaves, weights = TREE.leaves, []
    for cut, sigma in zip(CUTS.values(), SPREAD, strict=True):
        for node in cut:
            shown = np.zeros((len(TREE.parents), 1))
            precision = 1 / source.measured_variances[node]
            shown[node] = 1 / sigma**2 / precision
            found = consistency(Hierarchy(TREE.parents), shown, source.measured_variances)
            weights.append(found.values[leaves, 0] * sigma)
    covariance = np.array(weights).T @ np.array(weights)  # of the leaves of one column
    total = source.estimates[leaves].sum()
    provinces = TREE.attributes[0].groups("province")
    for row in answer.rows:
        province, sex = (code for code, _ in row.group)
        assert row.value is not None
        inside = provinces.of == provinces.codes.index(province)
        factors = [np.where(inside & (code == sex), 1 - row.value, -row.value) for code in SEX.codes]
        variance = 7 * sum(factor @ covariance @ factor for factor in factors)  # seven ages
        assert row.standard_error == pytest.approx(np.sqrt(variance) / total, rel=1e-6)


def test_of_too_many_rows_errors_are_bounded_by_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (
        QueryTable("t", TREE, tree_of(LEAVES, SPREAD, 1)),
        QueryTable("t", FLAT, flat_sums("boost", {})),
    ):
        text = "share by province" if table.axes is TREE else "share(age < 20) by sex"
        exact = ask(text, [table])
        with monkeypatch.context() as patch:
            patch.setattr(measures, "MOST_WORK", 0)
            worst = ask(text, [table])
        assert measures.WORST in describe(worst)
        assert measures.WORST not in describe(exact)
        for one, other in zip(exact.rows, worst.rows, strict=True):
            assert one.value == pytest.approx(other.value)
            assert one.standard_error <= other.standard_error  # type: ignore[operator]
            assert other.low <= one.low <= one.high <= other.high  # type: ignore[operator]


def test_shares_of_what_sums_were_measured_of() -> None:
    """Least squares over ranges: a share has the variance of its parts and what these have in common."""
    table = flat_sums("boost", {})
    counts = counts_of((7, 2, 4))
    answer = ask("share(age < 20) by sex", [QueryTable("t", FLAT, table)])
    for place, row in enumerate(answer.rows):
        exact = counts[:3, place].sum() / counts[:, place].sum()
        assert row.value == pytest.approx(exact, abs=5 * row.standard_error)  # type: ignore[operator]
    assert answer.method == "least squares"


def test_the_share_of_next_to_nobody_may_be_anything() -> None:
    row = ask("share(sex = F) where area = C", [places(0.4, 200, 300, 150, 250)]).rows[0]
    assert (row.low, row.high) == (0.0, 1.0)
    nobody = ask("share(sex = F) where area = C", [places(-3, 200, 300, 150, 250)]).rows[0]
    assert nobody.value is None


def test_what_the_published_tables_say_stands_beside() -> None:
    source = tree_of(LEAVES, SPREAD, 1)
    table = QueryTable("t", TREE, source, as_published(source, exact=True))
    answer = ask("share by province", [table])
    assert [row.published for row in answer.rows] == pytest.approx([row.value for row in answer.rows])
    assert sum(row.value for row in answer.rows) == pytest.approx(1.0)  # type: ignore[misc]


def test_what_is_all_or_nothing_of_its_whole_is_so_exactly() -> None:
    for text, share in (("share(sex = F) by sex", 1.0), ("share by age within age", 1.0)):
        row = ask(text, [PEOPLE]).rows[0]
        assert (row.value, row.low, row.high) == (share, share, share)
    nothing = ask("share(sex = F) by sex", [PEOPLE]).rows[1]
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)


@pytest.mark.filterwarnings("error")
def test_tables_of_unknown_error_are_asked_last() -> None:
    known = as_published(tree_of(LEAVES, SPREAD, 1), exact=False)
    unknown = replace(known, rms_error=np.full_like(known.rms_error, np.inf))
    tables = [QueryTable("unknown", TREE, None, unknown), QueryTable("known", TREE, None, known)]
    assert ask("share by sex", tables).table == "known"
    assert ask("share by sex", tables[::-1]).table == "known"


def test_suppressed_cells_stop_no_answer_from_measurements() -> None:
    source = tree_of(LEAVES, SPREAD, 1)
    shown = as_published(source, exact=False)
    gaps = shown.values.copy()
    gaps[TREE.leaves[0]] = np.nan
    table = QueryTable("t", TREE, source, replace(shown, values=gaps))
    answer = ask("share by sex", [table])
    assert answer.method == "least squares"
    assert ask("count by sex where area = C", [table]).rows[0].published is None


@pytest.mark.parametrize(
    "text", ["share by place within province", "share by place within province where area = A"]
)
def test_the_only_child_of_a_region_may_be_published_with_another_number(text: str) -> None:
    """The same people were measured twice, and levels not made to agree: the true share is 1."""
    tree = TreeAttribute(
        *("area", CODES := ("N", "A", "B", "A1", "B1"), CODES),
        *(np.array([-1, 0, 0, 1, 2]), np.array([0, 1, 1, 2, 2]), ("nation", "province", "place")),
    )
    axes = Axes(tree, (SEX,))
    values = np.array([[210, 200], [110, 100], [100, 100], [90, 80], [100, 100]])
    rms_error = np.full(5, 8.0)
    margin = np.broadcast_to(1.7 * rms_error[:, None], values.shape)
    published = PublishedTable(axes, values, margin, np.ones(5, bool), rms_error, 0.9)
    for row in ask(text, [QueryTable("t", axes, None, published)]).rows:
        assert row.low is not None and row.high is not None
        assert row.low < 0.9 and row.high == 1.0, row
