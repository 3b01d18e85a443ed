"""Diagnoses of refused data and tracebacks of unexpected errors, kept in files of the home.

A diagnosis says why the data of a run were refused, and is shown nowhere else. It names rules, columns, kinds
of fault and lines of files, never a value or a count. Each of these is known from the data and no budget
covers it: the file is for those who may see the data themselves.

A traceback is shown where no data were opened, and kept in a file otherwise: the text of an exception, and
those of its causes, may quote data. Only the name of the file leaves the home.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tabularium.mechanisms.errors import DataRefused, Finding, InputError, InternalError, RunRefused
from tabularium.tasks.runtime.home import Home, last_home, make_once

#: So many are kept, the newest.
KEPT = 100
_ENDING = ".json"
# The last refusal of each home that could not be written down: for the terminal of this process.
_unwritten: dict[Path, DataRefused] = {}


@dataclass(frozen=True)
class Diagnosis:
    """Why the data of one run were refused.

    Attributes
    ----------
    run
        Its name, which begins with when it began (UTC).
    message
        The line that the local terminal showed.
    """

    run: str
    spec: str
    product: str
    period: str
    stage: str
    message: str
    findings: tuple[Finding, ...]


def record(home: Home, run: str, about: Mapping[str, str], stage: str, error: DataRefused) -> None:
    """Record why a run was refused, once, and give the error the run's name.

    Where it cannot be written the error is raised all the same, without the name, and kept for
    ``for_local_terminal``.

    ``about``: ``spec``, ``product`` and ``period``.
    """
    if error.run:
        return
    diagnosis = Diagnosis(run, **about, stage=stage, message=error.line(), findings=error.findings)
    try:
        home.diagnoses.mkdir(mode=0o700, exist_ok=True)
        make_once(_file(home, run), json.dumps(asdict(diagnosis), indent=1).encode())
    except OSError:
        _unwritten[home.path] = error
        return
    error.run, error.again = run, command(home, run)
    with contextlib.suppress(OSError):
        for old in names(home)[:-KEPT]:
            _file(home, old).unlink(missing_ok=True)


def names(home: Home) -> list[str]:
    """Return the names of the runs that were refused, the oldest first."""
    return sorted(path.name.removesuffix(_ENDING) for path in home.diagnoses.glob(f"[!.]*{_ENDING}"))


def find(home: Home, run: str) -> Diagnosis:
    """Return the diagnosis of a run.

    Raises
    ------
    InputError
        If there is none, or it cannot be read.
    """
    hint = "name a run that `tabularium diagnose` lists"
    if run not in names(home):
        raise InputError("no data of this run were refused", where=f"run {run}", hint=hint)
    try:
        document = json.loads(_file(home, run).read_bytes())
        return Diagnosis(
            **{**document, "findings": tuple(Finding(**finding) for finding in document["findings"])}
        )
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError("its diagnosis cannot be read", where=f"run {run}", hint=hint) from None


def for_local_terminal(home: Home, error: RunRefused) -> DataRefused | RunRefused:
    """Return the error for the local terminal, with the reasons that others may not see."""
    if not error.run:
        return _unwritten.get(home.path, error)
    diagnosis = find(home, error.run)
    refusal = DataRefused(diagnosis.message, findings=diagnosis.findings)
    refusal.run, refusal.again = diagnosis.run, command(home, diagnosis.run)
    return refusal


def command(home: Home, run: str) -> str:
    """Return the command that shows a diagnosis again."""
    return f"tabularium diagnose {run}{home.option}"


def _file(home: Home, run: str) -> Path:
    return home.diagnoses / f"{run}{_ENDING}"


_TRACEBACK = ".txt"


class Unexpected(InternalError):
    """An unexpected error before this process opened any data.

    ``traceback``: where, for the local terminal.
    """

    traceback = ""


def formatted(error: BaseException) -> str:
    """Return the traceback with its causes: frames, lines of code and texts, and no local variables."""
    return "".join(traceback.format_exception(error))


def keep_traceback(error: BaseException, home: Home | None = None) -> Path | None:
    """Write a traceback to a file that only its owner can read; return the file, or None if it cannot be.

    ``home``: where the error happened; the home that this process used last when None.
    """
    home = home or last_home()
    if home is None or not home.path.is_dir():
        return None
    file = home.tracebacks / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}{_TRACEBACK}"
    try:
        home.tracebacks.mkdir(mode=0o700, exist_ok=True)
        make_once(file, formatted(error).encode(errors="backslashreplace"))
    except OSError:
        return None
    with contextlib.suppress(OSError):
        for old in sorted(home.tracebacks.glob(f"[!.]*{_TRACEBACK}"))[:-KEPT]:
            old.unlink(missing_ok=True)
    return file
