"""Lists of the columns of samples, made from what the samples say of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from tabularium.lab.sample.columns import COLUMNS
from tests.docs.pages import item


def columns(name: str) -> str:
    """Return the list of the columns of a file of a sample; neighbours with one meaning share an item."""
    same = groupby(COLUMNS[name].items(), key=lambda each: each[1])
    return "\n".join(
        item(f"{', '.join(f'`{column}`' for column, _ in some)}: {means}") for means, some in same
    )


MAKERS: dict[str, Callable[[str], str]] = {"sample-columns": columns}
