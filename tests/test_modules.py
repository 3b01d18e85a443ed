"""Modules: none too long, none in a circle of imports, and every folder a package."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.test_floors import FLOORS, ROOT, files

MOST_LINES = 900  # a file is as long as its subject; none needs more
MODULES = {
    path: ".".join(("tabularium", *path.relative_to(ROOT).with_suffix("").parts))
    for floor in FLOORS
    for path in files(floor)
}


def test_no_file_is_too_long() -> None:
    long = {
        f"{path.relative_to(ROOT)}: {lines}"
        for path in [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long


def test_no_module_imports_itself_by_a_detour() -> None:
    """Lazily, or only for its types, neither: who reads one of a circle has to read them all."""
    names = {module.removesuffix(".__init__"): path for path, module in MODULES.items()}
    needs = {module: modules_imported(path, names) for module, path in names.items()}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as found:
        pytest.fail(" > ".join(found.args[1]))


def modules_imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Which modules of the house a file imports; ``from package import module`` means the module alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = (f"{node.module}.{name.name}" for name in node.names)
            found |= {name if name in modules else str(node.module) for name in whole}
    return found & set(modules)


@pytest.mark.parametrize("floor", FLOORS)
def test_every_folder_of_modules_is_a_package(floor: str) -> None:
    folders = {path.parent for path in files(floor) if "migrations" not in path.parts}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
