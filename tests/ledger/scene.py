"""What the ledger's tests share: a ledger in a folder, an account, a charge."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from ledger import Account, Charge, Ledger

ROOT = Path(__file__).parent.parent.parent
CAP = Fraction(1)
AMOUNT = Fraction(1, 10)


def database(folder: Path) -> Path:
    return folder / "books" / "books.db"


def open_books(folder: Path, **options: Any) -> Ledger:
    return Ledger.connect(f"sqlite:///{database(folder)}", **options)


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


def run_driver(name: str, *arguments: str | Path) -> list[str]:
    """Run a program of this folder in a process of its own, without threads; return what it printed."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", f"tests.ledger.{name}", *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()
