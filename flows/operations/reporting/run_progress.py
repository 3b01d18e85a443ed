"""How far a run is, as Prefect's UI shows it: one artifact that says stages and cells of public tables.

What is said follows from the spec and the ledger alone. Of the input it says no more than that it is being
read: neither rows nor bytes, nor what of it is looked at.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tabularium.flows.operations.reporting.announcements import telling
from tabularium.flows.release_chain import STAGES, read_input
from tabularium.tasks.ingest.ingest import ingest
from tabularium.tasks.measure import measure
from tabularium.tasks.publish.draft_folder import publish_draft, register_draft
from tabularium.tasks.publish.publish import publish, rebuild
from tabularium.tasks.remake import take_measurements
from tabularium.tasks.runtime.progress import Reporter, reporter, reporting_to
from tabularium.tasks.validate import validate

_STAGES = [stage.name for stage in STAGES]
#: Stages that are shown as another one. Reading and judging the input are one stage to Prefect: which of them
#: refuses would tell what the data are.
_SHOWN_AS = {
    **dict.fromkeys((ingest.name, validate.name), read_input.name),
    take_measurements.name: measure.name,
    **dict.fromkeys((rebuild.name, register_draft.name, publish_draft.name), publish.name),
}
_SECONDS = 0.5  # between two updates: each is a call


@dataclass
class ProgressArtifact:
    """Tells an artifact what the reporter before it hears too; a server that is away stops nothing."""

    client: Any
    artifact: UUID
    before: Reporter
    _last: float = field(default=0.0)
    _stage: str = ""

    def started(self, stage: str) -> None:
        """Say which stage runs."""
        self.before.started(stage)
        stage = _SHOWN_AS.get(stage, stage)
        if stage in _STAGES and stage != self._stage:
            self._stage = stage
            self._tell(_STAGES.index(stage) / len(_STAGES), stage)

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Show nothing: the next stage follows at once."""
        self.before.finished(stage, seconds, peak_mib)

    def ended(self) -> None:
        """Show that all stages are done, whichever they were."""
        self._tell(1, "published", at_once=True)

    def failed(self, stage: str) -> None:
        """Leave it where it was: the run's state says the rest."""
        self.before.failed(stage)

    def advanced(self, cells: int, of: int) -> None:
        """Say how many cells are done."""
        self.before.advanced(cells, of)
        if of and self._stage in _STAGES:
            done = (_STAGES.index(self._stage) + cells / of) / len(_STAGES)
            self._tell(done, f"{self._stage}: {cells:,} of {of:,} cells")

    def fetched(self, percent: int) -> None:
        """Keep it from Prefect: with the time, it says how large the source is."""
        self.before.fetched(percent)

    def noted(self, text: str) -> None:
        """Keep it from Prefect: what is noted may follow from the data."""
        self.before.noted(text)

    def _tell(self, done: float, what: str, *, at_once: bool = False) -> None:
        if not at_once and time.monotonic() - self._last < _SECONDS:
            return
        from prefect.client.schemas.actions import ArtifactUpdate

        with contextlib.suppress(Exception):
            self.client.update_artifact(
                self.artifact, ArtifactUpdate(data=round(100 * done, 1), description=what)
            )
        self._last = time.monotonic()


@contextlib.contextmanager
def progress_shown(product: str) -> Iterator[None]:
    """Show in the flow run that asks how far the block is, which publishes unless it raises.

    A server that is away shows nothing.
    """
    from prefect.artifacts import create_progress_artifact
    from prefect.client.orchestration import get_client

    artifact = None
    with telling():
        artifact = create_progress_artifact(0.0, key=f"progress-{product}", description="begins")
    if not isinstance(artifact, UUID):
        yield
        return
    with get_client(sync_client=True) as client:
        listener = ProgressArtifact(client, artifact, reporter())
        with reporting_to(listener):
            yield
        listener.ended()
