"""What guards the entries on PostgreSQL: triggers that always fire, and the one function that appends.

Nobody but the owner may insert. The roles of ``roles.sql`` may call ``ledger_append``, which runs as the
owner: it takes the right to append, checks the hash, works out the columns from the body itself, lets only a
disclosure officer write what is an officer's to decide, and takes neither an entry that breaks a rule
(:mod:`tabularium.ledger.storage.postgres_rules`) nor one that is dated ahead of the server's clock, nor a
charge or an account that is dated behind it. Triggers are ENABLE ALWAYS, so that a session that calls itself
a replica meets them too. What is missing of all this is found by
:mod:`tabularium.ledger.storage.postgres_faults`.
"""

from __future__ import annotations

from collections import defaultdict
from string import Formatter

from tabularium.ledger.events import FORMAT, KINDS
from tabularium.ledger.records import GENESIS
from tabularium.ledger.storage.postgres_rules import FUNCTIONS as RULES
from tabularium.ledger.storage.schema import entries

OFFICER = "tabularium_officer"
WRITER = "tabularium_writer"
#: The kinds of entry that only an officer (or the owner) may write.
OFFICIAL = tuple(kind for kind, event in KINDS.items() if event.OFFICIAL)
#: How far a role may date an entry ahead of the server's clock. Half of what a ledger's ``clock_tolerance``
#: is by default: a machine whose clock is as far behind the server's still charges after such an entry.
AHEAD_MINUTES = 5
#: How far behind it a role may date a charge or an account: a machine whose clock is days behind would charge
#: an account that has closed meanwhile. What only records, tightens or gives back needs no true clock.
BEHIND_MINUTES = 10

_KINDS = ", ".join(f"'{kind}'" for kind in OFFICIAL)


def _subject() -> str:
    """Return what an entry is found by, as :func:`tabularium.ledger.events.columns` works it out."""
    kinds = defaultdict(list)
    for kind, event in KINDS.items():
        for field, words in event.SUBJECTS.items():
            kinds[field, words].append(f"'{kind}'")
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
    -- To give up what is measured and to be reviewed is an officer's to decide, too.
    IF (k IN ({_KINDS}) OR k = 'abandoned' AND b -> 'review' = 'true'
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

#: name -> (table, event, per row, function)
TRIGGERS = {
    "entries_no_update": ("entries", "UPDATE", True, "ledger_refuse"),
    "entries_no_delete": ("entries", "DELETE", True, "ledger_refuse"),
    "entries_no_truncate": ("entries", "TRUNCATE", False, "ledger_refuse"),
    "entries_in_chain": ("entries", "INSERT", True, "ledger_in_chain"),
    "locks_no_update": ("locks", "UPDATE", True, "ledger_refuse"),
    "locks_no_delete": ("locks", "DELETE", True, "ledger_refuse"),
    "locks_no_truncate": ("locks", "TRUNCATE", False, "ledger_refuse"),
}


#: Every question is one index's to answer, whatever is asked: to plan it anew for each charge is lost time.
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "plan_cache_mode": "force_generic_plan",
    "standard_conforming_strings": "on",
}


def statements(schema: str) -> list[str]:
    """Return what creates, or puts back in place, everything that guards the tables of ``schema``."""
    place = quoted(schema)
    settings = " ".join(f"SET {setting} = {value}" for setting, value in SETTINGS.items())
    made = []
    for name, (arguments, result, definer, _body) in FUNCTIONS.items():
        rights = "SECURITY DEFINER" if definer else "SECURITY INVOKER"
        made.append(
            f"CREATE OR REPLACE FUNCTION {place}.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql"
            f" {rights} {settings} AS $ledger${source(name, schema)}$ledger$"
        )
        kinds = ", ".join(argument.split()[1] for argument in arguments.split(", ") if argument)
        made.append(f"REVOKE ALL ON FUNCTION {place}.{name}({kinds}) FROM PUBLIC")
        made.append(_owned(place, f"{place}.{name}({kinds})"))
    for name, (table, event, row, function) in TRIGGERS.items():
        made.append(f"DROP TRIGGER IF EXISTS {name} ON {place}.{table}")
        level = "ROW" if row else "STATEMENT"
        made.append(
            f"CREATE TRIGGER {name} BEFORE {event} ON {place}.{table} FOR EACH {level}"
            f" EXECUTE FUNCTION {place}.{function}()"
        )
        made.append(f"ALTER TABLE {place}.{table} ENABLE ALWAYS TRIGGER {name}")
    return made


def _owned(place: str, function: str) -> str:
    """Return what gives a function to the owner of the entries: a superuser may be who migrates them."""
    table, called = ("'" + name.replace("'", "''") + "'" for name in (f"{place}.{entries.name}", function))
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


def trigger_type(event: str, row: bool) -> int:
    """Return the number by which the server knows a trigger that runs before ``event``."""
    return _BEFORE | _EVENTS[event] | (_ROW if row else 0)


def source(name: str, schema: str) -> str:
    """Return the body of a function, with the schema's name before every table."""
    return FUNCTIONS[name][3].replace("%(schema)s", quoted(schema))


def quoted(schema: str) -> str:
    """Return a name as SQL writes it whatever is in it."""
    return '"' + schema.replace('"', '""') + '"'
