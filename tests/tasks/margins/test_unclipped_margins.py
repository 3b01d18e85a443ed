"""Margins of numbers that non-negativity leaves alone: they know the noise, and not what is published."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.margins import whole_half
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.sizes import runs
from tests.tasks.in_memory import one_release

AREAS = "code,label,parent\nN,Nation,\n" + "".join(
    f"P{p},P{p},N\n" + "".join(f"P{p}{a:02d},P{p}{a:02d},P{p}\n" for a in range(20)) for p in range(4)
)
SPEC = """\
product: pay
dataset: people
period: "2026"
source: {{path: people.csv}}
privacy: {{unit: record, budget: "{budget}"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  sex: {{categories: [f, m]}}
tables:
  - name: areas
    dimensions: [area, sex]
    levels: {{nation: "1/4", province: "1/4", place: "1/2"}}
    measures: {{balance: {{sum: balance, from: -50, to: 100, share: "1/2"}}}}
{post}
"""
NO_CLIPPING = "postprocessing: {consistency: true, nonnegativity: false, rounding: true}"
RELEASES = runs(4, 60)


def loaded_in(folder: Path, post: str, budget: str = "4") -> Loaded:
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC.format(post=post, budget=budget))
    return load_spec(folder / "spec.yaml")


def known(loaded: Loaded) -> dict[str, NDArray[np.int64]]:
    """True numbers, (nodes, cells): most of them small beside the noise, some far from it on either side."""
    rng = generator(5)
    found = {}
    for name, layout in Agreement.of(loaded).layouts.items():
        values = np.zeros((layout.nodes, layout.cells), np.int64)
        leaves = layout.cuts["place"]
        values[leaves] = rng.choice([0, 0, 1, 40, 3000], (len(leaves), layout.cells))
        if layout.signed:
            values[leaves] *= rng.choice([-1, 1], (len(leaves), layout.cells))
        for node in range(layout.nodes - 1, 0, -1):
            values[layout.parents[node]] += values[node]
        found[name] = values
    return found


@pytest.mark.parametrize(("post", "names"), [("", ["balance"]), (NO_CLIPPING, ["", "balance"])])
def test_a_margin_does_not_depend_on_the_number_beside_it(
    tmp_path: Path, post: str, names: list[str]
) -> None:
    """Cells of a level have one variance and one margin, the next release as well; each holds as often."""
    loaded = loaded_in(tmp_path, post)
    truth, layouts = known(loaded), Agreement.of(loaded).layouts
    counted = {
        name: {level: truth[name][nodes].reshape(layout.shape(level)) for level, nodes in layout.cuts.items()}
        for name, layout in layouts.items()
    }
    held: dict[tuple[str, bool], list[float]] = {}
    small: dict[str, list[float]] = {}
    run = without_data(loaded)
    for seed in range(RELEASES):
        published, margins = one_release(run, counted, seed)
        for name in ("areas" + f"-{each}" * bool(each) for each in names):
            half, shown = margins[name].half, published[name].values
            assert margins[name].about["margins"] == {"method": "exact"}
            assert (half == np.rint(half)).all()
            assert all(np.ptp(half[nodes]) == 0 for nodes in layouts[name].cuts.values())
            inside = np.abs(shown - truth[name]) <= half
            for far in (False, True):  # of small and of large true numbers alike
                held.setdefault((name, far), []).append(
                    float(inside[(np.abs(truth[name]) > 1000) == far].mean())
                )
            small.setdefault(name, []).append(float(inside[np.abs(shown) < half / 2].mean()))
    for shares in (*held.values(), *small.values()):
        error = np.std(shares, ddof=1) / np.sqrt(len(shares)) + 0.02 * (len(shares) < 50)
        assert np.mean(shares) >= 0.9 - 2 * error, (held, small)


def test_rounding_adds_no_more_than_it_must() -> None:
    """By brute force: wherever the truth lies within h of the estimate, the whole number is within its margin."""
    for half in (0.0, 0.3, 1.0, 1.7, 5.0):
        for base in np.arange(-3, 3, 0.125):
            near = np.arange(-12.0, 13.0)
            near = near[np.abs(near - base) <= half]
            for shown in (np.floor(base), np.ceil(base), np.floor(base) + 3):
                estimates = (np.array([[each]]) for each in (shown, base))
                found = whole_half(np.array([[half]]), *estimates)
                assert (np.abs(near - shown) <= found).all()
                if abs(shown - base) < 1:
                    assert found == np.ceil(half)


@pytest.mark.parametrize("budget", [3_000, 30_000, 3_000_000])
def test_a_budget_that_leaves_no_noise_publishes_what_is_true(tmp_path: Path, budget: int) -> None:
    """The variance of such noise is zero to the computer, and no number is divided by it."""
    loaded = loaded_in(tmp_path, "", str(Fraction(budget)))
    truth, layouts = known(loaded), Agreement.of(loaded).layouts
    counted = {
        name: {level: truth[name][nodes].reshape(layout.shape(level)) for level, nodes in layout.cuts.items()}
        for name, layout in layouts.items()
    }
    run = without_data(loaded)
    with np.errstate(all="raise", under="ignore"):
        published, margins = one_release(run, counted, 1)
    for name, exact in truth.items():
        error = np.abs(published[name].values - exact)
        assert (error <= margins[name].half).mean() > 0.9
        if name == "areas" or budget == 3_000_000:
            assert (error == 0).all()
            assert (margins[name].half <= 1).all()
