"""Validation of what is about to be published: whole, non-negative, additive, complete, and in agreement."""

from __future__ import annotations

import numpy as np

from mechanisms.errors import RuleFailed
from tasks.postprocess.agreement import Agreement
from tasks.postprocess.estimate_files import WHOLE, EstimatesHandle, read_all, read_notes
from tasks.runtime.run import Run
from tasks.runtime.stage import stage
from validations.suites.expectations import RuleResult
from validations.suites.publication_suite import check_agreement, check_table


def judge_tables(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """See that every table is what its post-processing promises, and that tables agree.

    Raises
    ------
    RuleFailed
        Naming the table and the rules; nothing has been published then.
    """
    promised = run.loaded.spec.postprocessing
    agreement = Agreement.of(run.loaded)
    tables = {}
    for name, estimate in read_all(handle).items():
        layout, values = agreement.layouts[name], estimate.values
        if promised.rounding:
            values = values.astype(np.int64) if (values == np.rint(values)).all() else values
        results = check_table(
            name,
            layout.parents,
            values,
            promised=promised,
            cells=layout.cells,
            results=run.folder("publication") / f"{name}.json",
        )
        _stop(results, f"table {name}", "the table")
        tables[name] = values
    if promised.consistency and not agreement.alone:
        named = read_notes(run, WHOLE).get("violations", {})
        results = check_agreement(
            agreement.differences(tables),
            named=named.get("margin", 0),
            results=run.folder("publication") / "agreement.json",
        )
        _stop(results, "tables", "the release")
    return handle


def _stop(results: tuple[RuleResult, ...], where: str, who: str) -> None:
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise RuleFailed(
            f"{who} breaks {', '.join(failed)}",
            where=where,
            mend="report this: post-processing promises these rules",
        )


judge = stage("validate publication")(judge_tables)
