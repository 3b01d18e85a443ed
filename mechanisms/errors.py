"""The one tree of errors.

::

    TabulariumError
    ├── InputError          a source, file or option is not what it should be
    │   └── InputMissing    the source is not there, or not yet: a scheduled run waits for it
    ├── SpecError           the release spec is wrong; carries every problem found
    ├── DataRefused         what the data are stops the run; shown only on the local terminal
    │   ├── InputRefused    what stands in the source is not what the spec says (an InputError too)
    │   └── RuleFailed      a validation rule of severity "stop" failed
    ├── RunRefused          all that others hear of a DataRefused
    ├── MechanismError      a mechanism was built or called with impossible values
    │   └── BudgetExceeded  a channel was asked for more than it holds; nothing was drawn
    ├── LedgerError         the ledger refuses
    ├── PublicationError    a release could not be written or is not what it says
    ├── NotInstalled        a library is missing that an extra of the distribution installs
    └── InternalError       anything unforeseen, stripped of its text

A message is one line: what is wrong, where, how to correct it. It never holds a data value, a count of
records, or text that came from a library, because exceptions end up in logs and in Prefect's database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class TabulariumError(Exception):
    """Base of every error a user may see.

    Parameters
    ----------
    what
        What is wrong, without any data value.
    where
        The field, file or stage it concerns.
    hint
        What to do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(self.line())

    def line(self) -> str:
        """Return the whole message as one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return " ".join((f"{text}; {self.hint}" if self.hint else text).split())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.what, self.where, self.hint, self.__dict__))


def _rebuild(kind: type[TabulariumError], what: str, where: str, hint: str, state: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    TabulariumError.__init__(error, what, where=where, hint=hint)
    error.__dict__.update(state)
    return error


class InputError(TabulariumError):
    """A source, file or option is not what it should be."""


class InputMissing(InputError):
    """The source is not there, or not yet: a scheduled run waits for it."""


class SpecError(TabulariumError):
    """The release spec is wrong."""


@dataclass(frozen=True)
class Finding:
    """One reason why data were refused: what is shown at home, and never a value of the data.

    Attributes
    ----------
    rule
        Name of the rule that did not hold; empty if it was none.
    column, kind
        Whose values broke it, and how: ``null``, ``not in the code list``, ``not a whole number``,
        ``out of range``, ``too few``, …
    file, line
        Where an irregular line of text stands; 1 is the header. Empty and None if that is not it.
    """

    rule: str = ""
    column: str = ""
    kind: str = ""
    file: str = ""
    line: int | None = None


class DataRefused(TabulariumError):
    """What the data are stops the run.

    Which rule, column or line it was is known from the data and paid for by no budget: the message is for
    the local terminal and the home. Whatever else hears of it (Prefect, events, mails) hears ``in_public``.

    ``findings``: The reasons one by one, for ``tabularium diagnose``.

    ``run``, ``again``: Name of the run, and the command that shows its diagnosis, once that is written down;
    empty before.
    """

    def __init__(
        self, what: str, *, where: str = "", hint: str = "", findings: Sequence[Finding] = ()
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.findings = tuple(findings)
        self.run = self.again = ""

    def in_public(self) -> RunRefused:
        """Return the error that others may see: it says that the data were refused, and nothing of why."""
        hint = f"ask where it ran: tabularium diagnose {self.run}" if self.run else "run it at a terminal"
        public = RunRefused("refused: data rules", hint=hint)
        public.run = self.run
        return public


class InputRefused(DataRefused, InputError):
    """What stands in the source is not what the spec says: its header, its text, its types."""


class RuleFailed(DataRefused):
    """A validation rule of severity ``stop`` failed."""


class RunRefused(TabulariumError):
    """A run was refused for what its data are: all that leaves the home of it.

    ``run``: Name of the run, by which its diagnosis is found at home; empty if none could be written.
    """

    run = ""


class MechanismError(TabulariumError):
    """A mechanism was built or called with impossible values."""


class BudgetExceeded(MechanismError):
    """A channel was asked for more than it holds; nothing was drawn."""


class LedgerError(TabulariumError):
    """The ledger refuses."""


class PublicationError(TabulariumError):
    """A release could not be written, or is not what it says."""


class PlaceClosed(PublicationError):
    """Where releases go is full, gone or may not be written; nothing is lost until somebody corrects that."""


class NotInstalled(TabulariumError):
    """A library is missing that an extra of the distribution installs."""

    exit_code = 3


class InternalError(TabulariumError):
    """Something unforeseen; its own text is withheld because it may quote data."""
