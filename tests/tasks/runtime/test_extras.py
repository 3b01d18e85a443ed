"""Extras: each library that the product imports belongs to the core or to the extra that is named for it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import NotInstalled
from tabularium.tasks.runtime.extras import EXTRAS, require
from tabularium.tasks.runtime.stage import sanitised
from tests.net.core_alone import canonical, core
from tests.test_floors import FLOORS, ROOT, files, nodes

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Ours, the language's, and a library that a reader may have.
OTHERS = {*sys.stdlib_module_names, *FLOORS, "tabularium", "polars"}
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_every_extra_for_users_is_named() -> None:
    assert OPTIONAL.keys() - {"all", "test", "bench", "docs"} == EXTRAS.keys()


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_it_is_named_for(extra: str) -> None:
    asked = {canonical(re.split(r"[\[<>= ]", line)[0]) for line in OPTIONAL[extra]}
    by = metadata.packages_distributions()
    for library in EXTRAS[extra]:
        ours = {canonical(each) for each in by.get(library, [library])}
        brought = {
            canonical(re.split(r"[\[<>=!~; (]", line)[0])
            for name in asked - {"tabularium-dp"}
            for line in (metadata.requires(name) if name in _installed() else None) or ()
        }
        assert ours & (asked | brought), library


def _installed() -> set[str]:
    return {canonical(each.name) for each in metadata.distributions()}


def libraries(path: Path) -> set[str]:
    imported = [name.name for node in nodes(path) if isinstance(node, ast.Import) for name in node.names]
    imported += [str(node.module) for node in nodes(path) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in imported}


def test_every_library_is_of_the_core_or_of_an_extra() -> None:
    known = {library for libraries in EXTRAS.values() for library in libraries}
    by, ours = metadata.packages_distributions(), core()
    strange = {
        f"{path.relative_to(ROOT)}: {library}"
        for path in [
            *(path for floor in FLOORS for path in files(floor)),
            *(ROOT / "tabularium").glob("*.py"),
        ]
        for library in libraries(path) - known - OTHERS
        if not ours & {canonical(each) for each in by.get(library, ())}
    }
    assert not strange


def test_a_missing_library_is_told_with_its_extra() -> None:
    error = sanitised(ModuleNotFoundError("No module named 'scipy.optimize'", name="scipy.optimize"), "plan")
    assert isinstance(error, NotInstalled) and error.exit_code == 3
    assert error.line() == "plan: scipy is not installed; install tabularium-dp[run]"
    other = sanitised(ModuleNotFoundError("No module named 'ours'", name="ours"), "plan")
    assert not isinstance(other, NotInstalled), "a mistake of the program"


def test_what_is_missing_is_told_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    require("sqlalchemy", where="up")
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(
        NotInstalled, match=r"up: watchfiles is not installed; install tabularium-dp\[prefect\]"
    ):
        require("watchfiles", where="up")
