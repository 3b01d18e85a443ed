"""What a flow run shows of how far it is: every stage has its place, and what is published is at 100 %."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tabularium.flows.operations.reporting.artifacts import _SHOWN_AS, ProgressArtifact
from tabularium.tasks.runtime.progress import NullReporter

ROOT = Path(__file__).parents[3]
STAGES = sorted(
    {
        name
        for floor in ("tasks", "flows")
        for path in (ROOT / floor).rglob("*.py")
        for name in re.findall(r'^@stage\("([^"]+)"', path.read_text(), re.MULTILINE)
    }
    | {"consistency", "non-negativity", "rounding"}
)


class Shown(ProgressArtifact):
    """Keeps what it would send."""

    def _tell(self, done: float, what: str, *, at_once: bool = False) -> None:
        shown.append((done, what))


shown: list[tuple[float, str]] = []


@pytest.fixture
def artifact() -> Any:
    shown.clear()
    return Shown(None, uuid4(), NullReporter())


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_place(artifact: ProgressArtifact, stage: str) -> None:
    artifact.started(stage)
    ((done, what),) = shown
    assert 0 <= done < 1
    assert what == _SHOWN_AS.get(stage, stage)


def test_only_the_end_of_a_run_is_published(artifact: ProgressArtifact) -> None:
    """With tallies two charges are closed; a draft or a rebuilt folder closes none."""
    for stage in ("publish the draft", "close the charge", "close the charge"):
        artifact.started(stage)
        artifact.finished(stage, 1.0, 1.0)
    assert all(done < 1 and what != "published" for done, what in shown)
    artifact.ended()
    assert shown[-1] == (1, "published")
