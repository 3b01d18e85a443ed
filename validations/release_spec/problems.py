"""Problems of a spec: every mistake at once, each with its line, its field and a hint.

A spec and its code lists are public files, so a problem may quote them, unlike errors about data. What is
quoted is cut short and stripped of control characters, because it ends up on terminals and in logs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tabularium.mechanisms.errors import SpecError

Path = tuple[str | int, ...]  # where a value stands in the spec: ("tables", 0, "share")

_SUGGEST_FROM = 2_000  # comparing with more names than this would take seconds


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes
    ----------
    line
        1-based line in ``file``; None when the problem has no place in it (an option, a missing file).
    field
        The field as a reader would write it: ``tables[0].share``.
    what, hint
        What is wrong, and what to do about it.
    file
        Name of the file that holds the mistake: the spec, or one of its code lists.
    """

    line: int | None
    field: str
    what: str
    hint: str
    file: str = ""

    @property
    def where(self) -> str:
        """The place, as ``spec.yaml:12: tables[0].share``, as far as it is known."""
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (location, self.field) if part)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return " ".join((f"{text}; {self.hint}" if self.hint else text).split())

    def as_json(self) -> dict[str, Any]:
        """Return the problem as plain values."""
        return asdict(self)


class SpecProblems(SpecError):
    """The release spec is wrong; ``problems`` holds every mistake that was found.

    Its text is one line: the first problem, and how many more there are.
    """

    problems: tuple[Problem, ...]

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first, more = self.problems[0], len(self.problems) - 1
        hint = f"{first.hint} (and {more} more: run `tabularium check`)" if more else first.hint
        super().__init__(first.what, where=first.where, hint=hint)


def format_problems(problems: Iterable[Problem]) -> str:
    """Return one line per problem: ``spec.yaml:12: tables[0].share: what is wrong; a hint``."""
    return "\n".join(str(problem) for problem in problems)


def ordered(problems: Iterable[Problem], spec_file: str) -> list[Problem]:
    """Sort problems as a reader meets them: the spec from top to bottom, then its code lists."""
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda p: (p.file != spec_file, p.file, p.line or 0))


def field_name(path: Path) -> str:
    """Write a path as a reader would: ``tables[0].share``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shown(part)}" if text else shown(part)
    return text


def shown(text: object, limit: int = 40) -> str:
    """Return ``text`` fit for one line: control characters replaced, cut at ``limit`` characters."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)[: limit + 1])
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def quoted(text: object) -> str:
    """Return ``text`` in backquotes, fit for one line."""
    return f"`{shown(text)}`"


def listed(names: Iterable[object], limit: int = 6) -> str:
    """Return ``a, b and c``, cut after ``limit`` names."""
    parts = [quoted(name) for name in names]
    if len(parts) > limit:
        return f"{', '.join(parts[:limit])}, …"
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else "none"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` was probably meant to be, or None."""
    names = list(known)
    if len(names) > _SUGGEST_FROM:
        names = [k for k in names if abs(len(k) - len(name)) <= 1 and k[:1] == name[:1]]
        if len(names) > _SUGGEST_FROM:
            return None
    folded = {k.casefold(): k for k in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def choose(name: str, known: Iterable[str], kind: str) -> str:
    """Return the hint for an unknown name: the nearest one, or the whole choice when it is short."""
    names = list(known)
    close = nearest(name, names)
    if close is not None:
        return f"did you mean {quoted(close)}?"
    return f"{kind}: {listed(names, 12)}" if names else f"there is no {kind}"
