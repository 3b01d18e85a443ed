"""One small agency for all tests of the site."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tasks.site.agency import Agency, an_agency


@pytest.fixture(scope="package")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agency]:
    """The releases of the agency; margins only have to be there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 8)
        yield an_agency(tmp_path_factory.mktemp("agency"))
