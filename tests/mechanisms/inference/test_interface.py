from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import tabularium.mechanisms.inference as package
from tabularium.mechanisms.inference import Hierarchy, consistency, nonnegativity, rounding
from tabularium.mechanisms.noise.synthetic import generator


def test_exported_names_are_there_and_sorted() -> None:
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        # A function and the file it lives in may share a name; what is exported is the function.
        assert not inspect.ismodule(getattr(package, name))


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(package.__path__)])
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"tabularium.mechanisms.inference.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_chain_of_the_house_on_a_table() -> None:
    parents = [2, 2, -1, 2, 3, 3, 3]
    tree = Hierarchy(parents)
    values = generator(4).normal(5, 6, size=(7, 6))
    before = values.copy()
    est = consistency(tree, values, 2.0)
    est = nonnegativity(tree, est)
    table = rounding(tree, est)
    assert table.shape == (7, 6)
    assert (table >= 0).all()
    assert (table[2] == table[0] + table[1] + table[3]).all()
    assert (table[3] == table[4:].sum(axis=0)).all()
    assert (values == before).all()
