"""Whatever stands in a spec, it loads or its problems are said: nothing else ever comes out of `examine`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabularium.validations.domains.code_lists import read_code_list
from tabularium.validations.release_spec.load import Examined, examine
from tests.validations.release_spec.spec_samples import AREAS, SPEC

DATA = yaml.safe_load(SPEC)
JUNK = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "no",
            "0",
            "-1",
            "1/0",
            "100%",
            "a\nb",
            "\x7f",
            "\u202e",
            "area",
            "x" * 2000,
            "../..",
            "a://b",
        ]
    ),
    st.sampled_from(
        [0, 1, -1, 10**9, 10**29, True, False, 0.1, 1e300, [], {}, [[]], [{}], {"": ""}, {"a": 1}]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8),
    st.integers(),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in the sample."""
    yield path
    for key, value in (
        node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    ):
        yield from places(value, (*path, key))


PLACES = list(places(DATA))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    (path / "areas.csv").write_text(AREAS)
    return path


def sound(answer: Examined) -> None:
    """One of the two, and fit to be printed."""
    assert (answer.loaded is None) == bool(answer.problems)
    for problem in answer.problems:
        assert problem.what
        assert str(problem).isprintable()
        assert len(str(problem)) < 2_500


def changed(path: tuple[Any, ...], action: str, value: Any) -> Any:
    """Replace, remove, rename or repeat what is at ``path``."""
    data = json.loads(json.dumps(DATA))
    if not path:
        return value
    node = data
    for part in path[:-1]:
        node = node[part]
    if action == "replace":
        node[path[-1]] = value
    elif isinstance(node, dict):
        kept = node.pop(path[-1])
        if action == "rename":
            node[str(value)] = kept
    else:
        node.append(node[path[-1]]) if action == "rename" else node.pop(path[-1])
    return data


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(["replace", "remove", "rename"]), JUNK)
def test_one_value_replaced_by_anything(folder: Path, path: tuple[Any, ...], action: str, value: Any) -> None:
    data = changed(path, action, value)
    (folder / "spec.yaml").write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    sound(examine(folder / "spec.yaml"))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, len(SPEC)), st.integers(0, 30), st.text(st.characters(codec="utf-8"), max_size=5))
def test_text_cut_out_and_put_in(folder: Path, start: int, length: int, new: str) -> None:
    (folder / "spec.yaml").write_text(SPEC[:start] + new + SPEC[start + length :], encoding="utf-8")
    sound(examine(folder / "spec.yaml"))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, len(AREAS)), st.integers(0, 12), st.binary(max_size=4))
def test_bytes_cut_out_of_a_code_list(folder: Path, start: int, length: int, new: bytes) -> None:
    content = AREAS.encode()
    (folder / "list.csv").write_bytes(content[:start] + new + content[start + length :])
    tree, problems = read_code_list(folder / "list.csv")
    assert (tree is None) == bool(problems)
    if tree is not None:
        assert len(set(tree.codes)) == len(tree.codes) == len(tree.parents)
        assert all(parent < node for node, parent in enumerate(tree.parents.tolist()))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_option(folder: Path, source: str, period: str) -> None:
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    sound(examine(folder / "spec.yaml", source=source, period=period))
