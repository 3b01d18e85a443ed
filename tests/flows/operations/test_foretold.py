"""What `deploy` says of a schedule: until when it is paid for, and what ten years of it come to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from pathlib import Path
from typing import Self

import pytest

import tabularium
from tabularium.flows.operations.deployments.foretold import Foretold, coming, foretold
from tabularium.flows.operations.names_in_prefect import own_tags
from tabularium.ledger import Terms
from tabularium.mechanisms.errors import InputError
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.model import ReleaseSpec
from tests.flows.release.scene import write_scene

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
QUARTERS = ("0 6 1 */3 *", "Europe/Berlin", "{scheduled:%Y-Q%q}")


@pytest.fixture
def spec(tmp_path: Path) -> ReleaseSpec:
    return load_spec(write_scene(tmp_path)[0]).spec


TERMS = Terms("people", "record", "people", "add-remove", "pure", Fraction(9), Fraction(1), None, None, None)


def said(
    spec: ReleaseSpec,
    pays_for: int,
    *charged: str,
    schedule: tuple[str, str, str] = QUARTERS,
    **days: str,
) -> Foretold:
    terms = replace(TERMS, **days)  # type: ignore[arg-type]
    found = coming(schedule, charged=charged, terms=terms, now=NOW)
    return foretold(spec, found, pays_for=pays_for, terms=terms)


def test_the_last_period_that_is_paid_for_and_the_first_that_is_not(spec: ReleaseSpec) -> None:
    assert said(spec, 2).sentences()[0] == (
        "This schedule is paid for until period 2027-Q2. Period 2027-Q3, which runs on 2027-07-01, would be "
        "refused: what is left does not pay for it."
    )
    found = said(spec, 2, "2027-Q1")  # paid for already, by hand
    assert found.sentences()[0].startswith("This schedule is paid for until period 2027-Q3. Period 2027-Q4")
    assert (
        said(spec, 0).sentences()[0].startswith("Period 2027-Q1, which runs on 2027-01-01, would be refused")
    )
    assert said(spec, 1000).unpaid is None


def test_an_account_takes_charges_on_its_days_alone(spec: ReleaseSpec) -> None:
    found = said(spec, 9, closes_on="2027-04-01")  # 6 o'clock in Berlin is that day in Greenwich, too
    assert found.sentences()[0].endswith(
        "2027-Q2, which runs on 2027-04-01, would be refused: the account takes no charges then."
    )
    found = said(spec, 1, opens_on="2027-02-01")
    assert found.last is not None
    assert found.last[0] == "2027-Q2"


def test_products_of_one_account_share_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6 each month takes 1 for one product, and each second month 2 for the other."""
    small, home = write_scene(tmp_path, cap="6")
    text = small.read_text().replace("product: small", "product: other")
    other = small.with_name("other.yaml")
    other.write_text(text.replace('budget: "1"', 'budget: "2"'))
    period = "{scheduled:%Y-%m}"
    schedules = [
        ("small", str(small), ("0 6 1 * *", "UTC", period)),
        ("other", str(other), ("0 6 2 */2 *", "UTC", period)),  # from January on
    ]
    monkeypatch.setattr(
        "tabularium.flows.operations.deployments.foretold.schedules_of", lambda _home: schedules
    )

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(NOW.timestamp(), tz)

    monkeypatch.setattr("tabularium._check.datetime", Stopped)
    ahead = tabularium.open_ledger(home.path).ahead("people")
    months = {name: tuple(each and each[0] for each in (found.last, found.unpaid)) for name, found in ahead}
    assert months == {"small": ("2027-03", "2027-04"), "other": ("2027-01", "2027-03")}


def test_ten_years_as_an_epsilon_and_a_delta(spec: ReleaseSpec) -> None:
    """40 quarters at ε = 1: each is 1/2-zCDP, and 20-zCDP is (ε, 1e-9) for an ε of about 57."""
    found = said(spec, 2)
    assert (found.periods, found.spent, found.delta) == (40, Fraction(40), Fraction(1, 10**9))
    assert found.epsilon is not None
    assert 25 < found.epsilon <= 40
    assert "Ten years of this schedule are 40 periods: ε = 40 plainly summed, or ε = " in found.sentences()[1]


def test_one_run_of_many_in_a_period_costs(spec: ReleaseSpec) -> None:
    daily = said(spec, 3, schedule=("0 6 * * *", "UTC", "{previous_month:%Y-%m}"))
    assert daily.last is not None
    assert (daily.last[0], daily.periods) == ("2026-12", 121)
    often = said(spec, 3, schedule=("*/5 * * * *", "UTC", "{scheduled:%Y-%m}"))
    assert often.periods is None
    assert often.sentences() == []


def test_own_tags_say_nothing_that_tabulariums_say() -> None:
    assert own_tags(["health", "health", "q"]) == ("health", "q")
    for wrong in ("", "tabularium", "product:x", "period:2026"):
        with pytest.raises(InputError, match="--tag"):
            own_tags([wrong])
