"""What is said of one step that several groups of tables went through, each by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def in_one(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the notes on one step of several universes as one: the worst of each kind, and all names."""
    notes = [each for each in notes if each]
    if len(notes) <= 1:
        return dict(notes[0]) if notes else {}
    made: dict[str, Any] = {}
    for key in dict.fromkeys(key for note in notes for key in note):
        found = [note[key] for note in notes if key in note]
        if isinstance(found[0], list):
            made[key] = [each for part in found for each in part]
        elif isinstance(found[0], dict):
            made[key] = {
                kind: sum(part.get(kind, 0) for part in found)
                for kind in sorted({k for part in found for k in part})
            }
        elif key == "families_at_once":
            made[key] = sum(found)
        elif key == "variances":
            made[key] = "estimated" if "estimated" in found else "exact"
        elif isinstance(found[0], str):
            made[key] = ", ".join(dict.fromkeys(found))
        else:
            made[key] = max(found)
    return made
