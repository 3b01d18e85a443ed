"""A small, strict YAML: plain values with the line of every key and value.

YAML readers disagree about unquoted ``no``, ``010``, ``1:30``, ``1_000`` or ``2019-01-01``, and a statistical
office has all of them among its codes. Whatever does not read as the same thing everywhere is refused with
the mend "write it in quotes". Aliases, anchors, tags, merge keys and several documents in one file are
refused too: nothing a spec needs, and what "billion laughs" files are made of.

The tree is built from the parser's events without recursion, so that deep nesting cannot exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NoReturn

import yaml

from validations.spec.problems import Path, Problem, field_name, quoted, shown

SIZE_LIMIT = 2**20  # bytes
DEPTH_LIMIT = 20
NODE_LIMIT = 100_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its parser is used: no object is built

_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SWITCH = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_NULL = re.compile(r"~|null|Null|NULL|")  # nothing at all is null too
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,29}")
_ODD_WHOLE = re.compile(  # a number for some readers: octal, hexadecimal, binary, base 60, signs, underscores
    r"[-+]?(0o?[0-9_]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9][0-9_]*)"
)
_FLOAT = re.compile(
    r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_CONTROL = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")


@dataclass
class Document:
    """A YAML file as plain values, with the place of each of them.

    Attributes
    ----------
    data
        Dicts with text keys, lists, str, int, float, bool; None for an empty file.
    lines
        Path of a value to its 1-based line: for a value under a key, the line of the key.
    raw
        Path of an unquoted scalar to its text as written.
    problems
        What the file itself has wrong.
    tainted
        Paths that have a problem already, so that nobody reports them twice.
    """

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    raw: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    tainted: set[Path] = field(default_factory=set)

    def line(self, path: Path) -> int | None:
        """Return the line of ``path``, or of the nearest thing above it that is in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def is_tainted(self, path: Path) -> bool:
        """Return whether ``path``, or something above it, has a problem already."""
        return any(path[:end] in self.tainted for end in range(1, len(path) + 1))

    def add(self, path: Path, what: str, mend: str, line: int | None = None) -> None:
        """Note a problem at ``path``."""
        place = self.line(path) if line is None else line
        self.problems.append(Problem(place, field_name(path), what, mend, self.file))

    def taint(self, path: Path, what: str, mend: str, line: int) -> None:
        """Note a problem of the YAML itself; what else is wrong with the value is then not reported."""
        self.add(path, what, mend, line)
        self.tainted.add(path)


def read_yaml(path: FilePath) -> Document:
    """Read a YAML file; every problem with it is in ``problems``, none is raised."""
    document = Document(path.name)
    try:
        if not path.is_file():
            kind = "is a folder or a device" if path.exists() else "there is no such file"
            document.add((), kind, "name the YAML file of the release spec")
            return document
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except (OSError, ValueError):
        document.add((), "the file cannot be read", "check its name and its permissions")
        return document
    if len(content) > SIZE_LIMIT:
        document.add((), "the file is larger than 1 MiB", "put long lists of codes in a code list CSV")
        return document
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        document.add((), "this is not UTF-8 text", "save the file as UTF-8", line)
        return document
    return parse_yaml(text, document)


def parse_yaml(text: str, document: Document) -> Document:
    """Parse ``text`` into ``document``."""
    control = _CONTROL.search(text)
    if control is not None:
        line = text.count("\n", 0, control.start()) + 1
        document.add((), "there is a control character here", "remove it", line)
        return document
    try:
        _Builder(document).build(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = shown(error.problem or error.context, 100)
        mend = "check the indentation, the colons and the quotes around this line"
        document.data = None
        document.add((), f"this is not YAML: {reason}", mend, mark.line + 1 if mark is not None else None)
    except _StopError:
        document.data = None
    return document


class _StopError(Exception):
    """Reading goes no further; the document says why."""


@dataclass
class _Frame:
    """A sequence or mapping that is still open."""

    path: Path
    items: list[Any] | None  # of a sequence
    fields: dict[str, Any] | None  # of a mapping
    kept: bool  # False below a key that was refused
    key: str | None = None  # of a mapping: the key that waits for its value


class _Builder:
    """Turns parser events into values, keeping the marks."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.stack: list[_Frame] = []
        self.nodes = 0
        self.roots = 0

    def build(self, events: Iterator[yaml.Event]) -> None:
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                self._limits(event, line)
                self._node(event, line)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.stack.pop()
                self._value_done()

    def _value_done(self) -> None:
        if self.stack:
            self.stack[-1].key = None

    def _stop(self, what: str, mend: str, line: int) -> NoReturn:
        self.document.add(self.stack[-1].path if self.stack else (), what, mend, line)
        raise _StopError

    def _limits(self, event: yaml.NodeEvent, line: int) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._stop("an alias (`*name`) is not allowed", "write the value out", line)
        if event.anchor is not None:
            self._stop("an anchor (`&name`) is not allowed", "write the value out where it is needed", line)
        if getattr(event, "tag", None) not in (None, "!"):
            self._stop("a tag (`!name`) is not allowed", "write the value plainly", line)
        self.nodes += 1
        if self.nodes > NODE_LIMIT:
            self._stop("the file has too many values", "put long lists of codes in a code list CSV", line)
        if not self.stack:
            self.roots += 1
            if self.roots > 1:
                self._stop("a second document begins here", "keep one spec in one file", line)
        elif len(self.stack) >= DEPTH_LIMIT:
            self._stop("the values are nested too deep", "a spec needs a few levels only", line)

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.fields is not None and frame.key is None:
            self._key(frame, event, line)
            return
        path, kept = _place(frame)
        if kept:
            self.document.lines.setdefault(path, line)
        if isinstance(event, yaml.ScalarEvent):
            self._attach(frame, self._scalar(event, path, line) if kept else None, kept)
            self._value_done()
        elif isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            self._attach(frame, items, kept)
            self.stack.append(_Frame(path, items, None, kept))
        else:
            fields: dict[str, Any] = {}
            self._attach(frame, fields, kept)
            self.stack.append(_Frame(path, None, fields, kept))

    def _attach(self, frame: _Frame | None, value: Any, kept: bool) -> None:
        if frame is None:
            self.document.data = value
        elif frame.items is not None:
            frame.items.append(value)
        elif frame.fields is not None and frame.key is not None and kept and value is not None:
            frame.fields[frame.key] = value

    def _key(self, frame: _Frame, event: yaml.NodeEvent, line: int) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            self._stop("a key must be a plain word", "write `key: value`", line)
        text: str = event.value
        frame.key = text
        if not frame.kept:
            return
        path = (*frame.path, text)
        if path in self.document.lines:
            first = self.document.lines[path]
            self.document.add(path, f"the key is here twice, first at line {first}", "keep one of them", line)
            return
        self.document.lines[path] = line
        if not event.implicit[0]:
            return
        if text == "<<":
            self._stop("a merge key (`<<`) is not allowed", "write the values out", line)
        what = key_trap(text)
        if what is not None:
            self.document.taint(path, f"the key {quoted(text)} without quotes {what}", _quote(text), line)

    def _scalar(self, event: yaml.ScalarEvent, path: Path, line: int) -> Any:
        text: str = event.value
        if not event.implicit[0]:  # in quotes, or a block: always text
            return text
        self.document.raw[path] = text
        if not text:
            if path:
                self.document.taint(path, "there is no value", "write one, or remove the line", line)
            return None
        what = trap(text)
        if what is None:
            return _plain(text)
        mend = _quote(text)
        if _SWITCH.fullmatch(text):
            switch = "true" if text.lower() in ("yes", "on") else "false"
            mend = f"{mend}, or {switch} if a switch is meant"
        self.document.taint(path, f"{quoted(text)} without quotes {what}", mend, line)
        return text  # go on with the text, so that the rest is checked too


def _place(frame: _Frame | None) -> tuple[Path, bool]:
    """Return the path of the value that comes, and whether it is kept."""
    if frame is None:
        return (), True
    if frame.items is not None:
        return (*frame.path, len(frame.items)), frame.kept
    key, fields = frame.key or "", frame.fields or {}
    return (*frame.path, key), frame.kept and key not in fields


def _plain(text: str) -> str | int | float | bool:
    """Read an unquoted scalar that means the same everywhere."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _quote(text: str) -> str:
    return f'write "{shown(text)}" in quotes'


def trap(text: str) -> str | None:
    """Return why an unquoted scalar does not mean the same to every YAML reader, or None."""
    if _NULL.fullmatch(text):
        return "is read as no value"
    if _SWITCH.fullmatch(text):
        return "is read as true or false by some"
    if _DATE.fullmatch(text):
        return "is read as a date by some"
    if _ODD_WHOLE.fullmatch(text) and not _WHOLE.fullmatch(text):
        return "is read as another number by some"
    if text == "=":
        return "is a special value"
    return None


def key_trap(text: str) -> str | None:
    """Return why an unquoted key is not read as the text it shows, or None."""
    if text in _WORDS:
        return "is read as true or false"
    if _FLOAT.fullmatch(text) and not _WHOLE.fullmatch(text):
        return "is read as a number"
    return trap(text)
