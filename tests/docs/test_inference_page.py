"""docs/explanation/inference.md: every example prints what the page says."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "inference.md"


def test_the_examples_of_the_page_run() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.REPORT_NDIFF)
    assert found.attempted > 15
    assert found.failed == 0
