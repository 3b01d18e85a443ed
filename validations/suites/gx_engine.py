"""Great Expectations, held so that it can tell nothing but pass or fail.

A suite is checked on a small table of numbers, never on records. Results are asked for as booleans; the
context lives in memory, sends nothing anywhere and draws no progress bars. The library takes seconds to
import, hence it is imported where it is first needed (:mod:`tabularium.validations.suites.expectations`).
"""

from __future__ import annotations

import gc
import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Severity = Literal["stop", "warn"]
Number = int | float | None


class NotCheckedError(Exception):
    """Great Expectations could not say whether an expectation holds."""


@dataclass(frozen=True)
class Bound:
    """The numbers of ``column`` of the metrics table lie between ``low`` and ``high``, both included.

    A missing number passes: a smallest value of no values breaks no bound.
    """

    rule: str
    column: str
    low: Number = None
    high: Number = None
    severity: Severity = "stop"


@dataclass(frozen=True)
class Same:
    """The numbers of ``column`` of the metrics table are all equal."""

    rule: str
    column: str
    severity: Severity = "stop"


Expected = Bound | Same


def run_suite(
    name: str, numbers: Mapping[str, Sequence[Number]], expected: Sequence[Expected]
) -> tuple[list[bool], str]:
    """Run a suite on a table of numbers (columns of numbers, one for each row).

    Returns whether each expectation holds, and what the library says of the run: booleans and the suite
    itself.
    """
    with warnings.catch_warnings():
        # The library's own deprecations are not the operator's concern.
        warnings.simplefilter("ignore")
        gx = library()
        import pandas as pd

        frame = pd.DataFrame({column: pd.array(list(values)) for column, values in numbers.items()})
        context = _context(gx)
        batch = (
            context.data_sources.add_pandas(name)
            .add_dataframe_asset("metrics")
            .add_batch_definition_whole_dataframe("whole")
        )
        suite = context.suites.add(gx.ExpectationSuite(name, expectations=_expectations(gx, expected)))
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=batch, suite=suite)
        )
        outcome = definition.run(batch_parameters={"dataframe": frame}, result_format="BOOLEAN_ONLY")
    verdicts: list[bool | None] = [None] * len(expected)
    for result in outcome.results:
        if not _was_checked(result.exception_info):
            raise NotCheckedError("an expectation could not be checked")
        verdicts[result.expectation_config.meta["place"]] = bool(result.success)
    if None in verdicts:
        raise NotCheckedError("an expectation was not checked")
    return [bool(verdict) for verdict in verdicts], json.dumps(outcome.to_json_dict(), indent=1)


def _expectations(gx: Any, expected: Sequence[Expected]) -> list[Any]:
    kinds = gx.expectations
    made = []
    for index, item in enumerate(expected):
        # The place tells equal expectations of two rules apart, and finds the result again.
        meta = {"rule": item.rule, "place": index, "severity": item.severity}
        if isinstance(item, Bound):
            bounds = {"min_value": item.low, "max_value": item.high}
            made.append(kinds.ExpectColumnValuesToBeBetween(column=item.column, meta=meta, **bounds))
        else:
            made.append(
                kinds.ExpectColumnUniqueValueCountToBeBetween(column=item.column, max_value=1, meta=meta)
            )
    return made


def _was_checked(info: Any) -> bool:
    """Tell whether no exception was caught: the library keeps one record, or one per metric."""
    if "raised_exception" in info:
        return not info["raised_exception"]
    return not any(part.get("raised_exception", True) for part in info.values())


@lru_cache(maxsize=1)
def library() -> Any:
    """Import Great Expectations once, silently and without telemetry; a thread may do it ahead of need."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    collecting = gc.isenabled()
    gc.disable()  # walking over thousands of new classes again and again is a sixth of the import's time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own deprecations are not the operator's concern
            import great_expectations
            import great_expectations.expectations
    finally:
        if collecting:
            gc.enable()

    # It logs the exceptions that it catches, with their text. Some of its modules set a level of their own,
    # hence the way up is closed as well.
    log = logging.getLogger("great_expectations")
    log.setLevel(logging.CRITICAL)
    log.propagate = False
    log.addHandler(logging.NullHandler())
    return great_expectations


def _context(gx: Any) -> Any:
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context
