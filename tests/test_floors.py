"""The floors of the house: who may import whom."""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from tabularium.tasks.publish.certificate.software import NOT_AUDITED

ROOT = Path(__file__).parent.parent
FLOORS = ["mechanisms", "ledger", "validations", "tasks", "flows", "lab"]
#: A module of ours named without the package: whoever imports it by both names has two of every class.
BARE = re.compile(
    rf"(?<![\w./-])({'|'.join(FLOORS)})\.(\w+)|(?:from|^import) ({'|'.join(FLOORS)}) import\b", re.MULTILINE
)
TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".service", ".sh", ".json", ".jinja", ".mako", ".ini", ""}
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
    """Every module that a file imports anywhere, lazily too; ours by their floors."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the floor"
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return {name.removeprefix("tabularium.") for name in found}


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


def test_nothing_names_a_floor_barely() -> None:
    """Neither code nor what it, a unit or a document says: entrypoints, ``python -m``, pickles, migrations."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    bare = []
    for path in (ROOT / name for name in listed.stdout.splitlines() if name != "CHANGELOG.md"):
        if path.suffix not in TEXTS or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            bare += [f"{path}: {name}" for name in bare_imports(path)]
            text = "\n".join(texts_in(text))
        bare += [
            f"{path}: {found[0]}"
            for found in BARE.finditer(text)
            if found[3] or is_module(*found.group(1, 2))
        ]
    assert not bare


def bare_imports(path: Path) -> list[str]:
    found = [
        name
        for node in nodes(path)
        if isinstance(node, ast.Import)
        for name in (each.name for each in node.names)
    ]
    found += [str(node.module) for node in nodes(path) if isinstance(node, ast.ImportFrom)]
    return [name for name in found if name.split(".")[0] in FLOORS]


def texts_in(source: str) -> list[str]:
    """What the strings and comments of a module say."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]


def is_module(floor: str, name: str) -> bool:
    return (ROOT / floor / f"{name}.py").exists() or (ROOT / floor / name).is_dir()


def test_nothing_below_the_api_imports_it() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for floor in FLOORS
        for path in files(floor)
        if not any(path.is_relative_to(ROOT / above) for above in ("flows/cli", "flows/desk", "lab"))
        for name in imports(path)
        if name == "tabularium"
        or (name.startswith(("_", "prefect.")) and (ROOT / "tabularium" / f"{name}.py").exists())
    }
    assert not wrong


def test_the_api_imports_nothing_of_the_lab() -> None:
    modules = sorted((ROOT / "tabularium").glob("*.py"))
    assert modules
    assert not [path for path in modules if any(name.split(".")[0] == "lab" for name in imports(path))]


def test_the_ledger_takes_only_plain_values_from_the_mechanisms() -> None:
    ours = {name for path in files("ledger") for name in imports(path) if name.split(".")[0] == "mechanisms"}
    assert {".".join(name.split(".")[1:2]) for name in ours} <= {"", "accounting"}


def test_what_audits_do_not_record_draws_and_judges_nothing() -> None:
    """Its code is left out of the digest of what was audited."""
    rest = [path for path in files("mechanisms") if not path.is_relative_to(ROOT / NOT_AUDITED)]
    assert len(rest) < len(files("mechanisms"))
    name = NOT_AUDITED.replace("/", ".")
    assert not [path for path in rest if any(each.startswith(name) for each in imports(path))]


def test_only_the_release_task_opens_a_secure_channel() -> None:
    openers = {
        path.relative_to(ROOT).as_posix()
        for floor in FLOORS[1:]
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
