"""What the flow tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabularium.flows.operations.prefect_api import OwnServer, own_server


@pytest.fixture(scope="session", autouse=True)
def few_simulated_releases() -> Iterator[None]:
    """Give the small tables of these tests as few simulated releases as a large release has.

    How good margins are is a matter of ``tests/tasks/margins/test_margins.py``; here they only have to be there.
    Plots of the same numbers are drawn once.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 8)
        yield


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[OwnServer]:
    """A Prefect server of this worker's own; tests that use it are in the group ``engine``."""
    with own_server() as found:
        yield found
