"""Words and sentences that readers stumble over: in pages, in ``--help``, and in messages of errors.

``python -m tests.docs.words`` lowers the counts of ``words.json`` to what is there now, and names what is new.
``python -m tests.docs.words docs/tutorial.md`` names what is in one page, file or command.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.command_line_page import commands, root
from tests.docs.pages import PAGES, ROOT, prose

KNOWN = Path(__file__).with_suffix(".json")
LONGEST = 35
FLOORS = ("flows", "tasks", "validations", "ledger", "mechanisms", "tabularium", "lab")

# What is found -> what to write instead.
WORDS = {
    r"whoever\w*": "anyone who, or you",
    r"anew": "again",
    r"(?:am|is|are|was|were|be|been|being) told(?! apart| from)": "shown, reported, or a verb in the active voice",
    r"mend(?:s|ed|ing)?": "correct, repair, fix",
    r"alone": "only, or by itself",
    r"beside": "with, next to, as well as",
    r"dear(?:er|est|ly)?": "expensive",
    r"alike": "the same, equally, both",
    r"likewise": "also, in the same way",
}
_WORDS = {
    re.compile(rf"(?<![\w/-])(?:{word})(?![\w/-])", re.IGNORECASE): better for word, better in WORDS.items()
}
_LEFT_ALONE = re.compile(r"\b(?:leav\w+|left|let) (?:\w+ ){0,3}alone\b")
_NUMBER = re.compile(r"(?<![\w.…/*)\]>-])\.\d")
_WORD = re.compile(r"\d[\d  ,.]*|[^\W\d_][\w'’-]+|\ba\b", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])[)\"'*_”]*\s+(?=[\W_]*[A-Z0-9`])")


@dataclass(frozen=True)
class Fault:
    """One thing that a reader stumbles over, and what to do about it."""

    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.what} -> {self.instead}"


def plain(text: str) -> str:
    """Return Markdown as it is read: code as one word, links as their words, no emphasis, no comments."""
    text = re.sub(r"``+.+?``+|`[^`]+`", "Code", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("**", "").replace("*", "")


def sentences(text: str) -> Iterator[str]:
    """Go through the sentences of a text; an item of a list and a cell of a table end theirs."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\s*(?:\||#))|(?<!\\)\|", plain(text))
    for part in parts:
        for sentence in _END.split(" ".join(part.split())):
            if sentence.strip():
                yield sentence.strip()


def faults(text: str) -> list[Fault]:
    """Return what is wrong with a text."""
    found = []
    for sentence in sentences(text):
        for word, better in _WORDS.items():
            found += [
                Fault(f"{match[0]!r} in: {sentence}", better)
                for match in word.finditer(_LEFT_ALONE.sub("", sentence))
            ]
        found += [Fault(f"{sentence}", "0.57, not .57") for _ in _NUMBER.findall(sentence)]
        if (words := len(_WORD.findall(sentence))) > LONGEST:
            found.append(Fault(f"{words} words: {sentence}", f"at most {LONGEST}"))
    return found


def pages() -> dict[str, list[str]]:
    """Return the prose of every page."""
    return {path.relative_to(ROOT).as_posix(): [prose(path)] for path in PAGES}


def helps() -> dict[str, list[str]]:
    """Return what ``--help`` of every command says."""
    return {
        f"{name} --help": [
            (command.help or "").replace("\b", "").replace("\f", ""),
            *(p.help for p in command.params if getattr(p, "help", None)),
        ]
        for name, command in commands(root())
    }


@cache
def messages() -> dict[str, list[str]]:
    """Return the literals that errors are made of, by file: what is wrong, and hints."""
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for floor in FLOORS
        for path in sorted((ROOT / floor).rglob("*.py"))
        if not path.is_relative_to(ROOT / floor / "tabularium") and not path.parent.is_symlink()
    }
    kinds = _errors(list(trees.values()))
    return {place: texts for place, tree in trees.items() if (texts := list(_messages(tree, kinds)))}


def _errors(trees: list[ast.Module]) -> set[str]:
    """Return the names of all classes below ``TabulariumError``, and of what a spec's problems are made by."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {node.name: {b.id for b in node.bases if isinstance(b, ast.Name)} for node in classes}
    known: set[str] = {"TabulariumError"}
    while more := {name for name, above in bases.items() if above & known} - known:
        known |= more
    return known | {"Problem"}


def _messages(tree: ast.Module, kinds: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("what", "hint"):
            yield from (text for text in _literals(node.value) if " " in text.strip())
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        given = [k.value for k in call.keywords if k.arg in ("what", "hint")]
        if name in kinds or name == "add":  # document.add(path, what, hint) of the checks
            given += call.args
        for value in given:
            yield from (text for text in _literals(value) if " " in text.strip())


def _literals(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
        case ast.IfExp():
            yield from _literals(node.body)
            yield from _literals(node.orelse)
        case ast.BinOp(op=ast.Add()):
            yield " ".join([*_literals(node.left), *_literals(node.right)])


KINDS = {"pages": pages, "help": helps, "messages": messages}


def found(kind: str) -> dict[str, list[Fault]]:
    """Return the faults of all texts of a kind that have any, by page, command or file."""
    every = {place: [f for text in texts for f in faults(text)] for place, texts in KINDS[kind]().items()}
    return {place: some for place, some in every.items() if some}


def known(kind: str) -> dict[str, int]:
    """Return how many faults of each place are known."""
    counts: dict[str, dict[str, int]] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return counts[kind]


def lower() -> list[str]:
    """Lower the counts that fell, and return what rose. Without a file, write all."""
    first = not KNOWN.exists()
    counts, risen = {}, []
    for kind in KINDS:
        now, before = found(kind), {} if first else known(kind)
        counts[kind] = {
            place: len(some) if first else min(len(some), before.get(place, 0)) for place, some in now.items()
        }
        if not first:
            risen += [
                f"{place}\n  " + "\n  ".join(map(str, some))
                for place, some in now.items()
                if len(some) > before.get(place, 0)
            ]
        counts[kind] = {place: count for place, count in sorted(counts[kind].items()) if count}
    KNOWN.write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return risen


if __name__ == "__main__":
    if places := sys.argv[1:]:
        shown = [f for kind in KINDS for place, some in found(kind).items() if place in places for f in some]
        print(*shown, sep="\n")
    else:
        print(*lower(), sep="\n")
