"""Mechanisms whose error depends on the data: drawn, post-processed, published with margins that say so."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabularium.ledger import Ledger
from tabularium.mechanisms import build, restore
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.errors import MechanismError, SpecError, TabulariumError
from tabularium.mechanisms.histograms.clustering import SrebGca
from tabularium.mechanisms.inference import laplace_margin
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.tasks.publish.measurement_files import read_measurement
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, write_scene

# One worker for the whole file: what its tests look at is made once.
pytestmark = pytest.mark.xdist_group("adaptive")


def with_mechanism(spec: Path, words: str) -> None:
    """Give both tables of the scene a mechanism."""
    text = spec.read_text()
    spec.write_text(text.replace("    dimensions:", f"    {words}\n    dimensions:"))


def certificate(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
    return found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Home, Path]:
    """A mechanism that cannot tell its error, under pure ε."""
    spec, home = write_scene(tmp_path_factory.mktemp("measured"), rows=3000, budget="2")
    with_mechanism(spec, 'mechanism: sreb_gca\n    parameters: {share: "1/2"}')
    return spec, home, Path(publish(spec, home).folder)


def test_the_error_is_bought_from_the_share_of_the_table(measured: tuple[Path, Home, Path]) -> None:
    found = certificate(measured[2])
    events = {event["purpose"]: Event.from_dict(event) for event in found["transcript"]}
    bought = {name: event for name, event in events.items() if name.startswith("error of ")}
    # 2 · 2/3 · (1/4, 1/4, 1/2) and 2 · 1/3, a twentieth of each
    assert {name: event.loss for name, event in bought.items()} == {
        "error of area_age_sex/nation/sum of absolute errors": Fraction(1, 60),
        "error of area_age_sex/province/sum of absolute errors": Fraction(1, 60),
        "error of area_age_sex/place/sum of absolute errors": Fraction(1, 30),
        "error of age_sex/sum of absolute errors": Fraction(1, 30),
    }
    assert all(event.sensitivity == UNIT and event.shape == (1,) for event in bought.values())
    assert sum((event.loss for event in events.values()), Fraction(0)) == 2
    with Ledger.connect(measured[1].ledger_url) as books:
        assert [charge.amount for charge in books.charges("people")] == [2]


def test_the_certificate_says_how_the_margins_are_known(measured: tuple[Path, Home, Path]) -> None:
    found = certificate(measured[2])
    table = found["tables"]["age_sex"]
    assert table["mechanism"] == "sreb_gca"
    assert "noise_variance" not in table, "there is no such number"
    assert table["margins"]["method"] == "measured"
    assert table["margins"]["share_of_budget"] == "1/20"
    assert set(found["margins"]) == {"measured"}
    assert "not for each cell" in found["margins"]["measured"]


def test_margins_are_those_of_the_measured_error(measured: tuple[Path, Home, Path]) -> None:
    """Recomputed from what is published: noisy cells and total, bound, Laplace shape, and what was moved."""
    folder = measured[2]
    index = json.loads((folder / "measurements" / "measurements.json").read_text())
    entry = next(e for e in index["measurements"] if e["table"] == "age_sex")
    scale = UNIT / Fraction(1, 30)
    assert Event.from_dict(entry["error"]["event"]).scale == scale
    bound = (max(entry["error"]["measured"][0] * UNIT + math.log(10) * float(scale), 0) / 6 + 0.5) / UNIT
    drawn = read_measurement(folder, "age_sex")
    noise = next(event for event in drawn.transcript if event.purpose.endswith("order"))
    least = min(float(event.scale) for event in drawn.transcript)
    z = 1.6448536269514722
    base = z * max(math.sqrt(2) * bound, least * math.sqrt(2 / 6))
    frame = pd.read_parquet(folder / "age_sex.parquet")
    count = frame["count"].to_numpy()

    def around(values: Any, half: float) -> Any:
        low, high = np.maximum(values - half, 0), np.maximum(values + half, 0)
        return np.maximum(np.maximum(count - low, high - count), 0)

    released = restore(drawn).finish(drawn).values.reshape(-1)
    from_error = np.floor(around(released, base) + 0.5)
    from_cells = around(drawn.arrays["cells"].reshape(-1), laplace_margin(float(noise.scale)))
    # Of six cells the errors cannot be measured well enough to compete with the noise of the cells.
    assert certificate(folder)["tables"]["age_sex"]["margins"]["from_noisy_cells"] is True
    assert z * math.sqrt(2) * math.log(10) * float(scale) / 6 / UNIT > from_cells.mean()
    assert frame["margin"].to_numpy().tolist() == from_cells.tolist() != from_error.tolist()


def test_whatever_was_drawn_is_published_and_can_be_finished_again(measured: tuple[Path, Home, Path]) -> None:
    folder = measured[2] / "measurements"
    names = {path.name for path in folder.iterdir()}
    parts = ("area_age_sex.nation", "area_age_sex.province", "area_age_sex.place", "age_sex")
    arrays = ("cells", "starts", "sums")
    assert names == {f"{p}.{a}.parquet" for p in parts for a in arrays} | {"measurements.json"}
    cells = pd.read_parquet(folder / "area_age_sex.place.cells.parquet")
    assert {"level", "area", "age", "sex", "measured"} <= set(cells.columns)
    assert len(cells) == 18
    assert list(pd.read_parquet(folder / "age_sex.sums.parquet").columns) == ["index", "measured"]
    again = read_measurement(measured[2], "area_age_sex", "place")
    assert again.arrays["cells"].shape == (3, 3, 2)
    assert not again.insecure
    assert restore(again) == build("sreb_gca", share="1/2")
    assert restore(again).finish(again).values.shape == (3, 3, 2)
    listed = certificate(measured[2])["files"]
    assert {name for name in listed if name.startswith("measurements/")} == {
        f"measurements/{n}" for n in names
    }


def test_tables_are_whole_nonnegative_and_additive(measured: tuple[Path, Home, Path]) -> None:
    frame = pd.read_csv(measured[2] / "area_age_sex.csv", dtype={"sex": str})
    assert (frame["count"] >= 0).all()
    assert frame["margin"].dtype == np.int64
    cells = frame.pivot_table(index="area", columns=["age", "sex"], values="count", observed=True)
    assert (cells.loc["A1"] + cells.loc["A2"] == cells.loc["A"]).all()
    assert (cells.loc["A"] + cells.loc["B"] == cells.loc["N"]).all()


def test_the_same_release_again_costs_nothing(measured: tuple[Path, Home, Path]) -> None:
    spec, home, folder = measured
    again = publish(spec, home)
    assert (again.status, Path(again.folder)) == ("already published", folder)


def test_withheld_measurements_are_not_there(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    with_mechanism(spec, "mechanism: sreb_gca")
    spec.write_text(spec.read_text().replace("{folder: releases}", '{measurements: {withhold: "a test"}}'))
    folder = Path(publish(spec, home).folder)
    assert not (folder / "measurements").exists()
    assert certificate(folder)["measurements"]["withheld"] == "a test"
    with pytest.raises(TabulariumError, match="no such measurement"):
        read_measurement(folder, "age_sex")


def test_under_zcdp_the_error_is_measured_with_gaussian_noise(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/2", definition="zcdp")
    with_mechanism(spec, 'mechanism: sreb_gca\n    margin_share: "1/10"')
    found = certificate(Path(publish(spec, home).folder))
    events = [Event.from_dict(event) for event in found["transcript"]]
    bought = [event for event in events if event.purpose.startswith("error of ")]
    assert [event.loss for event in bought] == [Fraction(1, n) for n in (120, 120, 60, 60)]
    assert {event.primitive for event in bought} == {"discrete_gaussian"}
    assert sum((event.loss for event in events), Fraction(0)) == Fraction(1, 2)
    (reported,) = found["privacy"]["epsilon_delta"]
    # Not a settled plan: what holds is the conversion of ρ, which is larger than that of fixed Gaussians.
    from tabularium.mechanisms.accounting.conversion import zcdp_epsilon

    assert reported["epsilon"] == pytest.approx(zcdp_epsilon(0.5, 1e-6), rel=1e-9)


def test_margin_share_zero_publishes_no_margins(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    with_mechanism(spec, "mechanism: sreb_gca\n    margin_share: 0")
    levels = 'levels: {nation: "1/4", province: "1/4", place: "1/2"}'
    spec.write_text(spec.read_text().replace(levels, "levels: {place: 1}"))
    folder = Path(publish(spec, home).folder)
    frame = pd.read_parquet(folder / "area_age_sex.parquet")
    assert frame["margin"].isna().all()
    assert frame["count"].notna().all()
    found = certificate(folder)
    assert found["tables"]["age_sex"]["margins"] == {"method": "unknown"}
    assert not [event for event in found["transcript"] if event["purpose"].startswith("error of")]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a mechanism state a risk of its own."""
    from tabularium.validations.release_spec.checks import table_checks as mechanism_checks

    original = SrebGca.finish

    def install(risk: float, standard_error: float | None = None) -> None:
        def finish(self: SrebGca, measured: Any) -> Any:
            release = original(self, measured)
            release.diagnostics["risk"] = risk
            if standard_error is not None:
                release.diagnostics["risk_standard_error"] = standard_error
            return release

        mechanism_checks._dry_run_source.cache_clear()
        monkeypatch.setattr(SrebGca, "finish", finish)

    return install


@pytest.fixture(autouse=True)
def _forget() -> Any:
    from tabularium.validations.release_spec.checks import table_checks as mechanism_checks

    yield
    mechanism_checks._dry_run_source.cache_clear()


def test_a_stated_risk_is_weight_and_margin_and_nothing_is_bought(
    tmp_path: Path, told: Callable[..., None]
) -> None:
    told(1.0)
    spec, home = write_scene(tmp_path, rows=6000, budget="2")
    with_mechanism(spec, "mechanism: sreb_gca")
    folder = Path(publish(spec, home).folder)
    found = certificate(folder)
    about = found["tables"]["age_sex"]["margins"]
    assert (about["method"], about["mean_squared_error"]) == ("risk", {"": 1.0})
    assert not [event for event in found["transcript"] if event["purpose"].startswith("error of")]
    drawn = read_measurement(folder, "area_age_sex", "place")
    released = restore(drawn).finish(drawn).values.reshape(-1)
    frame = pd.read_parquet(folder / "area_age_sex.parquet")
    place = frame[frame["level"] == "place"]
    wanted = np.floor(1.6448536 + np.abs(place["count"].to_numpy() - released) + 0.5)
    # The noise is real: now and then the interval of the noisy cells is the narrower one.
    if "place" in found["tables"]["area_age_sex"]["margins"]["from_noisy_cells"]:
        assert place["margin"].mean() < wanted.mean()
    else:
        assert place["margin"].to_numpy().tolist() == wanted.tolist()


def test_a_risk_below_what_is_possible_is_raised_to_it(tmp_path: Path, told: Callable[..., None]) -> None:
    told(-5.0)
    spec, home = write_scene(tmp_path)
    with_mechanism(spec, "mechanism: sreb_gca")
    found = certificate(Path(publish(spec, home).folder))["tables"]["age_sex"]["margins"]
    assert found["method"] == "risk"
    # ε = 1/3: order 3/10, groups 1/30; the smaller noise has 2·(10/3)² and a mean over 6 cells a sixth of it
    assert found["mean_squared_error"][""] == pytest.approx(2 * (10 / 3) ** 2 / 6)


def test_an_imprecise_risk_is_taken_one_standard_error_higher(
    tmp_path: Path, told: Callable[..., None]
) -> None:
    told(50.0, 10.0)
    spec, home = write_scene(tmp_path)
    with_mechanism(spec, "mechanism: sreb_gca")
    found = certificate(Path(publish(spec, home).folder))["tables"]["age_sex"]["margins"]
    assert found["mean_squared_error"][""] == pytest.approx(50 + 10)


def test_a_stated_risk_can_be_replaced_by_a_measurement(tmp_path: Path, told: Callable[..., None]) -> None:
    told(1e6)
    spec, home = write_scene(tmp_path)
    with_mechanism(spec, 'mechanism: sreb_gca\n    margin_share: "1/10"')
    found = certificate(Path(publish(spec, home).folder))["tables"]["age_sex"]["margins"]
    assert (found["method"], found["share_of_budget"]) == ("measured", "1/10")
    assert found["mean_squared_error"][""] != 1e6


def test_levels_between_measured_ones_have_their_parts_margins(
    tmp_path: Path, told: Callable[..., None]
) -> None:
    told(1.0)
    spec, home = write_scene(tmp_path, rows=6000)
    # Alone: what it must agree with would move its counts.
    other = '  - name: age_sex\n    dimensions: [age, sex]\n    share: "1/3"\n'
    spec.write_text(spec.read_text().replace(other, "").replace('share: "2/3"', 'share: "1"'))
    with_mechanism(spec, "mechanism: sreb_gca")
    levels = 'levels: {nation: "1/4", province: "1/4", place: "1/2"}'
    spec.write_text(
        spec.read_text().replace(levels, "levels: {place: 1}")
        + "postprocessing: {consistency: true, nonnegativity: false, rounding: false}\n"
    )
    frame = pd.read_parquet(Path(publish(spec, home).folder) / "area_age_sex.parquet")
    margin = frame.groupby("area", observed=True)["margin"].agg(["min", "max"])
    z = 1.6448536269514722
    for area, parts in {"A1": 1, "B": 1, "A": 2, "N": 3}.items():
        assert margin.loc[area].tolist() == pytest.approx([z * parts] * 2), area


@pytest.mark.parametrize("name", ["noise_first", "denoise", "efpa", "p_hpartition", "spa", "sreb_gca"])
@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_every_adaptive_mechanism_goes_the_whole_way(tmp_path: Path, name: str, definition: str) -> None:
    # Nine times the budget of other tests: the noise, which is real, must never be what the last line sees.
    spec, home = write_scene(tmp_path, definition=definition, budget="9")
    with_mechanism(spec, f"mechanism: {name}")
    folder = Path(publish(spec, home).folder)
    found = certificate(folder)
    losses = [Fraction(event["loss"]) for event in found["transcript"] if not event["branches"]]
    assert sum(losses, Fraction(0)) <= 9
    for table in ("area_age_sex", "age_sex"):
        frame = pd.read_parquet(folder / f"{table}.parquet")
        assert (frame["count"] >= 0).all()
        assert frame["margin"].notna().all()
        assert found["tables"][table]["margins"]["method"] in {"risk", "measured"}
        assert abs(frame["count"].sum() - (600 if table == "age_sex" else 1800)) < 600


def test_bad_parameters_are_found_before_anything_is_charged(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    with_mechanism(spec, "mechanism: sreb_gca\n    parameters: {share: 2}")
    with pytest.raises(SpecError, match=r"tables\[0\]\.parameters\.share: a share of the budget"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert not list(books.charges("people"))


def test_a_budget_too_small_for_the_error_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """Scale 256·20/ε of the bought measurement passes 2^40 before the mechanism's own noise does."""
    spec, home = write_scene(tmp_path, budget="1/360360000")
    with_mechanism(spec, "mechanism: sreb_gca")
    with pytest.raises(MechanismError, match="level nation: sum of absolute errors: the noise scale"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert not list(books.charges("people"))


def test_what_fails_while_the_error_is_measured_has_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mechanism has drawn by then: to try again would be to choose among draws."""
    import tabularium.tasks.measure

    original = tabularium.tasks.measure.total_error

    def fails(counts: Any, released: Any) -> int:
        if counts.any():  # not in the dry run on empty tables
            raise ValueError("Zebulon and others live here")
        return original(counts, released)

    spec, home = write_scene(tmp_path)
    with_mechanism(spec, "mechanism: sreb_gca")
    monkeypatch.setattr(tabularium.tasks.measure, "total_error", fails)
    with pytest.raises(TabulariumError) as caught:
        publish(spec, home)
    assert "Zebulon" not in str(caught.value)
    with Ledger.connect(home.ledger_url) as books:
        assert [charge.state for charge in books.charges("people")] == ["abandoned"]
        assert books.balance("people") == 9


def test_the_true_sum_of_errors_is_nowhere(tmp_path: Path) -> None:
    """What is stored and published of it carries noise: the same data four times do not give one sum.

    They would by chance if four draws at a scale of tens were all alike, in fewer than one of 10^6 runs.
    """
    sums = set()
    for number in range(4):
        spec, home = write_scene(tmp_path / str(number))
        with_mechanism(spec, "mechanism: sreb_gca")
        folder = Path(publish(spec, home).folder)
        index = json.loads((folder / "measurements" / "measurements.json").read_text())
        drawn = read_measurement(folder, "age_sex")
        released = restore(drawn).finish(drawn).values
        # write_scene's recipe: 600 persons, ages i·7 mod 100, sexes in turn
        ages = np.digitize([i * 7 % 100 for i in range(600)], [20, 65])
        truth = np.zeros((3, 2), np.int64)
        np.add.at(truth, (ages, np.arange(600) % 2), 1)
        entry = next(e for e in index["measurements"] if e["table"] == "age_sex")
        sums.add(entry["error"]["measured"][0] - np.abs(truth - released).sum())
    assert len(sums) > 1
    assert any(abs(difference) > 0.5 for difference in sums)
