"""Display of results in a terminal and in a notebook: a sentence, and rows below it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_ROWS = 12


class Shown(ABC):
    """A result that prints itself."""

    @abstractmethod
    def _headline(self) -> str:
        """Return the sentence."""

    @abstractmethod
    def _rows(self) -> DataFrame:
        """Return the rows below it; of many the first and the last are shown."""

    def beginning(self, rows: int = 5) -> str:
        """Return the sentence with only the first rows."""
        return f"{self._headline()}\n{self._rows().head(rows).to_string(index=False)}"

    def __repr__(self) -> str:
        return f"{self._headline()}\n{self._rows().to_string(max_rows=_MOST_ROWS, index=False)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._headline())}</p>{self._rows().to_html(max_rows=_MOST_ROWS, index=False)}"
