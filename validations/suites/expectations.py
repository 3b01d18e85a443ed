"""Suites: what must hold of a small table of numbers, judged by Great Expectations as pass or fail.

No record is ever looked at, only numbers that were computed from them in the engine.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabularium.mechanisms.errors import InternalError
from tabularium.validations.redaction import redacted
from tabularium.validations.suites import gx_engine
from tabularium.validations.suites.gx_engine import Bound, Expected, Number, Same, Severity

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

    Returns a result per rule, in the order of ``expected``.

    Parameters
    ----------
    numbers
        Column -> one number per row.
    expected
        The suite. Several expectations may bear one rule's name: the rule holds if all of them do.
    results
        Where to write what Great Expectations says (booleans and the suite itself), mode 0600; nowhere if
        None.

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


# Great Expectations runs in a process of its own, where it is imported while a release goes on here. The
# process lives as long as the block of `suites_apart`. It gets suites and small tables of numbers through
# a pipe and answers with booleans; it inherits what keeps this process from leaving anything behind.

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tabularium.validations.suites.expectations import serve; serve()"
)

_process: ContextVar[subprocess.Popen[bytes] | None] = ContextVar("tabularium_suites", default=None)


@contextmanager
def suites_apart() -> Iterator[None]:
    """Have suites of the block run in another process, which imports the library at once.

    Where the library is imported already, suites run here.
    """
    if "great_expectations" in sys.modules:
        yield
        return
    process = subprocess.Popen(  # noqa: S603 - this very Python
        [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[3])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
    )
    token = _process.set(process)
    try:
        yield
    finally:
        _process.reset(token)
        process.kill()
        process.communicate()


def run_suite(
    name: str, numbers: Mapping[str, Sequence[Number]], expected: Sequence[Expected]
) -> tuple[list[bool], str]:
    """Run a suite where suites run: as :func:`tabularium.validations.suites.gx_engine.run_suite`."""
    process = _process.get()
    if process is None:
        return gx_engine.run_suite(name, numbers, expected)
    assert process.stdin is not None and process.stdout is not None  # noqa: S101 - both are pipes
    pickle.dump((name, dict(numbers), list(expected)), process.stdin)
    process.stdin.flush()
    answer: Any = pickle.load(process.stdout)  # noqa: S301 - from our own process
    if answer is None:
        raise gx_engine.NotCheckedError("the suite could not be run")
    verdicts, document = answer
    return verdicts, document


def serve() -> None:
    """Run the suites that standard input names, until it ends; answer None where that fails."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    gx_engine.library()
    while True:
        try:
            question = pickle.load(questions)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        try:
            answer = gx_engine.run_suite(*question)
        except Exception:
            answer = None
        pickle.dump(answer, answers)
        answers.flush()
