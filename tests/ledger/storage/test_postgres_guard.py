"""What guards the entries on PostgreSQL: each change to it is seen and told."""

from __future__ import annotations

import secrets
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import Ledger, ReadOnly
from tabularium.ledger.export import migrate
from tabularium.ledger.keys import public_hex
from tabularium.ledger.storage.postgres import SETTINGS, fault, source
from tests.ledger.scene import postgresql, reserve, superuser, url
from tests.ledger.storage.logins import LogIn, did, login, may_connect, name_of
from tests.ledger.storage.test_append import continued

pytestmark = postgresql


TABLES, COLUMNS, RULES = "kind, owner or row level security", "columns of the", "rewrite rules"
HEIRS, KEYS, INDEXES = "inherit", "primary keys", "indexes of"
TRIGGERS, CODE, ROW = "the triggers", "the functions", "the row that every writer locks"
_SETTINGS = " ".join(f"SET {name} = {value}" for name, value in SETTINGS.items())
_REFUSE = "EXECUTE FUNCTION ledger_refuse()"
_ALWAYS = "ALTER TABLE entries ENABLE ALWAYS TRIGGER entries_no_update"
_ELSEWHERE = (
    "CREATE SCHEMA evil",
    "CREATE FUNCTION evil.ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN NEW.account := 'x'; RETURN NEW; END $$",
)
#: what is seen -> each way to bring it about
CHANGED: dict[str, list[tuple[str, ...]]] = {
    TRIGGERS: [
        (
            "DROP TRIGGER entries_no_update ON entries",
            f"CREATE TRIGGER entries_no_update BEFORE UPDATE OF part ON entries FOR EACH ROW {_REFUSE}",
            _ALWAYS,
        ),
        (
            "DROP TRIGGER entries_no_update ON entries",
            f"CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries FOR EACH ROW WHEN (false) {_REFUSE}",
            _ALWAYS,
        ),
        (
            *_ELSEWHERE,
            "DROP TRIGGER entries_no_update ON entries",
            "CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries FOR EACH ROW"
            " EXECUTE FUNCTION evil.ledger_refuse()",
            _ALWAYS,
        ),
        (
            *_ELSEWHERE,
            "CREATE TRIGGER zzz BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION evil.ledger_refuse()",
        ),
        (f"CREATE TRIGGER zzz BEFORE UPDATE ON alembic_version {_REFUSE}",),
        ("ALTER TABLE locks ENABLE REPLICA TRIGGER locks_no_delete",),
    ],
    CODE: [
        ("ALTER FUNCTION ledger_append SET search_path = public, pg_catalog",),
        ("ALTER FUNCTION ledger_append RESET ALL",),
        ("ALTER FUNCTION ledger_in_chain RESET search_path",),
        ("ALTER FUNCTION ledger_in_chain SECURITY DEFINER",),
        ("ALTER FUNCTION ledger_append STABLE",),
        ("ALTER FUNCTION ledger_append STRICT",),
        # its owner is then one who may have objects in the schema
        ("ALTER DATABASE {base} OWNER TO stranger", "ALTER FUNCTION ledger_append OWNER TO stranger"),
        ("DROP FUNCTION ledger_append",),
        ("CREATE FUNCTION ledger_append(p_body text) RETURNS void LANGUAGE sql AS 'SELECT'",),
        (
            "DROP FUNCTION ledger_append(text, text)",
            "CREATE FUNCTION ledger_append(p_body text, p_hash text DEFAULT '') RETURNS void LANGUAGE plpgsql"
            f" SECURITY DEFINER {_SETTINGS} AS $x${source('ledger_append', 'public')}$x$",
        ),
    ],
    TABLES: [
        ("ALTER TABLE entries ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON entries USING (seq <> 2)"),
        ("ALTER TABLE locks FORCE ROW LEVEL SECURITY",),
        ("ALTER TABLE entries SET UNLOGGED",),
        ("ALTER DATABASE {base} OWNER TO stranger", "ALTER TABLE locks OWNER TO stranger"),
    ],
    RULES: [
        ("CREATE RULE r AS ON INSERT TO entries DO INSTEAD NOTHING",),
        ("CREATE RULE r AS ON UPDATE TO locks DO ALSO NOTHING",),
    ],
    HEIRS: [
        ("CREATE TABLE child () INHERITS (entries)",),
        ("CREATE TABLE parent (name varchar(16))", "ALTER TABLE locks INHERIT parent"),
    ],
    KEYS: [
        ("ALTER TABLE entries DROP CONSTRAINT entries_pkey",),
        ("ALTER TABLE entries ADD CHECK (length(account) < 5) NOT VALID",),
        ("CREATE TABLE other (seq bigint REFERENCES entries)",),
        ("ALTER TABLE entries ADD FOREIGN KEY (period) REFERENCES locks NOT VALID",),
    ],
    INDEXES: [
        ("DROP INDEX entries_release",),
        ("DROP INDEX entries_account", "CREATE INDEX entries_account ON entries (account)"),
        ("DROP INDEX entries_period", "CREATE INDEX entries_period ON entries (period, account, seq)"),
        ("DROP INDEX entries_terms", "CREATE INDEX ON entries (account, kind, seq) WHERE kind = 'account'"),
        ("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'entries_part'::regclass",),
        ("CREATE UNIQUE INDEX ON entries (prev)",),
        ("CREATE INDEX ON entries (lower(account))",),
    ],
    COLUMNS: [
        ("ALTER TABLE entries ALTER account TYPE text",),
        ('ALTER TABLE entries ALTER account TYPE varchar(128) COLLATE "POSIX"',),
        ("ALTER TABLE entries ALTER part SET DEFAULT 'x'",),
        ("ALTER TABLE entries ALTER kind DROP NOT NULL",),
        ("ALTER TABLE entries ADD more text",),
        ("ALTER TABLE alembic_version ALTER version_num TYPE varchar(64)",),
    ],
    ROW: [
        (
            "ALTER TABLE locks DISABLE TRIGGER ALL",
            "DELETE FROM locks",
            *(
                f"ALTER TABLE locks ENABLE ALWAYS TRIGGER locks_no_{event}"
                for event in ("update", "delete", "truncate")
            ),
        ),
    ],
    "PUBLIC was given INSERT on entries; PUBLIC was given TRIGGER on entries; PUBLIC was given UPDATE on": [
        ("GRANT INSERT, UPDATE, TRIGGER ON entries TO PUBLIC",)
    ],
    "PUBLIC was given EXECUTE on ledger_append": [
        ("GRANT EXECUTE ON FUNCTION ledger_append TO PUBLIC",),
        ("UPDATE pg_proc SET proacl = NULL WHERE proname = 'ledger_append'",),  # as a dump without rights
    ],
    "stranger was given REFERENCES on entries.seq": [("GRANT REFERENCES (seq) ON entries TO stranger",)],
    "stranger was given UPDATE on locks.name": [("GRANT UPDATE (name) ON locks TO stranger",)],
    "stranger was given EXECUTE on ledger_append": [("GRANT EXECUTE ON FUNCTION ledger_append TO stranger",)],
    "stranger was given DELETE on alembic_version": [("GRANT DELETE ON alembic_version TO stranger",)],
    "tabularium_reader was given EXECUTE on ledger_append": [
        ("GRANT EXECUTE ON FUNCTION ledger_append TO tabularium_reader",)
    ],
    "tabularium_writer was given INSERT on entries": [("GRANT INSERT ON entries TO tabularium_writer",)],
    "tabularium_writer was given EXECUTE on ledger_append with grant option": [
        ("GRANT EXECUTE ON FUNCTION ledger_append TO tabularium_writer WITH GRANT OPTION",)
    ],
    "stranger may create objects": [("GRANT CREATE ON SCHEMA public TO stranger",)],
    "functions, operators or tables of stranger": [("ALTER FUNCTION ledger_append OWNER TO stranger",)],
}
#: What others may have, a server's keeper may do, or a superuser has anyway.
HARMLESS = [
    (
        "GRANT SELECT ON entries, locks TO PUBLIC",
        "GRANT SELECT (body) ON entries TO stranger WITH GRANT OPTION",
    ),
    (
        "CREATE ROLE chief SUPERUSER",
        "GRANT ALL ON entries TO chief",
        "GRANT ALL ON FUNCTION ledger_append TO chief",
    ),
    ("CREATE PUBLICATION p FOR TABLE entries",),
    ("CREATE VIEW seen AS SELECT seq, kind FROM entries", "GRANT SELECT ON seen TO stranger"),
    ("CREATE INDEX ON entries (kind)",),
    # as REINDEX CONCURRENTLY has it meanwhile, or leaves it when it is cut off
    (
        "CREATE UNIQUE INDEX entries_pkey_ccnew ON entries (seq)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'entries_pkey_ccnew'::regclass",
    ),
    ("ALTER INDEX entries_release RENAME TO entries_of_release",),
    ("ALTER TABLE entries SET (autovacuum_enabled = false)", "ALTER TABLE entries REPLICA IDENTITY FULL"),
    ("CREATE TABLE beside (x int)", "CREATE RULE r AS ON INSERT TO beside DO INSTEAD NOTHING"),
]


def after(connection: Connection, place: Path, statements: tuple[str, ...]) -> str | None:
    """What is found after some statements, which are then taken back."""
    with connection.begin() as transaction:
        connection.exec_driver_sql("SET LOCAL search_path = public")
        for statement in statements:
            connection.exec_driver_sql(statement.replace("{base}", url(place).rpartition("/")[2]))
        connection.exec_driver_sql("SET LOCAL search_path = pg_catalog, pg_temp")
        found = fault(connection, "public")
        transaction.rollback()
    return found


def test_every_change_to_the_guard_is_seen_and_told(log_in: LogIn, books: Ledger, place: Path) -> None:
    log_in("writer")
    with books._transactions.database.backend.engine.connect() as connection:
        for told, ways in CHANGED.items():
            for statements in ways:
                found = after(connection, place, ("CREATE ROLE stranger", *statements))
                assert found is not None and told in found and "\n" not in found, (statements, found)
        for statements in HARMLESS:
            assert after(connection, place, ("CREATE ROLE stranger", *statements)) is None, statements
        assert after(connection, place, ()) is None


def test_what_a_trigger_right_and_a_schema_of_ones_own_would_do(
    log_in: LogIn, books: Ledger, place: Path
) -> None:
    """The trigger fires with the owner's rights; its function lies in another schema."""
    reader, writer = log_in("reader"), log_in("writer")
    name, before = name_of(reader), books.head()
    superuser(place, f"GRANT TRIGGER ON entries TO {name}", f"CREATE SCHEMA own AUTHORIZATION {name}")
    with Ledger.connect(writer) as ledger:
        assert ledger.read_only == f"{name} was given TRIGGER on entries"
    did(
        reader,
        "CREATE FUNCTION own.f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.account := 'x'; RETURN NEW; END $$",
        "CREATE TRIGGER zzz BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION own.f()",
    )
    superuser(place, f"REVOKE TRIGGER ON entries FROM {name}")
    for who in (writer, url(place)):
        with Ledger.connect(who) as ledger, pytest.raises(ReadOnly, match="the triggers that protect"):
            reserve(ledger, amount=Fraction(7, 10))
    assert books.head() == before
    superuser(place, "DROP TRIGGER zzz ON entries")
    with Ledger.connect(writer) as ledger:
        reserve(ledger)
    books.verify()


def test_migrate_puts_an_older_guard_back_and_the_roles_keep_their_rights(
    log_in: LogIn, books: Ledger, place: Path
) -> None:
    """By a superuser who is not the owner of the tables: the functions are the owner's all the same."""
    reserve(books)
    books.close()
    writer = log_in("writer")
    keeper, chief = f"keeper_{secrets.token_hex(4)}", f"chief_{secrets.token_hex(4)}"
    older = source("ledger_append", "public")
    older = older[: older.index("    -- One comparison")] + older[older.index("    INSERT INTO") :]
    superuser(
        place,
        f"CREATE ROLE {keeper} LOGIN",
        f"CREATE ROLE {chief} LOGIN SUPERUSER",
        may_connect(place, keeper),
        f"GRANT CREATE, USAGE ON SCHEMA public TO {keeper}",
        *(f"ALTER TABLE {table} OWNER TO {keeper}" for table in ("entries", "locks", "alembic_version")),
        f"CREATE OR REPLACE FUNCTION ledger_append(p_body text, p_hash text) RETURNS void LANGUAGE plpgsql"
        f" SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $x${older}$x$",
    )
    try:
        last = list(books.entries())[-1]
        entry = continued(last, {"release_id": "early", "at": "2999-01-01T00:00:00.000000Z"})
        append = f"SELECT ledger_append('{entry.text}', '{entry.hash}')"
        with psycopg.connect(writer.replace("+psycopg", "")) as connection:
            connection.execute(append)  # type: ignore[call-overload]
            connection.rollback()
        with Ledger.connect(writer) as ledger:
            assert ledger.read_only == "the functions that protect the entries are missing or changed"
        done = migrate(login(place, chief))
        assert (done.verified.entries, done.fault) == (2, None)
        with Ledger.connect(writer) as ledger:
            assert ledger.read_only is None
            reserve(ledger, "r2")
        with pytest.raises(psycopg.Error, match="dated ahead"):
            entry = continued(
                list(books.entries())[-1], {"release_id": "early", "at": "2999-01-01T00:00:00.000000Z"}
            )
            did(writer, f"SELECT ledger_append('{entry.text}', '{entry.hash}')")
        with Ledger.connect(login(place, keeper)) as owner:  # whose own the functions are now
            made = Ed25519PrivateKey.generate()
            owner.enrol_key(public_hex(made), officer="A. Ro", by=made)
            owner.verify()
    finally:
        superuser(place, f"REASSIGN OWNED BY {keeper}, {chief} TO keeper", f"DROP OWNED BY {keeper}, {chief}")
        superuser(place, f"DROP ROLE {keeper}, {chief}")
