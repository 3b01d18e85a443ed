"""The part of a page that lists the mechanisms and their parameters, made from the registry.

``python -m tabularium.validations.release_spec.mechanism_listing docs/reference/spec/mechanisms.md`` writes
it between the two marks of that page.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabularium.mechanisms.mechanism import Mechanism

BEGIN = "<!-- from the registry, by validations/release_spec/mechanism_listing.py -->\n"
END = "<!-- end of what comes from the registry -->\n"


@dataclass(frozen=True)
class ParameterOf:
    """One parameter of a mechanism.

    Attributes
    ----------
    default
        As it would be written in YAML; "" when the parameter must be given.
    meaning
        From the docstring of the class; "" when it says nothing.
    """

    name: str
    required: bool
    default: str
    meaning: str


def parameters_of(kind: type[Mechanism]) -> list[ParameterOf]:
    """Return the parameters of a mechanism, in the order of its class."""
    texts = _descriptions(inspect.getdoc(kind) or "")
    result = []
    for field in fields(kind):  # type: ignore[arg-type]
        required = field.default is MISSING and field.default_factory is MISSING
        default = "" if required or field.default is MISSING else _yaml(field.default)
        result.append(ParameterOf(field.name, required, default, texts.get(field.name, "")))
    return result


def page() -> str:
    """Return the generated part of the page, marks included."""
    from tabularium.mechanisms import MECHANISMS

    names: dict[type[Mechanism], list[str]] = {}
    for name in MECHANISMS:
        names.setdefault(MECHANISMS[name], []).append(name)
    lines = ["| mechanism | definitions | what it does |", "|---|---|---|"]
    for kind, known in names.items():
        called = " or ".join(f"`{name}`" for name in known)
        definitions = ", ".join(f"`{definition}`" for definition in kind.definitions)
        lines.append(f"| {called} | {definitions} | {_cell(_first(kind))} |")
    for kind, known in names.items():
        if parameters := parameters_of(kind):
            lines += ["", f"Parameters of `{known[0]}`:", ""]
            lines += ["| parameter | default | meaning |", "|---|---|---|"]
            lines += [
                f"| `{p.name}` | {f'`{p.default}`' if p.default else ''} | {_cell(p.meaning)} |"
                for p in parameters
            ]
    return BEGIN + "\n" + "\n".join(lines) + "\n\n" + END


def replaced(text: str) -> str:
    """Return a page with its generated part renewed.

    Raises
    ------
    ValueError
        If the marks are not there.
    """
    start, end = text.index(BEGIN), text.index(END) + len(END)
    return text[:start] + page() + text[end:]


def _yaml(value: Any) -> str:
    """Write a default as it would stand in a spec."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, (Fraction, float)) else str(value)


def _first(kind: type[Mechanism]) -> str:
    """Return the first sentence of a class's docstring, unless a dataclass made it up."""
    text = inspect.getdoc(kind) or ""
    first = text.split("\n\n")[0].replace("\n", " ")
    return "" if first.startswith(f"{kind.__name__}(") else first


def _descriptions(text: str) -> dict[str, str]:
    """Read the section "Parameters" of a NumPy docstring: name -> meaning; several names may share one."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    texts: dict[str, str] = {}
    for head, meaning in _entries(section[1] if section else ""):
        for name in head.split(" : ")[0].split(","):
            texts[name.strip()] = meaning
    return texts


def _entries(section: str) -> Iterator[tuple[str, str]]:
    for entry in re.finditer(r"^(\S[^\n]*)\n((?:[ \t]+[^\n]*\n?|\n)*)", section, re.MULTILINE):
        yield entry[1], " ".join(entry[2].split())


def _cell(text: str) -> str:
    """Make a docstring's words fit for a cell of a Markdown table."""
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(replaced(target.read_text(encoding="utf-8")), encoding="utf-8")
