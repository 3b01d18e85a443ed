"""A check: a function that looks at one thing about a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tasks.verify.subject import Subject


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
        Returns a remark, often an empty one; raises ``Failed`` or ``CouldNot``. Whatever else it raises, of a
        folder that nobody vouches for, is a failure as well.
    """

    group: str
    what: str
    look: Callable[[Subject], str | None]
