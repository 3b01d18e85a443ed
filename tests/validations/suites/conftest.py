"""Here Great Expectations itself judges suites, at any size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plain_suites import LIBRARY
from validations.suites import gx_engine


@pytest.fixture(scope="module", autouse=True)
def judged_by_the_library() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gx_engine, "run_suite", LIBRARY)
        yield
