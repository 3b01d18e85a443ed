"""One installation for all tests of operations: ``tabularium up`` in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flows.operations.installations import Up, running


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A running ``tabularium up`` on a free port, with a home of its own."""
    folder = tmp_path_factory.mktemp("installation")
    (folder / "tmp").mkdir()
    settings = {"TABULARIUM_TEST_HEARTBEATS": "often", "TMPDIR": str(folder / "tmp")}
    with running(folder / "home", **settings) as up:
        yield up
