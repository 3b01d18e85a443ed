"""Great Expectations in a process of its own, where it is imported while a release goes on here.

The process lives as long as the block of `suites_beside`. It is told suites and small tables of numbers
through a pipe and answers with booleans; it inherits what keeps this process from leaving anything behind.
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
from pathlib import Path
from typing import Any

from tabularium.validations.suites import gx_engine
from tabularium.validations.suites.gx_engine import Expected, Number

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tabularium.validations.suites.suite_process import serve; serve()"
)

_process: ContextVar[subprocess.Popen[bytes] | None] = ContextVar("tabularium_suites", default=None)


@contextmanager
def suites_beside() -> Iterator[None]:
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
