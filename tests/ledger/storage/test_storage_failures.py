"""Servers that go away, disks that fill up, and planners: one clear line each, and a ledger that stays true."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine, event

from tabularium.ledger import Ledger, LedgerError, LockTimeout, ReadOnly, StaleFence, StorageFailed
from tabularium.ledger.export import migrate, restore
from tabularium.ledger.measurement import release_lock
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.storage import queries
from tests.ledger.long_chain import write_export
from tests.ledger.scene import ROOT, both, census, finish, open_books, postgresql, reserve, superuser, url
from tests.ledger.storage.postgres import Server, Unavailable, close_schema, running


def cut_off(place: Path, what: str = "pid <> pg_backend_pid()") -> int:
    """End every session of the ledger's database, as a broken network or an impatient operator does."""
    with psycopg.connect(url(place).replace("+psycopg", ""), autocommit=True) as connection:
        ended = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"  # type: ignore[call-overload]
            f" WHERE datname = current_database() AND {what}"
        ).fetchone()
    return int(ended[0]) if ended else 0


@postgresql
def test_a_lock_that_was_lost_is_told_again_and_again_and_let_go_of_without_a_second_error(
    books: Ledger, place: Path
) -> None:
    reserve(books, "r0")
    with pytest.raises(StaleFence, match="its session ended"), hold(books, "r0"):
        cut_off(place)
        with pytest.raises(StaleFence):
            release_lock.require(books, "r0")
        release_lock.require(books, "r0")


@postgresql
@pytest.mark.parametrize("moment", ["FOR UPDATE", "ledger_append"])
def test_a_connection_lost_in_mid_charge_is_one_line_and_charges_nothing(
    books: Ledger, place: Path, moment: str
) -> None:
    reserve(books, "r0")
    before = books.head()

    def cut(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if moment in statement:
            cut_off(place)

    engine = books._transactions.database.backend.engine
    event.listen(engine, "before_cursor_execute", cut)
    try:
        with pytest.raises(StorageFailed, match="was cut off from this process; run again") as refused:
            reserve(books, "r1")
    finally:
        event.remove(engine, "before_cursor_execute", cut)
    assert "\n" not in str(refused.value)
    assert books.head() == before
    assert reserve(books, "r1").state == "reserved"
    books.verify()


@postgresql
def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(
    books: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is committed; then the connection is gone before this process is told."""
    commit = psycopg.Connection.commit

    def lose(connection: Any) -> None:
        commit(connection)
        connection.close()
        raise psycopg.OperationalError("the answer is lost")

    with monkeypatch.context() as patched:
        reserve(books, "r0")
        patched.setattr(psycopg.Connection, "commit", lose)
        with pytest.raises(LedgerError):
            reserve(books, "r1")
    assert books.charge("r1") is not None
    assert reserve(books, "r1").state == "reserved"
    assert books.balance("census") == Fraction(8, 10)
    assert books.verify().charges == len(books.charges("census"))


@postgresql
def test_a_holder_whose_session_ended_is_told_before_it_draws(books: Ledger, place: Path) -> None:
    with hold(books, "r1"):
        release_lock.require(books, "r1")
        assert cut_off(place) > 0
        with pytest.raises(StaleFence, match="session ended"):
            release_lock.require(books, "r1")
        with open_books(place) as other, hold(other, "r1"):
            release_lock.require(other, "r1")


@postgresql
def test_a_writer_that_hangs_is_told_of_and_in_the_end_cut_off(books: Ledger, place: Path) -> None:
    with (
        psycopg.connect(url(place).replace("+psycopg", "")) as other,
        open_books(place, wait=0.2) as impatient,
    ):
        other.execute("SELECT name FROM locks WHERE name = 'head' FOR UPDATE")
        with pytest.raises(LockTimeout, match="kept locked by another process"):
            reserve(impatient)
        assert impatient.balance("census") == 1  # reading goes on
        other.rollback()
        reserve(impatient)
    with open_books(place, wait=1) as asleep:
        with pytest.raises(StorageFailed, match="cut off"), asleep._transactions.appending() as page:
            time.sleep(1.5)  # as if suspended with the right to append in hand
            reserve(books, "r2")
            queries.head(page.connection)
        assert asleep.charge("r2") is not None
    books.verify()


@pytest.fixture
def own_server() -> Iterator[Server]:
    try:
        with running() as found:
            yield found
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL])
def test_a_stopped_server_is_one_line_and_what_was_committed_is_there(
    own_server: Server, tmp_path: Path, how: signal.Signals
) -> None:
    (tmp_path / "url").write_text(own_server.url(own_server.new_database()))
    with open_books(tmp_path) as books:
        census(books)
        reserve(books)
        own_server.stop(how)
        for step in (lambda: reserve(books, "r2"), lambda: books.balance("census"), books.head):
            with pytest.raises(StorageFailed) as refused:
                step()
            assert re.search("cannot be reached|cut off", str(refused.value))
            assert "\n" not in str(refused.value)
        with pytest.raises(StorageFailed), hold(books, "r1"):
            pass
        own_server.start()
        reserve(books, "r2")
        finish(books, "r1")
        assert books.verify().entries == 6


def test_a_standby_reads_and_sends_whoever_charges_to_the_primary(own_server: Server, tmp_path: Path) -> None:
    """A server that recovers for ever, as one that follows another does."""
    (tmp_path / "url").write_text(own_server.url(own_server.new_database()))
    with open_books(tmp_path) as books:
        census(books)
        reserve(books)
    own_server.stop()
    signal_file = own_server.data / "standby.signal"
    signal_file.touch()
    if own_server.who:
        os.chown(signal_file, own_server.who["user"], own_server.who["group"])
    own_server.start()
    with open_books(tmp_path) as books:
        assert books.verify().charges == 1
        with pytest.raises(StorageFailed, match="is a copy that takes no entries; use the URL of the pri"):
            reserve(books, "r2")
        with pytest.raises(StorageFailed, match="is a copy that takes no entries"):
            migrate(url(tmp_path))
        assert books.balance("census") == Fraction(9, 10)


@postgresql
def test_a_role_that_reads_by_default_still_charges(place: Path) -> None:
    base = url(place).rpartition("/")[2]
    superuser(place, f"ALTER DATABASE {base} SET default_transaction_read_only = on")
    with open_books(place) as books:
        census(books)
        reserve(books)


@postgresql
def test_names_of_every_script_whatever_the_clients_encoding(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with open_books(place) as books:
        census(books, "人口 Zähl")
        with hold(books, "r1"):
            reserve(books, "r1", "人口 Zähl", product="ペ")
            finish(books)
        assert [account.name for account in books.accounts()] == ["人口 Zähl"]
        books.verify()


@postgresql
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_no_ledger_is_made_in_a_database_of_another_encoding(place: Path, encoding: str) -> None:
    base = url(place).rpartition("/")[2]
    made, plain = f"{base}_{encoding.lower()}", url(place).replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {made} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"  # type: ignore[call-overload]
        )
        try:
            close_schema(plain.replace(base, made))
            for way in (Ledger.connect, migrate):
                with pytest.raises(
                    StorageFailed, match=r"encoding is not UTF8; make .* ENCODING 'UTF8'; to mo"
                ):
                    way(url(place).replace(base, made))
            with psycopg.connect(plain.replace(base, made)) as there:
                assert there.execute(
                    "SELECT count(*) FROM pg_class WHERE relname = 'entries'"
                ).fetchone() == (0,)
        finally:
            connection.execute(f"DROP DATABASE {made} WITH (FORCE)")  # type: ignore[call-overload]


@pytest.mark.parametrize("words", [("history", "--json"), ("history",), ("show", "--json")])
def test_a_reader_that_has_gone_ends_the_command_without_a_word(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    environment = {
        **os.environ,
        "TABULARIUM_LEDGER": url(tmp_path),
        "TABULARIUM_HOME": str(tmp_path / "home"),
    }
    with open_books(tmp_path) as books:
        census(books)
    command = [sys.executable, "-c", "from tabularium.flows.cli.app import app; app()", "ledger", *words]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as asked:
        assert asked.stdout is not None and asked.stderr is not None
        asked.stdout.close()
        assert asked.stderr.read() == b""
    assert asked.returncode == 1


def test_a_full_disk_under_the_server_is_one_line_and_the_ledger_stays_true(tmp_path: Path) -> None:
    """The server's folder is a small file system in memory, which the test fills to the last byte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system can be made by root alone")
    server: Server | None = None
    try:
        disk.chmod(0o755)
        try:
            server = Server(disk, max_wal_size="4MB", min_wal_size="2MB")
        except Unavailable as reason:
            pytest.skip(str(reason))
        (tmp_path / "url").write_text(server.url(server.new_database()))
        with open_books(tmp_path) as books:
            census(books)
            reserve(books, "before", amount=Fraction(1, 1000))
            done = fill_and_charge(disk, books)
            assert done >= 1
            (disk / "ballast").unlink()
            reserve(books, "after", amount=Fraction(1, 1000))
            found = books.verify()
            assert found.charges == found.entries - 1 == len(books.charges("census"))
    finally:
        if server is not None and server.process is not None and server.process.poll() is None:
            server.stop(signal.SIGQUIT)
        subprocess.run(["umount", "-l", disk], check=True)


def fill_and_charge(disk: Path, books: Ledger) -> int:
    """Fill the disk, then charge until the ledger says so; return how many charges were refused for it."""
    with (disk / "ballast").open("wb") as ballast:
        try:
            while True:
                os.write(ballast.fileno(), bytes(1 << 16))
        except OSError:
            pass
    refused = 0
    for number in range(400):
        try:
            reserve(books, f"full-{number}", amount=Fraction(1, 1000), product="p" * 128)
        except LedgerError as error:
            assert isinstance(error, StorageFailed)
            assert "\n" not in str(error)
            refused += 1
            if refused > 3:
                break
    return refused


@pytest.fixture
def long(place: Path) -> Ledger:
    write_export(place / "long.txt", 2000)
    restore(place / "long.txt", url(place))
    return open_books(place)


#: a question of a charge, and the indexes that may answer it
QUESTIONS = [
    (queries._CHARGE, {"release_id": "unknown"}, ["release"]),
    (
        queries.LASTS_BEFORE,
        {"release_id": "unknown", "account": "census", "period": "2010", "product": "product-3", "before": 9},
        ["account", "period", "product", "release", "terms"],
    ),
    (queries._TERMS, {"account": "census"}, ["terms"]),
    (queries._IN_ACCOUNT, {"account": "census"}, ["account"]),
    (queries._IN_PERIOD, {"account": "census", "period": "never charged"}, ["period"]),
    (queries._IN_PERIOD, {"account": "census", "period": "2010"}, ["period"]),
    (queries._IN_PRODUCT, {"account": "census", "product": "product-3"}, ["product"]),
    (queries.ABOUT, {"account": "census", "subject": "s"}, ["subject"]),
    (queries.REVIEWED, {"account": "census", "subject": "review product-3 2010"}, ["subject"]),
]


@both
@pytest.mark.parametrize("analysed", [False, True])
def test_every_question_of_a_charge_is_answered_by_its_own_index(
    long: Ledger, place: Path, engine: str, analysed: bool
) -> None:
    """Whatever the planner knows: the cost of a charge must not grow with the ledger."""
    made = create_engine(url(place), poolclass=NullPool)
    with made.connect() as connection:
        if analysed:
            connection.exec_driver_sql("ANALYZE entries")
        for statement, values, indexes in QUESTIONS:
            text = str(statement.params(values).compile(made, compile_kwargs={"literal_binds": True}))
            how = "EXPLAIN QUERY PLAN " if engine == "sqlite" else "EXPLAIN "
            plan = "\n".join(str(row) for row in connection.exec_driver_sql(how + text.replace("%", "%%")))
            used = re.findall(r"(?:USING INDEX|using|Index Scan on) entries_(\w+)", plan)
            assert sorted(used) == indexes, (text, plan)
            if engine == "sqlite":
                assert "B-TREE" not in plan and "SCAN entries" not in plan, (text, plan)
    long.close()


@both
def test_a_restored_long_chain_is_charged_like_any_other(long: Ledger) -> None:
    with pytest.raises(ReadOnly, match="put back from a backup"):
        reserve(long)
    (mark,) = long.last_entries(1)
    long.confirm(mark.prev)
    assert reserve(long).state == "reserved"
    assert long.verify().entries == 2003
    assert len(long.periods("census")) == 13
    assert len(long.products("census")) == 21
    long.close()


@both
def test_readers_are_not_kept_waiting_by_a_writer(books: Ledger) -> None:
    inside, done = threading.Event(), threading.Event()

    def write() -> None:
        with books._transactions.appending():
            inside.set()
            done.wait(30)

    writer = threading.Thread(target=write)
    writer.start()
    inside.wait(30)
    try:
        assert books.balance("census") == 1
        assert books.verify().entries == 1
    finally:
        done.set()
        writer.join()
