"""A place for the tests of the desk, made once and put back before each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.desk.desk_scene import Place, close_all, write_place


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = write_place(tmp_path_factory.mktemp("desk") / "place")
    shutil.copytree(place.spec.parent, place.spec.parent.with_name("saved"), symlinks=True)
    return place


@pytest.fixture
def place(made: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Place]:
    """The place as it was made, whatever tests before have done."""
    folder = made.spec.parent
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("saved"), folder, symlinks=True)
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witnesses"))
    yield made
    close_all()
