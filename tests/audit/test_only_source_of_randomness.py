"""All randomness comes through one door: nothing outside ``mechanisms/noise`` knows another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ("mechanisms", "ledger", "validations", "tasks", "flows", "tabularium", "lab")
DOOR = ROOT / "mechanisms" / "noise"
MODULES = ("random", "secrets", "numpy.random", "scipy.stats", "opendp", "uuid")
NAMES = {
    *("urandom", "getrandom", "getrandbits", "default_rng", "RandomState", "SystemRandom", "token_bytes"),
    *("rvs", "randint", "standard_normal", "shuffle"),
}
# Keys and names are not noise; each use is listed with its reason.
ALLOWED: dict[str, set[str]] = {
    "ledger/measurement/store.py": {"uuid"},  # name of a draft file
    "ledger/export.py": {"uuid"},  # name of a draft file
    "tasks/runtime/home.py": {"secrets", "secrets.token_bytes"},  # the agency secret; a file name
    "tasks/publish/documents.py": {"uuid"},  # name of a draft file
    "tasks/publish/certificate/software.py": {"uuid"},  # a serial number, made from the content
    "tasks/custody/backup.py": {"uuid"},  # name of a folder that is renamed
    "tasks/arrival/claims.py": {"secrets"},  # the id of a drop
    "tasks/arrival/look.py": {"random", "random.shuffle"},  # which drops are looked at first
    "tasks/arrival/places.py": {"secrets"},  # names of folders, which nobody who delivers can guess
    "flows/operations/server_address.py": {"secrets"},  # the password of the API
    "flows/desk/safety.py": {"secrets"},  # who is let in: a token, a cookie, a secret of forms
    "flows/operations/worker.py": {"uuid"},  # the type of ids
    "flows/operations/waiting.py": {"uuid"},  # the ids of flow runs; a key that names a pause
    "flows/operations/deployments/deployment.py": {"uuid"},  # the type of ids
    "flows/operations/deployments/notifications.py": {"uuid"},  # the type of ids
    "flows/operations/reporting/artifacts.py": {"uuid"},  # the type of ids
    "tasks/publish/release_folder.py": {"uuid"},  # name of a file that is removed at once
    "tasks/site/write_site.py": {"uuid"},  # ids of entries, made from their names
    "tasks/runtime/workspace.py": {"secrets", "uuid"},  # names of workspaces and handles
    "tasks/runtime/diagnoses.py": {"secrets"},  # name of a file
    "tasks/runtime/run.py": {"uuid"},  # name of a workspace
}
# What is made up (people, look-alikes) or simulated from released numbers draws from the synthetic generator
# that it is given; ``default_rng`` and the like are looked for here all the same.
SIMULATING = (
    "lab/comparison/",
    "lab/sample/",
    "mechanisms/inference/",
    "mechanisms/noise_distributions.py",
    "mechanisms/histograms/denoise/",
)
METHODS = {"standard_normal", "shuffle"}


def parsed(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of some folders by their paths, but those behind the door."""
    for path in [path for folder in folders for path in (ROOT / folder).rglob("*.py")]:
        if DOOR not in path.parents:
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def samplers() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules behind the door, but the one that makes up data."""
    for path in DOOR.rglob("*.py"):
        if path.name != "synthetic.py":
            yield path.name, ast.parse(path.read_text())


def called(node: ast.AST) -> str:
    """Return the name of the function that a node calls by its bare name; nothing where it does not."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def generators(tree: ast.Module) -> list[str]:
    """Every mention of a random generator in a module."""
    found = []
    types = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "Generator"
    }
    for node in ast.walk(tree):
        if id(node) in types:  # np.random.Generator says what a parameter is, and makes nothing
            continue
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
        elif called(node) in {"__import__", "import_module"}:
            assert isinstance(node, ast.Call)
            found += [
                a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith(MODULES)
            ]
    return found


def test_no_other_generator() -> None:
    found = {}
    for name, tree in parsed(*FLOORS):
        uses = set(generators(tree))
        if name.startswith(SIMULATING):
            uses = {use for use in uses if use.rpartition(".")[2] not in METHODS}
        if uses:
            found[name] = uses
    assert found == ALLOWED


# What sees true counts and a channel, and must not reach past the channel.
BEHIND_THE_CHANNEL = (
    "tabularium.mechanisms.noise.",
    "tabularium.mechanisms.channel.",
    "SecureChannel",
    "SeededChannel",
    "KeyStream",
)
HARMLESS = {
    "tabularium.mechanisms.noise.synthetic",
    "tabularium.mechanisms.noise.synthetic.generator",
    "tabularium.mechanisms.channel.Channel",
}


def ways_round(tree: ast.Module) -> list[str]:
    """Imports that lead behind the channel, and looks into its private parts."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = []
        found += [
            name
            for name in names
            if name not in HARMLESS and any(part in f"{name}." for part in BEHIND_THE_CHANNEL)
        ]
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value)
            if owner not in {"self", "cls"}:
                found.append(f"{owner}.{node.attr}")
        if called(node) in {"getattr", "vars", "__import__"}:
            found.append(ast.unparse(node))
    return found


def test_no_mechanism_reaches_past_its_channel() -> None:
    modules = parsed("mechanisms/histograms", "mechanisms/kernels")
    assert not {name: found for name, tree in modules if (found := ways_round(tree))}


@pytest.mark.parametrize(
    "source",
    [
        "from tabularium.mechanisms.noise.discrete_laplace import add_laplace",
        "import tabularium.mechanisms.noise.keystream",
        "from tabularium.mechanisms.noise import laplace",
        "from tabularium.mechanisms.channel import SecureChannel",
        "from tabularium.mechanisms.channel.noise_source import Sampler",
        "channel._source.laplace(counts, event)",
        "channel.meter = channel._meter",
        "getattr(channel, '_source')",
        "scope.branch([0])._meter.refund(1)",
    ],
)
def test_the_search_finds_ways_round(source: str) -> None:
    assert ways_round(ast.parse(source))


def test_the_search_leaves_the_front_door_open() -> None:
    source = "from tabularium.mechanisms.channel import Channel\nfrom tabularium.mechanisms.noise.synthetic import generator\n"
    source += "class A:\n    def draw(self, c, channel): return self._x(channel.laplace(c))"
    assert not ways_round(ast.parse(source))


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
    assert generators(ast.parse(source))


def test_the_synthetic_generator_is_no_source_of_noise() -> None:
    """Simulations in ``finish`` may use it; the channel and the samplers may not."""
    for name, tree in [*parsed("mechanisms/channel"), *samplers()]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "synthetic" not in ast.unparse(node), name


def test_floats_do_not_stand_between_bits_and_noise() -> None:
    """No module of the samplers computes in floats: no float literal, no float type."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in samplers()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.Attribute) and node.attr.startswith("float"))
        or (isinstance(node, ast.Name) and node.id == "float")
    ]
    assert not found


def test_no_mechanism_asks_whether_it_is_watched() -> None:
    """``channel.insecure`` tells an audit from a release: only the base class may read it."""
    for name, tree in parsed("mechanisms/histograms"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "insecure":
                assert ast.unparse(node.value) == "measured", f"{name}:{node.lineno}"
            assert not (isinstance(node, ast.Constant) and node.value == "insecure"), name
