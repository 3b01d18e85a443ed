"""PostgreSQL: a ledger that several machines share.

The one right to append is the lock on a row, taken before anything is read; a release is held by an advisory
lock of a session of its own, which the server frees when that session ends and not before. ``FUNCTIONS`` are
what guards the entries, the one function that appends among them; the rules it asks are in
:mod:`tabularium.ledger.storage.postgres_rules`.

No session has the ledger's schema in its search path: names of tables are written out with it, and functions
and operators are the server's own. Where others may create objects in that schema, an operator of theirs
that fits more closely than the server's would otherwise run with the rights of the reader of the ledger.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from string import Formatter
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    NullPool,
    Row,
    TextClause,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tabularium.ledger import durable_files
from tabularium.ledger.events import FORMAT, KINDS
from tabularium.ledger.records import GENESIS, Entry
from tabularium.ledger.refusals import StorageFailed
from tabularium.ledger.storage import schema
from tabularium.ledger.storage.backend import Backend, Held
from tabularium.ledger.storage.postgres_rules import FUNCTIONS as RULES
from tabularium.ledger.storage.schema import HEAD_LOCK, entries, locks, metadata
from tabularium.ledger.witness import Witness

# What guards the entries on PostgreSQL: triggers that always fire, and the one function that appends.
#
# Nobody but the owner may insert. The roles of ``roles.sql`` may call ``ledger_append``, which runs as the
# owner: it takes the right to append, checks the hash, works out the columns from the body itself, lets
# only a disclosure officer write what is an officer's to decide, and takes neither an entry that breaks a
# rule (:mod:`tabularium.ledger.storage.postgres_rules`) nor one that is dated ahead of the server's clock,
# nor a charge or an account that is dated behind it. Triggers are ENABLE ALWAYS, so that a session that
# calls itself a replica meets them too. :func:`guard_fault` finds what is missing of all this.


OFFICER = "tabularium_officer"
WRITER = "tabularium_writer"
#: The kinds of entry that only an officer (or the owner) may write.
OFFICIAL = tuple(name for name, kind in KINDS.items() if kind.OFFICIAL)
#: How far a role may date an entry ahead of the server's clock. Half of what a ledger's ``clock_tolerance``
#: is by default: a machine whose clock is as far behind the server's still charges after such an entry.
AHEAD_MINUTES = 5
#: How far behind it a role may date a charge or an account: a machine whose clock is days behind would charge
#: an account that has closed meanwhile. Entries that only record, tighten or give back may be dated behind.
BEHIND_MINUTES = 10

_KINDS = ", ".join(f"'{kind}'" for kind in OFFICIAL)


def _subject() -> str:
    """Return what an entry is found by, as :func:`tabularium.ledger.events.columns` works it out."""
    kinds = defaultdict(list)
    for name, kind in KINDS.items():
        for field, words in kind.SUBJECTS.items():
            kinds[field, words].append(f"'{name}'")
    cases = []
    for (field, words), those in kinds.items():
        parts = [f"'{literal}' || (b ->> '{name}')" for literal, name, *_ in Formatter().parse(words)]
        cases.append(
            f"WHEN k IN ({', '.join(those)}) AND coalesce(b -> '{field}', 'null') NOT IN ('false', 'null')"
            f" THEN {' || '.join(parts)}"
        )
    return f"CASE {' '.join(cases)} END"


_SUBJECT = _subject()


#: name -> (arguments, result, runs as owner, body)
FUNCTIONS = {
    "ledger_refuse": (
        "",
        "trigger",
        False,
        """
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TB003', MESSAGE = 'the ledger is append-only';
END
""",
    ),
    "ledger_in_chain": (
        "",
        "trigger",
        False,
        f"""
DECLARE
    last record;
BEGIN
    SELECT e.seq, e.hash INTO last FROM %(schema)s.entries e ORDER BY e.seq DESC LIMIT 1;
    IF NEW.seq IS DISTINCT FROM coalesce(last.seq, 0) + 1
        OR NEW.prev IS DISTINCT FROM coalesce(last.hash, '{GENESIS}')
        OR NEW.hash IS DISTINCT FROM encode(sha256(convert_to(NEW.body, 'UTF8')), 'hex')
    THEN
        RAISE EXCEPTION USING ERRCODE = 'TB001', MESSAGE = 'the entry does not continue the chain';
    END IF;
    RETURN NEW;
END
""",
    ),
    "ledger_append": (
        "p_body text, p_hash text",
        "void",
        True,
        f"""
DECLARE
    b jsonb := p_body::jsonb;
    k text := b ->> 'kind';
    new_at text := b ->> 'at';
    broken_rule text;
BEGIN
    PERFORM 1 FROM %(schema)s.locks WHERE name = 'head' FOR UPDATE;
    IF (b ->> 'v')::integer IS DISTINCT FROM {FORMAT}
        OR p_hash IS DISTINCT FROM encode(sha256(convert_to(p_body, 'UTF8')), 'hex')
    THEN
        RAISE EXCEPTION USING ERRCODE = 'TB001', MESSAGE = 'the entry does not continue the chain';
    END IF;
    -- An officer alone may also write what is signed, and abandon a measured charge that is to be reviewed.
    IF (k IN ({_KINDS}) OR b ? 'by' OR k = 'abandoned' AND b -> 'review' = 'true'
            AND jsonb_typeof(b -> 'measurement_digest') = 'string')
        AND session_user <> current_user AND NOT EXISTS (
        SELECT FROM pg_roles r WHERE r.rolname = '{OFFICER}' AND pg_has_role(session_user, r.oid, 'MEMBER'))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'TB002', MESSAGE = 'only an officer may write this entry';
    END IF;
    IF (length(new_at) = 27 AND to_char(new_at::timestamp, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') = new_at)
        IS NOT TRUE
    THEN
        RAISE EXCEPTION USING ERRCODE = 'TB005', MESSAGE = 'the entry is not of a form that a ledger has';
    END IF;
    -- One comparison where the clocks agree: all others wait for this.
    IF session_user <> current_user AND new_at::timestamp - timezone('UTC', clock_timestamp())
        NOT BETWEEN interval '-{BEHIND_MINUTES} minutes' AND interval '{AHEAD_MINUTES} minutes'
    THEN
        IF new_at::timestamp < timezone('UTC', clock_timestamp()) THEN
            IF k IN ('reserved', 'account') THEN
                RAISE EXCEPTION USING ERRCODE = 'TB006',
                    MESSAGE = 'the entry is dated behind the server''s clock';
            END IF;
        -- Where the last entry is ahead already, the steps of what was charged still follow it.
        ELSIF new_at IS DISTINCT FROM (
            SELECT e.body::jsonb ->> 'at' FROM %(schema)s.entries e ORDER BY e.seq DESC LIMIT 1)
        THEN
            RAISE EXCEPTION USING ERRCODE = 'TB004',
                MESSAGE = 'the entry is dated ahead of the server''s clock';
        END IF;
    END IF;
    broken_rule := %(schema)s.ledger_broken_rule(b, p_body);
    IF broken_rule IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TB005', MESSAGE = 'the entry ' || broken_rule;
    END IF;
    INSERT INTO %(schema)s.entries
        (seq, kind, account, release_id, product, period, body, prev, hash, subject, part)
    VALUES ((b ->> 'seq')::bigint, k, coalesce(b ->> 'account', ''), b ->> 'release_id', b ->> 'product',
        b ->> 'period', p_body, b ->> 'prev', p_hash,
        {_SUBJECT},
        b ->> 'part');
END
""",
    ),
    **{name: (arguments, result, False, body) for name, (arguments, result, body) in RULES.items()},
}

_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32
_EVENTS = {"INSERT": _INSERT, "DELETE": _DELETE, "UPDATE": _UPDATE, "TRUNCATE": _TRUNCATE}

#: name -> (table, action, per row, function)
TRIGGERS = {
    "entries_no_update": ("entries", "UPDATE", True, "ledger_refuse"),
    "entries_no_delete": ("entries", "DELETE", True, "ledger_refuse"),
    "entries_no_truncate": ("entries", "TRUNCATE", False, "ledger_refuse"),
    "entries_in_chain": ("entries", "INSERT", True, "ledger_in_chain"),
    "locks_no_update": ("locks", "UPDATE", True, "ledger_refuse"),
    "locks_no_delete": ("locks", "DELETE", True, "ledger_refuse"),
    "locks_no_truncate": ("locks", "TRUNCATE", False, "ledger_refuse"),
}


#: One index answers every question, whatever its values: planning it again for each charge is lost time.
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "plan_cache_mode": "force_generic_plan",
    "standard_conforming_strings": "on",
}


def statements(schema: str) -> list[str]:
    """Return what creates, or puts back in place, everything that guards the tables of ``schema``."""
    quoted_schema = quoted(schema)
    settings = " ".join(f"SET {setting} = {value}" for setting, value in SETTINGS.items())
    made = []
    for name, (arguments, result, definer, _body) in FUNCTIONS.items():
        rights = "SECURITY DEFINER" if definer else "SECURITY INVOKER"
        made.append(
            f"CREATE OR REPLACE FUNCTION {quoted_schema}.{name}({arguments}) RETURNS {result}"
            f" LANGUAGE plpgsql {rights} {settings} AS $ledger${source(name, schema)}$ledger$"
        )
        kinds = ", ".join(argument.split()[1] for argument in arguments.split(", ") if argument)
        made.append(f"REVOKE ALL ON FUNCTION {quoted_schema}.{name}({kinds}) FROM PUBLIC")
        made.append(_owned(quoted_schema, f"{quoted_schema}.{name}({kinds})"))
    for name, (table, action, row, function) in TRIGGERS.items():
        made.append(f"DROP TRIGGER IF EXISTS {name} ON {quoted_schema}.{table}")
        level = "ROW" if row else "STATEMENT"
        made.append(
            f"CREATE TRIGGER {name} BEFORE {action} ON {quoted_schema}.{table} FOR EACH {level}"
            f" EXECUTE FUNCTION {quoted_schema}.{function}()"
        )
        made.append(f"ALTER TABLE {quoted_schema}.{table} ENABLE ALWAYS TRIGGER {name}")
    return made


def _owned(schema: str, function: str) -> str:
    """Return what gives a function to the owner of the entries: a superuser may be who migrates them."""
    table, called = ("'" + name.replace("'", "''") + "'" for name in (f"{schema}.{entries.name}", function))
    return f"""DO $ledger$
DECLARE
    keeper oid := (SELECT relowner FROM pg_catalog.pg_class WHERE oid = {table}::regclass);
BEGIN
    IF keeper <> (SELECT proowner FROM pg_catalog.pg_proc WHERE oid = {called}::regprocedure) THEN
        EXECUTE 'ALTER FUNCTION ' || {called} || ' OWNER TO '
            || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(keeper));
    END IF;
END
$ledger$"""


def trigger_type(action: str, row: bool) -> int:
    """Return the number by which the server knows a trigger that runs before ``action``."""
    return _BEFORE | _EVENTS[action] | (_ROW if row else 0)


def source(name: str, schema: str) -> str:
    """Return the body of a function, with the schema's name before every table."""
    return FUNCTIONS[name][3].replace("%(schema)s", quoted(schema))


def quoted(schema: str) -> str:
    """Return a name as SQL writes it whatever is in it."""
    return '"' + schema.replace('"', '""') + '"'


#: What a difference in a part of the guard is called, in the order of the message.
_MESSAGES = {
    "encoding": "the database's encoding is not UTF8",
    "table": "the ledger's tables have another kind, owner or row level security than they were made with",
    "column": "the columns of the ledger's tables are missing or changed",
    "rule": "there are rewrite rules on the ledger's tables",
    "heir": "tables inherit from the ledger's tables, or these from others",
    "constraint": "the primary keys of the ledger's tables are missing or changed, or constraints were added",
    "index": "the indexes of the ledger's tables are missing or changed",
    "trigger": "the triggers that protect the entries are missing or changed",
    "function": "the functions that protect the entries are missing or changed",
    "row": "the row that every writer locks is missing",
}
#: The conditions of partial indexes, as the server shows them.
_ONLY = {
    "entries_terms": " WHERE (((kind)::text = 'account'::text) OR ((kind)::text = 'terms'::text))",
    "entries_subject": " WHERE ((subject IS NOT NULL) AND (part IS NULL))",
    "entries_part": " WHERE (part IS NOT NULL)",
}
#: What ``roles.sql`` grants besides SELECT.
_GRANTED = {
    (WRITER, "UPDATE on locks.name"),
    (WRITER, "EXECUTE on ledger_append"),
}
_DEFAULT, _C = 100, 950  # collations whose numbers are part of the server
_UNFINISHED = " (not valid)"
_PLAIN = re.compile(r"USING btree \([a-z_, ]+\)")
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def fault(connection: Connection, schema: str) -> str | None:
    """Return what is not as it was made, or who was given what nobody should have, or ``None``."""
    rows = _found(connection, schema)
    reason, wanted = _exposed(rows, schema), _wanted(schema)
    if reason is not None:
        return reason
    present = {(row.part, row.name, row.value) for row in rows if row.part in _MESSAGES}
    # Plain indexes that somebody added do no harm, nor while an index is rebuilt are there two of it.
    present -= {(part, name, value + _UNFINISHED) for part, name, value in wanted if part == "index"}
    present -= {row for row in present - wanted if row[0] == "index" and _PLAIN.fullmatch(row[2])}
    differing = {part for part, _name, _value in present ^ wanted}
    for part, message in _MESSAGES.items():
        if part in differing:
            return message
    grants = {(row.name, row.value) for row in rows if row.part == "grant"} - _GRANTED
    return "; ".join(sorted(f"{grantee} was given {right}" for grantee, right in grants)) or None


def exposed(connection: Connection, schema: str) -> str | None:
    """Return who may put, or has put, other objects into the ledger's schema, or ``None``.

    By default PostgreSQL 13 and 14, and databases upgraded from them, let everybody create in ``public``.
    """
    return _exposed(_found(connection, schema), schema)


def _exposed(rows: Sequence[Row[Any]], schema: str) -> str | None:
    may = sorted(row.name for row in rows if row.part == "creator")
    if may:
        return f"{', '.join(may)} may create objects in its schema {schema}"
    by = sorted(row.name for row in rows if row.part == "stranger")
    if by:
        return f"there are functions, operators or tables of {', '.join(by)} in its schema {schema}"
    return None


def _found(connection: Connection, schema: str) -> Sequence[Row[Any]]:
    return connection.execute(_look(schema), {"schema": schema}).all()


@lru_cache(maxsize=8)
def _wanted(schema: str) -> frozenset[tuple[str, str, str]]:
    """Return what :data:`_LOOK` finds of the parts of an untouched ledger."""
    made = {("encoding", "server", "UTF8"), ("row", locks.name, HEAD_LOCK)}
    for table in metadata.tables.values():
        key = "(" + ", ".join(table.primary_key.columns.keys()) + ")"
        made.add(("table", table.name, "r p f f t"))
        made.add(("constraint", table.name, f"p PRIMARY KEY {key}"))
        made.add(("index", table.name, f"unique USING btree {key}"))
        made |= {("column", f"{table.name}.{column.name}", _column(column)) for column in table.columns}
    for index in entries.indexes:
        columns = ", ".join(index.columns.keys())
        made.add(("index", entries.name, f"USING btree ({columns}){_ONLY.get(str(index.name), '')}"))
    for name, (on, action, row, function) in TRIGGERS.items():
        made.add(("trigger", f"{on}.{name}", f"{trigger_type(action, row)} A {function} [] 0 t"))
    for name, (arguments, result, definer, _body) in FUNCTIONS.items():
        shown = f"{result.replace('TABLE (', 'TABLE(')} plpgsql {'t' if definer else 'f'} v u f f f t"
        settings = "; ".join(f"{setting}={value}" for setting, value in SETTINGS.items())
        made.add(("function", f"{name}({arguments})", f"{shown} [{settings}]{source(name, schema)}"))
    return frozenset(made)


def _column(column: Column[object]) -> str:
    kind = column.type.compile(dialect=_DIALECT)
    for ours, theirs in (("VARCHAR", "character varying"), ("BIGINT", "bigint"), ("TEXT", "text")):
        kind = kind.replace(ours, theirs)
    return f"{kind} {'f' if column.nullable else 't'} f"


@lru_cache(maxsize=8)
def _look(schema: str) -> TextClause:
    return text(_LOOK.replace("{locks}", f"{quoted(schema).replace(':', chr(92) + ':')}.{locks.name}"))


_LOOK = rf"""
WITH place AS (SELECT oid, nspacl, nspowner FROM pg_namespace WHERE nspname = CAST(:schema AS name)),
held AS (
    SELECT c.* FROM pg_class c JOIN place ON c.relnamespace = place.oid
    WHERE c.relname IN ({", ".join(f"'{name}'" for name in metadata.tables)})),
keeper AS (SELECT relowner AS oid FROM held WHERE relname = '{entries.name}'),
superuser AS (SELECT oid FROM pg_roles WHERE rolsuper),
trusted AS (
    SELECT oid FROM superuser UNION SELECT oid FROM keeper UNION SELECT nspowner FROM place
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()),
guard AS (
    SELECT p.* FROM pg_proc p JOIN place ON p.pronamespace = place.oid WHERE p.proname LIKE 'ledger\_%'),
given AS (
    SELECT o.object, o.owner, a.* FROM (
        SELECT c.relname::text, c.relowner, c.relacl FROM held c
        UNION ALL SELECT c.relname || '.' || f.attname, c.relowner, f.attacl
            FROM held c JOIN pg_attribute f ON f.attrelid = c.oid WHERE f.attacl IS NOT NULL
        UNION ALL SELECT p.proname::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
            FROM guard p
    ) AS o (object, owner, acl), aclexplode(o.acl) a)
SELECT 'encoding' AS part, 'server' AS name, current_setting('server_encoding') AS value
UNION ALL SELECT 'table', c.relname::text, concat_ws(' ', c.relkind, c.relpersistence, c.relrowsecurity,
        c.relforcerowsecurity, c.relowner = (SELECT oid FROM keeper))
    FROM held c
UNION ALL SELECT 'column', c.relname || '.' || f.attname, concat_ws(' ', format_type(f.atttypid, f.atttypmod)
        || CASE f.attcollation WHEN 0 THEN '' WHEN {_DEFAULT} THEN '' WHEN {_C} THEN ' COLLATE "C"'
            ELSE ' COLLATE' END,
        f.attnotnull, f.atthasdef OR f.attidentity <> '' OR f.attgenerated <> '')
    FROM held c JOIN pg_attribute f ON f.attrelid = c.oid WHERE f.attnum > 0 AND NOT f.attisdropped
UNION ALL SELECT 'rule', c.relname::text, r.rulename::text FROM held c JOIN pg_rewrite r ON r.ev_class = c.oid
UNION ALL SELECT 'heir', c.relname::text, ''
    FROM held c JOIN pg_inherits i ON c.oid IN (i.inhparent, i.inhrelid)
UNION ALL SELECT 'constraint', c.relname::text, concat_ws(' ', n.contype, pg_get_constraintdef(n.oid))
    FROM held c JOIN pg_constraint n ON c.oid IN (n.conrelid, n.confrelid) WHERE n.contype <> 'n'
UNION ALL SELECT 'index', c.relname::text, CASE WHEN i.indisunique THEN 'unique ' ELSE '' END
        || substr(d.def, strpos(d.def, ' USING ') + 1)
        || CASE WHEN i.indisvalid THEN '' ELSE '{_UNFINISHED}' END
    FROM held c JOIN pg_index i ON i.indrelid = c.oid, LATERAL pg_get_indexdef(i.indexrelid) AS d (def)
UNION ALL SELECT 'trigger', c.relname || '.' || t.tgname, format('%s %s %s [%s] %s %s', t.tgtype, t.tgenabled,
        CASE WHEN p.pronamespace = c.relnamespace THEN p.proname::text ELSE p.oid::regprocedure::text END,
        t.tgattr, t.tgnargs, t.tgqual IS NULL)
    FROM held c JOIN pg_trigger t ON t.tgrelid = c.oid LEFT JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE NOT t.tgisinternal
UNION ALL SELECT 'function', format('%s(%s)', p.proname, pg_get_function_arguments(p.oid)),
        format('%s %s %s %s %s %s %s %s %s [%s]%s', pg_get_function_result(p.oid), l.lanname, p.prosecdef,
        p.provolatile, p.proparallel, p.proisstrict, p.proleakproof, p.prokind,
        p.proowner = (SELECT oid FROM keeper), array_to_string(p.proconfig, '; '), p.prosrc)
    FROM guard p LEFT JOIN pg_language l ON l.oid = p.prolang
UNION ALL SELECT 'row', '{locks.name}', l.name FROM {{locks}} l WHERE l.name = '{HEAD_LOCK}'
UNION ALL SELECT 'grant', CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(g.grantee)::text END,
        concat(g.privilege_type, ' on ', g.object, CASE WHEN g.is_grantable THEN ' with grant option' END)
    FROM given g WHERE g.grantee <> g.owner AND g.privilege_type NOT IN ('SELECT', 'MAINTAIN')
        AND g.grantee NOT IN (SELECT oid FROM superuser)
UNION ALL SELECT DISTINCT 'creator', coalesce(r.rolname::text, 'PUBLIC'), ''
    FROM place, aclexplode(coalesce(place.nspacl, acldefault('n', place.nspowner))) a
        LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted)
UNION ALL SELECT DISTINCT 'stranger', pg_get_userbyid(o.owner)::text, '' FROM (
        SELECT relnamespace, relowner FROM pg_class UNION ALL SELECT pronamespace, proowner FROM pg_proc
        UNION ALL SELECT oprnamespace, oprowner FROM pg_operator) AS o (place, owner)
    WHERE o.place = (SELECT oid FROM place) AND o.owner NOT IN (SELECT oid FROM trusted)
"""

CONNECT_SECONDS = 10

_LOCK = select(schema.locks.c.name).where(schema.locks.c.name == schema.HEAD_LOCK).with_for_update()
#: every type exact, so that no other function of that name can fit more closely
_APPEND = "SELECT {schema}.ledger_append(CAST(%(body)s AS text), CAST(%(hash)s AS text))"
#: ``pg_temp`` last, or it would come first by itself
_PATH = "pg_catalog, pg_temp"


class HeldSession(Held):
    """A release held by an advisory lock of its own session."""

    def __init__(self, connection: Connection, key: int) -> None:
        self._connection, self._key = connection, key

    def stands(self) -> bool:
        """Whether the session lives and still has its lock."""
        high, low = (self._key >> 32) & 0xFFFFFFFF, self._key & 0xFFFFFFFF
        statement = text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
            " AND classid::bigint = :high AND objid::bigint = :low AND objsubid = 1"
        )
        try:
            return self._connection.execute(statement, {"high": high, "low": low}).scalar() == 1
        except SQLAlchemyError:
            return False

    def free(self) -> None:
        """End the session, and its lock with it."""
        # Where the server is gone there is nothing to unlock: the session ended, and the lock with it. What
        # SQLAlchemy says of a connection that it knows to be lost is not the driver's error.
        with suppress(SQLAlchemyError):
            self._connection.execute(select(func.pg_advisory_unlock(self._key)))
        with suppress(SQLAlchemyError):
            self._connection.close()

    def drop(self) -> None:
        """Detach the child's copy of the socket, through which it could speak in its parent's name."""
        driver: Any = self._connection.connection.driver_connection
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, driver.fileno(), inheritable=False)
        os.close(nowhere)
        _detached.append(self._connection)


_detached: list[Connection] = []  # never closed: they belong to a parent process


class PostgreSQL(Backend):
    """The ledger in the database that ``url`` names; the witness and its lock are files in ``folder``."""

    def __init__(self, url: URL, wait: float, folder: Path) -> None:
        self.name = str(url.database or "postgresql")
        shown = url.set(username=None, password=None).render_as_string()
        self.identity = f"postgresql {shown}"
        stem = f"{self.name}-{sha256(shown.encode()).hexdigest()[:12]}"
        self.locks = folder / "locks"
        self.witness = folder / f"{stem}.witness"
        self.wait = wait
        self.engine = _engine(url, wait)
        self.writers = self.engine
        self.readers = self.engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._sessions = create_engine(
            self.engine.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args=_ARGUMENTS,
            use_native_hstore=False,
        )
        _confine(self._sessions)
        durable_files.make_folder(self.locks)

    @property
    def place(self) -> Path:
        """Return a name without the host: owner and runners may write that in different ways."""
        return self.locks.with_name(self.name)

    def made(self) -> bool:
        """Tell whether there are tables in the schema, the ledger's or others."""
        with self.engine.begin() as connection:
            return schema.revision(connection) is not None

    def make(self) -> None:
        """Make the tables; of two who try at once, one waits for the other."""
        with self.engine.begin() as connection:
            if schema.revision(connection) is not None:
                return
            if connection.exec_driver_sql("SHOW server_encoding").scalar() != "UTF8":
                raise StorageFailed(
                    "cannot hold a ledger: the database's encoding is not UTF8",
                    where=self.name,
                    hint="make the database with ENCODING 'UTF8'; to move a ledger there: export, then"
                    " restore into a UTF8 database",
                )
            connection.execute(select(func.pg_advisory_xact_lock(_key("make", ""))))
            if schema.revision(connection) is None:
                self.create(connection)

    def guard(self, connection: Connection) -> None:
        """Create the functions and triggers, where nobody else's operators could become part of them."""
        schema_name = _schema(connection)
        reason = exposed(connection, schema_name)
        if reason is not None:
            raise StorageFailed(
                f"cannot hold a ledger: {reason}",
                where=self.name,
                hint=f"as a superuser: REVOKE CREATE ON SCHEMA {schema_name} FROM PUBLIC "
                "(see docs/how-to/move-to-postgresql.md)",
            )
        for statement in statements(schema_name):
            connection.exec_driver_sql(statement.replace("%", "%%"))  # a schema's name may hold one

    def guard_fault(self, connection: Connection) -> str | None:
        """Compare tables, triggers, functions and grants with what they were created from."""
        return fault(connection, _schema(connection))

    def lock(self, connection: Connection) -> None:
        """Lock the head's row, before anything is read: later statements see all that came before."""
        connection.execute(_LOCK)

    def append(self, connection: Connection, entry: Entry, columns: tuple[str | None, ...]) -> None:
        """Append through the one function that may, which works out the columns."""
        del columns
        schema_name = quoted(_schema(connection)).replace("%", "%%")
        values = {"body": entry.text, "hash": entry.hash}
        connection.exec_driver_sql(_APPEND.replace("{schema}", schema_name), values)

    def open_witness(self) -> Witness:
        """Return the witness of whatever ledger the URL leads to; other URLs may lead to the same."""
        return Witness(self.witness, self.witness.parent, self.wait)

    def hold(self, release_id: str, wait: float) -> Held | None:
        """Take the release's advisory lock in a session of its own."""
        connection = self._sessions.connect()
        key = _key("release", release_id)
        try:
            if wait > 0:
                connection.exec_driver_sql(f"SET lock_timeout = {max(1, int(wait * 1000))}")
                try:
                    connection.execute(select(func.pg_advisory_lock(key)))
                    taken = True
                except DBAPIError as error:
                    if not cause(error)[0]:
                        raise
                    taken = False
            else:
                taken = bool(connection.execute(select(func.pg_try_advisory_lock(key))).scalar())
        except BaseException:
            connection.close()
            raise
        if taken:
            return HeldSession(connection, key)
        connection.close()
        return None

    def failure(self, error: DBAPIError) -> tuple[bool, str, str]:
        """Tell by the SQLSTATE; without one, the connection was never made or was lost."""
        return cause(error)


_ARGUMENTS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "tabularium",
    "client_encoding": "utf8",  # whatever PGCLIENTENCODING or the role says: names are of every script
}


def _engine(url: URL, wait: float) -> Engine:
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args=_ARGUMENTS,
            pool_size=4,
            pool_pre_ping=True,
            max_overflow=-1,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            use_native_hstore=False,  # looking for its type would be a query before the path is set
        )
    except ModuleNotFoundError:
        raise StorageFailed(
            "a ledger on PostgreSQL needs the driver psycopg",
            where="ledger",
            hint="pip install 'tabularium-dp[postgres]'",
        ) from None

    _confine(engine)

    @event.listens_for(engine, "checkout")
    def checkout(connection: Any, _record: Any, _proxy: Any) -> None:
        if connection.read_only is False:  # as it comes back from reading: it would ask to write in its BEGIN
            connection.read_only = None

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        # A process that is suspended with the right to append must not keep it for ever. No BEGIN asks to
        # write: a standby would refuse it with a state that stands for many faults.
        connection.execute(
            "SET synchronous_commit = on; SET quote_all_identifiers = off;"
            " SET default_transaction_read_only = off;"
            f" SET lock_timeout = {max(1, int(wait * 1000))};"
            f" SET idle_in_transaction_session_timeout = {max(1000, int(wait * 1000))}"
        )
        connection.autocommit = before

    return engine


def _confine(engine: Engine) -> None:
    """Take the schema out of every session's search path, and write it before every table's name."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        row = connection.execute("SELECT pg_catalog.current_schema()").fetchone()
        record.info["schema"] = row[0] or "public"
        connection.execute(f"SET search_path = {_PATH}")
        connection.autocommit = before

    @event.listens_for(engine, "engine_connect")
    def engine_connect(connection: Connection) -> None:
        connection.execution_options(schema_translate_map={None: connection.info["schema"]})


def _schema(connection: Connection) -> str:
    return str(connection.info["schema"])


def _key(kind: str, name: str) -> int:
    return int.from_bytes(sha256(f"tabularium {kind} {name}".encode()).digest()[:8], "big", signed=True)


_LOST = ("was cut off from this process", "run again: what was committed is found, and not repeated")
_LOCKED = ("is kept locked by another process", "wait for it, then run again")

#: what an SQLSTATE, or the class it begins with, means: (what, hint)
_CAUSES = {
    "55P03": _LOCKED,
    "40P01": _LOCKED,
    "53100": ("has no space left on its disk; nothing was written", "free some space, then run again"),
    "53200": ("has no memory left; nothing was written", "free some memory, then run again"),
    "53300": ("takes no more connections", "raise max_connections, or run fewer processes at once"),
    "42501": (
        "does not allow this to this user",
        "log in with the role for it: reader, writer or officer (see: tabularium ledger roles); migrate and "
        "restore are for the owner of the tables",
    ),
    "25006": ("is a copy that takes no entries", "use the URL of the primary server"),
    "28": ("does not let this user in", "check the user and password of the URL"),
    "3D000": ("does not exist", "create it, then run: tabularium ledger migrate"),
    "TB001": ("refused an entry that does not continue the chain", "verify the ledger"),
    "TB002": (
        "lets only a disclosure officer write this kind of entry",
        "log in with the officer's role (see: tabularium ledger roles)",
    ),
    "TB004": (
        "refused an entry dated ahead of the server's clock",
        "set the clock of this machine, or of the server",
    ),
    "TB005": (
        "refused an entry that does not follow from those before it",
        "verify the ledger, and append only with Tabularium",
    ),
    "TB006": (
        "refused an entry dated behind the server's clock",
        "set the clock of this machine, or of the server",
    ),
    "22": ("refused a value that it cannot read", "verify the ledger"),
    "23": ("refused an entry that does not continue the chain", "verify the ledger"),
    "58": ("cannot be read or written", "check the server's disk"),
    "XX": ("is damaged", "stop the server and restore the last good backup"),
    "08": _LOST,
    "57P": _LOST,
    "25P03": _LOST,  # the server ended a session that sat on the right to append
    "57014": ("took too long and was stopped", "wait, then run again"),
}
_BUSY = ("55P03", "40P01")
#: The driver does not hand on the SQLSTATE with which a server turns a connection away.
_UNREACHED = (
    "cannot be reached",
    "check the server, the URL, the user and the password, and that this user may connect (GRANT CONNECT)",
)


def cause(error: DBAPIError) -> tuple[bool, str, str]:
    """Return whether somebody else is only in the way, what is wrong with the database, and the hint."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if not state:
        return False, *(_LOST if error.connection_invalidated else _UNREACHED)
    for known in (state, state[:3], state[:2]):
        if known in _CAUSES:
            return state in _BUSY, *_CAUSES[known]
    return False, "refused a statement", "look at the server's log and verify the ledger"
