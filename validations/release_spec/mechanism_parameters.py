"""The parameters of a mechanism as a spec writes them, read from its class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabularium.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class ParameterOf:
    """One parameter of a mechanism.

    Attributes
    ----------
    default
        As it would be written in YAML; "" where there is none, or it follows from the table.
    meaning
        From the docstring of the class; "" when it says nothing.
    """

    name: str
    required: bool
    default: str
    meaning: str


def parameters_of(kind: type[Mechanism]) -> list[ParameterOf]:
    """Return the parameters of a mechanism, in the order of its class."""
    meanings = _meanings(inspect.getdoc(kind) or "")
    found = []
    for field in fields(kind):  # type: ignore[arg-type]
        required = field.default is MISSING and field.default_factory is MISSING
        default = "" if required or field.default is MISSING else _yaml(field.default)
        found.append(ParameterOf(field.name, required, default, meanings.get(field.name, "")))
    return found


def _yaml(value: Any) -> str:
    """Write a default as it would stand in a spec."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    exact = isinstance(value, (Fraction, float)) or (isinstance(value, str) and "/" in value)
    return f'"{value}"' if exact else str(value)


def _meanings(text: str) -> dict[str, str]:
    """Read the section "Parameters" of a NumPy docstring: name -> meaning; several names may share one."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    meanings: dict[str, str] = {}
    for head, meaning in _entries(section[1] if section else ""):
        for name in head.split(" : ")[0].split(","):
            meanings[name.strip()] = meaning
    return meanings


def _entries(section: str) -> Iterator[tuple[str, str]]:
    for entry in re.finditer(r"^(\S[^\n]*)\n((?:[ \t]+[^\n]*\n?|\n)*)", section, re.MULTILINE):
        yield entry[1], " ".join(entry[2].split())
