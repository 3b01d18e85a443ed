"""Counts of counts, from microdata to a published histogram that is paid for."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tabularium
from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger
from tabularium.mechanisms import restore
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.errors import InputError, TabulariumError
from tabularium.tasks.publish.measurement_files import read_measurement
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, write_scene

pytestmark = pytest.mark.xdist_group("histograms")


def add(spec: Path, words: str = "") -> None:
    """Persons per year of age: each of a hundred ages has the same number of persons."""
    spec.write_text(spec.read_text() + f'histograms:\n  - {{name: per_age, of: age, share: "1/4"{words}}}\n')


def certificate(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
    return found


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Home, Path]:
    spec, home = write_scene(tmp_path_factory.mktemp("histogram"), rows=3000, budget="8")
    add(spec)
    return spec, home, Path(publish(spec, home).folder)


def test_sizes_are_published(released: tuple[Path, Home, Path]) -> None:
    """A hundred ages of thirty persons, at ε = 2: close to it.

    In 3 000 draws the number of persons was never wrong by more than 27, and at least 97 ages were near.
    """
    table = pd.read_csv(released[2] / "per_age.csv")
    assert list(table.columns) == ["size", "number"]
    assert table["size"].is_monotonic_decreasing
    assert abs((table["size"] * table["number"]).sum() - 3000) < 300
    near = table[(table["size"] - 30).abs() <= 3]["number"].sum()
    assert near >= 80
    pd.testing.assert_frame_equal(table, pd.read_parquet(released[2] / "per_age.parquet"))


def test_the_certificate_says_what_it_is(released: tuple[Path, Home, Path]) -> None:
    found = certificate(released[2])
    about = found["tables"]["per_age"]
    assert about["mechanism"] == "privhist"
    assert about["sizes_of"] == "age"
    assert abs(about["total"] - 3000) < 300
    assert found["spec"]["histograms"][0]["of"] == "age"
    assert set(found["margins"]) == {"simulated"}
    assert {"per_age.csv", "per_age.parquet"} <= set(found["files"])


def test_it_costs_its_share_and_the_tables_the_rest(released: tuple[Path, Home, Path]) -> None:
    events = [Event.from_dict(each) for each in certificate(released[2])["transcript"]]
    own = [event for event in events if event.purpose.startswith("per_age/")]
    assert sum(event.loss for event in own) == 2
    assert sum(event.loss for event in events) == 8
    assert {event.purpose: event.loss for event in events}["age_sex/cells"] == Fraction(6, 3)
    with Ledger.connect(released[1].ledger_url) as books:
        assert books.balance("people") == 2


def test_its_measurement_can_be_finished_again(released: tuple[Path, Home, Path]) -> None:
    measured = read_measurement(released[2], "per_age")
    release = restore(measured).finish(measured)
    table = pd.read_csv(released[2] / "per_age.csv")
    assert np.array_equal(release.values, table.to_numpy())
    assert not release.insecure


def test_its_properties_can_be_asked(released: tuple[Path, Home, Path]) -> None:
    """A hundred ages with thirty persons each: next to evenly spread, and none unseen."""
    opened = tabularium.open(released[2])
    entropy = opened.query("entropy(per_age)")
    assert entropy.value == pytest.approx(math.log(100), abs=0.2)
    assert (entropy.low, entropy.high, entropy.standard_error, entropy.published) == (None,) * 4
    assert "Miller-Madow (Miller 1955). In nats" in entropy.explanation
    assert opened.query("support(age)").value == pytest.approx(100, abs=30)
    assert opened.query("distance(per_age, 200)").value == pytest.approx(1, abs=0.2)

    def said(*words: str) -> str:
        return CliRunner().invoke(app, ["query", str(released[2]), *words]).stdout

    assert "too high by 0.26 at most" in said("distance(per_age, 200)")
    text = said()
    assert "Histogram of age: support(per_age), entropy(per_age), distance(per_age, NUMBER)." in text


def test_a_release_without_a_histogram_has_no_such_properties(tmp_path: Path) -> None:
    opened = tabularium.open(Path(publish(*write_scene(tmp_path)).folder))
    with pytest.raises(InputError, match=r"`age` is no histogram.*are of a `privhist` histogram"):
        opened.query("entropy(age)")


def test_it_works_under_zcdp_and_for_withheld_measurements(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, definition="zcdp", budget="1")
    add(spec, ', parameters: {total_share: "1/3"}')
    text = spec.read_text()
    spec.write_text(text.replace("{folder: releases}", "{folder: releases, measurements: {withhold: why}}"))
    folder = Path(publish(spec, home).folder)
    events = [Event.from_dict(each) for each in certificate(folder)["transcript"]]
    own = {event.purpose: event for event in events if event.purpose.startswith("per_age/")}
    assert own["per_age/records"].loss == Fraction(1, 12)
    assert {event.primitive for event in own.values()} == {"discrete_gaussian"}
    assert not (folder / "measurements").exists()
    # Beside it are tables of a fixed plan, but the whole is converted from ρ alone.
    ((at,),) = [certificate(folder)["privacy"]["epsilon_delta"]]
    assert at["epsilon"] > 5


def test_nothing_is_charged_for_a_column_that_is_not_there(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    add(spec)
    spec.write_text(spec.read_text().replace("of: age", "of: household"))
    with pytest.raises(TabulariumError, match="lacks the column 'household'"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert books.balance("people") == 10
