"""The secure workspace: closed, removed, and swept when its owner is dead."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.workspace import Workspace, sweep


def test_a_living_workspace_is_not_swept_and_a_dead_one_is(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    mine = Workspace.create(home)
    child = os.fork()
    if child == 0:
        Workspace.create(home)
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(home.workspaces.iterdir())) == 2
    assert sweep(home) == 1
    assert list(home.workspaces.iterdir()) == [mine.path]
    assert mine.path.stat().st_mode & 0o777 == 0o700
    assert mine.remove()
    assert not list(home.workspaces.iterdir())


def test_a_kept_workspace_stays(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    workspace = Workspace.create(home)
    workspace.keep()
    assert sweep(home) == 0
    assert workspace.path.exists()


def test_temporary_files_are_made_inside(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    one, two = Workspace.create(home), Workspace.create(home)
    outside = tempfile.gettempdir()
    with one.temporary_files_inside():
        with two.temporary_files_inside():
            assert Path(tempfile.mkdtemp()).parent == two.path / "tmp"
        assert Path(tempfile.mkdtemp()).parent == one.path / "tmp"
    assert tempfile.gettempdir() == outside


def test_workspaces_lie_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_WORKSPACES", str(tmp_path / "memory"))
    home = Home.at(tmp_path / "home")
    assert Workspace.create(home).path.parent == tmp_path / "memory"
    assert not list(home.path.iterdir())
