"""The floors of the house: who may import whom."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ["mechanisms", "ledger", "validations", "tasks", "flows"]
NUMERIC_ONLY = {
    "prefect",
    "sqlalchemy",
    "duckdb",
    "ibis",
    "pandas",
    "great_expectations",
    "pyarrow",
    "yaml",
    "typer",
}


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Everything a file says, read once."""
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> set[str]:
    """Every module that a file imports anywhere, lazily too."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path.parts, "relative imports hide the floor"
            module = node.module or ""
            found |= {module} | {f"{module}.{name.name}" for name in node.names} if node.level == 0 else set()
    return found


def files(floor: str) -> list[Path]:
    return sorted((ROOT / floor).rglob("*.py"))


@pytest.mark.parametrize("floor", FLOORS)
def test_a_module_imports_only_from_the_floors_below(floor: str) -> None:
    above = set(FLOORS[FLOORS.index(floor) + 1 :]) | {"tests"}
    assert files(floor)
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(floor)
        for name in imports(path)
        if name.split(".")[0] in above
    }
    assert not wrong


def test_the_ledger_takes_only_plain_values_from_the_mechanisms() -> None:
    ours = {name for path in files("ledger") for name in imports(path) if name.split(".")[0] == "mechanisms"}
    assert all(name == "mechanisms" or name.startswith("mechanisms.accounting") for name in ours)


def test_only_the_release_task_opens_a_secure_channel() -> None:
    openers = {
        path.relative_to(ROOT).as_posix()
        for floor in ("ledger", "validations", "tasks", "flows")
        for path in files(floor)
        if any("SecureChannel" in name for name in imports(path))
    }
    assert openers == {"tasks/measure.py"}


def test_mechanisms_are_pure_numerics() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files("mechanisms")
        for name in imports(path)
        if name.split(".")[0] in NUMERIC_ONLY
    }
    assert not wrong


def test_the_ledger_knows_nothing_of_prefect() -> None:
    assert not [p for p in files("ledger") if any(n.split(".")[0] == "prefect" for n in imports(p))]


def house() -> dict[str, Path]:
    """Every module of the house by its dotted name, packages by theirs."""
    found = {}
    for floor in FLOORS:
        for path in files(floor):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def modules_imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """Which modules of the house a file imports; ``from package import module`` means the module alone."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = (f"{node.module}.{name.name}" for name in node.names)
            found |= {name if name in modules else str(node.module) for name in whole}
    return found & set(modules)


def circles(imported: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import one another, directly or by way of others (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        waiting.append(name)
        for other in sorted(imported[name]):
            if other not in number:
                visit(other)
            if other in waiting:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == number[name]:
            place = waiting.index(name)
            found.append(sorted(waiting[place:]))
            del waiting[place:]

    for name in imported:
        if name not in number:
            visit(name)
    return [group for group in found if len(group) > 1 or group[0] in imported[group[0]]]


def test_no_modules_import_one_another() -> None:
    """At any depth of nesting, for type checking or when needed: who depends on whom has one answer."""
    modules = house()
    assert not circles({name: modules_imported(path, modules) for name, path in modules.items()})


def test_a_circle_would_be_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}) == [["a", "b", "c"], ["e"]]
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_two_modules_have_the_same_file_name() -> None:
    """So that a file's name alone says what is in it. Migrations are named by their number."""
    by_name: dict[str, list[str]] = {}
    for floor in FLOORS:
        for path in files(floor):
            if path.stem not in {"__init__", "env"} and path.parent.name != "versions":
                by_name.setdefault(path.stem, []).append(path.relative_to(ROOT).as_posix())
    assert not {name: places for name, places in by_name.items() if len(places) > 1}


def test_no_folder_is_crowded() -> None:
    sizes: dict[str, int] = {}
    for floor in FLOORS:
        for path in files(floor):
            folder = path.parent.relative_to(ROOT).as_posix()
            sizes[folder] = sizes.get(folder, 0) + (path.stem != "__init__")
    assert not {folder: size for folder, size in sizes.items() if size > 16}
