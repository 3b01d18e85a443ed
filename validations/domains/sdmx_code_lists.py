"""A code list out of an SDMX structure message: SDMX-ML 2.1 or 3.x, or SDMX-JSON 1.0 or 2.x.

The spec writes ``lists.xml#CL_AREA``, or ``lists.xml#AGENCY:CL_AREA(1.0)`` where several are called so. A
code's parent is the one that the code list itself gives it; SDMX's separate hierarchies are not read.

XML is read by Python's expat, which is told to stop at a document type: there are no entities, internal or
external, and nothing else is ever opened.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from tabularium.validations.domains.code_list_rows import Rows
from tabularium.validations.spec.problems import choose, listed, quoted

_FILE = re.compile(r"(?P<file>.+\.(?:xml|json))(?:#(?P<wanted>.*))?", re.IGNORECASE | re.DOTALL)
_WANTED = re.compile(r"(?:(?P<agency>[\w.-]+):)?(?P<id>[\w@$-]+)(?:\((?P<version>[^()]+)\))?", re.ASCII)
_SCHEMAS = "http://www.sdmx.org/resources/sdmxml/schemas/v"
_AROUND_LISTS = 3  # elements: Structure, Structures, Codelists
_ENGLISH = "en"


def divided(name: str) -> tuple[str, str | None]:
    """Return the file of a code list, and which list in it is meant: None for a CSV, which is one."""
    found = _FILE.fullmatch(name)
    return (name, None) if found is None else (found["file"], found["wanted"] or "")


def published_name(name: str) -> str:
    """Return the name under which a code list is published: always a CSV, without its folder."""
    file, wanted = divided(Path(name).name)
    found = _WANTED.fullmatch(wanted or "")
    return file if found is None else f"{found['id']}.csv"


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

    Of labels in several languages those in ``language`` are taken, or else in English, or the first.
    """
    match = _WANTED.fullmatch(wanted)
    parts = () if match is None else tuple(match.group("agency", "id", "version"))
    read = _from_json if rows.file.lower().endswith(".json") else _from_xml
    try:
        lists = read(text, parts, language)
    except _NotSdmxError as error:
        rows.add(error.line, "", error.what, error.hint)
        return
    found = [each for each in lists if _fits(each.names, parts)]
    ids = [each.names[1] for each in lists]
    if not lists:
        rows.add(None, "", "there is no code list in this message", "ask for the structure with its lists")
    elif not wanted:
        hint = f"write {rows.file}# and one of them: {listed(ids)}"
        rows.add(None, "", "the spec does not say which code list of this file is meant", hint)
    elif not found:
        rows.add(None, "", f"there is no code list {quoted(wanted)} here", choose(wanted, ids, "code lists"))
    elif len(found) > 1:
        hint = f"write one of them: {listed(each.full for each in found)}"
        rows.add(None, "", f"several code lists here are called {quoted(wanted)}", hint)
    elif found[0].extends:
        hint = "have the agency's registry write it with all its codes"
        rows.add(None, "", "the code list takes codes from another one, which is not here", hint)
    else:
        one = found[0]
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
    return any("dataSets" in each for each in (message, inner) if isinstance(each, dict))


def _lists(
    lists: Iterable[dict[str, Any]], parts: tuple[str | None, ...], language: str, written: str
) -> Iterator[_List]:
    """Yield the lists; ``written`` is the language of names without one."""
    for each in lists:
        names = (str(each["agencyID"]), str(each["id"]), str(each.get("version", "1.0")))
        found = _List(names, extends=bool(each.get("codelistExtensions")))
        for code in each.get("codes", ()) if _fits(names, parts) else ():
            found.codes.append(str(code["id"]))
            found.parents.append(str(code.get("parent") or ""))
            found.take({written: str(code.get("name") or ""), **code.get("names", {})}, language)
        yield found
