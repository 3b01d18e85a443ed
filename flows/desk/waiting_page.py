"""What waits for a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from tabularium.flows.desk.asked import Asked, Page
from tabularium.flows.desk.desk import Desk

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
