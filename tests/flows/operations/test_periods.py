"""The period of a scheduled run, and what a deployment is told before a server is asked."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.flows.operations.deployments.deployment import next_time, timing
from tabularium.flows.operations.periods import resolve, skipped_times
from tabularium.flows.operations.reporting.announcements import parse_threshold
from tabularium.mechanisms.errors import InputError

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


def changes(place: ZoneInfo, years: range) -> Iterator[date]:
    """Yield the days on which clocks change."""
    day, end = datetime(years[0], 1, 1, tzinfo=UTC), datetime(years[-1] + 1, 1, 1, tzinfo=UTC)
    while day < end:
        following = day + timedelta(days=1)
        if place.utcoffset(day.astimezone(place)) != place.utcoffset(following.astimezone(place)):
            yield day.date()
        day = following


def wall_change(place: ZoneInfo, since: datetime) -> tuple[object, ...]:
    """Return what clocks show when they change within two days, and by how much: all that a schedule sees."""
    walls = [(since + timedelta(minutes=15 * number)).astimezone(place) for number in range(-96, 192)]
    shifts = [(one, two.utcoffset() - one.utcoffset()) for one, two in pairwise(walls)]  # type: ignore[operator]
    return tuple((one.time(), shift) for one, shift in shifts if shift)


def wall_times(place: ZoneInfo, first: datetime, last: datetime, codes: str) -> list[str]:
    """Return the days, or the hours that begin, between two moments, each once, as they come."""
    quarters = range(int((last - first) / timedelta(minutes=15)))
    seen = ((first + timedelta(minutes=15 * number)).astimezone(place) for number in quarters)
    return list(dict.fromkeys(at.strftime(codes) for at in seen if "H" not in codes or at.minute == 0))


def fired(cron: str, place: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
    """Return when Prefect's server fires between two moments, asked again and again as it does."""
    from prefect.server.schemas.schedules import CronSchedule

    schedule, found = CronSchedule(cron=cron, timezone=place.key), set()
    for hours in range(0, int((last - first) / timedelta(hours=1)), 49):
        start = first + timedelta(hours=hours)
        found |= {
            each.astimezone(UTC) for each in schedule._get_dates_generator(n=300, start=start, end=last)
        }
    return sorted(found)


DAILY = ["0 0 * * *", "30 0 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0 23 * * *"]


@pytest.mark.parametrize(
    "year",
    [2026, *(pytest.param(year, marks=pytest.mark.audit) for year in range(1990, 2038) if year != 2026)],
)
def test_each_day_and_hour_is_published_once_in_every_zone_when_clocks_change(year: int) -> None:
    """By Prefect's own reading of the schedule; a time that comes twice is one, a day that never comes none."""
    tried = Counter[str]()
    known: set[tuple[object, ...]] = set()
    for name in sorted(available_timezones() - {"localtime"}):
        place = ZoneInfo(name)
        for day in changes(place, range(year, year + 1)):
            noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
            first, last = noon - timedelta(days=2), noon + timedelta(days=3)
            change = wall_change(place, noon)
            if change in known:  # the same clocks elsewhere
                continue
            known.add(change)
            for cron, codes in [*((cron, "%Y-%m-%d") for cron in DAILY), ("0 * * * *", "%Y-%m-%dT%H")]:
                periods = [
                    resolve(f"{{scheduled:{codes}}}", at, name, cron)
                    for at in fired(cron, place, first, last)
                ]
                inside = wall_times(place, first, last, codes)[1:-1]
                assert [each for each in periods if each in set(inside)] == inside, (name, day, cron)
                tried[codes] += 1
    assert tried["%Y-%m-%d"] > 40


def test_the_first_of_a_month_whose_midnight_is_skipped_has_its_month() -> None:
    eve = datetime(2023, 10, 1, 3, tzinfo=UTC)  # 23:00 of 30 September at Asunción
    for template, period in [("{scheduled:%Y-%m}", "2023-10"), ("{previous_month:%Y-%m}", "2023-09")]:
        assert resolve(template, eve, "America/Asuncion", "0 0 1 * *") == period
    assert resolve("{scheduled:%Y-%m}", eve, "America/Asuncion", "0 23 * * *") == "2023-09"
    assert resolve("{scheduled:%Y-%m}", eve, "America/Asuncion") == "2023-09"


@pytest.mark.parametrize(
    ("cron", "timezone", "skipped"),
    [
        ("0 0 * * *", "Africa/Cairo", datetime(2026, 4, 24)),
        ("0 0 * * *", "Asia/Beirut", datetime(2026, 3, 29)),
        ("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 29, 2, 30)),
        ("0 0 * * *", "Europe/Berlin", None),
        ("0 3 * * *", "Europe/Berlin", None),
        ("0 0 * * 1", "Africa/Cairo", None),
        ("0 * * * *", "UTC", None),
    ],
)
def test_the_times_that_clocks_skip(cron: str, timezone: str, skipped: datetime | None) -> None:
    since = datetime(2026, 1, 5, 13, 7, 11, tzinfo=UTC)
    assert next(skipped_times(cron, ZoneInfo(timezone), since), None) == skipped


def test_the_next_run_is_told_as_it_fires() -> None:
    at = next_time("0 0 * * *", "Africa/Cairo", datetime(2026, 4, 23, 12, tzinfo=UTC))
    assert at.isoformat() == "2026-04-23T23:00:00+02:00"
