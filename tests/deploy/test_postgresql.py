"""The database's set-up, as the page and the script for containers have it: right the first time and the second."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tabularium.ledger import Ledger, StorageFailed
from tests.docs.pages import DOCS, blocks
from tests.ledger.scene import census, finish, reserve
from tests.ledger.storage.postgres import Server

ROOT = Path(__file__).parents[2]
PAGE = DOCS / "how-to" / "move-to-postgresql.md"
MADE = ("prefect", "ledger_owner", "runner", "officer")


@pytest.fixture
def environment(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A shell's environment in which psql reaches the server; what the set-up made is gone afterwards."""
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witness"))
    yield {
        **os.environ,
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": "keeper",
        "POSTGRES_USER": "keeper",
        "PASSWORDS": str(tmp_path / "passwords"),
        "TABULARIUM_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        for database in ("books", "prefect"):
            connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")  # type: ignore[call-overload]
        for role in MADE:
            connection.execute(f"DROP ROLE IF EXISTS {role}")  # type: ignore[call-overload]


def paste(text: str, environment: dict[str, str], *words: str) -> str:
    """Give a shell what a person would paste; it ends well."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", text, *words],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def works(server: Server, release: str) -> None:
    """An officer opens an account, a runner charges it and may open none."""
    with Ledger.connect(server.url("books", "officer")) as books:
        if not books.accounts():
            census(books)
    with Ledger.connect(server.url("books", "runner")) as books:
        reserve(books, release)
        finish(books, release)
        assert books.verify()
        with pytest.raises(StorageFailed, match="lets only a disclosure officer write"):
            census(books, "another")


def test_the_page_can_be_pasted_twice(server: Server, environment: dict[str, str]) -> None:
    (setup,) = (block.text for block in blocks(PAGE) if block.kind == "sh")
    paste(setup, environment)
    works(server, "r1")
    paste(setup, environment)
    works(server, "r2")
    with Ledger.connect(server.url("books", "runner")) as books:
        assert [charge.state for charge in books.charges("census")] == ["published"] * 2


@pytest.mark.audit
def test_the_script_for_containers_may_run_again(
    server: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "passwords").mkdir()
    for name in ("prefect", "ledger", "runner", "officer"):
        (tmp_path / "passwords" / f"{name}_password").write_text(f"it's {name}'s; \\ \"")
    script = str(ROOT / "deploy" / "postgresql" / "databases.sh")
    migrated = {**environment, "TABULARIUM_LEDGER": server.url("books", "ledger_owner")}
    for release in ("r1", "r2"):
        said = paste(script, environment)
        assert "it's" not in said
        paste("tabularium ledger migrate", migrated)
        paste("tabularium ledger roles | psql -q -v ON_ERROR_STOP=1 -d books", environment)
        works(server, release)
    with psycopg.connect(server.dsn("prefect", "prefect")) as prefect:
        prefect.execute("CREATE TABLE of_prefect (id int)")
    with pytest.raises(psycopg.OperationalError, match="CONNECT"):
        psycopg.connect(server.dsn("prefect", "runner"))
    with psycopg.connect(server.dsn("postgres")) as look:
        kept = look.execute(
            "SELECT rolname FROM pg_authid WHERE rolpassword LIKE 'SCRAM-SHA-256$%'"
        ).fetchall()
    assert {name for (name,) in kept} >= set(MADE)
