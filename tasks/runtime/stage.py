"""What makes a plain function a stage: a Prefect task that keeps secrets.

Prefect stores the text of exceptions in its database and pickles them, hashes task inputs for its cache
and may store results. A stage therefore raises only Tabularium's own errors, whose text holds no data;
anything else becomes an :class:`~mechanisms.errors.InternalError` that names the kind and the line of
code and drops the text, the context and the traceback's frames.
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.tasks import Task

from mechanisms.errors import InternalError, TabulariumError
from tasks.runtime.progress import observed

_FLOORS = {Path(__file__).parents[2] / floor for floor in ("tasks", "validations", "ledger", "flows")}

P = ParamSpec("P")
R = TypeVar("R")


def stage(name: str) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a stage called ``name``; ``.fn`` of the result is the guarded plain function."""

    def wrap(function: Callable[P, R]) -> Task[P, R]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                with observed(name):
                    return function(*args, **kwargs)
            except Exception as error:
                failure = sanitised(error, name)
            # Raised outside the handler, so that the original is not carried along as context.
            raise failure

        shell = task(name=name, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
        return shell(guarded)

    return wrap


def sanitised(error: BaseException, where: str) -> TabulariumError:
    """Return an error that may leave the process, instead of ``error``."""
    if isinstance(error, TabulariumError):
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    if isinstance(error, OSError) and error.errno is not None:
        # Some libraries put a text of their own where the system's would be.
        return InternalError(
            f"the operating system refused: {os.strerror(error.errno)}",
            where=where,
            mend="free disk space or mend the rights of the folders, then run again",
        )
    return InternalError(
        f"{type(error).__name__} at {_line_of(error)}; its text is withheld because it may quote data",
        where=where,
        mend="run again with workspace.keep and report this line",
    )


def _line_of(error: BaseException) -> str:
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "an unknown line"
    ours = [f for f in frames if _FLOORS & set(Path(f.filename).parents)]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
