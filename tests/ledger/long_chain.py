"""Long, valid chains made quickly: what a ledger of many years holds, without writing it charge by charge."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from math import gcd
from pathlib import Path

from tabularium.ledger import amounts
from tabularium.ledger.events import format_time, make_entry
from tabularium.ledger.export import MAGIC
from tabularium.ledger.records import EMPTY, Entry, Head, Terms, usage_delta

PER_UNIT = 10**6
TRANSITIONS = ("reserved", "drawing", "measured", "published")


def text(count: int) -> str:
    common = gcd(count, PER_UNIT)
    return f"{count // common}/{PER_UNIT // common}"


def entries(number: int, *, account: str = "census", cap: int = 10**6) -> Iterator[Entry]:
    """Go through a chain of ``number`` entries: an account, and published charges of 1/1000000 each."""
    began, head = datetime(2006, 1, 1, tzinfo=UTC), EMPTY
    terms = Terms(
        *(account, "person", account, "add-remove", "pure", Fraction(cap), Fraction(1, PER_UNIT)),
        *(None, None, None),
    )
    sums: dict[tuple[str, str], list[int]] = {}
    before: str | None = None
    fields: dict[str, object] = {}
    for place in range(number):
        at = format_time(began + timedelta(seconds=300 * place))
        if place == 0:
            kind, fields = "account", {**terms.fields(), "account_reserved": "0/1", "account_spent": "0/1"}
        else:
            charge, turn = divmod(place - 1, 4)
            kind = TRANSITIONS[turn]
            product, period = f"product-{charge % 20}", f"{2006 + charge % 12}"
            if turn == 0:
                before = None
                fields = {
                    "account": account, "amount": amounts.text(Fraction(1, PER_UNIT)), "exact": False,
                    "fence": 0, "measurement_digest": None, "review": False, "revises": None,
                    "period": period, "product": product, "publication_digest": None, "reason": None, "statement": None,
                    "release_id": sha256(b"r%d" % charge).hexdigest()[:32], "reserved_at": at,
                    "spec_digest": sha256(b"s%d" % (charge % 20)).hexdigest(),
                }  # fmt: skip
            elif turn == 1:
                fields["fence"] = 1
            elif turn == 2:
                fields["measurement_digest"] = sha256(b"m%d" % charge).hexdigest()
            else:
                fields["publication_digest"] = sha256(b"p%d" % charge).hexdigest()
            added = usage_delta(kind, before, 1)
            for scope, name in (("account", ""), ("period", period), ("product", product)):
                sum_ = sums.setdefault((scope, name), [0, 0])
                sum_[0] += added[0]
                sum_[1] += added[1]
                fields[f"{scope}_reserved"], fields[f"{scope}_spent"] = text(sum_[0]), text(sum_[1])
            before = kind
        _body, entry = make_entry(head, kind, at, fields)
        head = Head(entry.seq, entry.hash)
        yield entry


def write_export(path: Path, number: int) -> Head:
    """Write such a chain as an exported ledger."""
    check, head = sha256(MAGIC), EMPTY
    with path.open("wb") as file:
        file.write(MAGIC)
        for entry in entries(number, cap=10**6 + number):  # chains of another length are other ledgers
            line = f"{entry.hash} {entry.text}\n".encode("ascii")
            check.update(line)
            file.write(line)
            head = Head(entry.seq, entry.hash)
        file.write(f"end {head.seq} {head.hash} {check.hexdigest()}\n".encode("ascii"))
    return head
