"""Tables of a part of the records agree with tables of all, where cells decide the part: by exact arithmetic."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.joint import joint_rounding
from tabularium.tasks.postprocess.postprocessing import CONSISTENCY, PostProcessor
from tabularium.tasks.postprocess.table_layout import measured_tree
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.universes.universe import universe_of
from tests.sizes import runs

AREAS = "code,label,parent\nN,N,\nA,A,N\nB,B,N\nA1,A1,A\nA2,A2,A\nB1,B1,B\n"
SPEC = """\
product: labour
dataset: people
period: "2026"
source: {path: people.csv}
privacy: {unit: record, budget: "1"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, region, place]}
  years: {from: AGEP, integer: {from: 0, to: 9}}
  age: {from: AGEP, integer: {from: 0, to: 9, edges: [3, 7]}}
  status: {categories: [employed, idle, unknown], nulls: other, other: unknown}
  sex: {categories: [f, m]}
  job: {categories: [x, y, z]}
tables:
"""
EVERYBODY = "{name: everybody, dimensions: [age, status, sex]}"
WORKERS = 'where: "age >= 3 and status = employed"'


def loaded(folder: Path, *tables: str) -> Loaded:
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC + "".join(f"  - {each}\n" for each in tables))
    return load_spec(folder / "spec.yaml")


def groups(folder: Path, *tables: str) -> list[list[str]]:
    return [sorted(group.layouts) for group in PostProcessor.of(loaded(folder, *tables)).agreement.groups]


@pytest.mark.parametrize(
    ("tables", "joined"),
    [
        ([EVERYBODY, f"{{name: sub, dimensions: [sex], {WORKERS}}}"], True),
        ([EVERYBODY, f"{{name: sub, dimensions: [job, age], {WORKERS}}}"], True),
        # The coding that is tested lies in the one that is crossed, but not the other way round.
        (["{name: a, dimensions: [years, sex]}", '{name: sub, dimensions: [sex], where: "age >= 3"}'], True),
        (["{name: a, dimensions: [age, sex]}", '{name: sub, dimensions: [sex], where: "years >= 3"}'], False),
        # Two codings of one column in one table.
        (
            [
                "{name: a, dimensions: [years, sex]}",
                "{name: b, dimensions: [age]}",
                '{name: sub, dimensions: [years, age], where: "age >= 3"}',
            ],
            False,
        ),
        # No one table has both columns.
        (
            [
                "{name: a, dimensions: [age, sex]}",
                "{name: b, dimensions: [status]}",
                f"{{name: sub, dimensions: [sex], {WORKERS}}}",
            ],
            False,
        ),
        # Nulls are counted as `unknown`, and pass no test.
        ([EVERYBODY, '{name: sub, dimensions: [sex], where: "status != employed"}'], False),
        ([EVERYBODY, '{name: sub, dimensions: [sex], where: "status = unknown or status is null"}'], True),
        ([EVERYBODY, '{name: sub, dimensions: [sex], where: "status is null"}'], False),
        ([EVERYBODY, '{name: sub, dimensions: [sex], where: "status = idle or age < 3"}'], False),
        ([EVERYBODY, '{name: sub, dimensions: [sex], where: "job = x"}'], False),
        # A universe in a universe, without a table of all records.
        (
            [
                '{name: a, dimensions: [status, sex], where: "age >= 3"}',
                f"{{name: sub, dimensions: [job], {WORKERS}}}",
            ],
            True,
        ),
        (
            [
                '{name: a, dimensions: [status, sex], where: "age >= 7"}',
                f"{{name: sub, dimensions: [job], {WORKERS}}}",
            ],
            False,
        ),
        # Places that the holder does not have.
        ([EVERYBODY, f"{{name: sub, dimensions: [area], {WORKERS}}}"], False),
        (
            [
                "{name: a, dimensions: [area, age, status]}",
                f"{{name: sub, dimensions: [area, job], {WORKERS}}}",
            ],
            True,
        ),
    ],
)
def test_what_cells_decide_is_joined_and_nothing_else(
    tables: list[str], joined: bool, tmp_path: Path
) -> None:
    assert (len(groups(tmp_path, *tables)) == 1) == joined


@pytest.mark.parametrize(
    ("where", "zero"),
    [
        ("status = idle", [True, False, True]),
        ("status is null", [True, True, False]),  # they are counted as unknown
        ("status != idle and sex = f", [False, True, False]),
        ("status = idle or sex = f", [False, False, False]),
    ],
)
def test_cells_outside_of_a_universe_are_zero(where: str, zero: list[bool], tmp_path: Path) -> None:
    made = loaded(tmp_path, f'{{name: some, dimensions: [status], where: "{where}"}}')
    (layout,) = PostProcessor.of(made).agreement.layouts.values()
    assert ([False] * 3 if layout.impossible is None else layout.impossible[0].tolist()) == zero
    assert layout.measured_shape("") == (3 - sum(zero),)


def test_overlapping_parts_of_one_column_are_not_both_joined(tmp_path: Path) -> None:
    some = '{name: some, dimensions: [sex], where: "age < 7"}'
    other = '{name: other, dimensions: [sex], where: "age >= 3"}'
    inner = '{name: inner, dimensions: [sex], where: "3 <= age < 7"}'
    assert groups(tmp_path, EVERYBODY, some, other) in (
        [["everybody", "some"], ["other"]],
        [["everybody", "other"], ["some"]],
    )
    assert groups(tmp_path, EVERYBODY, some, inner) == [["everybody", "inner", "some"]]


# --- exact arithmetic


def axes(made: Loaded, post: PostProcessor, name: str) -> list[str]:
    layout = post.agreement.layouts[name]
    return [*([layout.along.name] if layout.along else []), *(each.name for each in layout.others)]


def at_leaves(
    made: Loaded, post: PostProcessor, name: str, table: NDArray[np.float64]
) -> NDArray[np.float64]:
    layout = post.agreement.layouts[name]
    sizes = tuple(each.size for each in layout.others)
    if layout.along is None:
        return table.reshape(sizes)
    return table[layout.along.leaves].reshape(-1, *sizes)


def inside(made: Loaded, post: PostProcessor, name: str, where: str | None) -> NDArray[np.bool_]:
    """Which leaf cells of a table are in a universe whose columns it has, worked out cell by cell."""
    masks = {} if where is None else universe_of(where, made.domains).columns
    names = axes(made, post, name)
    sizes = [made.domains[each].size for each in names]
    found = np.ones(sizes, bool)
    for cell in product(*map(range, sizes)):
        own = dict(zip(names, cell, strict=True))
        if "years" in own:
            own["age"] = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2][own["years"]]
        found[cell] = all(mask[own[column]] for column, mask in masks.items() if column in own)
    return found


def agree(
    made: Loaded, post: PostProcessor, tables: dict[str, NDArray[np.float64]], one: str, other: str
) -> None:
    """See that the first, cut down to the universe of the second, shows the same along what both have."""
    where = next(each.where for each in made.spec.tables if each.name == other)
    shared = [name for name in axes(made, post, one) if name in axes(made, post, other)]
    shown = []
    for name in (one, other):
        table = at_leaves(made, post, name, tables[name]) * inside(made, post, name, where)
        names = axes(made, post, name)
        summed = table.sum(axis=tuple(place for place, each in enumerate(names) if each not in shared))
        left = [each for each in names if each in shared]
        shown.append(summed.transpose([left.index(each) for each in shared]))
    assert (shown[0] == shown[1]).all(), (one, other)


CASES = {
    "parts and parts of parts": (
        [
            EVERYBODY,
            f"{{name: workers, dimensions: [sex], {WORKERS}}}",
            f"{{name: jobs, dimensions: [job, sex], {WORKERS}}}",
            '{name: grown, dimensions: [age, sex], where: "age >= 3"}',
            "{name: jobless, dimensions: [job, age]}",
        ],
        [("everybody", "workers"), ("everybody", "jobs"), ("jobs", "workers"), ("everybody", "grown")],
    ),
    "two codings and two universes": (
        [
            "{name: single, dimensions: [years, status]}",
            "{name: groups, dimensions: [age, sex]}",
            '{name: grown, dimensions: [years, job], where: "age >= 3"}',
            f"{{name: work, dimensions: [job], {WORKERS}}}",
        ],
        [("single", "grown"), ("single", "work")],
    ),
    "along a hierarchy": (
        [
            "{name: deep, dimensions: [area, age, status], levels: {nation: '1/3', region: '1/3', place: '1/3'}}",
            "{name: plain, dimensions: [area, sex]}",
            f"{{name: work, dimensions: [area, job], levels: {{region: '1'}}, {WORKERS}}}",
            '{name: grown, dimensions: [sex], where: "age >= 3"}',
        ],
        [("deep", "grown")],
    ),
    "no table of all records": (
        [
            '{name: grown, dimensions: [status, sex], where: "age >= 3"}',
            f"{{name: work, dimensions: [sex, job], {WORKERS}}}",
        ],
        [("grown", "work")],
    ),
}
FACT = 'impossible: [{cells: {age: [0-2, 3-6], status: [employed]}, reason: "a law"}]\n'


@pytest.fixture(scope="module", params=[*CASES, "with impossible cells"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Loaded, PostProcessor, list[tuple[str, str]]]:
    folder = tmp_path_factory.mktemp("case")
    tables, pairs = CASES[request.param if request.param in CASES else "parts and parts of parts"]
    if request.param not in CASES:
        tables = [*tables[:-1], f"{tables[-1]}\n{FACT}"]
    made = loaded(folder, *tables)
    return made, PostProcessor.of(made), pairs


def noisy(post: PostProcessor, seed: int, size: float) -> dict[str, Estimate]:
    rng = np.random.default_rng(seed)
    return {
        name: measured_tree(
            layout,
            {
                level: (np.rint(rng.laplace(3, size, layout.shape(level))), float(rng.integers(1, 9)))
                for level in layout.cuts
            },
        )
        for name, layout in post.agreement.layouts.items()
    }


@settings(max_examples=runs(8, 150), deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([0.5, 4.0, 60.0]))
def test_published_tables_agree_exactly(
    case: tuple[Loaded, PostProcessor, list[tuple[str, str]]], seed: int, size: float
) -> None:
    made, post, pairs = case
    assert len(post.agreement.groups) == 1
    estimates = noisy(post, seed, size)
    for step in post.steps:
        agreed = post.apply(step, estimates, variances=False)
        estimates = agreed.estimates
    tables = {name: each.values for name, each in estimates.items()}
    assert not agreed.notes.get("named") and post.agreement.differences(tables) == 0
    for name, layout in post.agreement.layouts.items():
        assert (tables[name] >= 0).all() and (tables[name] == np.rint(tables[name])).all()
        if layout.impossible is not None:
            assert not tables[name][layout.impossible].any()
        for node in np.flatnonzero(layout.parents >= 0):
            family = layout.parents == layout.parents[node]
            assert (tables[name][family].sum(axis=0) == tables[name][layout.parents[node]]).all()
    for one, other in pairs:
        agree(made, post, tables, one, other)
    if "deep" in tables:
        regions = [n for n in range(3) if isinstance(made.domains["area"], HierarchyDomain) and n > 0]
        deep = tables["deep"].reshape(-1, 3, 3)[regions, 1:, 0].sum(axis=1)
        assert (deep == tables["work"][regions].sum(axis=1)).all()


def test_what_rounding_misses_is_named_as_often_as_published_tables_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole numbers need not exist under three sets of sums; here none are found under two.
    monkeypatch.setattr(joint_rounding, "round_to_sums", lambda values, _: np.floor(values).astype(int))
    made = loaded(
        tmp_path,
        "{name: everybody, dimensions: [age, status, sex]}",
        "{name: jobs, dimensions: [age, status, job]}",
        '{name: grown, dimensions: [sex, job, status], where: "age >= 3"}',
    )
    post = PostProcessor.of(made)
    seen = []
    for seed in range(runs(4, 40)):
        estimates = noisy(post, seed, 4.0)
        for step in post.steps:
            agreed = post.apply(step, estimates, variances=False)
            estimates = agreed.estimates
        tables = {name: each.values for name, each in estimates.items()}
        seen.append(post.agreement.differences(tables))
        assert agreed.notes["violations"].get("marginal", 0) == seen[-1]
    assert any(seen)


def test_what_is_wrong_is_found_and_named(tmp_path: Path) -> None:
    made = loaded(tmp_path, EVERYBODY, f"{{name: workers, dimensions: [sex], {WORKERS}}}")
    post = PostProcessor.of(made)
    tables = {"everybody": np.ones((1, 18)), "workers": np.array([[2.0, 2.0]])}
    assert post.agreement.differences(tables) == 0
    assert post.agreement.differences(tables | {"workers": np.array([[2.0, 3.0]])}) == 1
    assert post.agreement.differences({"workers": tables["workers"]}) == 0


def test_estimates_and_variances_are_those_of_least_squares(tmp_path: Path) -> None:
    made = loaded(tmp_path, *CASES["parts and parts of parts"][0])
    post = PostProcessor.of(made)
    measured = noisy(post, 3, 4.0)
    found = post.apply(CONSISTENCY, measured).estimates
    names = ["age", "status", "sex", "job"]
    atoms = list(product(*(range(made.domains[name].size) for name in names)))
    rows, wanted, spread, place = [], [], [], {}
    for table in made.spec.tables:
        masks = {} if table.where is None else universe_of(table.where, made.domains).columns
        shape = tuple(made.domains[name].size for name in table.dimensions)
        own = np.zeros((int(np.prod(shape)), len(atoms)))
        for number, atom in enumerate(atoms):
            at = dict(zip(names, atom, strict=True))
            if all(mask[at[column]] for column, mask in masks.items()):
                own[np.ravel_multi_index(tuple(at[name] for name in table.dimensions), shape), number] = 1
        some = own.any(axis=1)
        given = measured[table.name]
        place[table.name] = own, some
        rows.append(own[some])
        wanted.append(given.values[0][some])
        spread.append(np.broadcast_to(given.variances, given.values.shape)[0][some])
    scale = np.concatenate(spread) ** -0.5
    system = np.concatenate(rows) * scale[:, None]
    inverse = np.linalg.pinv(system)
    best, covariance = inverse @ (np.concatenate(wanted) * scale), inverse @ inverse.T
    for name, (own, some) in place.items():
        assert found[name].values[0][some] == pytest.approx(own[some] @ best, abs=1e-6)
        assert not found[name].values[0][~some].any()
        exact = np.einsum("ij,jk,ik->i", own, covariance, own)
        shown = np.broadcast_to(found[name].variances, found[name].values.shape)[0]
        assert shown[some] == pytest.approx(exact[some], rel=1e-3)
