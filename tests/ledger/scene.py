"""What the ledger's tests share: a ledger in a folder, an account, a charge."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Account, Charge, Entry, Ledger
from tabularium.ledger.keys import public_hex
from tabularium.ledger.storage.database import _backend
from tabularium.ledger.storage.postgres import TRIGGERS as POSTGRES_TRIGGERS
from tabularium.ledger.storage.sqlite import TRIGGERS as SQLITE_TRIGGERS
from tabularium.ledger.verify import Verification, Verified
from tests.ledger.storage.postgres import close_schema

ROOT = Path(__file__).parent.parent.parent
CAP = Fraction(1)
AMOUNT = Fraction(1, 10)
CRITERIA = ("error-in-processing", "implausible")
ENGINES = ("sqlite", "postgresql")
#: for a test that is about what the engines do: others ask SQLite alone
both = pytest.mark.parametrize("engine", ENGINES, indirect=True)
postgresql = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)


def database(folder: Path) -> Path:
    return folder / "books" / "ledger.db"


def url(folder: Path) -> str:
    """The URL of the folder's ledger: of a file in it, or what a file named ``url`` says."""
    named = folder / "url"
    return named.read_text() if named.exists() else f"sqlite:///{database(folder)}"


def new_place(folder: Path, name: str) -> Path:
    """Make a folder with a ledger of its own; ``folder`` says (in ``url``) on which server, if on one."""
    place = folder / name
    place.mkdir()
    if (folder / "url").exists():
        server = url(folder).rpartition("/")[0]
        made = f"t{secrets.token_hex(6)}"
        _at_server(folder, f"CREATE DATABASE {made} TEMPLATE template0")
        (place / "url").write_text(f"{server}/{made}")
        close_schema(url(place).replace("+psycopg", ""))
    return place


def remove_place(place: Path) -> None:
    if (place / "url").exists():
        _at_server(place, f"DROP DATABASE {url(place).rpartition('/')[2]} WITH (FORCE)")
    shutil.rmtree(place)


def _at_server(folder: Path, statement: str) -> None:
    server = url(folder).replace("+psycopg", "").rpartition("/")[0]
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


def open_books(folder: Path, **options: Any) -> Ledger:
    return Ledger.connect(url(folder), **options)


def superuser(folder: Path, *statements: str) -> None:
    """Run statements as whoever owns the database, under no other guard than the database's own."""
    if (folder / "url").exists():
        with psycopg.connect(url(folder).replace("+psycopg", "")) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]
        return
    with closing(sqlite3.connect(database(folder))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def behind_the_triggers(folder: Path, *statements: str) -> None:
    """What a superuser can do: put the triggers out of force, change rows, put them back."""
    if (folder / "url").exists():
        named = [(name, table) for name, (table, *_) in POSTGRES_TRIGGERS.items()]
        off = [f"ALTER TABLE {table} DISABLE TRIGGER {name}" for name, table in named]
        on = [f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}" for name, table in named]
    else:
        off, on = [f"DROP TRIGGER {name}" for name in SQLITE_TRIGGERS], [*SQLITE_TRIGGERS.values()]
    superuser(folder, *off, *statements, *on)


def witness_file(folder: Path) -> Path:
    """Where the head of the folder's ledger is remembered outside the database."""
    return _backend(url(folder), 1).witness.resolve()


def forget_witnesses(folder: Path) -> None:
    """Remove every witness of the folder's ledger, as who has lost the disk with them."""
    witness_file(folder).unlink(missing_ok=True)
    for path in Path(os.environ["TABULARIUM_WITNESS"]).glob("chain-*.witness"):
        path.unlink()


def keep_witnesses(folder: Path) -> None:
    """Let the witnesses of ledgers on servers lie in ``folder``, and not in the home of whoever runs this."""
    os.environ["TABULARIUM_WITNESS"] = str(folder / "witnesses")


def census(books: Ledger, name: str = "census", **terms: Any) -> Account:
    standard: dict[str, Any] = {"unit": "person", "relation": "add-remove", "definition": "pure", "cap": CAP}
    return books.open_account(name, **(standard | terms))


def reserve(books: Ledger, release_id: str = "r1", account: str = "census", **content: Any) -> Charge:
    standard: dict[str, Any] = {"amount": AMOUNT, "product": "p", "period": "2026", "spec_digest": "s"}
    return books.reserve(account, release_id=release_id, **(standard | content))


def finish(books: Ledger, release_id: str = "r1") -> Charge:
    fence = books.drawing(release_id)
    books.measured(release_id, fence, digest="m")
    return books.published(release_id, fence, digest="p")


def step(
    books: Ledger,
    release: str,
    until: str,
    account: str = "census",
    statement: str | None = None,
    **content: Any,
) -> None:
    """Take a charge of 1/10 as far as ``until``."""
    reserve(books, release, account, **content)
    fence = books.drawing(release)
    if until != "drawing":
        books.measured(release, fence, digest=f"measurements of {release}")
    if until == "published":
        books.published(release, fence, digest=release, statement=statement)


def lay_out(books: Ledger, release_id: str = "r1", **content: Any) -> int:
    """Measure a release and lay it out for review."""
    step(books, release_id, "measured", **content)
    books.submit_draft(release_id, 1, digest="d", criteria=CRITERIA)
    return 1


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def enrolled(books: Ledger, officer: str = "A. Ro", by: Ed25519PrivateKey | None = None) -> Ed25519PrivateKey:
    """Enrol a new key of an officer's."""
    made = key()
    books.enrol_key(public_hex(made), officer=officer, by=by or made)
    return made


def verify_entries(entries: Iterable[Entry]) -> Verified:
    """Verify entries that stand in no database."""
    verification = Verification()
    for entry in entries:
        verification.take(entry.seq, entry.prev, entry.hash, entry.text)
    return verification.result()


def run_driver(name: str, *arguments: str | Path, patience: float = 400) -> list[str]:
    """Run a program of ``measurement`` in a process of its own, without threads; return what it printed."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", f"tests.ledger.measurement.{name}", *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=patience
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()
