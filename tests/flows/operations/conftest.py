"""Installations for all tests of operations: ``tabularium up`` in a process of its own.

They end with the tests of this folder, as an installation has always something to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.flows.operations.installations import Up, running
from tests.ledger.storage.postgres import Server


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A running ``tabularium up`` on a free port, with a home of its own."""
    folder = tmp_path_factory.mktemp("installation")
    (folder / "tmp").mkdir()
    settings = {"TABULARIUM_TEST_HEARTBEATS": "often", "TMPDIR": str(folder / "tmp")}
    with running(folder / "home", **settings) as up:
        yield up


@pytest.fixture(scope="package")
def on_postgresql(server: Server, store: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """An installation as it is delivered: Prefect's database on PostgreSQL, heartbeats as often as it allows.

    It reaches the object store of the tests.
    """
    del store  # its address and credentials stand in the environment by now
    folder, name = tmp_path_factory.mktemp("on-postgresql"), server.new_database()
    (folder / "tmp").mkdir()
    with running(folder / "home", "--database", server.url(name), TMPDIR=str(folder / "tmp")) as up:
        up.database = name
        yield up
    server.drop_database(name)
