"""Silence is noticed: what a schedule should have published, and data that should have arrived."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.client.schemas.schedules import CronSchedule
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.flows.operations.reporting.overdue import PATIENCE, due, overdue
from tabularium.tasks.arrival.claims import Claims, drop_found
from tests.flows.operations.installations import Up
from tests.flows.operations.products import open_account
from tests.flows.release.scene import write_scene

QUARTERS = ("0 6 1 */3 *", "Europe/Berlin", "{scheduled:%Y-Q%q}")


def at(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("schedule", "since", "now", "periods"),
    [
        (QUARTERS, at(2026, 5, 1), at(2026, 11, 27), ["2026-Q4", "2026-Q3"]),
        (QUARTERS, at(2026, 5, 1), at(2026, 10, 2, 3), ["2026-Q3"]),  # within a day of 6 o'clock in Berlin
        (QUARTERS, at(2026, 5, 1), at(2026, 10, 2, 5), ["2026-Q4", "2026-Q3"]),
        (QUARTERS, at(2026, 10, 1, 5), at(2026, 11, 27), []),  # deployed after the last time
        (
            ("0 6 * * *", "UTC", "{previous_month:%Y-%m}"),
            at(2026, 9, 1),
            at(2026, 11, 27),
            ["2026-10", "2026-09", "2026-08"],
        ),
        (("0 6 1 1 *", "UTC", "2026"), at(2025, 6, 1), at(2026, 3, 1), ["2026"]),
    ],
)
def test_periods_that_are_due(
    schedule: tuple[str, str, str], since: datetime, now: datetime, periods: list[str]
) -> None:
    assert [period for period, _ in due(*schedule, since=since, now=now)] == periods


def test_a_period_is_due_since_its_first_time() -> None:
    found = dict(due("0 6 * * *", "UTC", "{scheduled:%Y-%m}", since=at(2026, 10, 20), now=at(2026, 11, 27)))
    assert found == {"2026-11": at(2026, 11, 1, 6), "2026-10": at(2026, 10, 20, 6)}


def test_a_schedule_that_never_fires_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deployment(name: str, cron: str) -> Any:
        schedule = SimpleNamespace(created=at(2020, 1, 1), active=True, schedule=CronSchedule(cron=cron))
        parameters = {"period": "{scheduled:%Y}"}
        return SimpleNamespace(name=name, parameters=parameters, created=None, schedules=[schedule])

    _, home = write_scene(tmp_path)
    found = [deployment("never", "0 6 30 2 *"), deployment("leap", "0 6 29 2 *")]
    monkeypatch.setattr(
        "tabularium.flows.operations.reporting.overdue.deployments_of_products", lambda _client: found
    )
    client: Any = None
    missing = overdue(client, home, at(2026, 11, 28))
    assert [(each.product, each.period) for each in missing] == [("leap", "2020"), ("leap", "2024")]


def test_data_are_due_within_ten_years(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["deploy", "x.yaml", "--on-arrival", str(tmp_path), "--due", "20261231"])
    assert done.exit_code == 2 and "--due" in done.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("operations")
def test_what_was_published_is_not_overdue(
    installation: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _ = write_scene(tmp_path)
    open_account(installation.home)
    spec.write_text(
        spec.read_text()
        .replace("product: small", "product: silent")
        .replace("people.csv", '"people-{period}.csv"')
    )
    installation.call("deploy", str(spec), "--cron", "0 6 1 1 *", "--period", "{scheduled:%Y}")

    def missing(client: Any, now: datetime) -> list[str]:
        return [each.period for each in overdue(client, installation.home, now) if each.product == "silent"]

    year = datetime.now(UTC).year + 1
    late = at(year + 1, 1, 1, 6) + PATIENCE
    with installation.client() as client:
        assert missing(client, datetime.now(UTC)) == []
        assert missing(client, late + timedelta(minutes=1)) == [str(year), str(year + 1)]
        assert missing(client, late - timedelta(minutes=1)) == [str(year)]
        (tmp_path / f"people-{year}.csv").write_bytes((tmp_path / "people.csv").read_bytes() + b"A2,31,2\r\n")
        installation.call("run", str(spec), "--period", str(year))
        assert missing(client, late + timedelta(minutes=1)) == [str(year + 1)]
    monkeypatch.setattr("tabularium.flows.operations.reporting.overdue.PATIENCE", datetime.now(UTC) - late)
    listed = json.loads(installation.call("ledger", "waiting", "--json").stdout)
    (waits,) = [each for each in listed if each["product"] == "silent"]
    assert (waits["kind"], waits["period"], waits["about"]) == ("overdue", str(year + 1), "not published")
    assert (waits["asks"], waits["command"]) == ("deployment silent", "")
    installation.call("deploy", "silent", "--remove")


def test_data_that_never_come_are_overdue(installation: Up, tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    open_account(installation.home)
    year, inbox = datetime.now(UTC).year, tmp_path / "inbox"
    text = spec.read_text().replace("product: small", "product: unfed")
    spec.write_text(text.replace('"2026"', f'"{year}"'))
    inbox.mkdir()
    installation.call("deploy", str(spec), "--on-arrival", str(inbox), "--due", "10")

    def missing(client: Any, now: datetime) -> list[str]:
        found = overdue(client, installation.home, now)
        return [f"{each.period} {each.inbox}" for each in found if each.product == "unfed"]

    with installation.client() as client:
        late = at(year + 1, 1, 11)
        assert missing(client, late - timedelta(minutes=1)) == []
        assert missing(client, late) == [f"{year} {inbox}"]
        (inbox / "a").mkdir()  # and nobody may say that it is gone
        with Claims.at(installation.home) as claims:
            claims.take(drop_found("unfed", "a", period=str(year), state="failed"))
        assert missing(client, late) == []
    installation.call("deploy", "unfed", "--remove")
