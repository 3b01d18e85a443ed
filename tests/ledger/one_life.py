"""One long life of a ledger, in which every kind of entry stands, and what may be changed about an entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Entry, Ledger
from tabularium.ledger.composition import Partition
from tabularium.ledger.events import KINDS, OPTIONAL_GROUPS, canonical, digest
from tabularium.ledger.export import append_restore_marker
from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.records import EMPTY, Head
from tests.ledger.scene import CRITERIA, census, open_books, reserve, step

FIRST, SECOND, AGENCY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2, 3))
_DROPPED: Any = object()


def live(folder: Path) -> list[Entry]:
    """Live it, on SQLite; every step is the program's own."""
    (folder / "books").mkdir()
    with open_books(folder) as books:
        _without_officers(books)
        officer, second, agency = FIRST, SECOND, AGENCY
        books.enrol_key(public_hex(officer), officer="A. Ro", by=officer)
        books.enrol_key(public_hex(second), officer="B. Ito", by=officer)
        books.enrol_release_key(public_hex(agency), agency="Office", by=officer)
        _with_officers(books, officer)
        _with_two_officers(books, officer, second)
        books.revoke_key(key_id(public_hex(second)), reason="left", by=officer)
        books.revoke_release_key(key_id(public_hex(agency)), reason="lost", by=officer)
        with books._transactions.database.write() as connection:
            head = append_restore_marker(connection, datetime.now(UTC))
        assert head.seq == books.head().seq
        books.confirm([*books.entries()][-2].hash, by=officer)
        reserve(books, "last", period="2030")
        books.verify()
        lived = list(books.entries())
    assert {entry.body["kind"] for entry in lived} == set(KINDS)
    return lived


def _without_officers(books: Ledger) -> None:
    """What nobody signs: there is no key yet."""
    census(books, cap=Fraction(8), cap_per_period=Fraction(6), cap_per_product=Fraction(5))
    census(books, "panel", unit="person-period", relation="replace", closes_on="2999-01-01")
    census(books, "strict", needs_approval=True, definition="zcdp", delta=Fraction(1, 10**6))
    census(books, "unused")
    census(books, "several", approvals=2, approvals_by_product={"q": 5})
    books.change_account("several", approvals_by_product={"two": 6}, reason="decree")
    books.change_account("census", cap=Fraction(7), reason="decree")
    books.retire_account("unused", reason="misnamed")
    step(books, "r1", "published", statement="a" * 64)
    reserve(books, "r2", exact=True)
    books.void("r2", "mistake")
    for part in ("north", "south"):
        step(books, part, "published", partition=Partition("zones", part), period="2027")
    step(books, "east", "drawing", "panel", partition=Partition("zones", "east", 2), period="2027")
    books.abandon("east", "lost")
    step(books, "r3", "measured", product="q")
    books.abandon("r3", "gone")
    step(books, "r4", "drawing", product="q")
    for _ in range(2):
        books.drawing("r4")
    books.allow_attempts("r4", reason="power cuts")
    books.drawing("r4")


def _with_officers(books: Ledger, by: Ed25519PrivateKey) -> None:
    """What officers decide, signed."""
    census(books, "second", population="hospital", by=by)
    books.change_account("census", cap=Fraction(9), reason="decree 2", by=by)
    census(books, "unneeded", by=by)
    books.retire_account("unneeded", reason="misnamed", by=by)
    census(books, "dropped", by=by)
    books.approve("dropped", "s", by=by)
    books.retire_account("dropped", reason="misnamed", by=by)
    step(books, "r7", "drawing", product="q")
    for _ in range(2):
        books.drawing("r7")
    books.allow_attempts("r7", reason="power cuts", by=by)
    books.approve("strict", "s", by=by, amount=Fraction(1, 2), product="p")
    reserve(books, "r5", "strict")
    books.void("r5", "mistake", by=by)
    books.approve("strict", "t", by=by, reason="validate_terms")
    books.unapprove("strict", "t", reason="an error", by=by)
    books.approve("census", "remade", by=by)
    books.remake(
        *("census",), release_id="r6", measurements_of="r1", product="p", period="2026", spec_digest="remade",
        revises="wrong titles",
    )  # fmt: skip
    books.published("r6", 1, digest="r6")
    for release in ("accepted", "withheld"):
        step(books, release, "measured", review=True, product=release, spec_digest=release)
        books.submit_draft(release, 1, digest=f"draft of {release}", criteria=CRITERIA)
    books.accept("accepted", draft="draft of accepted", by=by)
    books.published("accepted", 1, digest="draft of accepted")
    books.withhold("withheld", draft="draft of withheld", criterion="implausible", by=by)
    step(books, "evaded", "measured", review=True, product="evaded", spec_digest="evaded")
    books.abandon("evaded", "lost", by=by)
    step(books, "waiting", "measured", review=True, product="waiting", spec_digest="waiting")
    books.withdraw("r1", reason="wrong", by=by)
    books.ask_for_evidence(books.charge("r1"), by=by)  # type: ignore[arg-type]
    books.declare_disjoint("census", "hospital", reason="by decree", by=by)
    books.declare_disjoint("census", "hospital", reason="an error", by=by, disjoint=False)


def _with_two_officers(books: Ledger, first: Ed25519PrivateKey, second: Ed25519PrivateKey) -> None:
    """What both of them sign."""
    census(books, "both", approvals=2, by=first)
    books.change_account("both", approvals_by_product={"q": 3}, cap=Fraction(2), reason="decree", by=first)
    for by in (first, second):
        books.approve("both", "both", by=by, amount=Fraction(1, 10), product="p")
    step(books, "both", "measured", "both", review=True, spec_digest="both")
    books.submit_draft("both", 1, digest="draft of both", criteria=CRITERIA)
    for by in (first, second):
        books.accept("both", draft="draft of both", by=by)
    books.published("both", 1, digest="draft of both")


@dataclass(frozen=True)
class Mutation:
    """One entry in which one field is changed, with its hash right."""

    field: str
    change: str
    entry: Entry


def mutations(lived: list[Entry], place: int, most: int = 2) -> Iterator[Mutation]:
    """Go through what may be changed about one entry.

    Every field of it is dropped, null, another value of its type and of another type, and as up to ``most``
    other entries have it; every field that only others have is put in; signatures and the like are left out.
    """
    body = lived[place].body
    head = Head(lived[place - 1].seq, lived[place - 1].hash) if place else EMPTY
    elsewhere: dict[str, list[Any]] = {}
    for entry in lived:
        for name, value in entry.body.items():
            if value not in elsewhere.setdefault(name, []):
                elsewhere[name].append(value)
    changes = [(name, how, {name: value}) for name in body for how, value in _others(body[name])]
    for name, values in sorted(elsewhere.items()):
        wanted = [value for value in values if value != body[name]][:most] if name in body else values[-1:]
        changes += [(name, "another entry's", {name: value}) for value in wanted]
    for field, (_name, part) in OPTIONAL_GROUPS.items():
        if field in body:
            changes.append(
                (field, "dropped with what belongs to it", dict.fromkeys(part.model_fields, _DROPPED))
            )
    for name, how, change in changes:
        forged = {field: value for field, value in (body | change).items() if value is not _DROPPED}
        if forged != body:
            text = canonical(forged)
            yield Mutation(name, how, Entry(head.seq + 1, head.hash, digest(text), text))


def _others(value: Any) -> Iterator[tuple[str, Any]]:
    yield "dropped", _DROPPED
    if value is not None:
        yield "null", None
    match value:
        case bool():
            yield "another", not value
            yield "another type", int(value)
        case int():
            yield "another", value + 1
            yield "another", max(value - 1, 0) if value else 7
            yield "another type", bool(value)
            yield "another type", str(value)
        case str():
            yield "another", f"{value}x"
            yield "another", f"{value} "
            yield "another", ""
            yield "another", "1/7" if "/" in value else "1" * len(value)
            yield "another type", [value]
        case dict():
            yield "another", value | {"z": 9}
            yield "another", {"z": 1}
            yield "another type", [*value]
        case list():
            yield "another", [*value, "z"]
            yield "another", value[:-1]
            yield "another type", "z"
        case None:
            yield "another", "x"
            yield "another", "a" * 64
            yield "another type", 1
