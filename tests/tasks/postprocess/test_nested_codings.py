"""Two codings of one column: what lies in what, and tables that agree on it, by exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.nested_universes import CellEmbedding, codes_at
from tabularium.validations.derivation import chains_of, parents_of
from tabularium.validations.domains.domains import CategoryDomain, Domain, NumberDomain
from tabularium.validations.release_spec.columns import DatePart, Derivation
from tabularium.validations.release_spec.load import load_spec
from tests.sizes import runs

SPEC = """\
product: people
dataset: survey
period: "2026"
source: {path: people.csv}
privacy: {unit: record, budget: "1"}
columns:
  years: {from: AGEP, integer: {from: 0, to: 6}}
  groups: {from: AGEP, integer: {from: 0, to: 6, edges: [2, 5]}}
  halves: {from: AGEP, integer: {from: 0, to: 6, edges: [5]}}
  thirds: {from: AGEP, integer: {from: 0, to: 6, edges: [3]}}
  sex: {categories: [f, m]}
tables:
"""


def agreement(folder: Path, *tables: str) -> Agreement:
    lines = [f"  - {{name: t{place}, dimensions: [{names}]}}\n" for place, names in enumerate(tables)]
    (folder / "spec.yaml").write_text(SPEC + "".join(lines))
    return Agreement.of(load_spec(folder / "spec.yaml"))


@pytest.mark.parametrize(
    ("fine", "coarse", "parents"),
    [
        ("{from: 0, to: 9, edges: [0.5, 2.25, 3]}", "{from: 0, to: 9, edges: [0.5, 3]}", [0, 1, 1, 2]),
        ("{from: 0, to: 9, edges: [0.5, 2.25, 3]}", "{from: 0, to: 9, edges: [0.4]}", None),
        ("{from: 0, to: 9, edges: [0.5, 3]}", "{from: 0, to: 9, edges: [3]}", None),  # which rejects 0.7
        ("{from: 0, to: 9, edges: [2, 3]}", "{from: 0, to: 9, edges: [3], floor: true}", None),
        (
            "{from: 0, to: 9, edges: [2, 3], floor: true}",
            "{from: 0, to: 9, edges: [3], floor: true}",
            [0, 0, 1],
        ),
    ],
)
def test_classes_of_decimals_are_nested_where_their_edges_are(
    fine: str, coarse: str, parents: list[int] | None, tmp_path: Path
) -> None:
    columns = f"  fine: {{from: x, integer: {fine}}}\n  coarse: {{from: x, integer: {coarse}}}\n"
    tables = "  - {name: a, dimensions: [fine]}\n  - {name: b, dimensions: [coarse]}\n"
    (tmp_path / "spec.yaml").write_text(SPEC.replace("tables:\n", columns + "tables:\n") + tables)
    loaded = load_spec(tmp_path / "spec.yaml")
    found = parents_of("fine", "coarse", loaded.spec.columns, loaded.domains)
    assert (None if found is None else found.tolist()) == parents


# 0-1, 2-4 and 5-6: of two, three and two years
GROUP = np.array([0, 0, 1, 1, 1, 2, 2])


def test_least_squares_of_two_codings_worked_out_in_fractions(tmp_path: Path) -> None:
    made = agreement(tmp_path, "years", "groups")
    years, groups = [5, -1, 7, 2, 3, 0, 4], [9, 9, 9]
    wanted_years, wanted_groups = [], []
    for group, total in enumerate(groups):
        cells = [Fraction(n) for n, of in zip(years, GROUP, strict=True) if of == group]
        # Each year has variance 3, a group 2: their precisions weigh the two totals.
        own, other = Fraction(1, 2), Fraction(1, 3 * len(cells))
        best = (own * total + other * sum(cells)) / (own + other)
        wanted_groups.append(best)
        wanted_years += [cell + (best - sum(cells)) / len(cells) for cell in cells]
    agreed = made.consistent(
        {
            "t0": Estimate(np.array([years], float), np.array([[3.0]])),
            "t1": Estimate(np.array([groups], float), np.array([[2.0]])),
        }
    ).estimates
    assert agreed["t0"].values.ravel() == pytest.approx([float(each) for each in wanted_years], abs=1e-9)
    assert agreed["t1"].values.ravel() == pytest.approx([float(each) for each in wanted_groups], abs=1e-9)
    # The variance of a group: of two independent totals, weighed.
    spread = [float(1 / (Fraction(1, 2) + Fraction(1, 3 * n))) for n in (2, 3, 2)]
    shown = np.broadcast_to(agreed["t1"].variances, (1, 3)).ravel()
    assert shown == pytest.approx(spread, rel=1e-6)
    assert agreed["t0"].values.shape == (1, 7) and agreed["t0"].variances.shape in {(1, 1), (1, 7)}


@settings(max_examples=runs(15, 300), deadline=None)
@given(seed=st.integers(0, 10**6), noise=st.sampled_from([0.5, 5.0, 60.0]))
def test_published_tables_of_three_codings_agree_exactly(
    seed: int, noise: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = agreement(tmp_path_factory.mktemp("three"), "years, sex", "sex, groups", "halves", "sex")
    random = generator(seed)
    sizes = {"t0": 14, "t1": 6, "t2": 2, "t3": 2}
    measured = {
        name: Estimate(
            random.integers(-3, 40, (1, size)) + np.rint(random.normal(0, noise, (1, size))), np.ones((1, 1))
        )
        for name, size in sizes.items()
    }
    step = made.nonnegative(made.consistent(measured).estimates)
    assert all((each.values >= 0).all() for each in step.estimates.values())
    whole = made.whole(step.estimates)
    assert not whole.notes["named"]
    tables = {name: each.values.astype(int) for name, each in whole.estimates.items()}
    assert made.differences({name: each.astype(float) for name, each in tables.items()}) == 0
    years, groups = tables["t0"].reshape(7, 2), tables["t1"].reshape(2, 3).T
    for group in range(3):
        assert years[group == GROUP].sum(axis=0).tolist() == groups[group].tolist()
    assert tables["t2"].ravel().tolist() == [int(groups[:2].sum()), int(groups[2].sum())]
    assert tables["t3"].ravel().tolist() == years.sum(axis=0).tolist()
    wrong = dict(tables)
    wrong["t1"] = wrong["t1"] + np.array([[1, -1, 0, 0, 0, 0]])
    assert made.differences({name: each.astype(float) for name, each in wrong.items()}) >= 2


def test_codings_that_are_not_nested_share_the_rest(tmp_path: Path) -> None:
    made = agreement(tmp_path, "years, sex", "groups, sex", "thirds, sex")
    (group,) = made.groups
    assert [chain.names for chain in group.chains] == [("thirds", "years")] or [
        chain.names for chain in group.chains
    ] == [("groups", "years")]
    alone = agreement(tmp_path, "groups", "thirds")
    assert not alone.groups[0].chains
    both = agreement(tmp_path, "years, groups", "years")
    assert not both.groups[0].chains, "a table with two codings of one column"


def integers(name: str, *edges: int, **options: str) -> Domain:
    labels = tuple(map(str, edges[:-1])) + ((options["other"],) if "other" in options else ())
    return NumberDomain(name, edges, labels, **options)  # type: ignore[arg-type]


def codes(name: str, *known: str, **options: str) -> Domain:
    return CategoryDomain(name, known, known, **options)  # type: ignore[arg-type]


OTHER = {"nulls": "other", "invalid": "other"}


@pytest.mark.parametrize(
    ("fine", "coarse", "maps", "parents"),
    [
        (integers("a", 0, 1, 2, 3), integers("b", 0, 2, 3), ({}, {}), [0, 0, 1]),
        (integers("a", 0, 1, 2, 3), integers("b", 0, 2, 4), ({}, {}), None),
        (integers("a", 0, 1, 3), integers("b", 0, 2, 3), ({}, {}), None),
        (
            integers("a", 0, 1, 3, other="x", **OTHER),
            integers("b", 0, 3, other="y", **OTHER),
            ({}, {}),
            [0, 0, 1],
        ),
        (integers("a", 0, 1, 3, other="x", nulls="other"), integers("b", 0, 3), ({}, {}), None),
        (
            codes("a", "1", "2", "3"),
            codes("b", "x", "y"),
            ({}, {"map": {"1": "x", "2": "y", "3": "x"}}),
            [0, 1, 0],
        ),
        (codes("a", "1", "2", "3"), codes("b", "x", "y"), ({}, {"map": {"1": "x", "2": "y"}}), None),
        (
            codes("a", "1", "2", "3"),
            codes("b", "x", "y", invalid="other", other="y"),
            ({}, {"map": {"1": "x", "2": "y"}}),
            [0, 1, 1],
        ),
        (
            codes("a", "1", "2", other="2", **OTHER),
            codes("b", "x", "y"),
            ({}, {"map": {"1": "x", "2": "y"}}),
            [0, 1],
        ),
        (
            codes("a", "1", "2", other="2", **OTHER),
            codes("b", "x", other="x", **OTHER),
            ({}, {"map": {"1": "x"}}),
            [0, 0],
        ),
        (
            codes("a", "1", "2", other="2", **OTHER),
            codes("b", "x", "y", other="x", **OTHER),
            ({}, {"map": {"1": "x", "2": "y"}}),
            None,
        ),
        (codes("a", "1", "2"), codes("b", "1", "2"), ({}, {"date": DatePart(part="month")}), None),
    ],
)
def test_what_lies_in_what(
    fine: Domain, coarse: Domain, maps: tuple[dict, dict], parents: list[int] | None
) -> None:
    columns = {"a": Derivation(source_column="s", **maps[0]), "b": Derivation(source_column="s", **maps[1])}
    found = parents_of("a", "b", columns, {"a": fine, "b": coarse})
    assert (found is None) == (parents is None)
    assert found is None or found.tolist() == parents


def test_cells_go_to_their_places_and_back() -> None:
    domains = {"a": integers("a", 0, 1, 2, 3), "b": integers("b", 0, 2, 3), "c": codes("c", "x", "y")}
    columns = {name: Derivation(source_column="s") for name in "ab"} | {"c": Derivation()}
    (chain,) = chains_of(columns, domains, [["a", "c"], ["b"]])
    assert (chain.names, chain.sizes, chain.axes) == (("b", "a"), (2, 2), ("b", "a in b"))
    for order in (["a", "c"], ["c", "a"]):
        spread = CellEmbedding.of([domains[name] for name in order], [chain])
        cells = np.arange(1.0, 7.0)[None]
        places = spread.values(cells)
        assert places.shape == (1, 8) and places.sum() == cells.sum()
        assert spread.cells(places).tolist() == cells.tolist()
        given = spread.estimate(Estimate(cells, np.array([[2.0]])))
        assert ((given.variances == 0) == (places == 0)).all()
        sizes = list(spread.flat.items())
        found = set()
        for place in product(*(range(size) for _, size in sizes)):
            code = codes_at(dict(zip(spread.flat, place, strict=True)), [chain], domains)
            found.add((code["a"], code["c"]))
        assert found - {("", "x"), ("", "y")} == set(product(["0", "1", "2"], "xy"))
    assert codes_at({"b": 1}, [chain], domains) == {"b": "2"}
