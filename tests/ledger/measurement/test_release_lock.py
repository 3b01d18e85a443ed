"""Holding a release: one live process at a time, and nobody longer than it lives."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tabularium.ledger import BadValue, Ledger, LockTimeout, StaleFence, WrongState
from tabularium.ledger.measurement import release_lock
from tabularium.ledger.measurement.release_lock import hold
from tests.ledger.scene import both, open_books, run_driver


def lock_file(books: Ledger, release_id: str = "r1") -> Path:
    return books.locks / f"release-{release_id}.lock"


@both
def test_one_holder_at_a_time(books: Ledger, place: Path) -> None:
    with hold(books, "r1"):
        release_lock.require(books, "r1")
        with pytest.raises(LockTimeout, match="release r1: another live process"), hold(books, "r1"):
            pass
        with open_books(place) as again, pytest.raises(LockTimeout), hold(again, "r1"):
            pass
        with hold(books, "r2"):
            release_lock.require(books, "r1")
            release_lock.require(books, "r2")
    with hold(books, "r1"):
        pass


@both
def test_a_holder_that_fails_lets_go(books: Ledger) -> None:
    with pytest.raises(RuntimeError), hold(books, "r1"):
        raise RuntimeError
    with hold(books, "r1"):
        pass


@both
def test_waiting_ends_when_the_holder_is_done(books: Ledger) -> None:
    begun, order = threading.Event(), []

    def first() -> None:
        with hold(books, "r1"):
            begun.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait()
    with hold(books, "r1", wait=30):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


@both
def test_waiting_has_an_end(books: Ledger) -> None:
    with hold(books, "r1"):
        began = time.monotonic()
        with pytest.raises(LockTimeout), hold(books, "r1", wait=0.3):
            pass
        assert 0.3 <= time.monotonic() - began < 5


@both
def test_what_is_not_held_is_refused(books: Ledger) -> None:
    with pytest.raises(WrongState, match="not held"):
        release_lock.require(books, "r1")
    with hold(books, "r1"), pytest.raises(WrongState, match="not held"):
        release_lock.require(books, "r2")
    with pytest.raises(WrongState, match="not held"):
        release_lock.require(books, "r1")
    with pytest.raises(BadValue), hold(books, "../x"):
        pass


def test_a_removed_lock_file_is_noticed(books: Ledger) -> None:
    with hold(books, "r1"):
        lock_file(books).unlink()
        with pytest.raises(StaleFence, match="lock file was removed"):
            release_lock.require(books, "r1")
        with hold(books, "r2"):  # others are not concerned
            release_lock.require(books, "r2")
    with hold(books, "r1"):
        release_lock.require(books, "r1")


def test_whoever_locked_a_removed_file_takes_the_new_one(books: Ledger) -> None:
    """A waiter that opened the file before it was removed must not believe that it holds the release."""
    with hold(books, "r1"):
        waited: list[str] = []

        def wait() -> None:
            with hold(books, "r1", wait=30):
                release_lock.require(books, "r1")
                waited.append("held")

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.2)
        lock_file(books).unlink()
    thread.join()
    assert waited == ["held"]


@both
def test_a_started_program_does_not_keep_the_lock(books: Ledger) -> None:
    with hold(books, "r1"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with hold(books, "r1"):
            pass
    finally:
        child.communicate(b"\n")


@both
def test_death_lets_go_and_forked_children_do_not_hold(place: Path) -> None:
    assert run_driver("holding_driver", place)[-1] == "finished"
