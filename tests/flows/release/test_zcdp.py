"""A release under concentrated privacy: what is charged, drawn, promised, and what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tabularium.ledger import Ledger
from tabularium.mechanisms.accounting import epsilon_at
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.errors import LedgerError
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, write_scene

# One worker for the whole file: what its tests look at is made once.
pytestmark = pytest.mark.xdist_group("zcdp")


def charges(home: Home) -> list[Any]:
    with Ledger.connect(home.ledger_url) as books:
        return list(books.charges("people"))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Home, Path]:
    spec, home = write_scene(
        tmp_path_factory.mktemp("zcdp"), rows=3000, budget="1/8", cap="1", definition="zcdp"
    )
    return spec, home, Path(publish(spec, home).folder)


def test_rho_is_charged_and_shared_as_it_adds(published: tuple[Path, Home, Path]) -> None:
    _, home, folder = published
    assert [charge.amount for charge in charges(home)] == [Fraction(1, 8)]
    certificate = json.loads((folder / "certificate.json").read_text())
    events = [Event.from_dict(event) for event in certificate["transcript"]]
    assert {event.primitive for event in events} == {"discrete_gaussian"}
    # 1/8 · 2/3 · (1/4, 1/4, 1/2) and 1/8 · 1/3; σ² = 1/2ρ
    assert [event.loss for event in events] == [Fraction(1, n) for n in (48, 48, 24, 24)]
    assert [event.scale_squared for event in events] == [24, 24, 12, 12]
    assert certificate["tables"]["age_sex"]["noise_variance"][""] == pytest.approx(12)


def test_the_certificate_says_rho_and_what_epsilon_it_comes_to(published: tuple[Path, Home, Path]) -> None:
    certificate = json.loads((published[2] / "certificate.json").read_text())
    privacy = certificate["privacy"]
    assert (privacy["definition"], privacy["rho"], privacy["rho_per_record"]) == ("zcdp", "1/8", "1/8")
    assert "epsilon" not in privacy, "there is no pure ε"
    assert certificate["ledger"]["amount"] == "1/8"
    (reported,) = privacy["epsilon_delta"]
    assert reported["delta"] == "1/1000000"
    events = [Event.from_dict(event) for event in certificate["transcript"]]
    assert reported["epsilon"] == epsilon_at(events, 1e-6, fixed_plan=True)
    # Gaussian noise of ρ = 1/8 is μ = 1/2 Gaussian privacy; its exact ε at 10^-6 solves
    # Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) = δ; discrete noise differs little at these scales.
    exact = gaussian_epsilon(0.5, 1e-6)
    assert exact * 0.99 < reported["epsilon"] < exact * 1.01
    text = " ".join(privacy["reading"])
    assert "test" in text
    assert "at most" in text
    assert "probability of" not in text, "odds are bounded by pure ε only"


def gaussian_epsilon(mu: float, delta: float) -> float:
    def tail(z: float) -> float:
        return math.erfc(z / math.sqrt(2)) / 2

    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        at = tail(middle / mu - mu / 2) - math.exp(middle) * tail(middle / mu + mu / 2)
        low, high = (middle, high) if at > delta else (low, middle)
    return high


def test_the_tables_are_what_they_always_are(published: tuple[Path, Home, Path]) -> None:
    frame = pd.read_csv(published[2] / "area_age_sex.csv", dtype={"sex": str})
    cells = frame.pivot_table(index="area", columns=["age", "sex"], values="count", observed=True)
    assert (cells.loc["A"] + cells.loc["B"] == cells.loc["N"]).all()
    assert (frame["count"] >= 0).all()
    assert abs(cells.loc["N"].sum() - 3000) < 100  # more than ten standard deviations of the six cells


def test_a_unit_of_several_records_divides_rho_by_the_square(tmp_path: Path) -> None:
    spec, home = write_scene(
        tmp_path, rows=0, budget="1/2", definition="zcdp", extra=[("A1", "30", "1")] * 40
    )
    text = spec.read_text().replace("unit: record, ", "unit: {column: id}, max_contributions: 3, ")
    spec.write_text(text)
    (tmp_path / "people.csv").write_text(
        "id,area,age,sex\n" + "".join(f"{i // 2},A1,30,1\n" for i in range(40))
    )
    with Ledger.connect(home.ledger_url) as books:
        books.open_account(
            "visits",
            unit="id",
            relation="add-remove",
            definition="zcdp",
            cap=Fraction(1),
            delta=Fraction(1, 10**5),
        )
    spec.write_text(text.replace("dataset: people", "dataset: visits"))
    certificate = json.loads((Path(publish(spec, home).folder) / "certificate.json").read_text())
    assert certificate["privacy"]["rho_per_record"] == "1/18"
    events = [Event.from_dict(event) for event in certificate["transcript"]]
    assert sum(event.loss for event in events) == Fraction(1, 18)
    reported = {each["delta"]: each["epsilon"] for each in certificate["privacy"]["epsilon_delta"]}
    assert set(reported) == {"1/1000000", "1/100000"}, "the spec's δ, and the account's"
    assert reported["1/1000000"] > reported["1/100000"] > gaussian_epsilon(1.0, 1e-5)


@pytest.mark.parametrize(("ours", "theirs"), [("zcdp", "pure"), ("pure", "zcdp")])
def test_an_account_of_the_other_definition_is_refused_before_data_are_read(
    tmp_path: Path, ours: str, theirs: str
) -> None:
    spec, home = write_scene(tmp_path, definition=theirs)
    text = spec.read_text()
    if ours == "zcdp":
        text = text.replace("unit: record,", 'unit: record, definition: zcdp, delta: "1/1000",')
    else:
        text = text.replace(' definition: zcdp, delta: "1/1000000",', "")
    spec.write_text(text)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(LedgerError, match=f"definition is '{theirs}', the spec's is '{ours}'"):
        publish(spec, home)
    assert not charges(home)


def test_without_an_account_the_command_that_opens_one_is_named(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, definition="zcdp")
    spec.write_text(spec.read_text().replace("dataset: people", "dataset: others"))
    with pytest.raises(
        LedgerError,
        match=r"ledger open others --cap 1 --unit record --relation .* --definition zcdp --delta 1/1000000",
    ):
        publish(spec, home)
