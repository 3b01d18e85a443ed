"""Ledgers for the tests that ask for ``place`` or ``books``: on SQLite, or as ``scene.both`` says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tabularium.ledger import Entry, Ledger
from tests.ledger.one_life import live
from tests.ledger.scene import census, open_books
from tests.ledger.storage.logins import LogIn, logins
from tests.ledger.storage.postgres import Server, Unavailable, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of this worker's own."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(running())
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield found


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The name of the database engine."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def place(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder whose ledger (see ``scene.url``) is kept by the engine of the test."""
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witnesses"))
    if engine == "sqlite":
        yield tmp_path
        return
    server: Server = request.getfixturevalue("server")
    name = server.new_database()
    (tmp_path / "url").write_text(server.url(name))
    yield tmp_path
    server.drop_database(name)


@pytest.fixture
def books(place: Path) -> Iterator[Ledger]:
    with open_books(place) as ledger:
        census(ledger)
        yield ledger


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """The entries of one long life."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("life")
        patch.setenv("TABULARIUM_WITNESS", str(folder / "witnesses"))
        return live(folder)


@pytest.fixture
def log_in(books: Ledger, place: Path) -> Iterator[LogIn]:
    """Make a login of its own for a role and return its URL."""
    del books
    with logins(place) as make:
        yield make
