"""Suites: what must hold of a small table of numbers, judged by Great Expectations, told as pass or fail.

No record is ever looked at, only numbers that were computed from them in the engine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabularium.mechanisms.errors import InternalError
from tabularium.validations.redaction import redacted
from tabularium.validations.suites.gx_engine import Bound, Expected, Number, Same, Severity
from tabularium.validations.suites.suite_process import run_suite

__all__ = ["Bound", "Expected", "Number", "RuleResult", "Same", "Severity", "check_suite", "write_private"]


@dataclass(frozen=True)
class RuleResult:
    """Whether one rule holds: all that leaves a validation.

    ``note`` says why a rule was not applied, if it was not; it never speaks of the data.
    """

    name: str
    severity: Severity
    passed: bool
    note: str = ""


def check_suite(
    name: str,
    numbers: Mapping[str, Sequence[Number]],
    expected: Sequence[Expected],
    results: Path | None = None,
) -> tuple[RuleResult, ...]:
    """Check a table of numbers by a suite.

    Parameters
    ----------
    name
        Name of the suite.
    numbers
        Column -> one number per row.
    expected
        The suite. Several expectations may bear one rule's name: the rule holds if all of them do.
    results
        Where to write what Great Expectations says (booleans and the suite itself), mode 0600; nowhere if
        None.

    Returns
    -------
    One result per rule, in the order of ``expected``

    Raises
    ------
    InternalError
        If Great Expectations could not check an expectation.
    """
    if not expected:
        return ()
    failure = InternalError("Great Expectations could not check the metrics", where=f"suite {name}")
    verdicts, document = redacted(lambda: run_suite(name, numbers, expected), failure)
    if results is not None:
        redacted(lambda: write_private(results, document), failure)
    passed: dict[str, bool] = {}
    for expectation, verdict in zip(expected, verdicts, strict=True):
        passed[expectation.rule] = passed.get(expectation.rule, True) and verdict
    severity = {expectation.rule: expectation.severity for expectation in expected}
    return tuple(RuleResult(rule, severity[rule], verdict) for rule, verdict in passed.items())


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, replacing an earlier one."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
