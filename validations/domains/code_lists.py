"""Code lists, CSV or SDMX, read and checked without opening data: trees of hierarchies, or flat ones.

A code list is public. It may have a million codes, so everything per code is one dictionary look-up or
one NumPy pass, and finding the order takes one pass per level.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import ne
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.public_files import MIB, read_text
from tabularium.validations.release_spec.problems import Problem, choose, listed, nearest, quoted, shown

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
        Language of the label of each node, empty where it is the release's; () where all are.
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

    Returns every problem found with its line in the file, too.

    Parameters
    ----------
    path
        A UTF-8 CSV (a byte order mark is allowed) with a header that has code, label and parent; other
        columns are ignored. A root has an empty parent. Or a list of an SDMX structure message, its name
        after the file's: ``lists.xml#CL_AREA`` (:mod:`tabularium.validations.domains.code_lists`).
        Several roots, and leaves at different depths, are allowed. An empty label is the code itself.
    language
        Of the release: which labels are taken where an SDMX list has them in several.
    flat
        Whether a CSV may leave out the column ``parent``.
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
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1  # what the parent of a root, -1, points at
    return (
        CodeList(
            tuple(rows.codes[i] for i in order.tolist()),
            tuple(rows.labels[i] or rows.codes[i] for i in order.tolist()),
            ranks[parents[order]],
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
    text = read_text(
        path.with_name(name),
        SIZE_LIMIT,
        lambda line, what, hint: rows.add(line, "", what, hint),
        find="check the name, which is relative to the spec file",
        shorten="keep code, label and parent only",
    )
    if text is None:
        return rows
    if wanted is None:
        read_csv(text[0], rows, CODE_LIMIT, flat=flat)
    else:
        read_sdmx(text[0], wanted, rows, language)
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
        rows.add_all((i for i, code in enumerate(codes) if _bad(code)), "code", lambda i: _say_bad(codes[i]))
    if not "".join(rows.labels).isprintable():
        rows.add_all(
            (i for i, label in enumerate(rows.labels) if not label.isprintable()),
            "label",
            lambda _: ("the label has a control character or a line break in it", "remove it"),
        )
    first = dict(zip(reversed(codes), range(len(codes) - 1, -1, -1), strict=True))
    if len(first) < len(codes):
        rows.add_all(
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
    parents = np.fromiter(map(index.get, rows.parents, repeat(-2)), np.int64, len(rows.parents))

    def say(row: int) -> tuple[str, str]:
        parent = rows.parents[row]
        close = nearest(parent, rows.codes)
        guess = (
            f"did you mean {quoted(close)}?"
            if close
            else "add a row for it, or leave the parent of a root empty"
        )
        return f"the parent {quoted(parent)} of {quoted(rows.codes[row])} is not a code of this list", guess

    rows.add_all(np.flatnonzero(parents == -2).tolist(), "parent", say)
    return np.maximum(parents, -1)


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

    rows.add_all(starts, "parent", say)


def breadth_first(parents: Indices) -> tuple[Indices, Indices]:
    """Order the nodes of a forest level by level, a parent's children together.

    ``parents``: (nodes,) row of the parent, -1 for a root; no cycles.

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


COLUMNS = ("code", "label", "parent")
LANGUAGE = "label_language"
_BLOCK = 512  # rows that are taken up at a time; few, so that the garbage collector does not meet them


def read_csv(text: str, rows: Rows, limit: int, *, flat: bool = False) -> None:
    """Split a CSV into rows, at most one more than ``limit``; what is no such CSV is a problem.

    A flat list may leave out the column ``parent``, which is then empty.
    """
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        rows.add(line, "", "there is a null character here", "save the code list as CSV UTF-8")
        return
    rows.lines = lambda: _places(text)[0]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        places = _header(header, rows, flat)
        if places is not None:
            _body(reader, len(header), places, rows, limit, text)
    except csv.Error:
        rows.add(reader.line_num, "", "this is not CSV", "check the quotes at this line and before it")
        rows.codes.clear()


def _header(header: Sequence[str], rows: Rows, flat: bool) -> dict[str, int] | None:
    names = [name.strip().lower() for name in header]
    needed = COLUMNS[:2] if flat else COLUMNS
    hint = f"begin with the line {','.join(needed)}"
    missing = [name for name in needed if name not in names]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        rows.add(1, "", "the values are not separated by commas", "save the code list with commas")
    elif missing and names[:1] in (["dataflow"], ["structure"]) and "obs_value" in names:
        hint = "ask the agency's registry for the structure message with the code list"
        rows.add(1, "", "this is SDMX-CSV data, which holds no code list", hint)
    elif missing:
        rows.add(1, "", f"the header lacks {listed(missing)}", hint)
    elif any(names.count(name) > 1 for name in COLUMNS):
        rows.add(1, "", "the header names a column twice", hint)
    else:
        return {name: names.index(name) for name in (*COLUMNS, LANGUAGE) if name in names}
    return None


def _body(
    reader: Iterator[list[str]], width: int, places: Mapping[str, int], rows: Rows, limit: int, text: str
) -> None:
    code, label = places["code"], places["label"]
    parent, language = places.get("parent"), places.get(LANGUAGE)
    torn = False  # there are rows with too many or too few values, or blank lines
    while len(rows.codes) <= limit and (block := list(islice(reader, _BLOCK))):
        if set(map(len, block)) != {width}:
            torn = True
            block = [row for row in block if len(row) == width]
        rows.codes += [row[code] for row in block]
        rows.labels += [row[label].strip() for row in block]
        rows.parents += [""] * len(block) if parent is None else [row[parent].strip() for row in block]
        if language is not None:
            rows.languages += [row[language].strip() for row in block]
    if torn:
        hint = "put quotes around values that hold a comma"
        for line in _places(text)[1][:SHOWN]:
            rows.add(line, "", f"the row does not have {width} values", hint)


def _places(text: str) -> tuple[list[int], list[int]]:
    """Return the lines where whole rows end, and those of rows that are not as wide as the header."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    width = len(next(reader))
    parts, torn = [], []
    for row in reader:
        if len(row) == width:
            parts.append(reader.line_num)
        elif row:
            torn.append(reader.line_num)
    return parts, torn


SHOWN = 10  # problems of one kind that are listed for one file


@dataclass
class Rows:
    """Codes, labels and parents, one text each per row; a root has an empty parent.

    Attributes
    ----------
    languages
        Language of each label, empty where it is the release's; none where all are.
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

    def add_all(self, rows: Iterable[int], column: str, say: Callable[[int], tuple[str, str]]) -> None:
        """Note a problem for each of ``rows``, up to a limit."""
        for count, row in enumerate(rows):
            if count == SHOWN:
                what = "the same in more rows from here on"
                self.add(self.line(row), column, what, "look at the whole column")
                return
            self.add(self.line(row), column, *say(row))


# A code list of an SDMX structure message (SDMX-ML 2.1 or 3.x, SDMX-JSON 1.0 or 2.x) is written as
# ``lists.xml#CL_AREA``, or ``lists.xml#AGENCY:CL_AREA(1.0)`` where several have that id. A code's parent is
# the one that the code list itself gives it; SDMX's separate hierarchies are not read. XML is read by
# Python's expat, which stops at a document type: there are no entities, internal or external, and nothing
# else is ever opened.

_FILE = re.compile(r"(?P<file>.+\.(?:xml|json))(?:#(?P<wanted>.*))?", re.IGNORECASE | re.DOTALL)
_WANTED = re.compile(r"(?:(?P<agency>[\w.-]+):)?(?P<id>[\w@$-]+)(?:\((?P<version>[^()]+)\))?", re.ASCII)
_SCHEMAS = "http://www.sdmx.org/resources/sdmxml/schemas/v"
_AROUND_LISTS = 3  # elements: Structure, Structures, Codelists
_ENGLISH = "en"


def divided(name: str) -> tuple[str, str | None]:
    """Return the file of a code list, and which list in it is meant: None for a CSV, which is one."""
    match = _FILE.fullmatch(name)
    return (name, None) if match is None else (match["file"], match["wanted"] or "")


def published_name(name: str) -> str:
    """Return the name under which a code list is published: always a CSV, without its folder."""
    file, wanted = divided(Path(name).name)
    match = _WANTED.fullmatch(wanted or "")
    return file if match is None else f"{match['id']}.csv"


@dataclass
class _List:
    """One code list of a message: what names it, and its codes as they come."""

    names: tuple[str, str, str]  # agency, id, version
    codes: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("q"))
    extends: bool = False  # part of its codes are in other lists

    def take(self, names: dict[str, str], language: str) -> None:
        """Note the label of a code, of its names in several languages."""
        label, tag = _label(names, language)
        self.labels.append(label)
        self.languages.append(tag)

    @property
    def full(self) -> str:
        agency, name, version = self.names
        return f"{agency}:{name}({version})"


class _NotSdmxError(Exception):
    """The text is no SDMX message that is read here; says where and what."""

    def __init__(self, line: int | None, what: str, hint: str) -> None:
        super().__init__(what)
        self.line, self.what, self.hint = line, what, hint


def _data_message(line: int | None) -> _NotSdmxError:
    what = "this is an SDMX data message, and code lists are in structure messages"
    return _NotSdmxError(line, what, "ask the agency's registry for the code list, with its codes")


def read_sdmx(text: str, wanted: str, rows: Rows, language: str) -> None:
    """Find the code list ``wanted`` in a structure message; that there is not exactly one is a problem.

    From labels in several languages, those in ``language`` are taken, or else English, or the first.
    """
    match = _WANTED.fullmatch(wanted)
    parts = () if match is None else tuple(match.group("agency", "id", "version"))
    read = _from_json if rows.file.lower().endswith(".json") else _from_xml
    try:
        lists = read(text, parts, language)
    except _NotSdmxError as error:
        rows.add(error.line, "", error.what, error.hint)
        return
    fitting = [one_list for one_list in lists if _fits(one_list.names, parts)]
    ids = [one_list.names[1] for one_list in lists]
    if not lists:
        rows.add(None, "", "there is no code list in this message", "ask for the structure with its lists")
    elif not wanted:
        hint = f"write {rows.file}# and one of them: {listed(ids)}"
        rows.add(None, "", "the spec does not say which code list of this file is meant", hint)
    elif not fitting:
        rows.add(None, "", f"there is no code list {quoted(wanted)} here", choose(wanted, ids, "code lists"))
    elif len(fitting) > 1:
        hint = f"write one of them: {listed(candidate.full for candidate in fitting)}"
        rows.add(None, "", f"several code lists here are called {quoted(wanted)}", hint)
    elif fitting[0].extends:
        hint = "have the agency's registry write it with all its codes"
        rows.add(None, "", "the code list takes codes from another one, which is not here", hint)
    else:
        one = fitting[0]
        rows.codes, rows.labels, rows.parents = one.codes, one.labels, one.parents
        rows.languages = one.languages if any(one.languages) else []
        rows.lines = (lambda: one.lines) if one.lines else None


def _fits(names: tuple[str, ...], parts: tuple[str | None, ...]) -> bool:
    return bool(parts) and all(part in (None, name) for name, part in zip(names, parts, strict=True))


# XML


class _Handler:
    """What expat calls: it keeps the codes of the lists that are asked for, and the names of all."""

    def __init__(
        self, parser: expat.XMLParserType, parts: tuple[str | None, ...], wanted_language: str
    ) -> None:
        self.parser, self.parts, self.wanted_language = parser, parts, wanted_language
        self.lists: list[_List] = []
        self.open: list[str] = []  # local names of the elements around
        self.text: list[str] = []
        self.language = ""
        self.kept = False  # the list around is asked for
        self.names: dict[str, str] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        space, _, name = tag.rpartition(" ")
        if not self.open and space.lower().startswith(_SCHEMAS) and name.endswith("Data"):
            raise _data_message(1)
        if not self.open and not (space.lower().startswith(_SCHEMAS) and name == "Structure"):
            raise _NotSdmxError(1, "this is no SDMX-ML structure message", "give SDMX-ML 2.1 or 3.0")
        if not self.open and space.lower().startswith(f"{_SCHEMAS}2_0"):
            raise _NotSdmxError(1, "this is SDMX-ML 2.0", "have it written as SDMX-ML 2.1 or 3.0")
        self.open.append(name)
        self.text.clear()
        around = self.open[-2] if len(self.open) > 1 else ""
        if name == "Codelist" and around == "Codelists":
            names = (attributes.get("agencyID", ""), attributes.get("id", ""))
            self.lists.append(_List((*names, attributes.get("version", "1.0"))))
            self.kept = _fits(self.lists[-1].names, self.parts)
        elif not self.kept:
            return
        elif around == "Codelist" and name == "Code":
            self.lists[-1].codes.append(attributes.get("id", ""))
            self.lists[-1].lines.append(self.parser.CurrentLineNumber)
            self.lists[-1].parents.append("")
            self.names = {}
        elif around == "Codelist" and name == "CodelistExtension":
            self.lists[-1].extends = True
        elif self.open[-3:] == ["Code", "Parent", "Ref"]:
            self.lists[-1].parents[-1] = attributes.get("id", "")
        elif name == "Name":
            self.language = attributes.get("http://www.w3.org/XML/1998/namespace lang", _ENGLISH)

    def end(self, _: str) -> None:
        text = "".join(self.text).strip()
        self.text.clear()
        around = self.open[-4:]
        self.open.pop()
        self.kept = self.kept and len(self.open) > _AROUND_LISTS
        if not self.kept:
            return
        if around[-2:] == ["Codelist", "Code"]:
            self.lists[-1].take(self.names, self.wanted_language)
        elif around[-3:] == ["Codelist", "Code", "Name"]:
            self.names[self.language] = text
        elif around[-3:] == ["Codelist", "Code", "Parent"] and text:
            self.lists[-1].parents[-1] = text
        elif around == ["Codelist", "Code", "Parent", "URN"]:
            self.lists[-1].parents[-1] = text.rpartition(").")[2]

    def document_type(self, *_: Any) -> None:
        what = "there is a document type here, which an SDMX message never has"
        raise _NotSdmxError(self.parser.CurrentLineNumber, what, "take the file from the agency again")


def _from_xml(text: str, parts: tuple[str | None, ...], language: str) -> list[_List]:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    handler = _Handler(parser, parts, language)
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text.append
    parser.StartDoctypeDeclHandler = handler.document_type
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        hint = "take the file from the agency again"
        raise _NotSdmxError(error.lineno, "this is not XML", hint) from None
    except ValueError:  # a character that is half of one
        raise _NotSdmxError(None, "this is not XML", "take the file from the agency again") from None
    return handler.lists


def _label(names: dict[str, str], language: str) -> tuple[str, str]:
    """Return the label and its language, empty where that is ``language``; without a label, nothing.

    In the language that is asked for, if need be of another region; or else in English, or the first.
    """
    known = {tag: " ".join(text.split()) for tag, text in names.items() if text.strip()}

    def rank(tag: str) -> tuple[bool, bool, bool, bool, bool]:
        same, plain = _spoken(tag) == _spoken(language), "-" not in tag
        english = _spoken(tag) == _ENGLISH
        return tag.casefold() != language.casefold(), not same, not (same and plain), not english, not plain

    tag = min(known, key=rank, default="")
    inside = f"{tag}-".casefold().startswith(f"{language}-".casefold())
    return known.get(tag, ""), "" if inside else tag


def _spoken(tag: str) -> str:
    """Return the language of a tag without its region or script."""
    return tag.partition("-")[0].casefold()


# JSON


def _from_json(text: str, parts: tuple[str | None, ...], language: str) -> list[_List]:
    try:
        message = json.loads(text)
    except json.JSONDecodeError as error:
        raise _NotSdmxError(error.lineno, "this is not JSON", "take the file from the agency again") from None
    except (ValueError, RecursionError):
        raise _NotSdmxError(None, "this is not JSON", "take the file from the agency again") from None
    if _holds_data(message):
        raise _data_message(None)
    try:
        about = message.get("meta") or {}
        written = [*(about.get("contentLanguages") or ()), _ENGLISH][0]
        return list(_lists(message["data"]["codelists"], parts, language, str(written)))
    except (KeyError, TypeError, AttributeError):
        hint = "give SDMX-JSON 1.0 or 2.0 with its codelists"
        raise _NotSdmxError(None, "this is no SDMX-JSON structure message", hint) from None


def _holds_data(message: Any) -> bool:
    """Tell whether a message of SDMX-JSON 1.0 or 2.0, or one of 1.0's first drafts, holds data."""
    inner = message.get("data") if isinstance(message, dict) else None
    return any("dataSets" in part for part in (message, inner) if isinstance(part, dict))


def _lists(
    lists: Iterable[dict[str, Any]], parts: tuple[str | None, ...], language: str, written: str
) -> Iterator[_List]:
    """Yield the lists; ``written`` is the language of names without one."""
    for entry in lists:
        names = (str(entry["agencyID"]), str(entry["id"]), str(entry.get("version", "1.0")))
        code_list = _List(names, extends=bool(entry.get("codelistExtensions")))
        for code in entry.get("codes", ()) if _fits(names, parts) else ():
            code_list.codes.append(str(code["id"]))
            code_list.parents.append(str(code.get("parent") or ""))
            code_list.take({written: str(code.get("name") or ""), **code.get("names", {})}, language)
        yield code_list
