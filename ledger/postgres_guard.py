"""What guards the entries on PostgreSQL: triggers that always fire, and the one function that appends.

Nobody but the owner may insert. The roles (``deploy/sql/roles.sql``) may call ``ledger_append``, which runs
as the owner: it takes the turn, checks the hash, works out the columns from the body itself, and lets only a
disclosure officer write what is an officer's to decide. Triggers are ENABLE ALWAYS, so that a session that
calls itself a replica meets them too.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from ledger.chain import FORMAT
from ledger.records import GENESIS
from ledger.schema import PLACES
from ledger.turns import RECENT

OFFICER = "tabularium_officer"
#: The kinds of entry that only an officer (or the owner) may write.
OFFICIAL = ("account", "terms", "key", "revocation", "approval", "withdrawal", "voided")

_KINDS = ", ".join(f"'{kind}'" for kind in OFFICIAL)

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
    # In one call, each statement of which sees all that was committed before it began.
    "ledger_turn": (
        "p_release text, p_account text, p_period text, p_product text, p_input text",
        "TABLE (head_seq bigint, head_sealed text, recent text, charge text, terms text, account text,"
        " period text, product text, elsewhere text)",
        False,
        f"""
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM %(schema)s.locks l WHERE l.name = 'head' FOR UPDATE;
    RETURN QUERY SELECT h.seq, h.hash::text || h.body,
        array_to_string(ARRAY(
            SELECT e.hash::text FROM %(schema)s.entries e ORDER BY e.seq DESC LIMIT {RECENT}), ''),
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.release_id = p_release ORDER BY {PLACES["release"]} DESC LIMIT 1),
        coalesce(
            (SELECT e.hash::text || e.body FROM %(schema)s.entries e
                WHERE e.kind = 'terms' AND e.account = p_account ORDER BY {PLACES["terms"]} DESC LIMIT 1),
            (SELECT e.hash::text || e.body FROM %(schema)s.entries e
                WHERE e.kind = 'account' AND e.account = p_account ORDER BY {PLACES["opened"]} DESC LIMIT 1)),
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.account = p_account ORDER BY {PLACES["account"]} DESC LIMIT 1),
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.account = p_account AND e.period = p_period ORDER BY {PLACES["period"]} DESC LIMIT 1),
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.account = p_account AND e.product = p_product ORDER BY {PLACES["product"]} DESC LIMIT 1),
        (SELECT string_agg(e.release_id::text, ' ') FROM %(schema)s.entries e
            WHERE e.input_digest = p_input AND (e.account < p_account OR e.account > p_account))
    FROM (SELECT 1) AS always LEFT JOIN (
        SELECT e.seq, e.hash, e.body FROM %(schema)s.entries e ORDER BY e.seq DESC LIMIT 1) AS h ON true;
END
""",
    ),
    # The plain case of a charge in one call: nobody's round trip is waited for while it has the turn. It
    # decides nothing but "yes": wherever anything is not as the caller saw it, or a cap would be passed, it
    # writes nothing and returns no row, and the caller takes its turn as with every other entry.
    "ledger_charge": (
        "p_release text, p_account text, p_period text, p_product text, p_input text, p_terms text,"
        " p_seen bigint, p_seen_hash text, p_now text, p_latest text, p_amount numeric, p_unit numeric,"
        " p_caps text, p_parts text",
        "TABLE (head_seq bigint, head_hash text, head_at text)",
        False,
        f"""
#variable_conflict use_column
DECLARE
    last record;
    terms text;
    new_at text;
    sealed text[];
    b jsonb;
    sums text[] := '{{}}';
    used numeric[];
    caps numeric[] := string_to_array(p_caps, ',', '')::numeric[];
    parts text[] := string_to_array(p_parts, chr(10));
    part text;
    new_body text;
    new_hash text;
BEGIN
    IF (p_amount > 0 AND p_unit > 0 AND array_length(caps, 1) = 3 AND array_length(parts, 1) = 11) IS NOT TRUE
    THEN
        RETURN;
    END IF;
    PERFORM 1 FROM %(schema)s.locks l WHERE l.name = 'head' FOR UPDATE;
    -- The caller's clock was read before this call waited for its turn, and a day may have ended since.
    IF to_char(p_now::timestamp + (clock_timestamp() - statement_timestamp()), 'YYYY-MM-DD')
        IS DISTINCT FROM left(p_now, 10)
    THEN
        RETURN;
    END IF;
    SELECT e.seq, e.hash::text AS hash, e.body INTO last
        FROM %(schema)s.entries e ORDER BY e.seq DESC LIMIT 1;
    new_at := greatest(p_now COLLATE "C", last.body::jsonb ->> 'at');
    terms := coalesce(
        (SELECT e.hash::text FROM %(schema)s.entries e
            WHERE e.kind = 'terms' AND e.account = p_account ORDER BY {PLACES["terms"]} DESC LIMIT 1),
        (SELECT e.hash::text FROM %(schema)s.entries e
            WHERE e.kind = 'account' AND e.account = p_account ORDER BY {PLACES["opened"]} DESC LIMIT 1));
    IF terms IS DISTINCT FROM p_terms OR new_at COLLATE "C" > p_latest OR left(new_at, 10) <> left(p_now, 10)
        OR last.hash <> encode(sha256(convert_to(last.body, 'UTF8')), 'hex')
        OR EXISTS (SELECT FROM %(schema)s.entries e WHERE e.release_id = p_release)
        OR EXISTS (SELECT FROM %(schema)s.entries e
            WHERE e.input_digest = p_input AND (e.account < p_account OR e.account > p_account))
        OR NOT EXISTS (SELECT FROM %(schema)s.entries e WHERE e.seq = p_seen AND e.hash = p_seen_hash)
    THEN
        RETURN;
    END IF;
    sealed := ARRAY[
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.account = p_account ORDER BY {PLACES["account"]} DESC LIMIT 1),
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.account = p_account AND e.period = p_period ORDER BY {PLACES["period"]} DESC LIMIT 1),
        (SELECT e.hash::text || e.body FROM %(schema)s.entries e
            WHERE e.account = p_account AND e.product = p_product ORDER BY {PLACES["product"]} DESC LIMIT 1)];
    FOR i IN 1..3 LOOP
        used := ARRAY[p_amount, 0];
        IF sealed[i] IS NOT NULL THEN
            IF left(sealed[i], 64) <> encode(sha256(convert_to(substr(sealed[i], 65), 'UTF8')), 'hex') THEN
                RETURN;
            END IF;
            b := substr(sealed[i], 65)::jsonb;
            FOR j IN 1..2 LOOP
                part := b ->> ((ARRAY['account', 'period', 'product'])[i]
                    || (ARRAY['_reserved', '_spent'])[j]);
                IF part IS NULL OR part !~ '^(0|[1-9][0-9]*)/[1-9][0-9]*$' THEN
                    RETURN;
                END IF;
                IF mod(p_unit, split_part(part, '/', 2)::numeric) <> 0 THEN
                    RETURN;
                END IF;
                used[j] := used[j]
                    + split_part(part, '/', 1)::numeric * div(p_unit, split_part(part, '/', 2)::numeric);
            END LOOP;
        END IF;
        IF caps[i] IS NOT NULL AND (used[1] + used[2] <= caps[i]) IS NOT TRUE THEN
            RETURN;
        END IF;
        FOR j IN 1..2 LOOP
            sums := sums || (div(used[j], gcd(used[j], p_unit)) || '/' || div(p_unit, gcd(used[j], p_unit)));
        END LOOP;
    END LOOP;
    new_body := concat(
        parts[1], '"', sums[1], '"', parts[2], '"', sums[2], '"', parts[3], '"', new_at, '"',
        parts[4], '"', sums[3], '"', parts[5], '"', sums[4], '"', parts[6], '"', last.hash, '"',
        parts[7], '"', sums[5], '"', parts[8], '"', sums[6], '"', parts[9], '"', new_at, '"',
        parts[10], last.seq + 1, parts[11]);
    new_hash := encode(sha256(convert_to(new_body, 'UTF8')), 'hex');
    PERFORM %(schema)s.ledger_append(new_body, new_hash);
    RETURN QUERY SELECT last.seq + 1, new_hash, new_at;
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
BEGIN
    PERFORM 1 FROM %(schema)s.locks WHERE name = 'head' FOR UPDATE;
    IF (b ->> 'v')::integer IS DISTINCT FROM {FORMAT} THEN
        RAISE EXCEPTION USING ERRCODE = 'TB001', MESSAGE = 'the entry does not continue the chain';
    END IF;
    IF k IN ({_KINDS}) AND session_user <> current_user AND NOT EXISTS (
        SELECT FROM pg_roles r WHERE r.rolname = '{OFFICER}' AND pg_has_role(session_user, r.oid, 'MEMBER'))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'TB002', MESSAGE = 'only an officer may write this entry';
    END IF;
    INSERT INTO %(schema)s.entries
        (seq, kind, account, release_id, product, period, input_digest, body, prev, hash, subject, part)
    VALUES ((b ->> 'seq')::bigint, k, coalesce(b ->> 'account', ''), b ->> 'release_id', b ->> 'product',
        b ->> 'period', CASE WHEN k = 'reserved' THEN b ->> 'input_digest' END, p_body, b ->> 'prev', p_hash,
        CASE WHEN k IN ('key', 'revocation') THEN b ->> 'key'
             WHEN k IN ('approval', 'withdrawal') THEN b ->> 'spec_digest'
             ELSE b ->> 'group' END,
        b ->> 'part');
END
""",
    ),
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
_SETTINGS = "SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan"


def statements(schema: str) -> list[str]:
    """Return what creates, or puts back in place, everything that guards the tables of ``schema``."""
    quoted = '"' + schema.replace('"', '""') + '"'
    made = []
    for name, (arguments, result, definer, _body) in FUNCTIONS.items():
        rights = "SECURITY DEFINER" if definer else "SECURITY INVOKER"
        made.append(
            f"CREATE OR REPLACE FUNCTION {quoted}.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql"
            f" {rights} {_SETTINGS} AS $ledger${_source(name, schema)}$ledger$"
        )
        kinds = ", ".join(argument.split()[1] for argument in arguments.split(", ") if argument)
        made.append(f"REVOKE ALL ON FUNCTION {quoted}.{name}({kinds}) FROM PUBLIC")
    for name, (table, event, row, function) in TRIGGERS.items():
        made.append(f"DROP TRIGGER IF EXISTS {name} ON {quoted}.{table}")
        level = "ROW" if row else "STATEMENT"
        made.append(
            f"CREATE TRIGGER {name} BEFORE {event} ON {quoted}.{table} FOR EACH {level}"
            f" EXECUTE FUNCTION {quoted}.{function}()"
        )
        made.append(f"ALTER TABLE {quoted}.{table} ENABLE ALWAYS TRIGGER {name}")
    return made


def fault(connection: Connection, schema: str) -> str | None:
    """Return which part of the guard is missing or changed, or ``None``."""
    found = connection.execute(_TRIGGERS, {"schema": schema}).all()
    there = {row.tgname: (row.relname, row.tgtype, row.tgenabled, row.proname, row.bare) for row in found}
    wanted = {
        name: (table, _BEFORE | _EVENTS[event] | (_ROW if row else 0), "A", function, True)
        for name, (table, event, row, function) in TRIGGERS.items()
    }
    if there != wanted:
        return "the triggers that protect the entries are missing or changed"
    sources = {
        row.proname: (row.prosrc, row.prosecdef)
        for row in connection.execute(_FUNCTIONS, {"schema": schema}).all()
    }
    if sources != {name: (_source(name, schema), entry[2]) for name, entry in FUNCTIONS.items()}:
        return "the functions that protect the entries are missing or changed"
    return None


def exposed(connection: Connection, schema: str) -> str | None:
    """Return who may put, or has put, objects of his own beside the ledger's, or ``None``.

    The owners of the schema, of the database and of the entries are trusted, and superusers are. By default
    PostgreSQL 13 and 14, and databases upgraded from them, let everybody create in the schema ``public``.
    """
    may = connection.execute(_CREATORS, {"schema": schema}).scalars().all()
    if may:
        return f"{', '.join(may)} may create objects in its schema {schema}"
    by = connection.execute(_FOREIGN, {"schema": schema}).scalars().all()
    if by:
        return f"there are functions, operators or tables of {', '.join(by)} in its schema {schema}"
    return None


def _source(name: str, schema: str) -> str:
    return FUNCTIONS[name][3].replace("%(schema)s", '"' + schema.replace('"', '""') + '"')


_TRIGGERS = text("""
SELECT t.tgname, c.relname, t.tgtype, t.tgenabled::text AS tgenabled, p.proname, t.tgqual IS NULL AS bare
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace f ON f.oid = p.pronamespace AND f.nspname = n.nspname
WHERE n.nspname = :schema AND NOT t.tgisinternal AND c.relname IN ('entries', 'locks')
""")
_FUNCTIONS = text("""
SELECT p.proname, p.prosrc, p.prosecdef FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = :schema AND p.proname LIKE 'ledger\\_%'
""")
_TRUSTED = """
WITH place AS (
    SELECT n.oid, n.nspacl, n.nspowner FROM pg_namespace n WHERE n.nspname = CAST(:schema AS name)),
trusted AS (
    SELECT oid FROM pg_roles WHERE rolsuper
    UNION SELECT nspowner FROM place
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()
    UNION SELECT coalesce(
        (SELECT c.relowner FROM pg_class c JOIN place ON c.relnamespace = place.oid
         WHERE c.relname = 'entries'),
        (SELECT oid FROM pg_roles WHERE rolname = current_user)))
"""
_CREATORS = text(f"""{_TRUSTED}
SELECT coalesce(r.rolname::text, 'PUBLIC') FROM place,
    aclexplode(coalesce(place.nspacl, acldefault('n', place.nspowner))) a
    LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted) ORDER BY 1
""")
_FOREIGN = text(f"""{_TRUSTED}
SELECT DISTINCT pg_get_userbyid(found.owner)::text FROM (
    SELECT o.oprowner AS owner FROM pg_operator o JOIN place ON o.oprnamespace = place.oid
    UNION ALL SELECT p.proowner FROM pg_proc p JOIN place ON p.pronamespace = place.oid
    UNION ALL SELECT c.relowner FROM pg_class c JOIN place ON c.relnamespace = place.oid
) AS found WHERE found.owner NOT IN (SELECT oid FROM trusted) ORDER BY 1
""")
