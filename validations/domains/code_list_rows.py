"""The rows of a code list as they are read, whatever the kind of file, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tabularium.validations.spec.problems import Problem

SHOWN = 10  # problems of one kind that are listed for one file


@dataclass
class Rows:
    """Codes, labels and parents, one text each per row; a root has an empty parent.

    Attributes
    ----------
    file
        Name of the file, for messages.
    languages
        Of each label, where it is not that of the release, otherwise empty; none where all labels are in it.
    lines
        Returns the line where each row is; called when there is something to say. None where the file has
        no lines that tell anything.
    """

    file: str
    codes: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    lines: Callable[[], Iterable[int]] | None = None
    problems: list[Problem] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def line(self, row: int) -> int | None:
        """Return the line of a row."""
        if self.lines is not None and not self._lines:
            self._lines = list(self.lines())
        return self._lines[row] if self._lines else None

    def add(self, line: int | None, column: str, what: str, hint: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(line, column, what, hint, self.file))

    def add_each(self, rows: Iterable[int], column: str, say: Callable[[int], tuple[str, str]]) -> None:
        """Note a problem for each of ``rows``, up to a limit."""
        for count, row in enumerate(rows):
            if count == SHOWN:
                what = "the same in more rows from here on"
                self.add(self.line(row), column, what, "look at the whole column")
                return
            self.add(self.line(row), column, *say(row))
