"""What waits for a person, and the history of the ledger in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from tabularium.flows.desk.asked import Asked, Page
from tabularium.flows.desk.desk import Desk
from tabularium.mechanisms.errors import InputError

KINDS = {
    "approval": "Approve a spec",
    "review": "Review a draft",
    "attempts": "Allow more attempts",
    "refused": "A delivery was refused",
    "overdue": "Overdue",
}


def waiting(desk: Desk, _asked: Asked) -> Page:
    """List what waits, the oldest first, each with its age and the page on which it is decided."""
    with desk.asking_prefect(), desk.books() as books:
        found = books.waiting()
        warnings = books.warnings
    now = datetime.now(UTC)
    rows = [
        {**each, "what": KINDS[each["kind"]], "age": age(now - each["since"]), "address": _address(each)}
        for each in found.to_dict("records")
    ]
    return Page(
        "waiting.html.jinja",
        {"rows": rows, "warnings": warnings, "unknown": found.unknown},
    )


def _address(waits: dict[Any, Any]) -> str | None:
    """Return where it is decided; None where nothing is decided."""
    if waits["kind"] == "review" and len(waits["signed"]) < waits["officers"]:
        return f"/drafts/{waits['release']}"
    if waits["kind"] == "attempts":
        return f"/attempts/{waits['release']}"
    if waits["kind"] == "approval" and waits["spec"]:
        asked = {
            name: waits[name] for name in ("spec", "period", "revises", "measurements_of") if waits[name]
        }
        return f"/approve?{urlencode(asked)}"
    return None


def age(passed: timedelta) -> str:
    """Return a time that has passed in the unit that people would use."""
    minutes = int(passed.total_seconds() // 60)
    for unit, size in (("day", 24 * 60), ("hour", 60), ("minute", 1)):
        if (number := minutes // size) > 0:
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "less than a minute"


_ON_A_PAGE = 50
#: What an entry says, where its name alone does not.
WORDS = {
    "account": "account opened",
    "terms": "terms changed",
    "retired": "account retired",
    "reserved": "budget reserved",
    "drawing": "noise is drawn",
    "measured": "measured: spent",
    "drafted": "draft laid out",
    "acceptance": "draft accepted",
    "withheld": "draft withheld",
    "withdrawn": "release withdrawn",
    "voided": "charge voided",
    "remade": "made from earlier measurements",
    "attempts": "more attempts allowed",
    "key": "officer's key enrolled",
    "release_key": "key for releases enrolled",
    "revocation": "key revoked",
    "approval": "spec approved",
    "unapproval": "approval taken back",
    "evidence": "evidence asked for",
}


def history(desk: Desk, asked: Asked) -> Page:
    """Show a page of entries, the newest first; of one account where it is named."""
    account, number = asked.value("account") or None, _number(asked.value("page"))
    with desk.books() as books:
        found = list(books.entries(account, last=number * _ON_A_PAGE))
        entries = found[: max(0, len(found) - (number - 1) * _ON_A_PAGE)][::-1]
        shown: list[dict[str, Any]] = [
            {**each, "what": WORDS.get(each["kind"], each["kind"]), "about": books.explain(each)}
            for each in entries
        ]
        accounts = [each.name for each in books.accounts]
    return Page(
        "history.html.jinja",
        {
            "entries": shown,
            "account": account,
            "accounts": accounts,
            "page": number,
            "older": len(found) == number * _ON_A_PAGE,
        },
    )


def _number(text: str) -> int:
    if not text:
        return 1
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise InputError("is no number of a page", where="page", hint="go to the first one")
    return int(text)
