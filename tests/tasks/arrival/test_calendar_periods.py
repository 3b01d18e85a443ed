"""Which periods a drop may name by default, and when its data are due."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tabularium.tasks.arrival.inboxes import Inbox, due_deliveries, has_come

TODAY = date(2028, 5, 10)  # in week 19


@pytest.mark.parametrize(
    ("own", "come", "not_come"),
    [
        ("2026", "2026 2027 2028", "2025 2029 9999 0000 2028-Q1 2027-01 202a 20271 ٢٠٢٧"),
        ("2026-H2", "2026-H2 2027-H1 2028-H1", "2026-H1 2028-H2 2027-H0 2027-H3 2027"),
        ("2026-Q4", "2026-Q4 2027-Q1 2028-Q2", "2026-Q3 2028-Q3 2027-Q0 2027-Q5 2027-q1"),
        ("2026-03", "2026-03 2026-12 2028-05", "2026-02 2028-06 2027-00 2027-13 2027-1"),
        ("2026-W50", "2026-W53 2027-W01 2028-W19", "2026-W49 2028-W20 2027-W53 2027-W00"),
        ("2028-02-01", "2028-02-29 2028-05-10", "2028-01-31 2028-05-11 2028-02-30 2028-03-00"),
        ("spring-1", "spring-1", "spring-2 2027 "),
        ("2030", "2030", "2028 2031"),
        ("2026-13", "2026-13", "2027-01"),
    ],
)
def test_its_own_and_those_that_began_since(own: str, come: str, not_come: str) -> None:
    assert [each for each in come.split(" ") if not has_come(each, own, TODAY)] == []
    assert [each for each in not_come.split(" ") if has_come(each, own, TODAY)] == []


def test_of_all_that_can_be_written_there_are_as_many_as_days_and_years() -> None:
    days = [f"{2028:04}-{month:02}-{day:02}" for month in range(100) for day in range(100)]
    found = [each for each in days if has_come(each, "2028-01-01", TODAY)]
    assert len(found) == (TODAY - date(2028, 1, 1) + timedelta(1)).days
    assert sum(has_come(f"{year:04}", "2026", TODAY) for year in range(10_000)) == 3


def moment(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("own", "settings", "found"),
    [
        # Deployed on 15 February 2028, looked at on 10 May 2028.
        ("2027-Q1", {}, {"2028-Q1": moment(2028, 5, 1)}),
        ("2028-Q1", {"due": 60.0}, {}),
        ("2027-Q4", {"due": 60.0}, {"2027-Q4": moment(2028, 3, 1)}),
        ("2027", {"due": 0.0}, {}),  # due before it was deployed
        ("2028-02", {}, {"2028-02": moment(2028, 3, 30), "2028-03": moment(2028, 5, 1)}),
        ("2028-02", {"periods": "2028-0[13579]"}, {"2028-03": moment(2028, 5, 1)}),
        ("2028-W16", {}, {"2028-W16": moment(2028, 5, 1), "2028-W17": moment(2028, 5, 8)}),
        ("2028-05-08", {}, {"2028-05-08": moment(2028, 5, 10)}),
        ("2028-H1", {}, {}),
        ("9999", {}, {}),
        ("spring-1", {}, {}),
    ],
)
def test_data_are_due_some_days_after_their_period(
    own: str, settings: dict[str, Any], found: dict[str, datetime]
) -> None:
    inbox = Inbox("small", "/inbox", "/spec.yaml", **settings)
    due = due_deliveries(inbox, own, since=moment(2028, 2, 15), now=moment(2028, 5, 10, 12))
    assert dict(due) == found


def test_a_day_ends_where_the_inbox_is() -> None:
    inbox = Inbox("small", "/inbox", "/spec.yaml", timezone="Europe/Berlin", due=0.0)
    (due,) = due_deliveries(inbox, "2026", since=moment(2026, 6, 1), now=moment(2026, 12, 31, 23))
    assert due == ("2026", moment(2026, 12, 31, 23))
