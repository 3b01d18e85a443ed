"""Lists of the columns of samples, made from what the samples say of them."""

from __future__ import annotations

from collections.abc import Callable

from tabularium.lab.sample.columns import COLUMNS
from tests.docs.pages import item


def columns(name: str) -> str:
    """Return the list of the columns of a file of a sample."""
    return "\n".join(item(f"`{column}`: {meaning}") for column, meaning in COLUMNS[name].items())


MAKERS: dict[str, Callable[[str], str]] = {"sample-columns": columns}
