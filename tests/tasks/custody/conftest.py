"""What the tests of backups look at is made once."""

from __future__ import annotations

import pytest

from tabularium.tasks.custody.backup import backup
from tests.flows.release.scene import publish, write_scene
from tests.tasks.custody.an_installation import CLOSED, Scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("backup")
    spec, home = write_scene(folder)
    publish(spec, home)
    (home.path / "inboxes.json").write_text("[]")
    (home.path / "budget-warnings.json").write_text("{}")
    backup(home, folder / "kept", CLOSED)
    return Scene(folder, spec, home, folder / "kept")
