"""The check of a publication: whole, non-negative, additive, complete, and tables in agreement.

What a spec promises of its tables is judged by Great Expectations from numbers of faults; the cells at fault
are named, to the operator and in the certificate. All of it is computed from numbers that are published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import RuleFailed
from tabularium.tasks.check.failed_cells import failed_cells, promises_of
from tabularium.tasks.margins.margins import MarginsHandle
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.estimate_files import EstimatesHandle
from tabularium.tasks.postprocess.postprocessing import ROUNDING
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.suites.expectations import RuleResult
from tabularium.validations.suites.published_tables import check_agreement, check_table


@dataclass(frozen=True)
class Checked:
    """What the certificate says of failed checks: table -> check, how many cells fail it, and the first."""

    failed: dict[str, list[dict[str, Any]]]


@stage("check publication")
def check(run: Run, published: EstimatesHandle, margins: MarginsHandle) -> Checked:
    """See that every table is what its post-processing promises, and that tables agree.

    Raises
    ------
    RuleFailed
        Naming the table and the rules; nothing has been published then.
    """
    agreement = Agreement.of(run.loaded)
    tables = {name: estimate.values for name, estimate in published.read_all().items()}
    half = {name: margins.read(name).half for name in tables}
    failed: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    for found in failed_cells(run, agreement, tables, half):
        failed[found.table].append({"check": found.check, "count": found.count, "cells": list(found.cells)})
        note(f"table {found.table}: {found.count:,} cells fail a check: {found.check}")
    for name, values in tables.items():
        _check_table(run, agreement, name, values)
    if run.loaded.spec.postprocessing.consistency and not agreement.alone:
        results = check_agreement(
            agreement.differences(tables),
            named=_named(published.note(ROUNDING)),
            results=run.folder("publication") / "agreement.json",
        )
        _stop(results, "tables", "the release")
    return Checked(failed)


def _check_table(run: Run, agreement: Agreement, name: str, values: NDArray[np.float64]) -> None:
    promised, layout = run.loaded.spec.postprocessing, agreement.layouts[name]
    results = check_table(
        name,
        layout.parents,
        values,
        promised=promises_of(layout, promised),
        cells=layout.cells,
        results=run.folder("publication") / f"{name}.json",
    )
    _stop(results, f"table {name}", "the table")


def _named(note: dict[str, Any]) -> int:
    """Return how many shared numbers rounding could not make agree, of counts and of measures."""
    notes = [note, *note.get("measures", {}).values()]
    return sum(int(each.get("violations", {}).get("marginal", 0)) for each in notes)


def _stop(results: tuple[RuleResult, ...], where: str, who: str) -> None:
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise RuleFailed(
            f"{who} breaks {', '.join(failed)}",
            where=where,
            hint="report this: post-processing promises these rules",
        )
