"""Here Great Expectations itself judges suites, at any size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabularium.validations.suites import gx_engine
from tests.plain_suites import LIBRARY


@pytest.fixture(scope="module", autouse=True)
def judged_by_the_library() -> Iterator[None]:
    assert LIBRARY.__module__ == gx_engine.__name__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gx_engine, "run_suite", LIBRARY)
        yield
