"""The examples in the pages and docstrings of the mechanisms do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from tabularium import mechanisms

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference" / "mechanisms").glob("*.md"))
# Those of tabularium.mechanisms.inference are tested with the rest of it.
MODULES = sorted(
    name
    for _, name, package in pkgutil.walk_packages(mechanisms.__path__, "tabularium.mechanisms.")
    if not package and "inference" not in name
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_in_a_page(page: Path) -> None:
    done = doctest.testfile(str(page), module_relative=False)
    assert done.failed == 0
    assert done.attempted >= 4 or page.stem == "index"


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_examples_are_found() -> None:
    """A page for every mechanism, and docstrings with as many examples as those of these have."""
    assert len(PAGES) > 18
    for name, least in (
        ("tabularium.mechanisms.histograms.histogram_properties", 6),
        ("tabularium.mechanisms.histograms.privhist", 1),
        ("tabularium.mechanisms.histograms.noise_first", 1),
    ):
        finder = doctest.DocTestFinder()
        assert sum(len(test.examples) for test in finder.find(importlib.import_module(name))) >= least
