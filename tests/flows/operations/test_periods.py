"""The period of a scheduled run, and what a deployment is told before a server is asked."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.operations.deployments.deployment import next_time
from flows.operations.deployments.deployment_checks import timing
from flows.operations.periods import resolve
from flows.operations.told.budget_warnings import parse_threshold
from mechanisms.errors import InputError

MIDNIGHT = datetime(2026, 10, 1, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("template", "timezone", "period"),
    [
        ("{scheduled:%Y-Q%q}", "UTC", "2026-Q4"),
        ("{scheduled:%Y-Q%q}", "America/New_York", "2026-Q3"),
        ("{previous_month:%Y-%m}", "UTC", "2026-09"),
        ("{previous_month:%Y-Q%q}", "UTC", "2026-Q3"),
        ("week-{scheduled:%G-W%V}", "UTC", "week-2026-W40"),
        ("2026", "UTC", "2026"),
    ],
)
def test_a_template_is_filled_in_from_the_schedule(template: str, timezone: str, period: str) -> None:
    assert resolve(template, MIDNIGHT, timezone) == period


@given(st.datetimes(min_value=datetime(1970, 2, 1), max_value=datetime(2200, 1, 1)))
def test_the_previous_month_is_the_one_before(when: datetime) -> None:
    year, month = map(int, resolve("{previous_month:%Y-%m}", when).split("-"))
    assert year * 12 + month == when.year * 12 + when.month - 1
    assert resolve("{scheduled:%q}", when) == str((when.month - 1) // 3 + 1)


@pytest.mark.parametrize(
    "template",
    [
        "{scheduled}",
        "{now:%Y}",
        "{scheduled:%Y/%m}",
        "../{scheduled:%Y}",
        "{scheduled:%Z}",
        "{scheduled:%",
        "{a",
    ],
)
def test_what_is_no_period_is_refused(template: str) -> None:
    with pytest.raises(InputError, match="period"):
        resolve(template, MIDNIGHT)


@given(st.text(max_size=20))
def test_no_template_leads_out_of_a_folder(text: str) -> None:
    """A period names a folder, and stands in the path of the source."""
    for template in (text, "{scheduled:" + text + "}", "{" + text + "}"):
        try:
            period = resolve(template, MIDNIGHT)
        except InputError:
            continue
        assert re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", period)


def test_a_schedule_keeps_the_time_of_day_when_clocks_change() -> None:
    times = list(
        itertools.accumulate(
            range(3),
            lambda at, _: next_time("0 6 * * *", "Europe/Berlin", at + timedelta(minutes=1)),
            initial=datetime(2026, 10, 23, 12, tzinfo=UTC),
        )
    )[1:]
    assert {each.hour for each in times} == {6}
    assert [each.astimezone(UTC).hour for each in times] == [4, 5, 5]


@pytest.mark.parametrize(
    ("cron", "timezone", "period", "field"),
    [
        ("6 o'clock", "UTC", None, "--cron"),
        ("* * * * * *", "UTC", None, "--cron"),
        ("0 0 30 2 *", "UTC", None, "--cron"),
        ("0 6 1 * *", "Berlin", None, "--timezone"),
        (None, "../../etc/localtime", None, "--timezone"),
        ("0 6 1 * *", "UTC", "{scheduled:%S}", "period"),
    ],
)
def test_a_schedule_that_is_none_is_refused(cron: str, timezone: str, period: str, field: str) -> None:
    with pytest.raises(InputError, match=field):
        timing(cron, timezone, period)


@pytest.mark.parametrize("written", ["100%", "20", "-1%", "1/5", ""])
def test_a_threshold_is_a_percentage(written: str) -> None:
    with pytest.raises(InputError, match="--warn-below"):
        parse_threshold(written)
