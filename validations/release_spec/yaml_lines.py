"""A small, strict YAML: plain values with the line of every key and value.

YAML readers disagree about unquoted ``no``, ``010``, ``1:30``, ``1_000`` or ``2019-01-01``, and a statistical
office has all of them among its codes. Whatever does not read as the same thing everywhere is refused with
the fix "write it in quotes". Aliases, anchors, tags, merge keys and several documents in one file are
refused too: no spec needs them, and "billion laughs" files are made of them.

PyYAML composes the nodes, which know their lines. Before that, one pass over the parser's events, which needs
no recursion, refuses what is too deep or too large to compose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NoReturn

import yaml

from tabularium.validations.public_files import MIB, read_text
from tabularium.validations.release_spec.problems import Path, Problem, field_name, quoted, shown

SIZE_LIMIT = MIB
DEPTH_LIMIT = 20
NODE_LIMIT = 100_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # it only composes nodes: no object is built

_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SWITCH = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,29}")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_TRAPS = {
    re.compile(r"~|null|Null|NULL|"): "is read as no value",
    _SWITCH: "is read as true or false by some",
    re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"): "is read as a date by some",
    re.compile(  # octal, hexadecimal, binary, base 60, signs, underscores
        r"[-+]?(0o?[0-9_]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9][0-9_]*"
        r"|\._[0-9_]*)"
    ): "is read as another number by some",
    re.compile("="): "is a special value",
}
_BARE_HOLE = re.compile(r":\s*[^\s\"'{][^\"',}]*\{")
_CONTROL = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        above = (path[:end] for end in range(len(path), -1, -1))
        return next((self.lines[path] for path in above if path in self.lines), None)

    def is_tainted(self, path: Path) -> bool:
        """Return whether ``path``, or something above it, has a problem already."""
        return any(path[:end] in self.tainted for end in range(1, len(path) + 1))

    def add(self, path: Path, what: str, hint: str, line: int | None = None) -> None:
        """Note a problem at ``path``."""
        at = self.line(path) if line is None else line
        self.problems.append(Problem(at, field_name(path), what, hint, self.file))

    def taint(self, path: Path, what: str, hint: str, line: int) -> None:
        """Note a problem of the YAML itself; what else is wrong with the value is then not reported."""
        self.add(path, what, hint, line)
        self.tainted.add(path)


def read_yaml(path: FilePath) -> Document:
    """Read a YAML file; every problem with it is in ``problems``, none is raised."""
    document = Document(path.name)
    text = read_text(
        path,
        SIZE_LIMIT,
        lambda line, what, hint: document.add((), what, hint, line),
        find="name the YAML file of the release spec",
        shorten="put long lists of codes in a code list CSV",
    )
    return document if text is None else parse_yaml(text[0], document)


def parse_yaml(text: str, document: Document) -> Document:
    """Parse ``text`` into ``document``."""
    control = _CONTROL.search(text)
    if control is not None:
        line = text.count("\n", 0, control.start()) + 1
        document.add((), "there is a control character here", "remove it", line)
        return document
    try:
        _check_bounds(text, document)
        root = yaml.compose(text, Loader=_Loader)
        document.data = None if root is None else _value(document, root, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = shown(error.problem or error.context, 100)
        hint = "check the indentation, the colons and the quotes around this line"
        if mark is not None and _BARE_HOLE.search("".join(text.splitlines()[mark.line :][:1])):
            hint = "put a value that holds { and } between quotes"
        document.add((), f"this is not YAML: {reason}", hint, mark.line + 1 if mark is not None else None)
    except _StopError:
        pass
    return document


class _StopError(Exception):
    """Reading goes no further; the document says why."""


def _stop(document: Document, path: Path, what: str, hint: str, line: int) -> NoReturn:
    document.add(path, what, hint, line)
    raise _StopError


def _check_bounds(text: str, document: Document) -> None:
    """Refuse what could not be composed safely, or what no spec needs, at the first sight of it."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if not isinstance(event, yaml.NodeEvent):
            continue
        nodes += 1
        refusal = None
        if isinstance(event, yaml.AliasEvent):
            refusal = "an alias (`*name`) is not allowed", "write the value out"
        elif event.anchor is not None:
            refusal = "an anchor (`&name`) is not allowed", "write the value out where it is needed"
        elif getattr(event, "tag", None) not in (None, "!"):
            refusal = "a tag (`!name`) is not allowed", "write the value plainly"
        elif nodes > NODE_LIMIT:
            refusal = "the file has too many values", "put long lists of codes in a code list CSV"
        elif depth == 0 and nodes > 1:
            refusal = "a second document begins here", "keep one spec in one file"
        elif depth >= DEPTH_LIMIT:
            refusal = "the values are nested too deep", "a spec needs a few levels only"
        if refusal is not None:
            _stop(document, (), *refusal, _line(event))
        depth += isinstance(event, yaml.CollectionStartEvent)


def _line(at: Any) -> int:
    """Return the 1-based line at which an event or a node begins."""
    return int(at.start_mark.line) + 1


def _value(document: Document, node: Any, path: Path) -> Any:
    """Return the plain value of a node; None for one that is not there."""
    line = document.lines.setdefault(path, _line(node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(document, item, (*path, index)) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path)
    return node.value if node.style else _plain(document, node.value, path, line)  # quotes and blocks: text


def _mapping(document: Document, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, inner in node.value:
        name, line = key.value, _line(key)
        if not isinstance(key, yaml.ScalarNode):
            _stop(document, path, "a key must be a plain word", "write `key: value`", line)
        field = (*path, name)
        if field in document.lines:
            first = document.lines[field]
            document.add(field, f"the key is here twice, first at line {first}", "keep one of them", line)
            continue
        document.lines[field] = line
        if not key.style and name == "<<":
            _stop(document, field, "a merge key (`<<`) is not allowed", "write the values out", line)
        what = None if key.style else _key_trap(name)
        if what is not None:
            document.taint(field, f"the key {quoted(name)} without quotes {what}", _quote(name), line)
        if node.flow_style and fields and inner.start_mark.index == key.end_mark.index:  # not even a colon
            hint = "quote the label: a comma between { and } ends it"
            document.taint(field, "there is no value", hint, line)
            continue
        value = _value(document, inner, field)
        if value is not None:
            fields[name] = value
    return fields


def _plain(document: Document, text: str, path: Path, line: int) -> str | int | float | bool | None:
    """Read an unquoted scalar; where readers disagree about it, note that and go on with the text."""
    document.raw[path] = text
    if not text:
        if path:
            document.taint(path, "there is no value", "write one, or remove the line", line)
        return None
    what = _trap(text)
    if what is not None:
        hint = _quote(text)
        if _SWITCH.fullmatch(text):
            hint += f", or {'true' if text.lower() in ('yes', 'on') else 'false'} if a switch is meant"
        document.taint(path, f"{quoted(text)} without quotes {what}", hint, line)
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _quote(text: str) -> str:
    return f'write "{shown(text)}" in quotes'


def _trap(text: str) -> str | None:
    """Return why an unquoted scalar does not mean the same to every YAML reader, or None."""
    if _WHOLE.fullmatch(text):
        return None
    return next((what for pattern, what in _TRAPS.items() if pattern.fullmatch(text)), None)


def _key_trap(text: str) -> str | None:
    """Return why an unquoted key is not read as the text it shows, or None."""
    if text in _WORDS:
        return "is read as true or false"
    if _FLOAT.fullmatch(text) and not _WHOLE.fullmatch(text):
        return "is read as a number"
    return _trap(text)


FILL_IN = "FILL IN"
"""Stands in a spec where something is to be decided."""


def see_filled_in(document: Document) -> bool:
    """Note every line of a spec with something to be filled in; return whether there is none."""
    lines: set[int | None] = set()
    for path in _places(document.data, ()):
        line = document.line(path)
        if line not in lines:
            document.add(path, "is still to be filled in", "the comments in the file say what may stand here")
        lines.add(line)
    return not lines


def _places(value: Any, path: Path) -> Iterator[Path]:
    if value == FILL_IN:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))
