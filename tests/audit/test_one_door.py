"""All randomness comes through one door: nothing outside ``mechanisms/noise`` knows another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ("mechanisms", "ledger", "tasks")
DOOR = ROOT / "mechanisms" / "noise"
MODULES = ("random", "secrets", "numpy.random", "scipy.stats", "opendp", "uuid")
NAMES = {
    *("urandom", "getrandom", "getrandbits", "default_rng", "RandomState", "SystemRandom", "token_bytes"),
    *("rvs", "randint", "standard_normal", "shuffle"),
}
# Keys and identifiers are not noise; each use is listed with its reason.
ALLOWED: dict[str, str] = {}


def generators(source: str) -> list[str]:
    """Every mention of a random generator in a module's source."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith(MODULES)]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            whole = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            found += [name for name in whole if name in MODULES or name.split(".")[-1] in NAMES]
        elif isinstance(node, ast.Attribute):
            if node.attr in NAMES or (node.attr == "random" and ast.unparse(node.value) in {"np", "numpy"}):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Name) and node.id in NAMES:
            found.append(node.id)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"__import__", "import_module"}:
            found += [
                a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith(MODULES)
            ]
    return found


@pytest.mark.parametrize(
    "path", sorted((ROOT / "mechanisms").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_no_other_generator(path: Path) -> None:
    if DOOR in path.parents:
        pytest.skip("this is the door")
    assert not generators(path.read_text())


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import numpy.random as r",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy as np\nnp.random.laplace()",
        "import os\nos.urandom(4)",
        "from os import urandom",
        "from secrets import randbelow",
        "from scipy import stats",
        "from scipy.stats import laplace\nlaplace.rvs()",
        "import importlib\nimportlib.import_module('random')".replace(
            "importlib.import_module", "import_module"
        ),
        "__import__('secrets')",
    ],
)
def test_the_search_finds_them(source: str) -> None:
    assert generators(source)


def test_the_synthetic_generator_is_no_source_of_noise() -> None:
    """Simulations in ``finish`` may use it; the channel and the samplers may not."""
    for path in [*(ROOT / "mechanisms" / "channel").rglob("*.py"), *DOOR.rglob("*.py")]:
        if path.name != "synthetic.py":
            names = {
                ast.unparse(node)
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.stmt)
            }
            assert not any(name.startswith(("import", "from")) and "synthetic" in name for name in names), (
                path
            )


def test_floats_do_not_stand_between_bits_and_noise() -> None:
    """No module of the samplers computes in floats: no float literal, no float type, no true division."""
    for path in DOOR.rglob("*.py"):
        if path.name == "synthetic.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), where
            assert not (isinstance(node, ast.Attribute) and node.attr.startswith("float")), where
            assert not (isinstance(node, ast.Name) and node.id == "float"), where


def test_no_mechanism_asks_whether_it_is_watched() -> None:
    """``channel.insecure`` tells an audit from a release: only the base class may read it."""
    for path in (ROOT / "mechanisms" / "histograms").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "insecure":
                assert ast.unparse(node.value) == "measured", f"{path.name}:{node.lineno}"
            assert not (isinstance(node, ast.Constant) and node.value == "insecure"), path.name
