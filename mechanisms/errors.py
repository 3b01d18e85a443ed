"""The one tree of errors.

::

    TabulariumError
    ├── InputError          a source, file or option is not what it should be
    ├── SpecError           the release spec is wrong; carries every problem found
    ├── DataRefused         what the data are stops the run; told on the local terminal alone
    │   └── RuleFailed      a validation rule of severity "stop" failed
    ├── MechanismError      a mechanism was built or called with impossible values
    │   └── BudgetExceeded  a channel was asked for more than it holds; nothing was drawn
    ├── LedgerError         the ledger refuses
    ├── PublicationError    a release could not be written or is not what it says
    └── InternalError       anything unforeseen, stripped of its text

A message is one line: what is wrong, where, how to mend it. It never holds a data value, a count of
records, or text that came from a library, because exceptions end up in logs and in Prefect's database.
"""

from __future__ import annotations

from typing import Any


class TabulariumError(Exception):
    """Base of every error a user may see.

    Parameters
    ----------
    what
        What is wrong, without any data value.
    where
        The field, file or stage it concerns.
    mend
        What to do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        self.what, self.where, self.mend = what, where, mend
        super().__init__(self.line())

    def line(self) -> str:
        """Return the whole message as one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return " ".join((f"{text}; {self.mend}" if self.mend else text).split())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.what, self.where, self.mend, self.__dict__))


def _rebuild(kind: type[TabulariumError], what: str, where: str, mend: str, state: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    TabulariumError.__init__(error, what, where=where, mend=mend)
    error.__dict__.update(state)
    return error


class InputError(TabulariumError):
    """A source, file or option is not what it should be."""


class SpecError(TabulariumError):
    """The release spec is wrong."""


class DataRefused(TabulariumError):
    """What the data are stops the run.

    Which rule, column or line it was is known from the data and paid for by no budget: the message is for
    the local terminal and the home. Whatever else hears of it (Prefect, events, mails) hears ``in_public``.
    """

    def in_public(self) -> TabulariumError:
        """Return the error that others may see: it says that the data were refused, and nothing of why."""
        return TabulariumError("refused: data rules", mend="ask where it ran: tabularium diagnose")


class RuleFailed(DataRefused):
    """A validation rule of severity ``stop`` failed."""


class MechanismError(TabulariumError):
    """A mechanism was built or called with impossible values."""


class BudgetExceeded(MechanismError):
    """A channel was asked for more than it holds; nothing was drawn."""


class LedgerError(TabulariumError):
    """The ledger refuses."""


class PublicationError(TabulariumError):
    """A release could not be written, or is not what it says."""


class InternalError(TabulariumError):
    """Something unforeseen; its own text is withheld because it may quote data."""
