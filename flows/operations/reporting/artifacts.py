"""Artifacts in Prefect's UI: a published release, and the progress of a run.

All of it stands in the published folder, which is public, or is what the ledger says of the account. The
notes of a run are not among it: whether a rule that only warns held is for the operators at home.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

from tabularium.flows.operations.reporting.announcements import left_and_cap, telling
from tabularium.flows.release_chain import STAGES, Outcome, read_input
from tabularium.tasks.ingest.ingest import ingest
from tabularium.tasks.measure import measure
from tabularium.tasks.publish.draft_folder import publish_draft, register_draft
from tabularium.tasks.publish.publish import publish, rebuild
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import certificate_in
from tabularium.tasks.remake import take_measurements
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import Reporter, reporter, reporting_to
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.validate import validate
from tabularium.validations.certificate import Certificate, Charge

_BAR = 24

_TYPICAL = "select level, count(*), quantile_disc(margin, 0.5) from cells group by level order by level"


def show_release(outcome: Outcome, home: Home) -> None:
    """Make the artifacts of the flow run that asks: what was published, its tables, what is left, where."""
    from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

    folder = Path(outcome.folder)
    _, certificate = certificate_in(folder)
    product, period = certificate.product, certificate.period
    create_markdown_artifact(
        release_markdown(folder, certificate, outcome.status, home),
        key=f"release-{product}",
        description=f"{product}, {period}: {outcome.status}",
    )
    create_table_artifact(
        list(table_rows(folder, certificate)),
        key=f"tables-{product}",
        description=f"{product}, {period}: cells and typical margins of error",
    )
    if (page := certificate.about.url) is not None:  # no browser follows a link to a file from here
        create_link_artifact(page, key=f"page-{product}", link_text=f"{product}: the page of the product")


def release_markdown(folder: Path, certificate: Certificate, status: str, home: Home) -> str:
    """Return the description of a release as a whole."""
    charge = certificate.ledger
    unit = "ρ" if charge.definition == "zcdp" else "ε"
    lines = [
        f"# {certificate.product}, {certificate.period}: {status}",
        "",
        f"In `{folder}`, release `{certificate.release_id}`, made {certificate.created}, "
        f"{'signed' if (folder / STATEMENT).exists() else 'unsigned'}.",
        "",
        "## Budget",
        "",
        _cost(charge, unit),
        "",
        _budget(home, charge.account, unit),
        "",
        "## Warnings",
        "",
        *_bullets(list(warnings(certificate)) or ["none"]),
        "",
        "## Outside the guarantee",
        "",
        *_bullets([fact.what for fact in certificate.outside_the_guarantee]),
        "",
        "## Files",
        "",
        "| file | SHA-256 |",
        "|---|---|",
        *(f"| `{name}` | `{digest}` |" for name, digest in sorted(certificate.files.items())),
    ]
    return "\n".join(lines) + "\n"


def table_rows(folder: Path, certificate: Certificate) -> Iterator[dict[str, str | int]]:
    """Yield a row for each level of each table: its cells, and the margin that half of them do not exceed."""
    released = Released.open(folder)
    for name, about in certificate.tables.items():
        if name not in released.layouts:
            yield {"table": name, "level": "", "cells": about.rows, "typical margin": ""}
            continue
        cells = ReleasedCells(released, name)
        for level, number, margin in cells.ask(_TYPICAL):
            typical = "unknown" if margin is None else f"± {margin:g}"
            yield {
                "table": name,
                "level": cells.levels[level].name,
                "cells": number,
                "typical margin": typical,
            }


def warnings(certificate: Certificate) -> Iterator[str]:
    """Yield what a reader of the release is warned of in its certificate."""
    for name, about in certificate.tables.items():
        for failed in about.failed_checks or ():
            yield f"table {name}: {failed.count:,} cells fail a check: {failed.check}"
    for invariant in certificate.invariants:
        if invariant.beyond_chance:
            yield (
                f"invariant {invariant.name}: the measurements contradict it at "
                f"{invariant.beyond_chance:,} of {invariant.compared:,} numbers"
            )
    if certificate.ledger.attempts > 1:
        yield f"its noise was drawn in {certificate.ledger.attempts} attempts"
    if (reason := certificate.measurements.withheld) is not None:
        yield f"the noisy measurements are withheld: {reason}"


def bar(part: Fraction, total: Fraction) -> str:
    """Return a bar that is ``part/whole`` full."""
    full = int(_BAR * part / total) if total else 0
    return "█" * full + "░" * (_BAR - full)


def _cost(charge: Charge, unit: str) -> str:
    if charge.rests_on is not None:
        return f"This release is made from the measurements of `{charge.rests_on.release_id}`, and was free."
    cost = sum((tally.amount for tally in charge.tally_charges), charge.amount)
    return f"This release cost {unit} = {cost} of account `{charge.account}`."


def _budget(home: Home, account: str, unit: str) -> str:
    left, cap = left_and_cap(home, account)
    return f"`{bar(cap - left, cap)}` {unit} = {cap - left} spent of {cap}, {left} left"


def _bullets(texts: list[str]) -> list[str]:
    return [f"- {text}" for text in texts]


# How far a run is, as Prefect's UI shows it: one artifact that says stages and cells of public tables.
#
# The text follows from the spec and the ledger only. About the input it says no more than that it is
# being read: neither rows nor bytes, nor what of it is looked at.


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
