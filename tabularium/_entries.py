"""What an entry of the ledger says, in lines, as an auditor reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tabularium.ledger import Ledger
from tabularium.ledger.amounts import parse_amount
from tabularium.ledger.records import Charge, Key, Terms

#: Terms that may change, and what people call them.
_TERMS = {
    "cap": "cap",
    "cap_per_period": "cap per period",
    "cap_per_product": "cap per product",
    "opens_on": "opens on",
    "closes_on": "closes on",
    "needs_approval": "needs approval",
    "approve_exact": "needs approval of exact facts",
    "approvals": "officers who must sign",
    "approvals_by_product": "officers who must sign, by product",
}
_OPENED_ON = ("unit", "population", "relation", "definition")
#: What stands in no entry where one officer suffices.
_ONE_OFFICER = {"approvals": 1, "approvals_by_product": {}}
_AMOUNTS = ("cap", "cap_per_period", "cap_per_product")


def explained(ledger: Ledger, body: Mapping[str, Any], keys: Mapping[str, Key]) -> Iterator[str]:
    """Say in lines what an entry is about, why it is there, and who signed it."""
    yield from _subject(ledger, body, keys)
    if body.get("reason"):
        yield f"reason: {body['reason']}"
    if "by" in body:
        yield (
            "signed by itself" if body["by"] == body.get("key") else f"signed by {_signer(body['by'], keys)}"
        )
    elif body["kind"] in ("account", "attempts", "terms", "retired", "voided"):
        yield "not signed"


def _subject(ledger: Ledger, body: Mapping[str, Any], keys: Mapping[str, Key]) -> Iterator[str]:
    kind = body["kind"]
    if "release_id" in body:
        part = f", part {body['part']}" if "part" in body else ""
        yield body["release_id"]
        yield f"{parse_amount(body['amount'])} for {body['product']}, {body['period']}{part}"
        if kind == "withheld":
            yield f"draft {body['draft']}"
            yield f"criterion: {body['criterion']}"
            yield from _consulted(body)
        if kind in ("reserved", "remade") and body["revises"]:
            earlier = body.get("measurements_of")
            made = "" if earlier is None else f", made from the measurements of release {earlier}"
            yield f"revises what was published: {body['revises']}{made}"
    elif "spec_digest" in body:
        yield f"spec {body['spec_digest']}"
        if kind == "approval":
            yield (
                "for any amount" if body["amount"] is None else f"for at most {parse_amount(body['amount'])}"
            )
    elif kind in ("attempts", "withdrawn"):
        yield f"release {body['release']}" + (
            f", {body['allowed']} attempts in all" if "allowed" in body else ""
        )
        yield from _about(ledger.charge(body["release"]))
    elif "draft" in body:
        yield f"release {body['release']}, draft {body['draft']}"
        yield from _about(ledger.charge(body["release"]))
        yield f"criteria: {', '.join(body['criteria'])}"
        yield from _consulted(body)
    elif kind == "evidence":
        yield f"was an input the one of release {body['of_release']}?"
    elif kind == "account":
        yield f"{Terms.of(body).protects}, {body['relation']}, {body['definition']}"
        yield from _agreed(body)
    elif kind == "terms":
        yield from _changes(ledger, body)
    elif "population" in body:
        yield f"populations {body['population']} and {body['other']}"
    elif "key" in body:
        officers = body["key"] in keys
        key_for_releases = f"{body.get('agency', 'the agency')}, key {body['key']} for releases"
        yield _signer(body["key"], keys) if officers else key_for_releases


def _about(charge: Charge | None) -> Iterator[str]:
    """Say which product and period a release is of."""
    if charge is not None:
        yield f"{charge.product}, {charge.period}"


def _consulted(body: Mapping[str, Any]) -> Iterator[str]:
    """Say who is still to accept a draft, and whether an officer looked at what is confidential.

    Such a decision is outside the guarantee.
    """
    if left := body.get("officers_left"):
        yield f"{left} more {'officer' if left == 1 else 'officers'} must accept it"
    if body.get("consulted"):
        yield "confidential figures were consulted: outside the guarantee"


def _signer(key: str, keys: Mapping[str, Key]) -> str:
    known = keys.get(key)
    return f"{known.officer}, key {key}" if known else f"key {key}, which was never enrolled"


def _agreed(body: Mapping[str, Any]) -> Iterator[str]:
    """Say on what terms an account was opened."""
    for term, name in _TERMS.items():
        value = body.get(term)
        if value not in (None, False, {}):
            yield f"{name}: {_value(term, value)}"


def _changes(ledger: Ledger, body: Mapping[str, Any]) -> Iterator[str]:
    """Say which terms changed: what they were, and what they are now."""
    known = ledger.terms_before(body["account"], body["seq"])
    before = _ONE_OFFICER | ({} if known is None else known.fields())
    after = _ONE_OFFICER | Terms.of(body).fields()
    if any(before.get(term) != after[term] for term in _OPENED_ON):  # it was retired, and opens again
        yield f"{Terms.of(body).protects}, {body['relation']}, {body['definition']}"
    for term, name in _TERMS.items():
        if before.get(term) != after[term]:
            yield f"{name}: {_value(term, before.get(term))} → {_value(term, after[term])}"


def _value(term: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not value:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return str(parse_amount(str(value))) if term in _AMOUNTS else str(value)
