"""How long runs wait, what they say meanwhile, and that their log holds no traceback; without a server."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tabularium.flows.operations.waiting import (
    DELIVERED,
    PASSING,
    OneLine,
    _since,
    _suspended,
    _trying_again,
    approval_message,
)
from tabularium.ledger.records import EMPTY
from tabularium.ledger.refusals import AwaitingReview, LockTimeout, NotApproved
from tabularium.mechanisms.errors import InputError, InputMissing
from tabularium.tasks.runtime.run import Request

BUSY = LockTimeout("another live process is working on it", where="release r1")
UNSIGNED = NotApproved("is not approved", where="account a", hint="run: tabularium ledger approve SPEC")


def passed(*names: str, minutes: float = 1, key: str | None = None) -> list[Any]:
    """A run's history: states of these names, some minutes apart, the last of them a moment ago."""
    from prefect.client.schemas.objects import State, StateDetails, StateType
    from prefect.types._datetime import now

    last = now("UTC")
    return [
        State(
            type=StateType.RUNNING,
            name=name,
            timestamp=last - timedelta(minutes=minutes * (len(names) - place)),
            state_details=StateDetails(pause_key=key if name == "Suspended" else None),
        )
        for place, name in enumerate(names, 1)
    ]


def test_pauses_grow_up_to_the_longest_and_are_bounded() -> None:
    pauses = [PASSING.after(tries) for tries in range(15)]
    assert pauses[:4] == [5, 10, 20, 40] and pauses[12] == 3600 and pauses[13] is None
    assert 3.5 < sum(pause or 0 for pause in pauses) / 3600 < 4.5, "some four hours in all"
    assert DELIVERED.after(0) == 60 and DELIVERED.after(10_000) == 3600


def test_each_try_waits_longer_and_the_last_one_fails() -> None:
    from prefect.types._datetime import now

    third = _trying_again(BUSY, PASSING, passed("Running", "AwaitingRetry", "Running", "AwaitingRetry"))
    assert (third.name, third.message) == ("AwaitingRetry", BUSY.line())
    again = third.state_details.scheduled_time
    assert again is not None
    assert now("UTC") + timedelta(seconds=15) < again <= now("UTC") + timedelta(seconds=20)
    last = _trying_again(BUSY, PASSING, passed(*["AwaitingRetry", "Running"] * 13))
    assert last.is_failed() and str(last.message).endswith("given up after 14 tries")


def test_tries_are_counted_anew_once_a_person_has_been_there() -> None:
    told = _trying_again(BUSY, PASSING, passed(*["AwaitingRetry", "Running"] * 13, "Suspended", "Running"))
    assert told.name == "AwaitingRetry"


def test_an_input_is_waited_for_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = InputMissing("there is no such file", where="source")
    history = passed(*["AwaitingRetry", "Running"] * 50, minutes=60)
    assert _trying_again(missing, DELIVERED, history).name == "AwaitingRetry"
    monkeypatch.setenv("TABULARIUM_PATIENCE_DAYS", "3")
    assert _trying_again(missing, DELIVERED, history).is_failed()


def test_resuming_does_not_lengthen_the_time_for_an_answer(tmp_path: Path) -> None:
    request = Request.of(tmp_path / "a.yaml", home=tmp_path)
    key = "tabularium NotApproved abc 5 1"
    history = passed("Suspended", "Running", "Suspended", "Running", minutes=60 * 24, key=key)
    state = _suspended(UNSIGNED, request, "abc", history, EMPTY)
    assert state.name == "Suspended" and state.state_details.pause_key != key
    assert str(state.message).endswith(f"; or open the desk: tabularium desk --key FILE --home {tmp_path}")
    first = history[0].timestamp
    assert state.state_details.pause_timeout == first + timedelta(days=30)
    assert _since(state) == first, "it has waited for an answer ever since"
    other = _suspended(
        AwaitingReview("is a draft"), request, "abc", history, EMPTY
    ).state_details.pause_timeout
    assert other is not None and other > first + timedelta(days=30), "another question, another time"


def test_the_command_is_whole(tmp_path: Path) -> None:
    request = Request.of(tmp_path / "my spec.yaml", None, "2026-Q4", tmp_path, "a late file")
    assert approval_message(UNSIGNED, request) == (
        f"account a: is not approved; let an officer run: tabularium ledger approve '{tmp_path}/my spec.yaml' "
        f"--period 2026-Q4 --revises 'a late file' --home {tmp_path} --key FILE"
    )
    attempts = NotApproved("was cut off", where="release r1", hint="tabularium ledger allow-attempts r1")
    assert approval_message(attempts, request) == attempts.line()


def test_only_tracebacks_of_our_own_errors_stay_out_of_the_log() -> None:
    def kept(error: Exception | None) -> bool:
        about = None if error is None else (type(error), error, None)
        return OneLine().filter(logging.LogRecord("x", logging.ERROR, "f", 1, "text", (), about))

    assert kept(None) and kept(ValueError("what is not ours"))
    assert not kept(InputError("ours"))
