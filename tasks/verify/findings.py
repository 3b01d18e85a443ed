"""What a check comes to: it was made, it could not be made, or it found something wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["checked", "unchecked", "failed"]


class Failed(Exception):
    """Something is not what the release says; the text is one line."""


class CouldNot(Exception):
    """A check could not be made; the text says what would be needed for it."""


@dataclass(frozen=True)
class Check:
    """One thing that is looked at.

    Attributes
    ----------
    group
        Under which heading it is told.
    what
        What is checked, as a statement that holds or does not.
    look
        Takes the release (:mod:`tabularium.tasks.verify.subject`) and returns a remark, often an empty one;
        raises ``Failed`` or ``CouldNot``. Whatever else it raises, of a folder that nobody vouches for, is a
        failure as well.
    """

    group: str
    what: str
    look: Callable[[Any], str | None]


@dataclass(frozen=True)
class Finding:
    """What a check came to.

    Attributes
    ----------
    said
        A remark; what would be needed; or what is wrong.
    not_installed
        Whether it was not made for want of a library.
    """

    group: str
    what: str
    outcome: Outcome
    said: str = ""
    not_installed: bool = False

    def as_dict(self) -> dict[str, str]:
        """Return JSON-able values."""
        return {"group": self.group, "what": self.what, "outcome": self.outcome, "said": self.said}
