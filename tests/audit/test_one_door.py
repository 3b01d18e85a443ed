"""All randomness comes through one door: nothing outside ``mechanisms/noise`` knows another."""

from __future__ import annotations

import ast
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
    "tasks/publish/kept_documents.py": {"uuid"},  # name of a draft file
    "tasks/publish/documents/bill_of_materials.py": {"uuid"},  # a serial number, made from the content
    "tasks/custody/backing_up.py": {"uuid"},  # name of a folder that is renamed
    "tasks/arrival/claims.py": {"secrets"},  # the id of a drop
    "tasks/arrival/deliver.py": {"secrets"},  # name of a folder that is renamed
    "tasks/arrival/look.py": {"random", "random.shuffle"},  # which drops are looked at first
    "tasks/arrival/places.py": {"secrets"},  # a name that nobody who delivers can guess
    "flows/operations/server_address.py": {"secrets"},  # the password of the API
    "flows/desk/safety.py": {"secrets"},  # who is let in: a token, a cookie, a secret of forms
    "flows/operations/worker.py": {"uuid"},  # the type of ids
    "flows/operations/waiting.py": {"uuid"},  # the ids of flow runs; a key that names a pause
    "flows/operations/deployments/deployment.py": {"uuid"},  # the type of ids
    "flows/operations/deployments/notifications.py": {"uuid"},  # the type of ids
    "flows/operations/told/run_progress.py": {"uuid"},  # the type of ids
    "tasks/publish/release_folder.py": {"uuid"},  # name of a file that is removed at once
    "tasks/site/write_site.py": {"uuid"},  # ids of entries, made from their names
    "tasks/runtime/kept_open.py": {"uuid"},  # the word for what is kept open
    "tasks/runtime/tracebacks.py": {"secrets"},  # name of a file
    "tasks/runtime/run.py": {"uuid"},  # name of a workspace
    "tasks/runtime/workspace.py": {"secrets"},  # name of a workspace
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


def generators(source: str) -> list[str]:
    """Every mention of a random generator in a module's source."""
    found = []
    tree = ast.parse(source)
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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"__import__", "import_module"}:
            found += [
                a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith(MODULES)
            ]
    return found


def modules(*folders: str) -> list[str]:
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in paths if DOOR not in path.parents)


@pytest.mark.parametrize("name", modules(*FLOORS))
def test_no_other_generator(name: str) -> None:
    found = set(generators((ROOT / name).read_text()))
    if name.startswith(SIMULATING):
        found = {use for use in found if use.rpartition(".")[2] not in METHODS}
    assert found == ALLOWED.get(name, set())


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


def ways_round(source: str) -> list[str]:
    """Imports that lead behind the channel, and looks into its private parts."""
    found = []
    for node in ast.walk(ast.parse(source)):
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
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "vars", "__import__"}:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("name", modules("mechanisms/histograms", "mechanisms/kernels"))
def test_no_mechanism_reaches_past_its_channel(name: str) -> None:
    assert not ways_round((ROOT / name).read_text())


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
    assert ways_round(source)


def test_the_search_leaves_the_front_door_open() -> None:
    source = "from tabularium.mechanisms.channel import Channel\nfrom tabularium.mechanisms.noise.synthetic import generator\n"
    assert not ways_round(
        source + "class A:\n    def draw(self, c, channel): return self._x(channel.laplace(c))"
    )


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
