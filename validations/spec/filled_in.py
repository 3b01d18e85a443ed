"""What a first spec leaves to a person, and that it was filled in."""

from __future__ import annotations

from typing import Any

from tabularium.validations.spec.problems import Path
from tabularium.validations.spec.yaml_lines import Document

FILL_IN = "FILL IN"
"""Stands in a spec where something is to be decided."""


def see_filled_in(document: Document) -> bool:
    """Note every place of a spec that is still to be filled in; return whether there is none."""
    before = len(document.problems)
    _look(document, document.data, ())
    return len(document.problems) == before


def _look(document: Document, value: Any, path: Path) -> None:
    if value == FILL_IN:
        document.add(path, "is still to be filled in", "the comment beside it says how")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _look(document, inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            _look(document, inner, (*path, place))
