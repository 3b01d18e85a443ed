"""What ``import tabularium`` offers, and that it takes nothing to say so."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import tabularium
from tests.docs.pages import DOCS

ALL_IMPORTED = """
import importlib, inspect, pkgutil, tabularium
for info in pkgutil.walk_packages(tabularium.__path__, "tabularium."):
    if ".migrations" not in info.name:  # Alembic's own, which it runs
        importlib.import_module(info.name)
print([name for name in tabularium.__all__ if inspect.ismodule(getattr(tabularium, name))])
"""


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_it_imports_nothing_else() -> None:
    heavy = {"numpy", "pandas", "pyarrow", "prefect", "pydantic", "sqlalchemy", "numba", "rich"}
    assert output_of(f"import sys, tabularium; print({heavy!r} & set(sys.modules))") == "set()"


def test_no_public_name_is_a_module_whatever_was_imported_before() -> None:
    assert output_of(ALL_IMPORTED) == "[]"


def test_what_type_checkers_see_is_what_there_is() -> None:
    tree = ast.parse(Path(tabularium.__file__).read_text())
    typed = {
        name.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tabularium.")
        for name in node.names
    }
    assert typed == set(tabularium.__all__)


def test_every_public_name_stands_on_the_page_of_the_api() -> None:
    page = (DOCS / "reference" / "python.md").read_text()
    assert sorted(re.findall(r"^::: tabularium\.(\w+)$", page, re.MULTILINE)) == sorted(tabularium.__all__)


def test_every_public_name_says_what_it_is() -> None:
    for name in tabularium.__all__:
        found = getattr(tabularium, name)
        assert inspect.getdoc(found), name
        if inspect.isclass(found) and found.__module__.startswith("tabularium._"):
            members = [each for each in vars(found) if not each.startswith("_")]
            assert all(inspect.getdoc(getattr(found, each)) for each in members), name
