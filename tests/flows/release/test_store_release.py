"""Releases from an object store: what moves there is still the same input, and nothing of it stays behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rich.status import Status

from tabularium.flows.cli.terminal import TerminalReporter
from tabularium.flows.operations.reporting.artifacts import ProgressArtifact
from tabularium.mechanisms.errors import DataRefused, InputMissing
from tabularium.tasks.runtime.progress import NullReporter
from tabularium.validations.certificate import CERTIFICATE
from tests.flows.release.scene import publish, states, write_scene

pytestmark = pytest.mark.xdist_group("object stores")
KEY = "keyOfTheAgency7319"


def searched(folder: Path, *words: str) -> list[str]:
    """The files below a folder that hold one of the words."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and any(word.encode() in path.read_bytes() for word in words)
    ]


def test_how_much_is_fetched_is_shown_to_whoever_is_there_and_not_told_to_prefect() -> None:
    class Heard(NullReporter):
        def fetched(self, percent: int) -> None:
            heard.append(percent)

    class Shown(ProgressArtifact):
        def _tell(self, done: float, what: str, *, at_once: bool = False) -> None:
            told.append(what)

    heard: list[int] = []
    told: list[str] = []
    shown = Shown(None, uuid4(), Heard())
    shown.started("ingest")
    shown.fetched(40)
    shown.advanced(1, 2)
    assert heard == [40]
    assert told == ["read the input", "read the input: 1 of 2 cells"]
    terminal = TerminalReporter(_status=Status(""))
    terminal.fetched(40)
    assert str(terminal._status.status) == "40 % of the source is fetched …"


def test_a_release_is_of_its_input_wherever_that_lies(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    type(store).clear_instance_cache()
    spec, home = write_scene(tmp_path)
    people = (tmp_path / "people.csv").read_bytes()
    address = f"s3://{bucket}/census/people-{{period}}.csv"
    spec.write_text(spec.read_text().replace("path: people.csv", f'path: "{address}"'))
    with pytest.raises(InputMissing, match="there is no such object"):
        publish(spec, home)
    assert not states(home)
    (tmp_path / "people.csv").unlink()
    store.pipe_file(f"{bucket}/census/people-2026.csv", people)
    first = publish(spec, home)
    assert first.status == "published"
    assert (first.release_id, publish(spec, home).status) == (first.release_id, "already published")
    moved = tmp_path / "moved.csv"
    moved.write_bytes(people)
    again = publish(spec, home, source=moved)
    assert (again.status, again.release_id, again.certificate) == (
        *("already published", first.release_id, first.certificate),
    )
    store.pipe_file(f"{bucket}/census/people-2026.csv", people + b"A1,3,1\r\n")
    with pytest.raises(DataRefused, match="another input"):
        publish(spec, home)
    assert states(home) == ["published"]
    assert not list(home.workspaces.iterdir())
    assert bucket not in (Path(first.folder) / CERTIFICATE).read_text()
    moved.unlink()
    assert b"A2,7,2" in people
    assert not searched(tmp_path, KEY, "A2,7,2")
    assert searched(tmp_path, bucket) == [str(spec)]  # where the records lie is not known beside the spec
    type(store).clear_instance_cache()
