"""The answer to a question that was put to a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabularium._shown import Shown
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium.mechanisms.queries import Answer as Asked
    from tabularium.mechanisms.queries import Row


class Answer(Shown):
    """Numbers with their intervals, one for each group that was asked for.

    Attributes
    ----------
    table
        The table that it was answered from.
    is_rehearsal
        Whether the records were made up: see :func:`tabularium.rehearse`.
    """

    def __init__(self, query: str, answer: Asked, counted: str, *, is_rehearsal: bool = False) -> None:
        self.query, self.confidence, self.table = query, answer.level, answer.table
        self.is_rehearsal = is_rehearsal
        self._answer, self._counted = answer, counted

    @property
    def explanation(self) -> str:
        """How the intervals were made and which records were counted, in sentences."""
        from tabularium.mechanisms.queries import describe

        return f"{describe(self._answer)} Counted: {self._counted}."

    @property
    def value(self) -> float | None:
        """The number, where no groups were asked for; None where too little is known."""
        return self._only.value

    @property
    def low(self) -> float | None:
        """Where its interval begins; None where it is open."""
        return self._only.low

    @property
    def high(self) -> float | None:
        """Where its interval ends; None where it is open."""
        return self._only.high

    @property
    def standard_error(self) -> float | None:
        """The standard error of the number, where its distribution is known; of a quantile there is none."""
        return self._only.standard_error

    @property
    def advice(self) -> str:
        """Which of ``value`` and ``published`` to quote, in a sentence; empty where there is one of them.

        Nothing of a rehearsal is to be quoted.
        """
        return "" if self.is_rehearsal else advice(self._answer)

    @property
    def published(self) -> float | None:
        """What the published cells say themselves, where they say it; the interval is not about it."""
        return self._only.published

    @property
    def _only(self) -> Row:
        rows = self._answer.rows
        if len(rows) != 1:
            raise InputError(
                f"the answer has {len(rows)} rows", where=self.query, hint="read them with to_pandas()"
            )
        return rows[0]

    def to_pandas(self) -> DataFrame:
        """Return a row for each group: codes, labels, ``value``, ``standard_error``, ``low`` and ``high``.

        ``published`` is what the published tables say themselves, where they say it. Codes and labels are
        categorical, in the order of the table.
        """
        import pandas as pd

        from tabularium.tasks.publish.frames import all_in_digits

        rows = []
        for row in self._answer.rows:
            names = zip(self._answer.headings, row.group, strict=True)
            groups = {
                key: text
                for name, (code, label) in names
                for key, text in ((name, code), (f"{name}_label", label))
            }
            numbers = {
                "value": row.value,
                "standard_error": row.standard_error,
                "low": row.low,
                "high": row.high,
                "published": row.published,
            }
            rows.append(groups | all_in_digits(numbers))
        frame = pd.DataFrame(rows)
        for name in frame.columns[: 2 * len(self._answer.headings)]:
            frame[name] = pd.Categorical(frame[name], categories=list(dict.fromkeys(frame[name])))
        return frame

    def _headline(self) -> str:
        of = "REHEARSAL of made-up records: " if self.is_rehearsal else ""
        return f"{of}{self.query}: from table {self.table}, {100 * self.confidence:g} % intervals"

    def _rows(self) -> DataFrame:
        return self.to_pandas()

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{self.advice}".rstrip()


def advice(answer: Asked) -> str:
    """Say in a sentence which number to quote: the answer, or what published tables say themselves."""
    if all(row.published is None or row.published == row.value for row in answer.rows):
        return ""
    return (
        "Quote the answer with its interval. Use the published number only in a text that must agree with "
        "the tables: the interval is not about it."
    )
