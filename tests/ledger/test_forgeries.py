"""What continues the chain and follows from nothing: verification names the entry, and a server refuses it.

The matrix goes through one life of a ledger, in which every kind of entry stands: every field of every entry,
dropped, null, another value and another entry's, with every hash right. The table below it breaks each rule
of :mod:`tabularium.ledger.rules` by name.
"""

from __future__ import annotations

import ast
import inspect
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tabularium.ledger import ChainBroken, Entry, Ledger, events, rules
from tabularium.ledger.books import MemoryBooks, RunningSums
from tabularium.ledger.events import FIXED, ChargeStep, NotAnEntry, canonical, digest, parse
from tabularium.ledger.export import MAGIC, _last_line, verify_export
from tabularium.ledger.keys import is_signed, key_id, public_hex, statement
from tabularium.ledger.records import EMPTY, GENESIS, Head
from tabularium.ledger.refusals import RuleBroken
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.indexed import IndexedBooks
from tabularium.ledger.verify import Verification
from tests.ledger.one_life import AGENCY, FIRST, SECOND, Mutation, mutations
from tests.ledger.scene import open_books, postgresql, url, verify_entries
from tests.ledger.storage.logins import logins
from tests.sizes import full

SAID_FIRST = "nothing before says it; later entries are held to it"
UNSIGNED = "a person's words, where there is no key to sign them with"
_TERMS = {
    *("approvals", "approvals_by_product", "approve_exact", "cap", "cap_per_period", "cap_per_product"),
    *("closes_on", "needs_approval"),
}
_BEGUN = {
    *("account", "contributions", "exact", "group", "part", "period", "product", "release_id", "review"),
    *("revises", "spec_digest"),
}
#: What an entry may say freely, kind -> (fields, why).
FREE: dict[str, tuple[set[str], str]] = {
    "account": (
        {*_TERMS, "account", "delta", "population", "quantum", "relation", "unit"},
        "terms are agreed while no officer has a key; every charge is held to them",
    ),
    "terms": ({*_TERMS, "reason"}, "as those of an account"),
    "reserved": (_BEGUN, SAID_FIRST),
    "remade": ({"exact", "release_id", "review", "revises"}, SAID_FIRST),
    "measured": ({"measurement_digest"}, SAID_FIRST),
    "published": ({"publication_digest", "statement"}, SAID_FIRST),
    "drafted": ({"criteria", "draft"}, SAID_FIRST),
    "retired": ({"account", "reason"}, UNSIGNED),
    "abandoned": ({"reason"}, UNSIGNED),
    "voided": ({"reason"}, UNSIGNED),
    "attempts": ({"reason"}, UNSIGNED),
}
APPEND = "SELECT ledger_append(%s, %s)"


def is_free(kind: str, field: str) -> bool:
    """Whether nothing binds a field; the time of an entry is its writer's clock's."""
    return field == "at" or field in FREE.get(kind, (set(), ""))[0]


def tried(
    lived: list[Entry], most: int = 2, field: str | None = None, stride: int = 1
) -> Iterator[tuple[Entry, Mutation, bool]]:
    """Go through mutations, each with the entry that it is of, and whether verification takes it."""
    verification = Verification()
    for place, entry in enumerate(lived):
        state = pickle.dumps(verification)
        for number, each in enumerate(mutations(lived, place, most)):
            if (number + place) % stride or field not in (None, each.field):
                continue
            yield entry, each, is_taken(state, each.entry)
        verification.take(entry.seq, entry.prev, entry.hash, entry.text)


def is_taken(state: bytes, entry: Entry) -> bool:
    """Whether verification takes an entry; one that it refuses is named by its number."""
    with suppress(NotAnEntry):
        parse(entry.text)
        verification = pickle.loads(state)
        try:
            verification.take(entry.seq, entry.prev, entry.hash, entry.text)
        except ChainBroken as error:
            assert str(error).startswith(f"ledger: entry {entry.seq} "), error
            return False
        return True
    return False  # it is asked so often that the state is not read for what is no entry at all


def test_a_forged_field_is_refused_at_its_entry(lived: list[Entry]) -> None:
    number: Counter[str] = Counter()
    free = set()
    for entry, each, taken in tried(lived, 6 if full() else 2):
        kind = entry.body["kind"]
        number[kind] += 1
        assert not taken or is_free(kind, each.field), (kind, each)
        if taken:
            free.add((kind, each.field))
    assert number.total() > 5000 and min(number.values()) > 20
    stale = {(kind, field) for kind, (fields, _why) in FREE.items() for field in fields} - free
    assert not stale, "these are bound, and no longer free"


@pytest.mark.parametrize("field", ["review", "exact", "revises", "reserved_at"])
def test_a_field_that_nothing_binds_is_noticed(
    lived: list[Entry], monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """The matrix can fail: what is bound by one comparison alone is left out of it."""
    bound = [name for name in FIXED if name in ChargeStep.model_fields and name != field]
    monkeypatch.setattr(events, "_PLAIN", attrgetter(*bound))
    unbound = {entry.body["kind"] for entry, _each, taken in tried(lived, field=field) if taken}
    assert unbound >= {"drawing", "measured", "published"}


def test_an_export_with_a_forged_field_is_refused_at_its_entry(lived: list[Entry], tmp_path: Path) -> None:
    """Every hash and its last line are those of what it holds."""
    for place, entry in enumerate(lived):
        bad = [each for each in mutations(lived, place, 1) if not is_free(entry.body["kind"], each.field)]
        for each in bad if full() else (bad[place % len(bad)],):
            file = written(tmp_path / "books.txt", [*lived[:place], each.entry])
            with pytest.raises(ChainBroken, match=rf"entry {place + 1} "):
                verify_export(file)
    assert verify_export(written(tmp_path / "books.txt", lived)).entries == len(lived)


def written(path: Path, entries: list[Entry]) -> Path:
    lines = MAGIC + b"".join(f"{entry.hash} {entry.text}\n".encode() for entry in entries)
    last = Head(entries[-1].seq, entries[-1].hash)
    path.write_bytes(lines + _last_line(last, sha256(lines).hexdigest()))
    return path


@postgresql
def test_the_server_takes_the_life_and_refuses_what_is_forged_of_it(lived: list[Entry], place: Path) -> None:
    """What verification refuses of a writer's entries, the server does; the rest is an officer's to write."""
    taken, done = [], 0
    open_books(place).close()
    with logins(place) as log_in:
        writer = log_in("writer").replace("+psycopg", "")
        with (
            psycopg.connect(url(place).replace("+psycopg", ""), autocommit=True) as owner,
            psycopg.connect(writer, autocommit=True) as connection,
        ):

            def take(until: int) -> None:
                for entry in lived[owned(owner) : until]:
                    owner.execute(APPEND, (entry.text, entry.hash))

            for entry, each, fits in tried(lived, 1, stride=1 if full() else 11):
                if fits:
                    continue
                take(entry.seq - 1)
                done += 1
                state = refusal(connection, each.entry)
                if state == "TB006":  # the life may be some minutes old: who is no writer is held to no clock
                    state = refusal(owner, each.entry)
                assert state is None or state.startswith(("TB", "22")), (each, state)
                if state is None:
                    taken.append((entry.body["kind"], each))
            take(len(lived))
    assert not taken, taken[:5]
    assert done > 300
    with Ledger.connect(url(place)) as books:
        assert [entry.hash for entry in books.entries()] == [entry.hash for entry in lived]
        books.verify()


def refusal(connection: psycopg.Connection, entry: Entry) -> str | None:  # type: ignore[type-arg]
    """With what SQLSTATE a server refuses an entry; whatever it says, nothing is appended."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(APPEND, (entry.text, entry.hash))
    except psycopg.Error as error:
        return str(error.sqlstate)
    return None


def owned(owner: psycopg.Connection) -> int:  # type: ignore[type-arg]
    """How many entries a server holds."""
    row = owner.execute("SELECT count(*) FROM entries").fetchone()
    assert row is not None
    return int(row[0])


# Each rule by its name

Which = tuple[str, dict[str, Any]]
_CHAIN = ("at", "kind", "prev", "seq", "v")
_BARE = dict.fromkeys(("by", "signature", "turn"), ...)


def of(kind: str, **fields: Any) -> Which:
    """The first entry of a kind that says this."""
    return kind, fields


def place_of(lived: list[Entry], which: Which) -> int:
    kind, fields = which
    return next(
        place
        for place, entry in enumerate(lived)
        if entry.body["kind"] == kind and all(entry.body.get(name) == fields[name] for name in fields)
    )


def forged(
    lived: list[Entry], base: Which, change: dict[str, Any], after: Which | None = None, kind: str = ""
) -> list[Entry]:
    """The life until one entry, which is another as somebody changes it who recomputes its hash.

    Parameters
    ----------
    after
        What it follows; by default it stands in its own place.
    kind
        What it is made; by default what it was.
    """
    place = place_of(lived, base)
    before = lived[:place] if after is None else lived[: place_of(lived, after) + 1]
    head = Head(before[-1].seq, before[-1].hash) if before else EMPTY
    body = lived[place].body | {"prev": head.hash, "seq": head.seq + 1} | ({"kind": kind} if kind else {})
    body |= {"at": before[-1].body["at"]} if before else {}
    body |= {"reserved_at": body["at"]} if body["kind"] in ("reserved", "remade") else {}
    text = canonical({name: value for name, value in (body | change).items() if value is not ...})
    return [*before, Entry(head.seq + 1, head.hash, digest(text), text)]


SMALL = [
    "01" + 31 * "00",
    "ec" + 30 * "ff" + "7f",
    32 * "00",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]
R1 = {"release_id": "r1"}
GIVEN_UP = {"reason": "x", "publication_digest": None}
DECIDED = {"by": "0" * 32, "signature": "0" * 128, "turn": 0, "consulted": False, "criterion": "implausible"}
LACKS = "lacks an officer's signature, which "
#: rule -> how to break it: the entry, the change, what it follows, what kind it is made
Lie = tuple[Which, dict[str, Any]] | tuple[Which, dict[str, Any], Which | None] | tuple[Any, ...]
LIES: list[tuple[str, Lie]] = [
    ("follows a restore that nobody has confirmed", (of("reserved", release_id="last"), {}, of("restored"))),
    *(
        (f"has a wrong running sum of its {scope}", (of("published", **which), {f"{scope}_spent": "1/7"}))
        for scope, which in {"account": R1, "period": R1, "product": R1, "part": {"release_id": "north"}}.items()
    ),
    ("has a wrong running sum of its account", (of("drafted"), {"account_spent": "0/1"})),
    ("opens an account that is open", (of("account", account="census"), {}, of("account", account="panel"))),
    ("takes a step that its charge's state does not allow", (of("published", **R1), {}, of("published", **R1))),
    ("takes a step that its charge's state does not allow", (of("drawing", **R1), {}, of("measured", **R1))),
    ("takes a step that its charge's state does not allow", (of("drawing", **R1), {"release_id": "none"})),
    ("changes what its step may not change: fence", (of("drawing", **R1), {"fence": 2})),
    ("changes what its step may not change", (of("terms", account="census"), {"unit": "household"})),
    ("changes what its step may not change", (of("terms", account="census"), {"cap": "8/1"})),
    ("is made from measurements of what was not published for its product and period", (of("remade"), {"measurements_of": "r2"})),
    (
        "charges an account that is not open at that time",
        (
            of("reserved", release_id="east"),
            dict.fromkeys(("at", "reserved_at"), "2999-01-01T00:00:00.000000Z"),
        ),
    ),
    ("charges more than was approved for its spec", (of("reserved", release_id="r5"), {"amount": "3/5"})),
    ("charges for a spec that no officer has approved", (of("reserved", release_id="r5"), {"spec_digest": "x"})),
    (
        "approves a spec of no product where products ask for different numbers of officers",
        (of("approval", account="both"), {"for_product": None}),
    ),
    (
        "charges for another product than its spec was approved for",
        (of("reserved", release_id="r5"), {"product": "q"}),
    ),
    ("charges for a spec that no officer has approved", (of("reserved", **R1), {"revises": "late"})),
    (
        "charges for a spec that fewer officers than must have approved",
        (of("reserved", release_id="both"), {}, of("approval", account="both")),
    ),
    (
        "charges for a spec that no officer has approved",  # beside another one that is in review
        (of("reserved", release_id="last"), {"product": "waiting", "period": "2026"}, of("withdrawn")),
    ),
    (
        "begins to draw more often than is allowed",
        (of("drawing", release_id="r4", fence=4), {}, of("drawing", release_id="r4", fence=3)),
    ),
    ("has an amount that is no multiple of its account's quantum", (of("reserved", **R1), {"amount": "1/17"})),
    ("has an amount that is no multiple of its account's quantum", (of("approval"), {"amount": "1/17"})),
    ("composes in parallel over periods", (of("reserved", release_id="north"), {"group": "zones 2026"})),
    ("has another bound on contributions than its group", (of("reserved", release_id="south"), {"contributions": 2})),
    ("passes the cap of its account", (of("reserved", **R1), {"amount": "8/1"})),
    ("passes the cap of its period", (of("reserved", **R1), {"amount": "13/2"})),
    ("passes the cap of its product", (of("reserved", **R1), {"amount": "11/2"})),
    ("is about a release that was never charged", (of("evidence"), {"of_release": "none"})),
    ("is about a release that is not its account's", (of("attempts"), {"account": "panel"})),
    (
        "ends a draft without an officer's decision",
        (of("published", release_id="accepted"), {}, of("drafted", release="accepted")),
    ),
    (
        "ends a draft without an officer's decision",
        (of("measured", release_id="accepted"), GIVEN_UP, of("drafted", release="accepted"), "abandoned"),
    ),
    (
        "publishes what no officer has accepted",
        (
            *(of("measured", release_id="waiting"), {"publication_digest": "x"}),
            *(of("measured", release_id="waiting"), "published"),
        ),
    ),
    (
        "publishes something else than the draft that was accepted",
        (of("published", release_id="accepted"), {"publication_digest": "x"}),
    ),
    ("decides on what waits for no review", (of("acceptance"), {}, of("measured", release_id="accepted"))),
    ("decides on what waits for no review", (of("acceptance"), {}, of("acceptance"))),
    ("is about another draft than was laid out", (of("acceptance"), {"draft": "x"})),
    ("is about another draft than was laid out", (of("acceptance"), {"criteria": ["x"]})),
    ("lays out a draft of what is not measured", (of("drafted"), {}, of("drawing", release_id="accepted"))),
    ("lays out a draft a second time, or without criteria", (of("drafted"), {}, of("drafted"))),
    ("lays out a draft a second time, or without criteria", (of("drafted"), {"criteria": []})),
    (
        "accepts a draft a second time for one officer",
        (of("acceptance", officers_left=1), {}, of("acceptance", officers_left=1)),
    ),
    (
        "tells another number of officers who are still to accept a draft",
        (of("acceptance", officers_left=1), {"officers_left": 2}),
    ),
    (
        "withholds a draft that was accepted",
        (
            *(of("measured", release_id="accepted"), DECIDED | {"draft": "draft of accepted"}),
            *(of("acceptance"), "withheld"),
        ),
    ),
    ("withholds a draft by a criterion that is not one of its own", (of("withheld"), {"criterion": "x"})),
    ("withdraws what is not published", (of("withdrawn"), {"release": "waiting"})),
    ("withdraws what was withdrawn before", (of("withdrawn"), {}, of("withdrawn"))),
    ("names an account that was never opened", (of("reserved", **R1), {"account": "nobody"})),
    (
        "names an account that was retired, which nothing may follow",
        (of("reserved", **R1), {"account": "unused"}, of("retired")),
    ),
    (
        "opens an account again for which specs were approved",
        (of("account", account="dropped"), {"reason": "x"}, of("retired", account="dropped"), "terms"),
    ),
    ("lowers how many officers must sign", (of("terms", account="several"), {"approvals_by_product": {"two": 6}})),
    ("sets a cap below what is used", (of("terms", cap="9/1"), {"cap": "1/100"})),
    ("retires an account that was charged", (of("retired"), {"account": "census"}, of("published", **R1))),
    ("is signed with a key that is not enrolled", (of("approval"), {"by": "0" * 32})),
    ("is signed with a key that is not enrolled", (of("confirmed"), {"by": key_id(public_hex(SECOND))})),
    (LACKS + "opening an account needs", (of("account", account="second"), _BARE)),
    (LACKS + "loosening cap needs", (of("terms", cap="9/1"), _BARE)),
    (LACKS + "retiring an account needs", (of("retired", account="unneeded"), _BARE)),
    (LACKS + "voiding a charge needs", (of("voided", release_id="r5"), _BARE)),
    (LACKS + "giving up what is measured and to be reviewed", (of("abandoned", release_id="evaded"), _BARE)),
    (LACKS + "allowing more attempts needs", (of("attempts", release="r7"), _BARE)),
    (LACKS + "confirming that this head is the newest needs", (of("confirmed"), _BARE)),
    ("is signed for another turn", (of("approval"), {"turn": 5})),
    ("is signed for another turn", (of("approval", spec_digest="t"), {}, of("unapproval", spec_digest="t"))),
    ("has a signature that is not its key's", (of("approval"), {"reason": "x"})),
    ("has a signature that is not its key's", (of("account", account="both"), {"approvals": 3})),
    ("has a signature that is not its key's", (of("voided", release_id="r5"), {"reason": "x"})),
    *(
        (
            "enrols a key for which anybody can sign, or under another name",
            (of("key"), {"public_key": public, "key": key_id(public), "by": key_id(public)}),
        )
        for public in SMALL
    ),
    ("enrols a key for which anybody can sign, or under another name", (of("key"), {"key": "0" * 32})),
    ("enrols a key that is known", (of("key"), {}, of("key"))),
    ("enrols a key that is known", (of("key"), {"agency": "A", "officer": ...}, of("key"), "release_key")),
    ("enrols a key that is known", (of("release_key"), {"officer": "A", "agency": ...}, of("release_key"), "key")),
    ("revokes a key that is not enrolled", (of("revocation"), {"key": "0" * 32})),
    ("revokes a key that is not enrolled", (of("revocation"), {}, of("revocation"))),
    ("takes back an approval that does not stand", (of("unapproval"), {}, of("unapproval"))),
    ("allows attempts for what is not being drawn", (of("attempts"), {}, of("reserved", release_id="r4"))),
    (
        "allows attempts before those there were are used up, or more than one may",
        (of("attempts"), {}, of("drawing", release_id="r4", fence=2)),
    ),
    ("allows attempts before those there were are used up, or more than", (of("attempts"), {"allowed": 7})),
    ("names a population that no account is about", (of("disjoint"), {"other": "nowhere"})),
    ("withdraws that two populations are disjoint, which nobody declared", (of("overlapping"), {}, of("overlapping"))),
    ("confirms what was not put back", (of("confirmed"), {}, of("confirmed"))),
    ("confirms what was not put back", (of("confirmed"), {"mark": "0" * 64})),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "lie"), LIES, ids=[f"{n} {rule}" for n, (rule, _) in enumerate(LIES)])
def test_each_rule_is_named(lived: list[Entry], rule: str, lie: Any) -> None:
    entries = forged(lived, *lie)
    with pytest.raises(ChainBroken, match=f"entry {len(entries)} {rule}"):
        verify_entries(entries)


def test_books_behind_indexes_and_in_memory_judge_alike(lived: list[Entry], place: Path) -> None:
    """Whoever appends asks a database what whoever verifies has in memory."""
    lies: defaultdict[int, list[tuple[str, events.Event]]] = defaultdict(list)
    for rule, lie in LIES:
        entries = forged(lived, *lie)
        lies[len(entries)].append((rule, parse(entries[-1].text)))
    memory, restored = MemoryBooks(), False
    with open_books(place) as books:
        database = books._transactions.database
        for entry in lived:
            event = parse(entry.text)

            def judged(event: events.Event, seq: int = entry.seq, restored: bool = restored) -> RunningSums:
                with database.read() as connection:
                    indexed = IndexedBooks(connection, seq, unconfirmed=restored)
                    indexed.expect(event.fields())
                    after = rules.apply(indexed, event)
                rules.require_sums(event, after)
                return after

            for rule, lie_event in lies[entry.seq]:
                with pytest.raises(RuleBroken) as told:
                    judged(lie_event)
                assert told.value.rule.startswith(rule)
            after = rules.apply(memory, event)
            assert judged(event) == after
            memory.add(event, after)
            memory.first = lived[0].hash
            with database.write() as connection:
                queries.insert(connection, [(entry, events.columns(entry.body))])
            restored = entry.body["kind"] == "restored"


def test_no_rule_is_left_out() -> None:
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(rules))) if isinstance(node, ast.Call)]
    told = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "fail"]
    words = {
        each.value.strip(" :")
        for argument in told
        for each in ast.walk(argument)
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value.strip()
    }
    named = " | ".join(rule for rule, _lie in LIES)
    assert len(words) > 40 and not {word for word in words if word not in named}


@pytest.mark.parametrize(
    "lie",
    [
        *[{"cap": text} for text in ("20/2", "1/3000000000000", "0/1", "1" + 300 * "0" + "/1", "-1/1", "")],
        *[{"cap_per_period": "4/2"}, {"cap_per_product": "1/17"}, {"quantum": "2/2000000"}],
        *[{"definition": "zcdp", "delta": text} for text in ("5/1", "1/1", "0/1", "2/4")],
        *[{"opens_on": "2027-01-01", "closes_on": "2026-01-01"}, {"opens_on": "2026-02-30"}],
        *[{"account": name} for name in ("", " census", "cen\nsus", "a" * 129, "e\u0301", "\ud800")],
        *[{"unit": ""}, {"unit": "\x00"}, {"needs_approval": 1}],
        *[{"approvals": n, "approvals_by_product": {}} for n in (0, 1, 10)],
        {"approvals": 4, "approvals_by_product": {"p": 4}},
    ],
)
def test_terms_that_no_account_can_have(lived: list[Entry], lie: dict[str, Any]) -> None:
    with pytest.raises(ChainBroken, match="entry 1 has a field that is missing or malformed"):
        verify_entries(forged(lived, of("account"), lie))


@pytest.mark.parametrize("name", ["Région \u0378", "日本 \U0001fae9", "a\u200bb"])
def test_a_character_that_this_python_does_not_know_is_no_forgery(lived: list[Entry], name: str) -> None:
    """Whoever wrote it may have had a later edition of Unicode, in which it is printable."""
    verify_entries(forged(lived, of("account"), {"account": name, "unit": name}))


def test_a_signature_is_written_in_one_way(lived: list[Entry]) -> None:
    entry = lived[place_of(lived, of("approval"))].body
    public, first, signature = public_hex(FIRST), lived[0].hash, entry["signature"]
    assert is_signed(public, signature, first, "approval", entry)
    for other in (signature.upper(), f"{signature[:64]} {signature[64:]}", signature + "00", ""):
        assert not is_signed(public, other, first, "approval", entry)
    assert not is_signed(f"{public[:32]} {public[32:]}", signature, first, "approval", entry)
    assert not is_signed(public, signature, GENESIS, "approval", entry), "it is good for one ledger"
    forgery = "01" + 63 * "00"
    assert is_signed(SMALL[0], forgery, GENESIS, "approval", entry), "for the point 1 it fits every statement"


def test_an_officer_signs_what_is_in_order(lived: list[Entry]) -> None:
    """The table can fail: with the signature of its key, what is changed in order is taken."""
    base = of("approval")
    body = forged(lived, base, {"reason": "x"})[-1].body
    fields = {name: value for name, value in body.items() if name not in _CHAIN}
    good: Callable[[Any], str] = lambda key: key.sign(statement(lived[0].hash, "approval", fields)).hex()  # noqa: E731
    verify_entries(forged(lived, base, {"reason": "x", "signature": good(FIRST)}))
    with pytest.raises(ChainBroken, match="has a signature that is not its key's"):
        verify_entries(forged(lived, base, {"reason": "x", "signature": good(AGENCY)}))
