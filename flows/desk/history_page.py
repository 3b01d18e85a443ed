"""The chain's entries in words, with who signed what."""

from __future__ import annotations

from typing import Any

from tabularium.flows.desk.asked import Asked, Page
from tabularium.flows.desk.desk import Desk
from tabularium.mechanisms.errors import InputError

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
