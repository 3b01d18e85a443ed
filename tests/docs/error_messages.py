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
                "another live process is working on it",
                "A run of the same release is alive.",
                "Wait, or end that process.",
            ),
            _row(
                "is kept locked by another process",
                "A writer hangs.",
                "On a server its session ends after a minute; else "
                "[find it](move-to-postgresql.md#keep-others-from-waiting). Run again.",
            ),
            _row(
                "cannot be reached",
                "No server, or it turned this login away: a wrong password, `pg_hba.conf`, or no right to connect.",
                "Check the server; as the owner of the database `GRANT CONNECT ON DATABASE … TO` that login.",
            ),
            _row("was cut off from this process", "Connection or server went away.", "Run again."),
            _row("has no space left on its disk", "Nothing was written.", "Free some space, run again."),
            _row(
                "the clock of this machine is behind",
                "The last entry is more than ten minutes ahead.",
                "Set the clock. If that entry's time is wrong, set `TABULARIUM_CLOCK_TOLERANCE` to more minutes until "
                "then.",
            ),
            _row(
                "an entry dated behind the server's clock",
                "A machine that charges, or opens an account, is more than ten minutes slow.",
                "Set its clock, or the server's; no tolerance helps.",
            ),
            _row(
                "an entry dated ahead of the server's clock",
                "More than five minutes ahead.",
                "Set the machine's clock, or the server's.",
            ),
            _row(
                "is dated after this clock's day",
                "This clock is behind, another was more than a day ahead, or somebody planted the entry.",
                "Look at the clocks; find out who wrote it. Until that time, charges need a larger "
                "`TABULARIUM_CLOCK_TOLERANCE` (minutes).",
            ),
            _row("is a copy that takes no entries", "The URL names a standby.", "Use the primary's."),
            _row(
                "cannot hold a ledger: the database's encoding is not UTF8",
                "A ledger in another encoding is read-only.",
                "`CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`, then `ledger export` and `ledger restore`.",
            ),
            _row(
                "its file has more than one name",
                "A hard link to the SQLite file.",
                "`find / -samefile ledger.db`, and remove the others.",
            ),
            _row(
                "the witness file could not be",
                "The disk, the file's owner, or a process that hangs. The entry is committed.",
                "Correct that, run again.",
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
                "allow-attempts ID --reason …`, with `--key FILE` if a signature is needed. It allows three more; "
                "the certificate says how many there were.",
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
                "An old copy was put in place: one of these files knows of an entry that it lacks.",
                "[Restore](back-up-and-restore.md#restore) the newest. Never move away the release that knows "
                "more.",
            ),
            _row(
                "this release is published and the ledger does not know of it",
                "The same; or somebody put that folder there.",
                "Restore the newest; if this is it, find out who put the folder there.",
            ),
            _row(
                "this release was drawn under another ledger",
                "The ledger was begun again, or `TABULARIUM_LEDGER` names another one than before.",
                "Open the ledger that drew it.",
            ),
            _row(
                "this agency's secret does not vouch for them",
                "Heads in the publication folder that are not this agency's, or were altered. They do not count.",
                "If another home published there, remove its releases, or give each home a `publication.folder` of "
                "its own. Otherwise find out who put them there.",
            ),
            _row(
                "it was put back from a backup, and",
                "A restored ledger cannot know what came after its backup.",
                "[Confirm its head](back-up-and-restore.md#restore).",
            ),
            _row(
                "no second witness: each",
                "Only publication folders would notice an old home, each by its own releases.",
                "Set `TABULARIUM_WITNESS` ([the witness](back-up-and-restore.md#the-witness)).",
            ),
            _row(
                "the agency secret is missing",
                "The ledger holds charges or was used with a secret, and the home has none.",
                "Put `secret` back from the [backup](back-up-and-restore.md#restore). Never make one.",
            ),
            _row(
                "entries are in order, but …",
                "It is not the newest, or its guard is gone.",
                "Do what the rest of the line says.",
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
                "a running sum in the last entry",
                "Somebody wrote an entry past this program.",
                "`ledger verify` names it; restore the newest backup before it.",
            ),
            _row(
                "refused an entry that does not follow from those before it",
                "This program writes no such entry. Nothing was appended.",
                "Find out who appends past it.",
            ),
            _row(
                "entry … …",
                "From a charge or `ledger show`: it was written past this program. Nothing is charged on it.",
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
                "Others could put functions or operators there.",
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
                "there is no such object, or no such bucket",
                "The address names nothing.",
                "Check the path. A scheduled run waits for it.",
            ),
            _row(
                "the store gives no access",
                "Credentials are missing, or may not list or read.",
                "Set them in the environment, or have the right granted.",
            ),
            _row(
                "the package … is missing",
                "It reads from this kind of store.",
                "Install it where the run is.",
            ),
            _row(
                "the store does not answer (…)",
                "The kind of error is in brackets; the package's own words may quote what it sent.",
                "A scheduled run tries again.",
            ),
            _row(
                "the source changed while it was read",
                "Something was changed, added or removed.",
                "Run again.",
            ),
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
