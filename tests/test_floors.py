"""The floors of the house: who may import whom."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from tasks.publish.certificate.installed_code import NOT_AUDITED

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


def test_what_audits_do_not_record_draws_and_judges_nothing() -> None:
    """Its code is left out of the digest of what was audited."""
    rest = [path for path in files("mechanisms") if not path.is_relative_to(ROOT / NOT_AUDITED)]
    assert len(rest) < len(files("mechanisms"))
    name = NOT_AUDITED.replace("/", ".")
    assert not [path for path in rest if any(each.startswith(name) for each in imports(path))]


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
