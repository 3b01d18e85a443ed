"""The roles of a ledger on PostgreSQL, each logged in as itself."""

from __future__ import annotations

import secrets
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import tabularium
from tabularium.ledger import Ledger, ReadOnly, StorageFailed
from tabularium.ledger.export import migrate
from tabularium.ledger.keys import public_hex
from tabularium.ledger.measurement.release_lock import hold
from tests.ledger.scene import (
    census,
    enrolled,
    finish,
    lay_out,
    new_place,
    open_books,
    postgresql,
    remove_place,
    reserve,
    step,
    superuser,
    url,
)
from tests.ledger.storage.logins import ROLES, LogIn, did, drop, login, may_connect, name_of

pytestmark = postgresql


def test_a_writer_charges_and_finishes_releases_but_decides_nothing(log_in: LogIn, books: Ledger) -> None:
    census(books, "unused")
    officer = enrolled(books)
    with Ledger.connect(log_in("writer")) as writer:
        with hold(writer, "r1"):
            reserve(writer, "r1")
            r1 = finish(writer, "r1")
        reserve(writer, "r2")
        writer.drawing("r2")
        writer.abandon("r2", "the draw failed")
        reserve(writer, "r3")
        lay_out(writer, "r4")
        step(writer, "r5", "measured", review=True, spec_digest="t", product="q")
        key = Ed25519PrivateKey.generate()
        before = books.head()
        for decision in (
            lambda: census(writer, "another", by=officer),
            lambda: writer.change_account("census", cap=Fraction(2), reason="more", by=officer),
            lambda: writer.void("r3", "mistake", by=officer),
            lambda: writer.retire_account("unused", reason="misnamed", by=officer),
            lambda: writer.enrol_key(public_hex(key), officer="nobody", by=officer),
            lambda: writer.accept("r4", draft="d", by=officer),
            lambda: writer.withhold("r4", draft="d", criterion="implausible", by=officer),
            lambda: writer.abandon("r5", "nobody likes it", by=officer),
            lambda: writer.withdraw("r1", reason="wrong", by=officer),
            lambda: writer.ask_for_evidence(r1, by=officer),
        ):
            with pytest.raises(StorageFailed, match="lets only a disclosure officer write"):
                decision()
        assert books.head() == before
        assert writer.verify() == books.verify()


def test_a_reader_sees_what_waits_and_what_is_not_known(
    log_in: LogIn, books: Ledger, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home, without Prefect, and without the right to read what arrived."""
    reserve(books)
    for _ in range(3):
        books.drawing("r1")
    monkeypatch.setenv("TABULARIUM_LEDGER", log_in("reader"))
    found = tabularium.open_ledger(tmp_path / "nowhere").waiting()
    assert [*found["kind"]] == ["attempts"] and len(found.unknown) == 1
    superuser(place, "CREATE TABLE arrivals (id text)")
    found = tabularium.open_ledger(tmp_path / "nowhere").waiting()
    assert [*found["kind"]] == ["attempts"]
    assert found.unknown[1].startswith("Refused deliveries are not listed: ")


def test_an_officer_may_do_both(log_in: LogIn, books: Ledger) -> None:
    with Ledger.connect(log_in("officer")) as officer:
        census(officer, "another", needs_approval=True)
        key = Ed25519PrivateKey.generate()
        officer.enrol_key(public_hex(key), officer="A. Ro", by=key)
        officer.approve("another", "s", by=key)
        reserve(officer, "r1", "another")
        officer.void("r1", "mistake", by=key)
        officer.close_account("another", reason="done")
        officer.declare_disjoint("another", "census", reason="by decree", by=key)
        officer.declare_disjoint("another", "census", reason="an error", by=key, disjoint=False)
        census(officer, "unused", by=key)
        officer.retire_account("unused", reason="misnamed", by=key)
    books.verify()


def test_a_reader_reads_and_writes_nothing(log_in: LogIn, books: Ledger) -> None:
    with Ledger.connect(log_in("reader")) as reader:
        assert reader.balance("census") == 1
        assert reader.verify() == books.verify()
        with pytest.raises(StorageFailed, match="does not allow this to this user"):
            reserve(reader)


FORBIDDEN = [
    "INSERT INTO entries SELECT * FROM entries",
    "UPDATE entries SET body = ''",
    "DELETE FROM entries",
    "TRUNCATE entries",
    "ALTER TABLE entries DISABLE TRIGGER ALL",
    "DROP TRIGGER entries_no_update ON entries",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "DROP TABLE entries CASCADE",
    "UPDATE alembic_version SET version_num = '0001'",
    "DELETE FROM locks",
    "UPDATE locks SET name = 'x'",
    "SELECT ledger_append('{}', '')",
    "CREATE TABLE public.mine (x int)",
]


@pytest.mark.parametrize("role", ["writer", "officer", "reader"])
def test_no_role_gets_past_the_one_path(log_in: LogIn, books: Ledger, role: str) -> None:
    before, as_role = books.head(), log_in(role).replace("+psycopg", "")
    for statement in FORBIDDEN:
        with psycopg.connect(as_role) as connection, pytest.raises(psycopg.Error):
            connection.execute(statement)  # type: ignore[call-overload]
    assert books.head() == before
    books.verify()


def test_a_stranger_sees_nothing(log_in: LogIn, place: Path) -> None:
    log_in("reader")
    stranger = f"stranger_{secrets.token_hex(4)}"
    superuser(place, f"CREATE ROLE {stranger} LOGIN")
    try:
        with pytest.raises(StorageFailed, match="cannot be reached"):
            Ledger.connect(login(place, stranger))
        superuser(place, may_connect(place, stranger))
        with pytest.raises(StorageFailed, match="does not allow this to this user"):
            Ledger.connect(login(place, stranger))
    finally:
        drop(place, stranger)


def test_a_login_of_one_ledger_cannot_reach_another_on_the_same_server(
    log_in: LogIn, books: Ledger, place: Path
) -> None:
    """The roles belong to the server: what keeps a login to its ledger is the right to connect."""
    writer, other = log_in("writer"), new_place(place, "other")
    name = name_of(writer)
    foreign = login(other, name)
    try:
        with open_books(other) as apart:
            census(apart)
        told = [given_roles(url(other)), given_roles(url(other))]
        lost, without = "could connect to this database until now", "have a role, but may not connect"
        assert [len(notices) for notices in told] == [1, 1]
        assert lost in told[0][0] and without in told[1][0] and all(name in notices[0] for notices in told)
        for way in (Ledger.connect, migrate):
            with pytest.raises(StorageFailed, match="cannot be reached"):
                way(foreign)
        superuser(other, may_connect(other, "PUBLIC"))
        with Ledger.connect(foreign) as reached:
            reserve(reached)  # which is why it is taken away
        superuser(other, ROLES)
        with pytest.raises(StorageFailed, match="cannot be reached"):
            Ledger.connect(foreign)
    finally:
        remove_place(other)
    with Ledger.connect(writer) as own:
        reserve(own)
    books.verify()


def given_roles(login: str) -> list[str]:
    """Run roles.sql as a login does; return what it told."""
    told: list[str] = []
    with psycopg.connect(login.replace("+psycopg", "")) as connection:
        connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
        connection.execute(ROLES)  # type: ignore[call-overload]
    return told


def test_an_owner_who_may_not_give_the_roles_gives_their_rights_and_is_told_whom_it_shuts_out(
    log_in: LogIn, place: Path
) -> None:
    """A second ledger on a server: its owner is no superuser, and the roles are another's."""
    writer, other = log_in("writer"), new_place(place, "second")
    own, lost, kept = (f"{name}_{secrets.token_hex(4)}" for name in ("own", "lost", "kept"))
    superuser(
        other,
        *(f"CREATE ROLE {name} LOGIN" for name in (own, lost, kept)),
        *(may_connect(other, name) for name in (kept, name_of(writer))),
        f"ALTER DATABASE {url(other).rpartition('/')[2]} OWNER TO {own}",
        f"ALTER SCHEMA public OWNER TO {own}",
    )
    try:
        with Ledger.connect(login(other, own)) as books:
            census(books)
            [told] = given_roles(login(other, own))
            assert lost in told
            assert not any(name in told for name in (own, kept, name_of(writer), "keeper"))
            with Ledger.connect(login(other, name_of(writer))) as charging:
                reserve(charging)
            assert given_roles(login(other, own)) == []
            with pytest.raises(StorageFailed, match=r"cannot be reached.*may connect \(GRANT CONNECT\)"):
                Ledger.connect(login(other, lost))
            assert books.verify().charges == 1
    finally:
        remove_place(other)
        superuser(place, f"DROP ROLE {own}, {lost}, {kept}")


def test_a_wrong_hash_or_a_wrong_column_cannot_be_appended(log_in: LogIn, books: Ledger, place: Path) -> None:
    """A writer that speaks SQL itself still appends only what continues the chain, with columns from the body."""
    reserve(books)
    before = books.head()
    last = list(books.entries())[-1]
    body = last.text.replace('"release_id":"r1"', '"release_id":"r2"')
    with psycopg.connect(log_in("writer").replace("+psycopg", "")) as connection:
        for hash_ in (last.hash, "0" * 64):
            with pytest.raises(psycopg.Error, match="does not continue the chain"), connection.transaction():
                connection.execute("SELECT ledger_append(%s, %s)", (body, hash_))
    assert books.head() == before


PLANTED = [
    "CREATE TABLE public.loot (who text)",
    "GRANT INSERT ON public.loot TO PUBLIC",
    "CREATE FUNCTION public.joined(a varchar, b text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN"
    " BEGIN INSERT INTO public.loot VALUES (current_user::text); EXCEPTION WHEN OTHERS THEN NULL; END;"
    " RETURN a::text OPERATOR(pg_catalog.||) b; END $$",
    "CREATE OPERATOR public.|| (LEFTARG = varchar, RIGHTARG = text, FUNCTION = public.joined)",
    "CREATE FUNCTION public.alike(a varchar, b varchar) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
    " BEGIN INSERT INTO public.loot VALUES (current_user::text); EXCEPTION WHEN OTHERS THEN NULL; END;"
    " RETURN a::text OPERATOR(pg_catalog.=) b::text; END $$",
    "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.alike)",
    "CREATE FUNCTION public.ledger_append(a varchar, b varchar) RETURNS void LANGUAGE sql AS"
    " $$ INSERT INTO public.loot VALUES (current_user::text) $$",
]


def everything(ledger: Ledger, release: str | None = None) -> None:
    """Read all there is to read, and do all of a release."""
    ledger.accounts(), ledger.charges("census"), ledger.periods("census"), ledger.keys(), ledger.approvals()
    ledger.charge("r1"), list(ledger.entries())
    if release is not None:
        with hold(ledger, release):
            reserve(ledger, release)
            finish(ledger, release)


def test_what_a_reader_plants_beside_the_entries_never_runs(
    log_in: LogIn, books: Ledger, place: Path
) -> None:
    """As on PostgreSQL 13 and 14, and on databases upgraded from them, where everybody may create."""
    reader, officer = log_in("reader"), log_in("officer")
    reserve(books)
    with Ledger.connect(officer) as before:
        superuser(place, "GRANT CREATE ON SCHEMA public TO PUBLIC")
        did(reader, *PLANTED)
        everything(before, "r2")  # a session from before it was planted ...
    for who in (officer, url(place)):  # ... and new ones, the owner's among them
        with Ledger.connect(who) as ledger:
            assert ledger.read_only == "PUBLIC may create objects in its schema public"
            everything(ledger)
            with pytest.raises(ReadOnly, match=r"PUBLIC may create.* put its guard back"):
                reserve(ledger, "r3")
    assert did(url(place), "SELECT * FROM public.loot") == []
    did(url(place), "SELECT count(*) FROM entries WHERE hash || body = 'x' AND kind = 'x'")
    assert did(url(place), "SELECT DISTINCT who FROM public.loot") == [("keeper",)], "the plant does work"
    superuser(place, ROLES)
    with Ledger.connect(officer) as ledger:
        assert "functions, operators or tables of reader_" in str(ledger.read_only)
    with pytest.raises(psycopg.Error):
        did(reader, "CREATE TABLE public.more (x int)")
    superuser(place, f"DROP OWNED BY {name_of(reader)}")
    with Ledger.connect(officer) as ledger:
        assert ledger.read_only is None
        reserve(ledger, "r4")
    books.verify()


def test_one_login_that_may_create_is_named(log_in: LogIn, place: Path) -> None:
    writer = log_in("writer")
    name = name_of(writer)
    superuser(place, f"GRANT CREATE ON SCHEMA public TO {name}")
    with Ledger.connect(writer) as ledger:
        assert ledger.read_only == f"{name} may create objects in its schema public"
    superuser(place, f"REVOKE CREATE ON SCHEMA public FROM {name}")
    with Ledger.connect(writer) as ledger:
        reserve(ledger)


def test_no_ledger_is_made_or_migrated_where_everybody_may_create(place: Path) -> None:
    superuser(place, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    with pytest.raises(StorageFailed, match="REVOKE CREATE ON SCHEMA public FROM PUBLIC"):
        open_books(place)
    superuser(place, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    open_books(place).close()
    superuser(place, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    with pytest.raises(StorageFailed, match="cannot hold a ledger: PUBLIC may create"):
        migrate(url(place))
    superuser(place, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    migrate(url(place))


def test_a_ledger_may_lie_in_a_schema_of_its_own(place: Path) -> None:
    superuser(place, 'CREATE SCHEMA "the book\'s :x 5%s"')
    named = url(place) + "?options=-csearch_path%3D%22the%5C%20book's%5C%20:x%5C%205%25s%22"
    with Ledger.connect(named) as books:
        census(books)
        reserve(books)
        finish(books)
        assert books.read_only is None and books.verify().entries == 5
    assert migrate(named).verified.entries == 5
    assert did(url(place), 'SELECT count(*) FROM "the book\'s :x 5%s".entries') == [(5,)]
