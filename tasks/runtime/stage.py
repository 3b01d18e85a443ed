"""A stage: one step of a release, as a Prefect task inside a flow and as a plain call elsewhere.

Prefect stores the text of exceptions in its database and pickles them, hashes task inputs for its cache and
may store results. A stage therefore raises only Tabularium's own errors, whose text holds no data; anything
else becomes an :class:`~tabularium.mechanisms.errors.InternalError` without its text, context and frames. Its
traceback is shown on the terminal as long as this process has opened no data, and is written to a closed file
of the home otherwise (:mod:`tabularium.tasks.runtime.diagnoses`). Inside a flow, an error shows that the data
were refused, and a diagnosis at home shows why. A stage takes handles, its run first, and returns handles:
names of things in the secure workspace, never the things.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from tabularium.mechanisms.errors import DataRefused, InternalError, TabulariumError
from tabularium.tasks.runtime.diagnoses import Unexpected, formatted, keep_traceback
from tabularium.tasks.runtime.extras import not_installed
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import observed, stopping
from tabularium.validations.redaction import data_were_opened, is_ours

if TYPE_CHECKING:
    from tabularium.tasks.runtime.run import Run

P = ParamSpec("P")
R = TypeVar("R")


class Stage(Generic[P, R]):
    """A named function of a run.

    Attributes
    ----------
    name
        What operators and Prefect call it.
    composite
        Whether it consists of stages. They are plain calls then, and Prefect sees only this one.
    """

    def __init__(self, name: str, function: Callable[P, R], *, composite: bool = False) -> None:
        self.name, self.function, self.composite = name, function, composite
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the stage: as a task where a Prefect flow runs, plainly elsewhere.

        Raises
        ------
        TabulariumError
            Whatever went wrong, in one line without data.
        """
        as_task = _inside_a_flow() and not _inside_a_task()
        result: R = (self._task if as_task else self._guarded)(*args, **kwargs)
        return result

    @cached_property
    def _task(self) -> Any:
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        def guarded(*args: Any, **kwargs: Any) -> R:
            return self._guarded(*args, **kwargs)

        shell = task(name=self.name, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
        return shell(update_wrapper(guarded, self.function))

    def _guarded(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with nullcontext() if self.composite else observed(self.name):
                return self.function(*args, **kwargs)
        except Exception as error:
            run = _run_of(args)
            if isinstance(error, DataRefused) and run is not None and stopping.requested() is None:
                run.diagnose(self.name, error)
            # A dry run by `check` has no home.
            home = run.installation if run is not None and run.request.home else None
            failure = public_error(error, self.name, home)
        # Raised outside the handler, so that the original is not carried along as context.
        raise failure


def stage(name: str, *, composite: bool = False) -> Callable[[Callable[P, R]], Stage[P, R]]:
    """Make a function the stage called ``name``."""
    return lambda function: Stage(name, function, composite=composite)


def _run_of(arguments: tuple[Any, ...]) -> Run | None:
    """Return the run that a stage works for, which is its first argument."""
    from tabularium.tasks.runtime.run import Run  # with all that specs need, and a watcher does not

    return arguments[0] if arguments and isinstance(arguments[0], Run) else None


def _inside_a_flow() -> bool:
    """Whether a Prefect flow or task runs here; where Prefect was never imported, none does."""
    context = sys.modules.get("prefect.context")
    if context is None:
        return False
    return context.FlowRunContext.get() is not None or _inside_a_task()


def _inside_a_task() -> bool:
    context = sys.modules.get("prefect.context")
    return context is not None and context.TaskRunContext.get() is not None


def public_error(error: BaseException, where: str, home: Home | None = None) -> BaseException:
    """Return the error that may leave a stage or a run; inside a flow, without the reason of refused data.

    Once somebody has asked this process to stop, that is what leaves: a library that is interrupted may fail
    in a way of its own, as if the data were at fault.
    """
    asked = stopping.requested()
    if asked is not None:
        return asked
    failure = sanitised(error, where, home)
    return failure.in_public() if isinstance(failure, DataRefused) and _inside_a_flow() else failure


def sanitised(error: BaseException, where: str, home: Home | None = None) -> TabulariumError:
    """Return an error that may leave the process, instead of ``error``.

    ``home``: where a traceback is kept that may not be shown; the home that this process used last when None.
    """
    if isinstance(error, TabulariumError):
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    if isinstance(error, ImportError) and (lacking := not_installed(error, where)) is not None:
        return lacking
    if isinstance(error, OSError) and error.errno in _HINTS:
        # Some libraries put a text of their own where the system's would be.
        return InternalError(
            f"the operating system refused: {os.strerror(error.errno)}", where=where, hint=_HINTS[error.errno]
        )
    if not (data_were_opened() or _inside_a_flow()):
        shown = Unexpected(
            f"unexpected {type(error).__name__} at {_line_of(error)}: {error}",
            where=where,
            hint="report it with its traceback",
        )
        shown.traceback = formatted(error)
        return shown
    file = keep_traceback(error, home)
    kept = "could not be written to the home" if file is None else f"stands in {file}"
    # Prefect stores it: which line it was may follow from the data.
    what = "" if _inside_a_flow() else f" {type(error).__name__} at {_line_of(error)}"
    return InternalError(
        f"unexpected error{what}; its text is withheld because it may quote data, and its traceback {kept}",
        where=where,
        hint="read it there, and report it without what it quotes of the data",
    )


_RIGHTS = "correct the rights of the files and folders it works with, then run again"
_ROOM = "free disk space, then run again"
_IN_THE_WAY = "move away what lies where a file or folder of the program belongs, then run again"
#: What the operating system refuses for reasons outside this program -> what to do.
_HINTS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _ROOM),
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n), then run again"
    ),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.ELOOP), _IN_THE_WAY),
    **dict.fromkeys((errno.EIO, errno.ESTALE), "check the disk or network drive, then run again"),
    **dict.fromkeys(
        (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH),
        "check that the other side is up and can be reached, then run again",
    ),
}


def _line_of(error: BaseException) -> str:
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "an unknown line"
    ours = [f for f in frames if is_ours(f.filename)]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
