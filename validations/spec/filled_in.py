"""Places of a spec that are still to be filled in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tabularium.validations.spec.problems import Path
from tabularium.validations.spec.yaml_lines import Document

FILL_IN = "FILL IN"
"""Stands in a spec where something is to be decided."""


def see_filled_in(document: Document) -> bool:
    """Note every line of a spec with something to be filled in; return whether there is none."""
    lines: set[int | None] = set()
    for path in _places(document.data, ()):
        line = document.line(path)
        if line not in lines:
            document.add(path, "is still to be filled in", "the comments in the file say what may stand here")
        lines.add(line)
    return not lines


def _places(value: Any, path: Path) -> Iterator[Path]:
    if value == FILL_IN:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _places(inner, (*path, place))
