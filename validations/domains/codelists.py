"""Hierarchies from code lists: a CSV with code, label and parent, read and checked without opening data.

A code list is public. It may have a million codes, so everything per code is one dictionary look-up or
one NumPy pass, and finding the order takes one pass per level.
"""

from __future__ import annotations

import csv
import hashlib
import io
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, repeat
from operator import ne
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validations.spec.problems import Problem, listed, nearest, quoted, shown
from validations.spec.public_text import MIB, read_text

SIZE_LIMIT = 256 * MIB
CODE_LIMIT = 5_000_000
LEVEL_LIMIT = 64
CODE_LENGTH = 200  # characters
_BLOCK = 512  # rows that are taken up at a time; few, so that the garbage collector does not meet them
_SHOWN = 10  # problems of one kind that are listed for one file
_COLUMNS = ("code", "label", "parent")

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CodeList:
    """A tree of codes in breadth-first order: a parent's children together, as the file orders them.

    Attributes
    ----------
    codes, labels
        One text per node.
    parents
        (nodes,) index of the parent, -1 for a root.
    depth
        (nodes,) 0 for a root.
    digest
        SHA-256 of the list as it is published (:func:`published_text`), hexadecimal.
    """

    codes: tuple[str, ...]
    labels: tuple[str, ...]
    parents: Indices
    depth: Indices
    digest: str

    @property
    def levels(self) -> int:
        """Number of levels."""
        return int(self.depth[-1]) + 1


@dataclass
class _Rows:
    """The rows of the file, and what is wrong with them."""

    file: str
    codes: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    text: str = ""
    torn: bool = False  # there are rows with too many or too few values, or blank lines
    problems: list[Problem] = field(default_factory=list)

    @cached_property
    def lines(self) -> array[int]:
        """The line where each row ends; found when there is something to say, by reading once more."""
        return self._places[0]

    @cached_property
    def torn_lines(self) -> array[int]:
        """The lines of the rows that do not have as many values as the header."""
        return self._places[1]

    @cached_property
    def _places(self) -> tuple[array[int], array[int]]:
        reader = csv.reader(io.StringIO(self.text, newline=""), strict=True)
        width = len(next(reader))
        whole, torn = array("q"), array("q")
        for row in reader:
            if len(row) == width:
                whole.append(reader.line_num)
            elif row:
                torn.append(reader.line_num)
        return whole, torn

    def add(self, line: int | None, column: str, what: str, mend: str) -> None:
        self.problems.append(Problem(line, column, what, mend, self.file))

    def add_each(self, rows: Iterable[int], column: str, say: Callable[[int], tuple[str, str]]) -> None:
        """Note a problem for each of ``rows``, up to a limit."""
        for count, row in enumerate(rows):
            if count == _SHOWN:
                self.add(
                    self.lines[row], column, "the same in more rows from here on", "look at the whole column"
                )
                return
            self.add(self.lines[row], column, *say(row))


def read_code_list(path: Path) -> tuple[CodeList | None, list[Problem]]:
    """Read a code list; the list is None when anything is wrong with it.

    Parameters
    ----------
    path
        A UTF-8 CSV (a byte order mark is allowed) with a header that has code, label and parent; other
        columns are ignored. A root has an empty parent. Several roots, and leaves at different depths,
        are allowed. An empty label is the code itself.

    Returns
    -------
    tuple
        The tree, and every problem found, each with its line in the file.
    """
    rows = _Rows(path.name)
    found = read_text(
        path,
        SIZE_LIMIT,
        lambda line, what, mend: rows.add(line, "", what, mend),
        find="check the name, which is relative to the spec file",
        shorten="keep code, label and parent only",
    )
    if found is None:
        return None, rows.problems
    rows.text = found[0]
    if not _parse(rows):
        return None, rows.problems
    _check_codes(rows)
    parents = _parent_rows(rows)
    _check_cycles(parents, rows)
    if rows.problems:
        return None, rows.problems
    order, depth = breadth_first(parents)
    if len(order) < len(parents):
        rows.add(
            None, "parent", f"the tree has more than {LEVEL_LIMIT} levels", "shorten the chains of parents"
        )
        return None, rows.problems
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1  # what the parent of a root, -1, points at
    return (
        CodeList(
            tuple(rows.codes[i] for i in order.tolist()),
            tuple(rows.labels[i] or rows.codes[i] for i in order.tolist()),
            place[parents[order]],
            depth,
            hashlib.sha256(_canonical(rows)).hexdigest(),
        ),
        [],
    )


def published_text(path: Path) -> bytes:
    """Return a code list as it is published: code, label and parent alone, in the order of the file.

    A list may have further columns, which are the agency's own. Empty where the list cannot be read any more.
    """
    rows = _Rows(path.name)
    found = read_text(path, SIZE_LIMIT, lambda *_: None, find="", shorten="")
    rows.text = "" if found is None else found[0]
    return _canonical(rows) if _parse(rows) else b""


def _canonical(rows: _Rows) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(zip(rows.codes, rows.labels, rows.parents, strict=True))
    return text.getvalue().encode()


def _parse(rows: _Rows) -> bool:
    """Split the text into rows; return whether it has the columns and at least one code."""
    if "\0" in rows.text:
        line = rows.text.count("\n", 0, rows.text.index("\0")) + 1
        rows.add(line, "", "there is a null character here", "save the code list as CSV UTF-8")
        return False
    reader = csv.reader(io.StringIO(rows.text, newline=""), strict=True)
    try:
        header = next(reader, [])
        places = _header(header, rows)
        if places is None:
            return False
        _body(reader, len(header), places, rows)
    except csv.Error:
        rows.add(reader.line_num, "", "this is not CSV", "check the quotes at this line and before it")
        return False
    if len(rows.codes) > CODE_LIMIT:
        rows.add(None, "code", "the code list has more than 5 000 000 codes", "split it, or leave levels out")
        return False
    if not rows.codes and not rows.problems:
        rows.add(None, "", "the code list has no codes", "write one row per code")
    return bool(rows.codes)


def _header(header: Sequence[str], rows: _Rows) -> tuple[int, ...] | None:
    names = [name.strip().lower() for name in header]
    mend = "begin with the line code,label,parent"
    missing = [name for name in _COLUMNS if name not in names]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        rows.add(1, "", "the values are not separated by commas", "save the code list with commas")
    elif missing:
        rows.add(1, "", f"the header lacks {listed(missing)}", mend)
    elif any(names.count(name) > 1 for name in _COLUMNS):
        rows.add(1, "", "the header names a column twice", mend)
    else:
        return tuple(names.index(name) for name in _COLUMNS)
    return None


def _body(reader: Iterator[list[str]], width: int, places: tuple[int, ...], rows: _Rows) -> None:
    code, label, parent = places
    while len(rows.codes) <= CODE_LIMIT and (block := list(islice(reader, _BLOCK))):
        if set(map(len, block)) != {width}:
            rows.torn = True
            block = [row for row in block if len(row) == width]
        rows.codes += [row[code] for row in block]
        rows.labels += [row[label].strip() for row in block]
        rows.parents += [row[parent].strip() for row in block]
    if rows.torn:
        mend = "put quotes around values that hold a comma"
        for line in rows.torn_lines[:_SHOWN]:
            rows.add(line, "", f"the row does not have {width} values", mend)


def _check_codes(rows: _Rows) -> None:
    """Blank, padded, unprintable, overlong and repeated codes."""
    codes = rows.codes
    # One pass in C over all codes; the slow look at each of them only when there is something to say.
    fine = all(codes) and max(map(len, codes)) <= CODE_LENGTH and "".join(codes).isprintable()
    if not fine or any(map(ne, codes, map(str.strip, codes))):
        rows.add_each((i for i, code in enumerate(codes) if _bad(code)), "code", lambda i: _say_bad(codes[i]))
    if not "".join(rows.labels).isprintable():
        rows.add_each(
            (i for i, label in enumerate(rows.labels) if not label.isprintable()),
            "label",
            lambda _: ("the label has a control character or a line break in it", "remove it"),
        )
    first = dict(zip(reversed(codes), range(len(codes) - 1, -1, -1), strict=True))
    if len(first) < len(codes):
        rows.add_each(
            (i for i, code in enumerate(codes) if code and first[code] != i),
            "code",
            lambda i: (
                f"the code {quoted(codes[i])} is here twice, first at line {rows.lines[first[codes[i]]]}",
                "keep one of them",
            ),
        )


def _bad(code: str) -> bool:
    return not code or code != code.strip() or not code.isprintable() or len(code) > CODE_LENGTH


def _say_bad(code: str) -> tuple[str, str]:
    if not code.strip():
        return "the code is empty", "write a code"
    if code != code.strip():
        return f"the code {quoted(code.strip())} has spaces around it", "remove them"
    return (
        "the code is too long, or has a control character in it",
        "write one line of at most 200 characters",
    )


def _parent_rows(rows: _Rows) -> Indices:
    """Return the row of each parent, -1 for a root; a parent that is not there is a problem, and a root."""
    index = dict(zip(rows.codes, range(len(rows.codes)), strict=True))
    index[""] = -1
    found = np.fromiter(map(index.get, rows.parents, repeat(-2)), np.int64, len(rows.parents))

    def say(row: int) -> tuple[str, str]:
        parent = rows.parents[row]
        close = nearest(parent, rows.codes)
        guess = (
            f"did you mean {quoted(close)}?"
            if close
            else "add a row for it, or leave the parent of a root empty"
        )
        return f"the parent {quoted(parent)} of {quoted(rows.codes[row])} is not a code of this list", guess

    rows.add_each(np.flatnonzero(found == -2).tolist(), "parent", say)
    return np.maximum(found, -1)


def _check_cycles(parents: Indices, rows: _Rows) -> None:
    """Find codes that are their own ancestors.

    Following every parent at once and doubling the stride, a node that has not left the tree after n steps
    stands on a cycle: log2(n) passes.
    """
    count = len(parents)
    jump = np.append(np.where(parents < 0, count, parents), count)  # the last entry: out of the tree
    for _ in range(count.bit_length()):
        jump = jump[jump]
    on_cycle = np.unique(jump[jump < count])
    seen: set[int] = set()
    starts = []
    for node in on_cycle.tolist():
        if node not in seen:
            starts.append(node)
            while node not in seen:
                seen.add(node)
                node = int(parents[node])  # noqa: PLW2901 - walks along the cycle

    def say(row: int) -> tuple[str, str]:
        chain, node = [rows.codes[row]], int(parents[row])
        while node != row and len(chain) < 6:
            chain.append(rows.codes[node])
            node = int(parents[node])
        chain.append("…" if node != row else rows.codes[row])
        return (
            f"the parents go in a circle: {' > '.join(shown(c, 20) for c in chain)}",
            "give one an empty parent",
        )

    rows.add_each(starts, "parent", say)


def breadth_first(parents: Indices) -> tuple[Indices, Indices]:
    """Order the nodes of a forest level by level, a parent's children together.

    Parameters
    ----------
    parents
        (nodes,) row of the parent, -1 for a root; no cycles.

    Returns
    -------
    order, depth
        (nodes,) rows in breadth-first order, and the depth of each. Fewer than all nodes when the forest is
        deeper than ``LEVEL_LIMIT``.
    """
    by_parent = np.argsort(parents, kind="stable")  # children of one parent together, in file order
    start = np.searchsorted(parents[by_parent], np.arange(-1, len(parents) + 1))  # of parent p: start[p + 1]
    levels = [by_parent[start[0] : start[1]]]
    while len(levels[-1]) and len(levels) <= LEVEL_LIMIT:
        first, last = start[levels[-1] + 1], start[levels[-1] + 2]
        sizes = last - first
        offset = np.repeat(first - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        levels.append(by_parent[offset + np.arange(len(offset))])
    if len(levels[-1]) == 0 or len(levels) > LEVEL_LIMIT:
        levels.pop()
    depth = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
    return np.concatenate(levels), depth
