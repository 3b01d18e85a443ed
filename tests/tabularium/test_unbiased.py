"""What analysts compute with: noisy measurements, and estimates of least squares from them."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

import tabularium as tb
from tabularium.mechanisms.errors import InputError
from tests.flows.release import test_bounds_by_group as by_group
from tests.flows.release.scene import write_scene
from tests.flows.release.test_measures import with_measures
from tests.flows.release.test_rates import home_for

BARE = "postprocessing: {nonnegativity: false, rounding: false}\n"


def published(folder: Path, old: str = "", new: str = "", more: str = "") -> tb.Release:
    spec, home = write_scene(folder)
    spec.write_text(spec.read_text().replace(old, new) + more)
    return tb.publish(spec, home=home.path, notes=lambda _: None)


def test_where_nothing_else_was_done_they_are_the_published_numbers(tmp_path: Path) -> None:
    """And the margins, which are analytic then, are those of their variance."""
    release = published(tmp_path, more=BARE)
    sure = NormalDist().inv_cdf((1 + release.confidence) / 2)
    for table in release.values():
        for level in table.levels or (None,):
            shown, found = table.to_pandas(level=level), table.unbiased().to_pandas(level=level)
            assert list(found.columns[:-2]) == list(shown.columns[:-2])
            assert np.allclose(found["estimate"], shown["count"], rtol=1e-9, atol=1e-9)
            margin = sure * np.sqrt(found["variance"])
            assert np.allclose(margin, shown["margin"], rtol=1e-6)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_sums_have_them_too_where_bounds_differ_by_group_as_well(tmp_path: Path, definition: str) -> None:
    """Nothing else was done, so that they are the published sums, and their variances make the margins."""
    spec = by_group.write(tmp_path, "2", definition)
    spec.write_text(spec.read_text() + BARE)
    release = tb.publish(spec, home=home_for(tmp_path, definition).path, notes=lambda _: None)
    sure = NormalDist().inv_cdf((1 + release.confidence) / 2)
    variances = set()
    for table in release.values():
        for level in table.levels or (None,):
            shown, found = table.to_pandas(level=level), table.unbiased().to_pandas(level=level)
            assert list(found.columns[-4:]) == ["estimate", "variance", "total", "total_variance"]
            assert np.allclose(found["total"], shown["total"], rtol=1e-9, atol=1e-6)
            assert np.allclose(sure * np.sqrt(found["total_variance"]), shown["total_margin"], rtol=1e-6)
            variances |= set(found["total_variance"].round(3))
    assert len(variances) >= 4, "of two sectors, by level and table"


def test_sums_are_in_the_unit_of_their_column_and_add_up(tmp_path: Path) -> None:
    spec, home = with_measures(tmp_path, budget="200", cap="200")
    release = tb.publish(spec, home=home.path, notes=lambda _: None)
    table = release["area_age_sex"]
    found = {level: table.unbiased().to_pandas(level=level) for level in table.levels}
    assert not {"mean_income", "typical", "first"} & set(found["place"])
    for name in ("income", "balance"):
        sums = [each[name].sum() for each in found.values()]
        assert np.allclose(sums, sums[0], rtol=1e-9)
        shown = table.to_pandas(level="nation")
        away = (found["nation"][name] - shown[name]).abs()
        assert (away <= 3 * shown[f"{name}_margin"] + 10).all() and shown[name].abs().min() > 100
    assert "total" in release["age_sex"].unbiased().to_pandas()


def test_they_add_up_and_may_be_negative(tmp_path: Path) -> None:
    release = published(tmp_path, 'budget: "1"', 'budget: "1/50"')
    table = release["area_age_sex"].unbiased()
    sums = [table.to_pandas(level=level)["estimate"].sum() for level in table.levels]
    assert np.allclose(sums, sums[0])
    assert (table.to_pandas()["estimate"] < 0).any()
    assert (release["area_age_sex"].to_pandas()["count"] >= 0).all()


def test_measurements_are_as_they_were_drawn(tmp_path: Path) -> None:
    release = published(tmp_path)
    measured = release.measurements["area_age_sex"]
    assert measured.levels == ("nation", "province", "place")
    nation = measured.to_pandas(level="nation")
    # 2/3 of ε = 1, of which the nation has 1/4: Laplace noise of scale 6, on whole numbers.
    assert nation["variance"].between(2 * 6**2 - 1, 2 * 6**2).all()
    assert len(nation) == 6
    assert nation["measured"].dtype.kind == "i"
    leaves = measured.to_pandas()
    assert set(leaves["area"]) == {"A1", "A2", "B1"}
    with pytest.raises(InputError, match="there is no level 'region'"):
        measured.to_arrow(level="region")


def test_what_has_none_says_so(tmp_path: Path) -> None:
    merged = published(tmp_path / "merged", "  - name: age_sex\n", "  - name: age_sex\n    mechanism: dawa\n")
    with pytest.raises(InputError, match="the mechanism of age_sex merges or drops"):
        merged["age_sex"].unbiased()
    with pytest.raises(InputError, match="something else than cells"):
        merged.measurements["age_sex"].to_arrow()
    held = published(
        tmp_path / "held", "{folder: releases}", '{folder: releases, measurements: {withhold: "a court"}}'
    )
    for ask in (held["age_sex"].unbiased, held.measurements["age_sex"].to_arrow):
        with pytest.raises(InputError, match="withheld: a court"):
            ask()
    with pytest.raises(InputError, match="open one release"):
        tb.series(tmp_path / "held" / "releases" / "small")["age_sex"].unbiased()


def test_their_errors_have_mean_zero_and_the_stated_variance(tmp_path: Path) -> None:
    """Over 600 cells at once; a noise scale that is 30 % wrong has 0.5 or 1.7 times the variance."""
    spec, home = write_scene(tmp_path, budget="1/10")
    spec.write_text(spec.read_text().replace("edges: [20, 65]", "width: 1"))
    release = tb.publish(spec, home=home.path, notes=lambda _: None)
    true = pd.read_csv(tmp_path / "people.csv", dtype=str).value_counts(["area", "age", "sex"])
    found = release["area_age_sex"].unbiased().to_pandas()
    keys = pd.MultiIndex.from_frame(found[["area", "age", "sex"]].astype(str))
    error = (found["estimate"] - true.reindex(keys, fill_value=0).to_numpy()) / np.sqrt(found["variance"])
    assert len(found) == 600
    assert abs(error.mean()) < 0.25
    assert 0.7 < (error**2).mean() < 1.4


@pytest.mark.parametrize("people", [600, 3000])
def test_what_contradicts_an_invariant_is_refused(tmp_path: Path, people: int) -> None:
    """There are 600: an invariant of 3 000 would pull every estimate up."""
    known = f'invariants: [{{name: people, count: {people}, reason: "a register", on_conflict: publish}}]\n'
    table = published(tmp_path, more=known)["age_sex"]
    if people == 600:
        assert table.unbiased().to_pandas()["estimate"].sum() == pytest.approx(600)
    else:
        with pytest.raises(InputError, match="contradict invariant people beyond chance"):
            table.unbiased()
