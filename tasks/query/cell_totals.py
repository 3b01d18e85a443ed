"""The sum of chosen cells of a published table, as the query that asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.attributes import AnyAttribute, TreeAttribute, listed, near
from tabularium.mechanisms.queries.grammar import Member, Query, Word, plain
from tabularium.tasks.query.query_release import ReleasedTable

Codes = Mapping[str, "str | int | Iterable[str | int]"]
_PLAIN = re.compile(r"[^\s()=<>!,'\"≤≥≠]+")
_WORDS = frozenset({"and", "between", "by", "from", "group", "in", "is", "not", "or", "up", "where"})


def total_query(table: ReleasedTable, codes: Codes) -> tuple[Query, str]:
    """Return the query for the sum of the cells that have these codes, and how it is written.

    Parameters
    ----------
    codes
        Column -> its codes; all of a column that is left out.

    Raises
    ------
    InputError
        Naming a column that the table does not cross, or the column of a code that is unknown, with those
        that are near.
    """
    attributes = {each.name: each for each in table.axes.attributes}
    tests, written = [], []
    for column, given in codes.items():
        if column not in attributes:
            raise InputError(
                f"is no column that table {table.name} crosses",
                where=f"column {column}",
                hint=f"known are {listed(list(attributes), 16)}",
            )
        if isinstance(given, Iterable) and not isinstance(given, str):
            chosen = [str(each) for each in given]
        else:
            chosen = [str(given)]
        _see_that_they_are_known(attributes[column], chosen)
        tests.append(Member(Word(column, 1), tuple(Word(code, 1) for code in chosen)))
        written.append(f"{_quoted(column)} in ({', '.join(map(_quoted, chosen))})")
    where = f" where {' and '.join(written)}" if written else ""
    query = Query("count", None, (), tuple(tests), table=Word(table.name, 1))
    return query, f"count from {_quoted(table.name)}{where}"


def _see_that_they_are_known(attribute: AnyAttribute, chosen: Sequence[str]) -> None:
    where = f"column {attribute.name}"
    if not chosen:
        raise InputError(
            "no code is named", where=where, hint="name one or more, or leave the column out for all"
        )
    known = set(attribute.codes)
    for code in chosen:
        if code in known:
            continue
        if isinstance(attribute, TreeAttribute) and code in attribute.hidden:
            raise InputError(
                f"{plain(code)} lies below what this table is published for",
                where=where,
                hint=f"its deepest level is {plain(attribute.levels[-1])}",
            )
        close = near(code, attribute.codes, attribute.labels)
        hint = f"did you mean {listed(close)}?" if close else f"known are {listed(attribute.codes)}"
        raise InputError(f"there is no code {plain(code)}", where=where, hint=hint)


def _quoted(text: str) -> str:
    """Return a name or code as a query writes it."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return f'"{text}"' if "'" in text else f"'{text}'"
