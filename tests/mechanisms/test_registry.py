"""The registry, and the two mechanisms that put noise on every cell."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import Channel, SecureChannel, SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.cellwise import Identity, laplace_accuracy, xiao_bound
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.noise_distributions import gaussian_variance, laplace_variance
from tabularium.mechanisms.registry import preload

CELLWISE = [("identity", "pure"), ("gaussian", "zcdp")]


def seeded(definition: str, budget: Fraction | str = "1/2", seed: int = 3) -> Channel:
    return SeededChannel(budget, seed=seed, definition=definition)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "definition"), CELLWISE)
def test_the_stated_variance_is_the_variance(name: str, definition: str) -> None:
    release = build(name).release(np.full(200_000, 50), seeded(definition, "1/8"))
    noise = release.values - 50
    assert release.variances == pytest.approx(noise.var(), rel=0.02)
    assert abs(noise.mean()) < 5 * noise.std() / noise.size**0.5


def test_a_secure_release_is_not_marked() -> None:
    assert not build("identity").release([1, 2], SecureChannel(1)).insecure


def test_a_release_must_say_whether_it_is_secure() -> None:
    with pytest.raises(TypeError, match="insecure"):
        Release(values=np.zeros(1), transcript=())  # type: ignore[call-arg]


def test_counts_are_not_changed_and_read_only_maps_are_taken() -> None:
    counts = np.arange(10)
    counts.setflags(write=False)
    build("identity").release(counts, SecureChannel(1))
    assert counts.tolist() == list(range(10))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, ">i4"])
def test_integers_of_every_width(dtype: str) -> None:
    counts = np.array([[3, 100], [0, 7]], dtype=dtype).T
    one = build("identity").release(counts, seeded("pure"))
    other = build("identity").release(counts.astype(np.int64), seeded("pure"))
    assert np.array_equal(one.values, other.values)


def test_registry() -> None:
    assert {"identity", "cells", "gaussian"} <= set(MECHANISMS)
    assert MECHANISMS["cells"] is MECHANISMS["identity"] is Identity
    assert len(MECHANISMS) == len(list(MECHANISMS))
    assert "nothing" not in MECHANISMS
    with pytest.raises(KeyError):
        MECHANISMS["nothing"]


def test_importing_the_package_and_building_mechanisms_imports_nothing_heavy() -> None:
    heavy = {"numpy", "numba", "scipy", "cryptography", "dp_accounting"}
    code = f"import sys; from tabularium.mechanisms import build, MECHANISMS; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    code = "import sys, tabularium.mechanisms.channel, tabularium.mechanisms.histograms.noise_first; from tabularium.mechanisms import build; "
    code += "from tests.audit.cases import CASES; "
    code += "[build(name, **given) for name, case in CASES.items() for given in case.parameters]; "
    code += "print(sorted({'numba'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "definition"), CELLWISE)
def test_ten_million_cells_stay_in_memory(name: str, definition: str) -> None:
    """Peak of a fresh process: the counts (80 MB), their noisy copy (80 MB), and little else."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process is read from /proc")
    code = """
from pathlib import Path
from typing import Any
import numpy as np
from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SecureChannel
release = build("NAME").release(np.zeros(10_000_000, np.int64), SecureChannel("1/100", definition="KIND"))
(peak,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(int(peak.split()[1]) // 1024, release.values.size)
""".replace("NAME", name).replace("KIND", definition)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, size = map(int, done.stdout.split())
    assert size == 10_000_000
    assert peak < 300


# --- variances and margins --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.5, 1000.0])
def test_laplace_variance_against_its_series(scale: float) -> None:
    z = np.arange(1, int(60 * scale) + 60)
    p = np.exp(-1 / scale)
    assert laplace_variance(scale) == pytest.approx(2 * ((1 - p) / (1 + p) * p**z * z**2).sum(), rel=1e-9)


@pytest.mark.parametrize("parameter", [1e-4, 0.05, 0.5, 0.999, 1.0, 1.001, 3.0, 100.0])
def test_gaussian_variance_against_its_series(parameter: float) -> None:
    z = np.arange(-200, 201)
    weights = np.exp(-(z**2) / (2 * parameter))
    assert gaussian_variance(parameter) == pytest.approx((weights * z**2).sum() / weights.sum(), rel=1e-9)


def test_the_paper_and_the_exact_margins_hold_in_simulation() -> None:
    cells, epsilon, delta, runs = 40, Fraction(1, 5), 0.1, 4000
    stated = Identity().accuracy((5, 8), epsilon, delta)
    assert stated == laplace_accuracy(epsilon, cells, delta)
    channel = SeededChannel(epsilon, seed=8)
    noise = np.abs(channel.laplace(np.zeros((runs, cells), int), epsilon, purpose="x"))
    signed = SeededChannel(epsilon, seed=9).laplace(np.zeros((runs, cells), int), epsilon, purpose="x")
    error = 5 * (delta / runs) ** 0.5
    assert (noise[:, 0] > stated["one_cell"]).mean() <= delta + error
    assert (noise.max(axis=1) > stated["all_cells"]).mean() <= delta + error
    assert (noise.max(axis=1) > stated["all_cells"] - 1).mean() > delta - error
    assert (np.abs(signed.sum(axis=1)) > stated["total"]).mean() <= delta + error
    assert (noise.sum(axis=1) > stated["xiao_any_query"]).mean() <= delta
    assert xiao_bound(1, 1.0, 0.05) == pytest.approx(np.log(20))


def test_counts_above_the_limit_are_cut_off_there() -> None:
    """Before any draw of theirs, but perhaps after those of other tables: an error would waste what was paid."""
    for counts in (np.array([4711, 2**41]), np.array([4711, 2**63 + 4711], dtype=np.uint64)):
        cells = build("identity").release(counts, SeededChannel(100, seed=1)).values
        assert cells.tolist() == [4711, 2**40]


@pytest.mark.parametrize(
    "meta", [{"n": np.int64(3)}, {"n": np.float64(3)}, {"a": [object()]}, {"a": np.zeros(2)}, {3: {1}}]
)
def test_what_is_said_of_a_measurement_is_plain(meta: dict[Any, Any]) -> None:
    """An object can carry more than it shows."""
    cells = np.zeros(2)
    with pytest.raises(MechanismError, match="meta: these must be plain"):
        Measured("identity", {}, {"cells": cells}, meta, (), "pure", insecure=True)
    with pytest.raises(MechanismError, match="diagnostics: these must be plain"):
        Release(cells, (), insecure=True, diagnostics=meta)


@pytest.mark.parametrize("values", [[1, 2], np.ma.masked_array([1]), np.array([object()]), np.float64(2)])
def test_values_are_arrays_of_numbers(values: Any) -> None:
    with pytest.raises(MechanismError, match="values: these must be arrays of numbers"):
        Release(values, (), insecure=True)


# --- What a mechanism needs is imported before it draws: what follows a draw on full data imports nothing more ---


_CODE = """
import sys
import numpy as np
from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.registry import preload
name, whole = sys.argv[1], sys.argv[2] == "whole"
data = [[9, 3], [4, 2], [1, 5]] if name == "privhist" else [5, 0, 7, 9, 0, 1, 30, 2]
data = np.array(data, np.int64)
made = build(name, form="prevalences") if name == "privhist" else build(name)
if whole:
    preload(name)
build("identity").release(np.zeros(3, np.int64), SeededChannel(1, seed=0))
before = set(sys.modules)
made.release(data, SeededChannel(1, seed=0))
late = set(sys.modules) - before
print(sorted(each for each in late if each.startswith("tabularium.mechanisms.histograms") or each == "numba"))
"""


def later(name: str, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CODE, name, how], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_full_data_import_nothing_more() -> None:
    assert later("privhist", "whole") == "[]"
    assert later("privhist", "not") != "[]", "without it they do, so that this can fail"


@pytest.mark.parametrize("name", [*MECHANISMS, "bounded_sums"])
def test_every_mechanism_can_be_imported_whole(name: str) -> None:
    preload(name)
