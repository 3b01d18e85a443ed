"""Every mechanism has a page, and examples in pages and docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import result_tables
from benchmarks.bench_histograms import CONTENDERS, measured
from benchmarks.bench_reproduction import figures
from benchmarks.result_tables import HISTOGRAMS, RANGES, REPRODUCTION, ResultTable
from tabularium import mechanisms
from tabularium.lab.comparison.suites import suite_called
from tabularium.mechanisms import MECHANISMS
from tabularium.validations.release_spec.mechanism_parameters import parameters_of
from tests.docs import mechanism_tables

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
    assert done.attempted >= 4 or page.stem in {"index", "accuracy"}


def test_every_mechanism_has_a_page_with_its_parameters() -> None:
    for name in MECHANISMS:
        if MECHANISMS[name].name == name:
            text = (mechanism_tables.PAGES / mechanism_tables.pages()[name]).read_text(encoding="utf-8")
            assert f"<!-- from the code: parameters {name} -->" in text or not parameters_of(MECHANISMS[name])
            assert f'"{name}"' in text


def test_a_parameter_that_must_be_given_is_said_to_be_required() -> None:
    assert "| `largest_count` | required |" in mechanism_tables.parameters("structure_first")
    assert "| `k` | required |" in mechanism_tables.parameters("fpa")
    assert "| `centre` | `mean` |" in mechanism_tables.parameters("structure_first")


def test_mechanisms_that_measure_sums_suit_ranges() -> None:
    rows = [row.split("|") for row in mechanism_tables.mechanisms("").splitlines()]
    found = {row[1].split("`")[1]: row[4].strip() for row in rows[2:]}
    assert (found["boost"], found["privelet"], found["identity"], found["gaussian"]) == ("yes", "yes", "", "")
    assert found["denoise"] == found["dawa"] == "`workload: ranges`"


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


def test_a_benchmark_writes_the_columns_that_the_pages_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured(CONTENDERS[0], np.arange(4), Fraction(1), 1)
    row = {"data": "x", "epsilon": "1", "mechanism": "identity", "runs": 1, **found}
    HISTOGRAMS.write(tmp_path / HISTOGRAMS.name, [row])
    suite = suite_called("suresh-2019")
    smallest = replace(suite.experiments[0], data=suite.experiments[0].data[-1:])
    REPRODUCTION.write(tmp_path / REPRODUCTION.name, figures(replace(suite, experiments=(smallest,)), 1))
    monkeypatch.setattr(result_tables, "FOLDER", tmp_path)
    assert [one["mechanism"] for one in HISTOGRAMS.read()] == ["identity"]
    assert all(value for one in HISTOGRAMS.read() for value in one.values())
    assert {one["mechanism"] for one in REPRODUCTION.read()} >= {"privhist", "sorted_isotonic"}
    assert all(one["error"] for one in REPRODUCTION.read())


def test_results_with_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ranges\.csv has the columns"):
        ResultTable(RANGES.name, ("data", "value")).read()
