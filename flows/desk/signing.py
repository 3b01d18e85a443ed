"""A decision in two steps: a page shows what will be signed, byte for byte; a form of it signs just that."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import tabularium
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.safety import Asked, Elsewhere, Page
from tabularium.ledger import NotApproved
from tabularium.mechanisms.errors import InputError

Decide = Callable[[tabularium.Officer], tabularium.Decided]


@dataclass(frozen=True)
class Ask:
    """What would be signed.

    Attributes
    ----------
    who, key
        Whose key it is, and its name.
    text
        The bytes, as they are.
    form
        The same, as the form sends them back.
    fields
        The same, field by field.
    """

    who: str
    key: str
    text: str
    form: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What came of a decision, as a page shows it later.

    Attributes
    ----------
    signed
        Whether anything was signed just now; None where nobody can say.
    about, back
        What it is about, and its page.
    goes_on
        Whether runs that waited for it go on, or end.
    """

    decided: tabularium.Decided
    signed: bool | None
    about: str
    back: str
    goes_on: bool


def decide(
    desk: Desk,
    asked: Asked,
    decide: Decide,
    *,
    title: str,
    says: Sequence[str],
    about: str,
    back: str,
    address: str,
    goes_on: bool = True,
) -> Elsewhere | Page:
    """Show what a decision signs; or sign it, where a form says that it was shown.

    Parameters
    ----------
    decide
        Makes the decision with the officer that it is given.
    title, says
        What is decided, and what follows from it.
    about, back, address
        What the decision is about, its page, and where its form is sent to.
    goes_on
        Whether runs that wait for it go on, or end.

    Raises
    ------
    TabulariumError
        As the decision does; where there is no open key :class:`~tabularium.NotApproved`.
    """
    officer = desk.officer
    if officer is None:
        raise NotApproved(
            "nobody signs here: the key is closed, or none was named",
            where="key",
            hint="go back and give its passphrase, or start the desk with --key",
        )
    shown = _bytes(asked.value("signed"))
    data = officer.to_sign(decide) if shown is None else shown
    if data is not None and shown is None:
        text = data.decode("ascii")
        ask = Ask(
            officer.name,
            officer.key,
            text,
            base64.urlsafe_b64encode(data).decode("ascii"),
            json.loads(text),
        )
        fields = {name: value for name, value in (asked.form or {}).items() if name != "signed"}
        shows = {"ask": ask, "title": title, "says": says, "back": back, "address": address, "fields": fields}
        return Page("confirm.html.jinja", shows)
    # What was decided before is signed no second time; what was to come of it may still be to be done.
    before = desk.last_entry()
    with desk.asking_prefect():
        decided = decide(officer.signs_only(data or b""))
    result = Result(decided, signed_since(desk, asked, before), about, back, goes_on)
    return Elsewhere(f"/decided/{desk.keep(result)}")


def signed_since(desk: Desk, asked: Asked, entry: int | None) -> bool | None:
    """Whether what a form says that it has shown was signed after an entry; None where nobody can say."""
    with suppress(InputError, ValueError):  # no page has shown that
        return desk.signed_since(entry, json.loads(_bytes(asked.value("signed")) or b""))
    return False


def _bytes(text: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        pass
    raise InputError("is not what this page has shown", where="signed", hint="load the page again")
