"""Code lists, CSV or SDMX, read and checked without opening data: trees of hierarchies, or flat ones.

A code list is public. It may have a million codes, so everything per code is one dictionary look-up or
one NumPy pass, and finding the order takes one pass per level.
"""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from itertools import repeat
from operator import ne
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.domains.code_list_rows import Rows
from tabularium.validations.domains.csv_code_lists import COLUMNS, LANGUAGE, read_csv
from tabularium.validations.domains.sdmx_code_lists import divided, read_sdmx
from tabularium.validations.public_files import MIB
from tabularium.validations.spec.problems import Problem, nearest, quoted, shown
from tabularium.validations.spec.public_text import read_text

SIZE_LIMIT = 256 * MIB
CODE_LIMIT = 5_000_000
LEVEL_LIMIT = 64
CODE_LENGTH = 200  # characters

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
    languages
        Of the label of each node, empty where it is that of the release; () where all are.
    """

    codes: tuple[str, ...]
    labels: tuple[str, ...]
    parents: Indices
    depth: Indices
    digest: str
    languages: tuple[str, ...] = ()

    @property
    def levels(self) -> int:
        """Number of levels."""
        return int(self.depth[-1]) + 1


def read_code_list(
    path: Path, language: str = "en", *, flat: bool = False
) -> tuple[CodeList | None, list[Problem]]:
    """Read a code list; the list is None when anything is wrong with it.

    Parameters
    ----------
    path
        A UTF-8 CSV (a byte order mark is allowed) with a header that has code, label and parent; other
        columns are ignored. A root has an empty parent. Or a list of an SDMX structure message, its name
        after the file's: ``lists.xml#CL_AREA`` (:mod:`tabularium.validations.domains.sdmx_code_lists`).
        Several roots, and leaves at different depths, are allowed. An empty label is the code itself.
    language
        Of the release: which labels are taken where an SDMX list has them in several.
    flat
        Whether a CSV may leave out the column ``parent``.

    Returns
    -------
    tuple
        The tree, and every problem found, each with its line in the file.
    """
    rows = _read(path, language, flat)
    if not rows.codes:
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
            tuple(rows.languages[i] for i in order.tolist()) if any(rows.languages) else (),
        ),
        [],
    )


def published_text(path: Path, language: str = "en") -> bytes:
    """Return a code list as it is published: a CSV of code, label and parent, in the order of the file.

    And with the language of each label, where some are in another one than the release.

    A list may have more, which is the agency's own. Empty where the list cannot be read any more.
    """
    rows = _read(path, language, flat=True)
    return _canonical(rows) if rows.codes and not rows.problems else b""


def _canonical(rows: Rows) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    several = any(rows.languages)
    writer.writerow((*COLUMNS, LANGUAGE) if several else COLUMNS)
    columns = (rows.codes, rows.labels, rows.parents, *([rows.languages] if several else []))
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _read(path: Path, language: str, flat: bool) -> Rows:
    """Return the rows of a code list, whatever kind of file it is, and what is wrong with the file."""
    name, wanted = divided(path.name)
    rows = Rows(name)
    found = read_text(
        path.with_name(name),
        SIZE_LIMIT,
        lambda line, what, hint: rows.add(line, "", what, hint),
        find="check the name, which is relative to the spec file",
        shorten="keep code, label and parent only",
    )
    if found is None:
        return rows
    if wanted is None:
        read_csv(found[0], rows, CODE_LIMIT, flat=flat)
    else:
        read_sdmx(found[0], wanted, rows, language)
    if len(rows.codes) > CODE_LIMIT:
        rows.add(None, "code", "the code list has more than 5 000 000 codes", "split it, or leave levels out")
        rows.codes.clear()
    elif not rows.codes and not rows.problems:
        rows.add(None, "", "the code list has no codes", "write one row per code")
    return rows


def _check_codes(rows: Rows) -> None:
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
                f"the code {quoted(codes[i])} is here twice{_first(rows.line(first[codes[i]]))}",
                "keep one of them",
            ),
        )


def _first(line: int | None) -> str:
    return "" if line is None else f", first at line {line}"


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


def _parent_rows(rows: Rows) -> Indices:
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


def _check_cycles(parents: Indices, rows: Rows) -> None:
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
