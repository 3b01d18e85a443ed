"""The shapes of entries: which fields each kind has, and how they are read back from the text.

Canonical JSON has one text for each value, so a text can be checked by reading it and writing it again. Most
entries are charges whose text one pattern describes to the last byte; what matches it is canonical by the
pattern, and needs neither a parser nor a second writing. Anything else takes the long way.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ledger import names
from ledger.chain.entries import FORMATS, canonical

_COMMON = {"at", "kind", "prev", "seq", "v"}
_SUMS = {"account_reserved", "account_spent"}
_TERMS_1 = {
    *("account", "cap", "cap_per_period", "cap_per_product", "definition", "delta", "quantum"),
    *("relation", "unit"),
}
_TERMS = _TERMS_1 | {"closes_on", "needs_approval", "opens_on"}

#: The fields of a charge without partition, in the order of the text.
CHARGE = (
    *("account", "account_reserved", "account_spent", "amount", "at", "fence", "input_digest", "kind"),
    *("measurement_digest", "period", "period_reserved", "period_spent", "prev", "product"),
    *("product_reserved", "product_spent", "publication_digest", "reason", "release_id", "reserved_at"),
    *("seq", "spec_digest", "v"),
)
_PARTITION = {"contributions", "group", "part", "part_reserved", "part_spent"}
STEPS = frozenset({"reserved", "drawing", "measured", "published", "voided", "abandoned"})

_SIGNED = {"by", "signature", "turn"}
_DECISION = frozenset(_COMMON | _SUMS | _SIGNED | {"account", "amount", "reason", "spec_digest"})
_SINCE_2 = {
    "account": frozenset(_COMMON | _SUMS | _TERMS),
    "terms": frozenset(_COMMON | _SUMS | _TERMS | {"reason"}),
    "key": frozenset(_COMMON | _SIGNED | {"key", "officer", "public_key"}),
    "revocation": frozenset(_COMMON | _SIGNED | {"key", "reason"}),
    "approval": _DECISION,
    "withdrawal": _DECISION,
}
_FIELDS: dict[tuple[int, str], frozenset[str]] = {
    (1, "account"): frozenset(_COMMON | _SUMS | _TERMS_1),
    **{(form, kind): names for form in FORMATS[1:] for kind, names in _SINCE_2.items()},
}
#: Kinds that carry an officer's signature or none, and the format from which on they may.
_MAY_BE_SIGNED = {"terms": 3, "account": 4, "voided": 4}
KINDS = frozenset({kind for _format, kind in _FIELDS} | STEPS)
_WHOLE = {"contributions", "fence", "seq", "turn", "v"}
_OPTIONAL = {"amount", "cap_per_period", "cap_per_product", "closes_on", "delta", "input_digest"} | {
    *("measurement_digest", "opens_on", "publication_digest", "reason"),
}

#: Kinds that have a reason in any case.
_REASONED = ("terms", "revocation", "withdrawal")
#: What is one plain line of text, and its greatest length in characters.
_LINES = {
    **dict.fromkeys(("account", "officer", "part", "period", "product", "unit"), names.LONGEST_NAME),
    **dict.fromkeys(
        ("group", "input_digest", "measurement_digest", "publication_digest", "reason", "spec_digest"),
        names.LONGEST_TEXT,
    ),
}

_TEXT = r'"([ !#-\[\]-~]*)"'


def _line(name: str) -> str:
    """Return the pattern of a line that has only printable ASCII without quotes and backslashes."""
    return rf'"(?! )([ !#-\[\]-~]{{1,{_LINES[name]}}})(?<! )"'


_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
_is_time = re.compile(_TIME).fullmatch
_PATTERNS = {
    "at": f'"({_TIME})"',
    "fence": "(0|[1-9][0-9]{0,18})",
    "seq": "(0|[1-9][0-9]{0,18})",
    "v": "([1234])",
    "kind": '"(' + "|".join(sorted(STEPS)) + ')"',
    **{name: _line(name) for name in ("account", "period", "product", "spec_digest")},
    **{
        name: f"(?:null|{_line(name)})"
        for name in ("input_digest", "measurement_digest", "publication_digest", "reason")
    },
}
#: Its groups are the fields :data:`CHARGE`.
PLAIN_CHARGE = re.compile(
    r"\{" + ",".join(f'"{name}":' + _PATTERNS.get(name, _TEXT) for name in CHARGE) + r"\}"
)


def read(text: str) -> dict[str, Any] | None:
    """Return the body that ``text`` is the canonical JSON of, or ``None``."""
    try:
        body = json.loads(text)
        right = isinstance(body, dict) and canonical(body) == text
    except (ValueError, RecursionError, TypeError):
        return None
    return body if right else None


def well_formed(body: dict[str, Any]) -> bool:
    """Whether a body has just the fields of its kind and format, each of the right type."""
    kind, form = body["kind"], body["v"]
    if form not in FORMATS:
        return False
    if kind in STEPS:
        wanted = frozenset(CHARGE)
        if "group" in body:
            wanted = wanted | _PARTITION if form > 1 else frozenset()
    else:
        wanted = _FIELDS.get((form, kind), frozenset())
    if "signature" in body and form >= _MAY_BE_SIGNED.get(kind, form + 1):
        wanted |= _SIGNED
    if kind in _REASONED and body.get("reason") is None:
        return False
    return body.keys() == wanted and all(_typed(name, value) for name, value in body.items())


def _typed(name: str, value: object) -> bool:
    if name in _WHOLE:
        return type(value) is int and value >= 0
    if name == "needs_approval":
        return type(value) is bool
    if value is None:
        return name in _OPTIONAL
    if type(value) is not str or (name == "at" and not _is_time(value)):
        return False
    return name not in _LINES or names.is_kept(value, _LINES[name])
