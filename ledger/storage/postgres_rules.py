"""Rules in SQL: what keeps the writer's role on PostgreSQL from appending what verification would refuse.

:mod:`tabularium.ledger.rules` has every rule; here are those about what a writer may write, steps of charges
and drafts, each a look at the last entry of something by one step of an index: an entry costs the same
however long the chain is. The form, the chain and the sums of every entry are judged. Nobody but an
officer may write an officer's decision; whether it was allowed, and whether its signature is good, the
program and verification judge, and not this. The tables of steps, of what they add and of fields come from
where the program has them.
"""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from tabularium.ledger import events
from tabularium.ledger.composition import LARGEST_CONTRIBUTIONS
from tabularium.ledger.names import LONGEST_NAME, LONGEST_TEXT
from tabularium.ledger.records import (
    ATTEMPTS,
    FINAL,
    TRANSITIONS,
    state_after,
    usage_delta,
)
from tabularium.ledger.storage.schema import STATES_TERMS

#: The types of fields as ``ledger_has_type`` knows them; a line of text is known by its greatest length.
_TYPES: list[tuple[Any, str]] = [
    (events.Name, str(LONGEST_NAME)),
    (events.Line, str(LONGEST_TEXT)),
    (events.Time, "string"),  # its form is looked at for itself
    (events.Count, "count"),
    (events.Amount, "amount"),
    (events.Cost, "cost"),
    (events.Sha256, "sha256"),
    (events.ReleaseId, "release"),
    (list[events.Name], "names"),
    (dict[events.Name, events.Count], "counts"),
    (str, "string"),
    (int, "count"),
    (bool, "boolean"),
    (NoneType, "null"),
]


def last(*columns: str, among: str = "", order: str = "") -> str:
    """Return the last entry in which columns are as asked, as
    :func:`tabularium.ledger.storage.queries.last`.

    It is its hash and its text; what is asked is in variables of the columns' names after ``p_``.
    """
    names, asked = (", ".join(prefix + name for name in columns) for prefix in ("e.", "p_"))
    newest = ", ".join(f"e.{name} DESC" for name in columns)
    same = " AND ".join(f"l.{name} = p_{name}" for name in columns)
    return f"""(SELECT l.hashed_body FROM (
            SELECT {names}, e.hash::text || e.body AS hashed_body FROM %(schema)s.entries e
            WHERE ({names}) <= ({asked}) {among} ORDER BY {newest}{order}, e.seq DESC LIMIT 1) AS l
            WHERE {same})"""


LAST_TERMS = last("account", among=f"AND {STATES_TERMS}", order=", e.kind DESC")
_ABOUT = last("account", "subject", among="AND e.subject IS NOT NULL AND e.part IS NULL")
_OF_PART = last("account", "subject", "part", among="AND e.part IS NOT NULL")


def _body(hashed_body: str) -> str:
    return f"substr({hashed_body}, 65)::jsonb"


def _types(annotation: Any) -> list[str]:
    """Return the names of the types that a field may have, whatever else is declared of it."""
    if get_origin(annotation) is Annotated:
        plain, *metadata = get_args(annotation)
        rules = [rule for rule in metadata if not isinstance(rule, events.Mark)]
        annotation = Annotated[plain, *rules] if rules else plain
    for known, name in _TYPES:
        if annotation == known:
            return [name]
    if get_origin(annotation) is Literal:
        return ["string"]
    if get_origin(annotation) in (Union, UnionType):
        return [name for one in get_args(annotation) for name in _types(one)]
    raise TypeError(annotation)


def _form(record: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a record with their types, and what else it has if one field is there."""
    wanted, together = get_type_hints(record, include_extras=True), {}
    for name in ("model_config", "OFFICIAL", "SUBJECTS", "TURNS", "SAME"):
        wanted.pop(name, None)
    for sign, (name, part) in events.OPTIONAL_GROUPS.items():
        if name in wanted:
            is_there_always = wanted.pop(name) is part
            more = _form(part)["fields"]
            if is_there_always:
                wanted |= more
            else:
                together[sign] = more
    return {
        "fields": {
            name: kinds if isinstance(kinds, list) else _types(kinds) for name, kinds in wanted.items()
        },
        "together": together,
    }


def _literal(value: Any) -> str:
    return "'" + json.dumps(value, separators=(",", ":"), sort_keys=True).replace("'", "''") + "'::jsonb"


_FORMS = _literal({kind: _form(record) for kind, record in events.KINDS.items()})
_STEPS = _literal({step: [state or "" for state in before] for step, before in TRANSITIONS.items()})
_ADDS = _literal(
    {
        step: {state or "": usage_delta(step, state, 1) for state in before}
        for step, before in TRANSITIONS.items()
    }
)
_MEASURED = ", ".join(f"'{step}'" for step in TRANSITIONS if state_after(step) == "measured")
_FINAL = ", ".join(f"'{step}'" for step in sorted(FINAL))
_NEEDED = """coalesce(({0} -> 'approvals_by_product' ->> p_product)::integer,
        ({0} ->> 'approvals')::integer, 1)"""
_FIXED = "ARRAY[" + ", ".join(f"'{name}'" for name in events.FIXED) + "]"
_BLANKS = " \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000"
HAS_TYPE = """
DECLARE
    kind text := jsonb_typeof(p_value);
    t text := p_value #>> '{}';
BEGIN
    IF p_type IN ('null', 'boolean', 'string') THEN
        RETURN kind = p_type;
    ELSIF p_type = 'count' THEN
        RETURN kind = 'number' AND t ~ '^(0|[1-9][0-9]*)$';
    ELSIF p_type = 'names' THEN
        RETURN kind = 'array' AND NOT EXISTS (
            SELECT FROM jsonb_array_elements(CASE kind WHEN 'array' THEN p_value END) x
            WHERE %(schema)s.ledger_has_type(x, 'NAME') IS NOT TRUE);
    ELSIF p_type = 'counts' THEN
        RETURN kind = 'object' AND NOT EXISTS (
            SELECT FROM jsonb_each(CASE kind WHEN 'object' THEN p_value END) x
            WHERE (%(schema)s.ledger_has_type(to_jsonb(x.key), 'NAME')
                AND %(schema)s.ledger_has_type(x.value, 'count')) IS NOT TRUE);
    ELSIF kind <> 'string' THEN
        RETURN false;
    ELSIF p_type = 'sha256' THEN
        RETURN t ~ '^[0-9a-f]{64}$';
    ELSIF p_type = 'release' THEN
        RETURN t COLLATE "C" ~ '^[A-Za-z0-9][A-Za-z0-9._-]*$' AND length(t) <= NAME;
    ELSIF p_type IN ('amount', 'cost') THEN
        RETURN t = '0/1' AND p_type = 'cost' OR length(t) < 1000 AND t ~ '^[1-9][0-9]*/[1-9][0-9]*$'
            AND gcd(split_part(t, '/', 1)::numeric, split_part(t, '/', 2)::numeric) = 1;
    END IF;
    -- One printable line, without blanks at its ends, and written in one way.
    RETURN length(t) BETWEEN 1 AND p_type::integer AND t IS NFC NORMALIZED
        AND t !~ '[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029]'
        AND t !~ '^[BLANKS]|[BLANKS]$';
END
""".replace("NAME", str(LONGEST_NAME)).replace("BLANKS", _BLANKS)

CANONICAL = """
DECLARE
    plain text := (
        SELECT '{' || string_agg(to_json(m.key)::text || ':' || CASE jsonb_typeof(m.value)
                WHEN 'string' THEN to_json(m.value #>> '{}')::text
                WHEN 'array' THEN (
                    SELECT '[' || coalesce(string_agg(to_json(x.item)::text, ',' ORDER BY x.n), '') || ']'
                    FROM jsonb_array_elements_text(m.value) WITH ORDINALITY AS x (item, n))
                WHEN 'object' THEN (
                    SELECT '{' || coalesce(string_agg(to_json(x.key)::text || ':' || x.value::text, ','
                        ORDER BY x.key COLLATE "C"), '') || '}'
                    FROM jsonb_each(m.value) AS x)
                ELSE m.value::text END, ',' ORDER BY m.key COLLATE "C") || '}'
        FROM jsonb_each(p_body) AS m);
BEGIN
    IF plain ~ '^[ -~]*$' THEN
        RETURN plain;
    END IF;
    RETURN (
        SELECT string_agg(CASE
            WHEN c BETWEEN 32 AND 126 THEN x.letter
            WHEN c < 65536 THEN '\\u' || lpad(to_hex(c), 4, '0')
            ELSE '\\u' || to_hex(55296 + ((c - 65536) >> 10)) || '\\u' || to_hex(56320 + ((c - 65536) & 1023))
            END, '' ORDER BY x.n)
        FROM regexp_split_to_table(plain, '') WITH ORDINALITY AS x (letter, n), ascii(x.letter) AS c);
END
"""

#: An amount as a number of quanta, and back; no number for what is no multiple or no amount.
QUANTA = """
DECLARE
    whole numeric := CASE WHEN p_amount ~ '^(0|[1-9][0-9]*)/[1-9][0-9]*$'
        THEN split_part(p_amount, '/', 1)::numeric * p_per_unit END;
    parts numeric := CASE WHEN whole IS NOT NULL THEN split_part(p_amount, '/', 2)::numeric END;
BEGIN
    RETURN CASE WHEN mod(whole, parts) = 0 THEN div(whole, parts) END;
END
"""
AMOUNT = """
DECLARE
    common numeric := gcd(p_count, p_per_unit);
BEGIN
    RETURN div(p_count, common) || '/' || div(p_per_unit, common);
END
"""

#: How many different officers have approved a spec after an entry, by keys that are not revoked.
OFFICERS = """
BEGIN
    RETURN (
        SELECT count(DISTINCT k.body::jsonb ->> 'officer') FROM %(schema)s.entries k
        WHERE k.account = '' AND k.kind = 'key' AND k.part IS NULL AND k.subject IN (
            SELECT e.body::jsonb ->> 'by' FROM %(schema)s.entries e
            WHERE e.account = p_account AND e.subject = p_subject AND e.part IS NULL AND e.kind = 'approval'
                AND e.seq > p_after)
            AND NOT EXISTS (SELECT FROM %(schema)s.entries r
                WHERE r.account = '' AND r.subject = k.subject AND r.part IS NULL AND r.kind = 'revocation'));
END
"""

#: What the parts of a group cost together.
_UNDECIDED = "draft ->> 'kind' = 'drafted' OR draft ? 'officers_left'"
_DEAREST = (
    "(SELECT coalesce(sum(d.x), 0) FROM (SELECT u.x FROM unnest({0}) u (x) ORDER BY u.x DESC LIMIT fold) d)"
)

BROKEN_RULE = f"""
DECLARE
    b jsonb := p_body;
    k text := b ->> 'kind';
    release text := b ->> 'release_id';
    p_release_id text;
    p_account text;
    p_period text := b ->> 'period';
    p_product text := b ->> 'product';
    p_subject text;
    p_part text;
    head jsonb := (SELECT e.body::jsonb FROM %(schema)s.entries e ORDER BY e.seq DESC LIMIT 1);
    form jsonb := {_FORMS} -> k;
    fields jsonb := form -> 'fields';
    found jsonb;
    terms jsonb;
    known jsonb;  -- the last entry of the account
    was jsonb;  -- the last of the charge
    draft jsonb;  -- the last about its draft
    source jsonb;
    state text;
    per_unit numeric;
    amount numeric;
    reserved numeric;
    spent numeric;
    inside_reserved numeric;
    inside_spent numeric;
    fold integer;
    used_before numeric[] := '{{}}';
    spent_before numeric[] := '{{}}';
    used_after numeric[] := '{{}}';
    spent_after numeric[] := '{{}}';
    part_reserved numeric := 0;
    part_spent numeric := 0;
    scope text;
    now_reserved numeric;
    now_spent numeric;
    needed integer;
    officers integer;
BEGIN
    -- Its form.
    SELECT fields || coalesce((SELECT jsonb_object_agg(f.key, f.value) FROM jsonb_each(form -> 'together') t,
        jsonb_each(t.value) f WHERE b ? t.key), '{{}}') INTO fields;
    IF fields IS NULL THEN
        RETURN 'is of an unknown kind';
    END IF;
    IF EXISTS (SELECT FROM jsonb_object_keys(b) x WHERE NOT fields ? x) OR EXISTS (
        SELECT FROM jsonb_each(fields) f WHERE NOT EXISTS (
            SELECT FROM jsonb_array_elements_text(f.value) t
            WHERE %(schema)s.ledger_has_type(b -> f.key, t)))
        OR b ->> 'prev' !~ '^[0-9a-f]{{64}}$'  -- a column would take it without blanks at its end
    THEN
        RETURN 'has a field that is missing or malformed';
    ELSIF %(schema)s.ledger_canonical(b) IS DISTINCT FROM p_text THEN
        RETURN 'is not canonical JSON';
    ELSIF (b ->> 'at') COLLATE "C" < (head ->> 'at') THEN
        RETURN 'is older than the entry before it';
    ELSIF head ->> 'kind' = 'restored' AND k <> 'confirmed' THEN
        RETURN 'follows a restore that nobody has confirmed';
    END IF;

    IF NOT b ? 'account' THEN
        RETURN NULL;
    END IF;

    -- The account.
    p_account := b ->> 'account';
    terms := {_body(LAST_TERMS)};
    known := {_body(last("account"))};
    IF release IS NULL AND (
        b ->> 'account_reserved' <> coalesce(known ->> 'account_reserved', '0/1')
        OR b ->> 'account_spent' <> coalesce(known ->> 'account_spent', '0/1'))
    THEN
        RETURN 'has a wrong running sum of its account';
    ELSIF release IS NULL AND k <> 'drafted' THEN
        RETURN NULL;
    ELSIF terms IS NULL THEN
        RETURN 'names an account that was never opened';
    ELSIF known ->> 'kind' = 'retired' THEN
        RETURN 'names an account that was retired, which nothing may follow';
    END IF;
    per_unit := split_part(terms ->> 'quantum', '/', 2)::numeric;
    p_release_id := coalesce(release, b ->> 'release');
    was := {_body(last("release_id"))};
    state := CASE WHEN was ->> 'kind' IN ({_MEASURED}) THEN 'measured' ELSE was ->> 'kind' END;
    p_subject := 'draft ' || p_release_id;
    draft := {_body(_ABOUT)};
    IF k = 'drafted' THEN
        RETURN CASE WHEN was ->> 'account' IS DISTINCT FROM p_account
            THEN 'is about a release that is not its account''s'
            WHEN state <> 'measured' THEN 'lays out a draft of what is not measured'
            WHEN draft IS NOT NULL OR b -> 'criteria' = '[]'
            THEN 'lays out a draft a second time, or without criteria' END;
    END IF;

    -- The charge.
    IF NOT ({_STEPS} -> k) ? coalesce(state, '') THEN
        RETURN 'takes a step that its charge''s state does not allow';
    ELSIF k = 'remade' THEN
        p_release_id := b ->> 'measurements_of';
        source := {_body(last("release_id"))};
        IF source ->> 'kind' IS DISTINCT FROM 'published' OR source ? 'measurements_of'
            OR (source -> 'account', source -> 'product', source -> 'period')
                IS DISTINCT FROM (b -> 'account', b -> 'product', b -> 'period')
        THEN
            RETURN 'is made from measurements of what was not published for its product and period';
        END IF;
        was := source;
    END IF;
    IF (state IS NOT NULL
            AND EXISTS (SELECT FROM unnest({_FIXED}) f WHERE b -> f IS DISTINCT FROM was -> f))
        OR state IS NULL AND b -> 'reserved_at' <> b -> 'at'
        OR (b ->> 'fence')::numeric <> coalesce((was ->> 'fence')::numeric, 0) + (k = 'drawing')::integer
        OR (CASE k WHEN 'measured' THEN b -> 'measurement_digest' = 'null'
            ELSE b -> 'measurement_digest' <> coalesce(was -> 'measurement_digest', 'null') END)
        OR b -> 'statement' <> 'null' AND k <> 'published'
        OR (b -> 'publication_digest' <> 'null') <> (k = 'published')
        OR (b -> 'reason' <> 'null') <> (k IN ('voided', 'abandoned'))
        OR b ? 'measurements_of' <> (b ->> 'amount' = '0/1')
        OR b ? 'measurements_of' AND (b ->> 'revises' IS NULL OR b ? 'group' OR k IN ('reserved', 'drawing'))
        OR k = 'remade' AND NOT b ? 'measurements_of'
        OR b -> 'review' = 'true' AND b ? 'group'
    THEN
        RETURN 'changes what its step may not change';
    ELSIF k = 'drawing' AND (b ->> 'fence')::numeric > {ATTEMPTS} THEN
        p_subject := 'attempts ' || release;
        found := {_body(_ABOUT)};
        IF (b ->> 'fence')::numeric > coalesce((found ->> 'allowed')::numeric, {ATTEMPTS}) THEN
            RETURN 'begins to draw more often than is allowed';
        END IF;
    END IF;

    -- Its review.
    p_subject := 'review ' || p_product || ' ' || p_period;
    IF k = 'withheld' THEN
        IF ({_UNDECIDED}) IS NOT TRUE OR draft -> 'draft' <> b -> 'draft' THEN
            RETURN 'withholds what waits for no review, or another draft than was laid out';
        ELSIF NOT (draft -> 'criteria') ? (b ->> 'criterion') THEN
            RETURN 'withholds a draft by a criterion that is not one of its own';
        END IF;
    ELSIF draft IS NOT NULL THEN
        IF k <> 'published' OR {_UNDECIDED} THEN
            RETURN 'ends a draft without an officer''s decision';
        ELSIF b -> 'publication_digest' <> draft -> 'draft' THEN
            RETURN 'publishes something else than the draft that was accepted';
        END IF;
    ELSIF b -> 'review' = 'true' AND k IN ('published', 'voided', 'abandoned') THEN
        IF k = 'published' AND NOT EXISTS (
            SELECT FROM %(schema)s.entries e JOIN %(schema)s.entries d
                ON d.account = p_account AND d.subject = 'draft ' || e.release_id AND d.part IS NULL
            WHERE e.account = p_account AND e.subject = p_subject AND e.part IS NULL
                AND e.body::jsonb -> 'spec_digest' = b -> 'spec_digest' AND d.kind = 'acceptance'
                AND NOT d.body::jsonb ? 'officers_left'
                AND d.body::jsonb -> 'draft' = b -> 'publication_digest')
        THEN
            RETURN 'publishes what no officer has accepted';
        ELSIF k <> 'published' AND EXISTS (
            SELECT FROM %(schema)s.entries e JOIN %(schema)s.entries d
                ON d.account = p_account AND d.subject = 'draft ' || e.release_id AND d.part IS NULL
            WHERE e.account = p_account AND e.subject = p_subject AND e.part IS NULL
                AND e.body::jsonb -> 'spec_digest' = b -> 'spec_digest'
                AND NOT EXISTS (SELECT FROM %(schema)s.entries f
                    WHERE f.release_id = e.release_id AND f.kind IN ({_FINAL})))
        THEN
            RETURN 'gives up what belongs to a draft';
        ELSIF k = 'abandoned' AND state = 'measured' AND NOT b ? 'by' THEN
            RETURN 'gives up what is to be reviewed without an officer''s signature';
        END IF;
    END IF;

    -- What it adds to every sum.
    amount := %(schema)s.ledger_quanta(b ->> 'amount', per_unit);
    IF amount IS NULL THEN
        RETURN 'has an amount that is no multiple of its account''s quantum';
    END IF;
    reserved := amount * ({_ADDS} #>> ARRAY[k, coalesce(state, ''), '0'])::numeric;
    spent := amount * ({_ADDS} #>> ARRAY[k, coalesce(state, ''), '1'])::numeric;
    inside_reserved := reserved;
    inside_spent := spent;
    IF b ? 'group' THEN
        IF (b ->> 'contributions')::numeric NOT BETWEEN 1 AND {LARGEST_CONTRIBUTIONS}
            OR split_part(b ->> 'group', ' ', 1) COLLATE "C" !~ '^[A-Za-z0-9:._-]{{1,128}}$'
            OR b ->> 'group' <> split_part(b ->> 'group', ' ', 1)
                || (CASE WHEN right(terms ->> 'unit', 7) = '-period' THEN '' ELSE ' ' || p_period END)
        THEN
            RETURN 'composes in parallel over periods';
        END IF;
        p_subject := b ->> 'group';
        fold := (b ->> 'contributions')::integer * CASE terms ->> 'relation' WHEN 'replace' THEN 2 ELSE 1 END;
        p_part := '';
        LOOP
            p_part := (SELECT min(e.part) FROM %(schema)s.entries e
                WHERE e.account = p_account AND e.subject = p_subject AND e.part > p_part);
            EXIT WHEN p_part IS NULL;
            found := {_body(_OF_PART)};
            IF found -> 'contributions' <> b -> 'contributions' THEN
                RETURN 'has another bound on contributions than its group';
            END IF;
            inside_reserved := %(schema)s.ledger_quanta(found ->> 'part_reserved', per_unit);
            inside_spent := %(schema)s.ledger_quanta(found ->> 'part_spent', per_unit);
            used_before := used_before || (inside_reserved + inside_spent);
            spent_before := spent_before || inside_spent;
            IF p_part = b ->> 'part' THEN
                part_reserved := inside_reserved;
                part_spent := inside_spent;
            ELSE
                used_after := used_after || (inside_reserved + inside_spent);
                spent_after := spent_after || inside_spent;
            END IF;
        END LOOP;
        part_reserved := part_reserved + reserved;
        part_spent := part_spent + spent;
        used_after := used_after || (part_reserved + part_spent);
        spent_after := spent_after || part_spent;
        inside_spent := {_DEAREST.format("spent_after")} - {_DEAREST.format("spent_before")};
        inside_reserved := {_DEAREST.format("used_after")} - {_DEAREST.format("used_before")} - inside_spent;
        IF b ->> 'part_reserved' <> %(schema)s.ledger_amount(part_reserved, per_unit)
            OR b ->> 'part_spent' <> %(schema)s.ledger_amount(part_spent, per_unit)
        THEN
            RETURN 'has a wrong running sum of its part';
        END IF;
    END IF;
    FOREACH scope IN ARRAY ARRAY['account', 'period', 'product'] LOOP
        found := CASE scope WHEN 'account' THEN known
            WHEN 'period' THEN {_body(last("account", "period"))}
            ELSE {_body(last("account", "product"))} END;
        IF scope = 'product' OR scope = 'period' AND right(terms ->> 'unit', 7) = '-period' THEN
            inside_reserved := reserved;
            inside_spent := spent;
        END IF;
        now_reserved := coalesce(%(schema)s.ledger_quanta(found ->> (scope || '_reserved'), per_unit), 0)
            + inside_reserved;
        now_spent := coalesce(%(schema)s.ledger_quanta(found ->> (scope || '_spent'), per_unit), 0)
            + inside_spent;
        IF b ->> (scope || '_reserved') <> %(schema)s.ledger_amount(now_reserved, per_unit)
            OR b ->> (scope || '_spent') <> %(schema)s.ledger_amount(now_spent, per_unit)
        THEN
            RETURN 'has a wrong running sum of its ' || scope;
        END IF;
        IF k = 'reserved' AND now_reserved + now_spent > %(schema)s.ledger_quanta(
            terms ->> CASE scope WHEN 'account' THEN 'cap' ELSE 'cap_per_' || scope END, per_unit)
        THEN
            RETURN 'passes the cap of its ' || scope;
        END IF;
    END LOOP;

    -- What a charge must meet to begin.
    IF state IS NOT NULL THEN
        RETURN NULL;
    ELSIF k = 'reserved' AND ((terms ->> 'opens_on') COLLATE "C" > left(b ->> 'at', 10)
        OR (terms ->> 'closes_on') COLLATE "C" <= left(b ->> 'at', 10))
    THEN
        RETURN 'charges an account that is not open at that time';
    END IF;
    p_subject := 'review ' || p_product || ' ' || p_period;
    needed := {_NEEDED.format("terms")};
    IF needed > 1 OR terms -> 'needs_approval' = 'true'
        OR terms -> 'approve_exact' = 'true' AND b -> 'exact' = 'true' OR b -> 'revises' <> 'null' OR EXISTS (
            SELECT FROM %(schema)s.entries e, LATERAL (SELECT e.body::jsonb) AS s (body)
            WHERE e.account = p_account AND e.subject = p_subject AND e.part IS NULL
                AND s.body ->> 'product' = p_product AND s.body ->> 'period' = p_period
                AND (s.body -> 'spec_digest' <> b -> 'spec_digest' OR b -> 'review' IS DISTINCT FROM 'true')
            GROUP BY s.body -> 'spec_digest'
            HAVING bool_or(e.kind IN ({_MEASURED})) AND NOT bool_or(e.kind = 'published'))
    THEN
        p_subject := b ->> 'spec_digest';
        found := {_body(_ABOUT)};
        IF needed > 1 THEN
            officers := %(schema)s.ledger_officers(p_account, p_subject, coalesce((
                SELECT max(e.seq) FROM %(schema)s.entries e
                WHERE e.account = p_account AND e.subject = p_subject AND e.part IS NULL
                    AND (e.kind = 'unapproval' OR e.kind = 'approval'
                        AND (e.body::jsonb -> 'amount' <> found -> 'amount' OR e.body::jsonb
                            ->> 'for_product' IS DISTINCT FROM found ->> 'for_product'))), 0));
            IF officers < needed THEN
                RETURN 'charges for a spec that fewer officers than must have approved';
            END IF;
        END IF;
        IF found ->> 'kind' = 'approval' AND found ->> 'for_product' IS DISTINCT FROM p_product
            AND (found ->> 'for_product' IS NOT NULL OR terms -> 'approvals_by_product' <> '{{}}')
        THEN
            RETURN 'charges for another product than its spec was approved for';
        END IF;
        p_account := '';
        p_subject := found ->> 'by';
        IF found ->> 'kind' IS DISTINCT FROM 'approval'
            OR needed = 1 AND {_body(_ABOUT)} ->> 'kind' IS DISTINCT FROM 'key'
            OR amount > %(schema)s.ledger_quanta(found ->> 'amount', per_unit)
        THEN
            RETURN 'charges for a spec that no officer has approved';
        END IF;
    END IF;
    RETURN NULL;
END
"""

#: name -> (arguments, result, body)
FUNCTIONS = {
    "ledger_has_type": ("p_value jsonb, p_type text", "boolean", HAS_TYPE),
    "ledger_canonical": ("p_body jsonb", "text", CANONICAL),
    "ledger_quanta": ("p_amount text, p_per_unit numeric", "numeric", QUANTA),
    "ledger_amount": ("p_count numeric, p_per_unit numeric", "text", AMOUNT),
    "ledger_officers": (
        "p_account text, p_subject text, p_after bigint",
        "integer",
        OFFICERS,
    ),
    "ledger_broken_rule": ("p_body jsonb, p_text text", "text", BROKEN_RULE),
}
