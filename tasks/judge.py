"""Validation of what is about to be published: whole, non-negative, additive, complete."""

from __future__ import annotations

import numpy as np

from mechanisms.errors import RuleFailed
from tasks.estimates import EstimatesHandle, read
from tasks.layout import Layout
from tasks.run import Run
from tasks.stage import stage
from validations.publication import judge_publication


def judge_tables(run: Run, handle: EstimatesHandle) -> EstimatesHandle:
    """See that every table is what its post-processing promises.

    Raises
    ------
    RuleFailed
        Naming the table and the rules; nothing has been published then.
    """
    promised = run.loaded.spec.postprocessing
    for table in run.loaded.spec.tables:
        layout = Layout.of(run.loaded, table)
        values = read(handle, table.name).values
        if promised.rounding:
            values = values.astype(np.int64) if (values == np.rint(values)).all() else values
        results = judge_publication(
            table.name,
            layout.parents,
            values,
            integral=promised.rounding,
            nonnegative=promised.nonnegativity,
            additive=promised.consistency,
            cells=layout.cells,
            results=run.folder("publication") / f"{table.name}.json",
        )
        failed = [result.name for result in results if not result.passed]
        if failed:
            raise RuleFailed(
                f"the table breaks {', '.join(failed)}",
                where=f"table {table.name}",
                mend="report this: post-processing promises these rules",
            )
    return handle


judge = stage("validate publication")(judge_tables)
