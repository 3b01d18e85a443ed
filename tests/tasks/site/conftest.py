"""One small agency for all tests of the site."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tasks.site.agency import Agency, an_agency
from validations.suites.gx_engine import library


@pytest.fixture(scope="session")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agency]:
    """The releases of the agency; margins only have to be there."""
    library()  # each release would otherwise start a process that imports it anew
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.margins.margins.replicates", lambda _cells: 8)
        yield an_agency(tmp_path_factory.mktemp("agency"))
