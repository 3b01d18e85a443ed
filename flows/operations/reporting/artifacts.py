"""What Prefect's UI shows of a published release.

All of it stands in the published folder, which is public, or is what the ledger says of the account. The
notes of a run are not among it: whether a rule that only warns held is for the operators at home.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from tabularium.flows.operations.reporting.budget_warnings import left_and_cap
from tabularium.flows.release_chain import Outcome
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import certificate_in
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.sign.statement import STATEMENT
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
    """Return what is said of a release as a whole."""
    told = certificate.ledger
    unit = "ρ" if told.definition == "zcdp" else "ε"
    lines = [
        f"# {certificate.product}, {certificate.period}: {status}",
        "",
        f"In `{folder}`, release `{certificate.release_id}`, made {certificate.created}, "
        f"{'signed' if (folder / STATEMENT).exists() else 'unsigned'}.",
        "",
        "## Budget",
        "",
        _cost(told, unit),
        "",
        _budget(home, told.account, unit),
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
        for place, number, margin in cells.ask(_TYPICAL):
            typical = "unknown" if margin is None else f"± {margin:g}"
            yield {
                "table": name,
                "level": cells.levels[place].name,
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


def bar(part: Fraction, whole: Fraction) -> str:
    """Return a bar that is ``part/whole`` full."""
    full = int(_BAR * part / whole) if whole else 0
    return "█" * full + "░" * (_BAR - full)


def _cost(told: Charge, unit: str) -> str:
    if told.rests_on is not None:
        return f"This release is made from the measurements of `{told.rests_on.release_id}`, and was free."
    cost = sum((each.amount for each in told.tally_charges), told.amount)
    return f"This release cost {unit} = {cost} of account `{told.account}`."


def _budget(home: Home, account: str, unit: str) -> str:
    left, cap = left_and_cap(home, account)
    return f"`{bar(cap - left, cap)}` {unit} = {cap - left} spent of {cap}, {left} left"


def _bullets(texts: list[str]) -> list[str]:
    return [f"- {text}" for text in texts]
