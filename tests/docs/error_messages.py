"""Error messages as pages explain them: the words come from the code, the explanation stands here.

A row names fragments of messages. Each is looked up in the strings of the program, and the page shows the
message around it, so that a message that is changed or removed is noticed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.docs.pages import ROOT

FLOORS = ("ledger", "tasks", "flows", "lab")
REPAIR, SOURCE, STOPPED = "repair-a-ledger.md", "connect-a-source.md", "when-a-run-stops.md"


class Row(NamedTuple):
    """What a page says of messages: their fragments, what they mean, what to do."""

    fragments: tuple[str, ...]
    means: str
    do: str


class Section(NamedTuple):
    """A table of messages: the page and heading that it stands under, and its rows."""

    page: str
    anchor: str
    rows: tuple[Row, ...]


def _row(fragments: str, means: str, do: str) -> Row:
    return Row(tuple(fragments.split(" | ")), means, do)


SECTIONS = {
    "machine": Section(
        REPAIR,
        "the-machine-and-the-connection",
        (
            _row(
                "is kept locked by another process",
                "A writer hangs.",
                "Wait a minute, or [find it](move-to-postgresql.md#keep-others-from-waiting). Run again.",
            ),
            _row(
                "is dated after this clock's day",
                "This clock is behind, another was more than a day ahead, or somebody planted the entry.",
                "Set the clocks; find out who wrote it. Until that time, charges need a larger "
                "`TABULARIUM_CLOCK_TOLERANCE`.",
            ),
        ),
    ),
    "signature": Section(
        REPAIR,
        "a-signature-is-missing-or-attempts-are-used-up",
        (
            _row(
                "loosening … | opening an account | voiding a charge | allowing more attempts "
                "| … needs an officer's signature",
                "A key is enrolled, or (except for opening) the account needs approvals.",
                "Sign it: `--key FILE`.",
            ),
            _row(
                "its drawing was cut off … times",
                "Three runs of this release ended while they drew noise.",
                "Find out what ended them: memory, a time limit, the disk. Only then `tabularium ledger "
                "allow-attempts ID --reason …`, with `--key FILE` if a signature is needed.",
            ),
        ),
    ),
    "old-copy": Section(
        REPAIR,
        "an-old-copy",
        (
            _row(
                "the ledger is read-only: … | it lacks entry … as the witness file names it "
                "| it lacks entry … as a measurement file, certificate or head file names it",
                "An old copy was put in place.",
                "[Restore](back-up-and-restore.md#restore) the newest. Never move away the release that knows more.",
            ),
            _row(
                "this release is published and the ledger does not know of it",
                "The same, or somebody put that folder there.",
                "Restore the newest; if this is it, find out who did.",
            ),
            _row(
                "this release was drawn under another ledger",
                "`TABULARIUM_LEDGER` names another one, or it was begun again.",
                "Open the ledger that drew it.",
            ),
            _row(
                "the agency secret is missing",
                "The ledger was used with one.",
                "Put `secret` back from the [backup](back-up-and-restore.md#restore). Never make one.",
            ),
        ),
    ),
    "changed": Section(
        REPAIR,
        "somebody-changed-something",
        (
            _row(
                "an entry has been altered | does not continue the entry before it, which",
                "An entry was edited.",
                "Stop releases; restore; compare with exports.",
            ),
            _row(
                "entry … …",
                "The same. Nothing is charged on it.",
                "`ledger verify`; restore the newest backup before it.",
            ),
            _row(
                "the triggers that protect | the functions that protect",
                "Somebody took the guard away.",
                "Verify; `ledger migrate` puts it back; drop what was added.",
            ),
            _row(
                "… was given …",
                "Somebody has more rights than the roles give.",
                "Verify; REVOKE them; run the roles again.",
            ),
            _row(
                "may create objects in its schema",
                "Others could put functions there.",
                "Run the roles; revoke what it names; look for what they created.",
            ),
            _row(
                "there are functions, operators or tables of",
                "Somebody has.",
                "`DROP OWNED BY`, or drop them one by one.",
            ),
            _row(
                "another kind, owner or row level security",
                "A table was made unlogged, given away, or hides rows from some.",
                "Verify; `ALTER TABLE … OWNER TO` the owner of `entries`, `SET LOGGED`, `DISABLE` and `NO FORCE "
                "ROW LEVEL SECURITY`.",
            ),
            _row(
                "there are rewrite rules on | tables inherit from",
                "What is seen may not be what the tables hold.",
                "Verify; drop them.",
            ),
            _row(
                "the columns of the ledger's tables | the primary keys of the ledger's tables "
                "| the indexes of the ledger's tables | the row that every writer locks is missing",
                "The tables were altered.",
                "Verify; put back what `ledger/storage/schema.py` says, or restore an export into a new database.",
            ),
        ),
    ),
    "run": Section(
        STOPPED,
        "go-on-after-a-run-was-cut-off",
        (
            _row(
                "another input was bound to this release",
                "The file has changed since the budget was reserved.",
                "Give the file as it was ([which was it?](publish-a-revision.md#which-input-was-it)), or publish a "
                "[revision](publish-a-revision.md).",
            ),
        ),
    ),
    "object-store": Section(
        SOURCE,
        "read-from-an-object-store",
        (
            _row(
                "… does not fit on its disk",
                "Copies need room for all objects and 256 MiB more.",
                "Make room, or move the workspaces.",
            ),
            _row(
                "an object has a name that no file can have",
                "It is longer than 255 bytes.",
                "Give it a shorter one.",
            ),
            _row(
                "the store does not tell when an object changes",
                "Its parts may not be of one state.",
                "Copy the files to this machine.",
            ),
        ),
    ),
}


def _strings(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module with … for what varies, but no docstring and no part of another."""
    parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in parts | docstrings
        ):
            yield node.value


@cache
def program_strings() -> frozenset[str]:
    """Return the strings of the program, on one line each."""
    files = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]
    return frozenset(
        " ".join(text.split())
        for path in files
        for text in _strings(ast.parse(path.read_text(encoding="utf-8")))
    )


def message(fragment: str) -> str:
    """Return the shortest message of the program that has a fragment, up to the first pause after it.

    Raises
    ------
    KeyError
        No message has it.
    """
    found = sorted(
        (text for text in program_strings() if fragment in text), key=lambda text: (len(text), text)
    )
    if not found:
        raise KeyError(fragment)
    end = found[0].index(fragment) + len(fragment)
    return found[0][:end] + re.split(r"[,;:] | \(", found[0][end:])[0]


def table(name: str) -> str:
    """Return the table of a section."""
    rows = [
        f"| {', '.join(f'`{message(each)}`' for each in row.fragments)} | {row.means} | {row.do} |"
        for row in SECTIONS[name].rows
    ]
    return "\n".join(["| message | what it means | what to do |", "|---|---|---|", *rows])
