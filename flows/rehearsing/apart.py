"""The child process of a rehearsal: it opens a home with one account, publishes, and reports in JSON lines.

Which home and ledger the program works with follows from environment variables. If a rehearsal changed them
in the process that asks for it, a release that runs beside it there could lose sight of its ledger and draw
noise again that is already paid for. So a rehearsal has a process with an environment of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from tabularium.mechanisms.errors import InputError, InternalError, TabulariumError
from tabularium.tasks.runtime.diagnoses import Unexpected
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporter, reporting_to
from tabularium.tasks.runtime.stage import sanitised
from tabularium.validations.spec.problems import Problem, SpecProblems

_OF_AN_INSTALLATION = ("TABULARIUM_", "PREFECT_")
#: Limits of memory and disk hold for a rehearsal too; no other variable of an installation is handed on.
_KEPT = ("TABULARIUM_ENGINE_MEMORY", "TABULARIUM_WORKSPACES")


def released_apart(written: Path, home: Path, spec: Path) -> Path:
    """Publish a spec under a new home in a child process, and return the folder of the release.

    The stages of the child are reported here. Its notes are not: they are about made-up records.

    Parameters
    ----------
    written
        The spec of the rehearsal.
    home
        The new home.
    spec
        The spec that is rehearsed: problems name it.

    Raises
    ------
    TabulariumError
        As the release would.
    InternalError
        The child failed unexpectedly, or was killed.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith(_OF_AN_INSTALLATION)
    }
    command = [sys.executable, "-P", "-m", __name__, str(written), str(home)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - this program
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it was asked for
        try:
            for line in process.stdout:
                message = json.loads(line)
                match message.pop("kind"):
                    case "published":
                        return Path(message["folder"])
                    case "refused":
                        raise _error_in(message, written.name, spec.name)
                    case kind:
                        getattr(reporter(), kind)(**message)
            code = process.wait()
        finally:
            process.kill()
        errors.seek(0)
        raise _ended(code, errors.read().decode(errors="backslashreplace"))


def _error_in(message: dict[str, Any], written: str, spec: str) -> TabulariumError:
    """Return the error that the child reports; problems of its spec become problems of the user's."""
    problems = [Problem(**each) for each in message["problems"]]
    if problems:
        return SpecProblems(
            [replace(each, line=None, file=spec) if each.file == written else each for each in problems]
        )
    if message["traceback"]:
        error = Unexpected("an unexpected error", where=message["where"], hint="report it with its traceback")
        error.traceback = message["traceback"]
        return error
    kind = InternalError if message["internal"] else InputError
    return kind(message["what"], where=message["where"], hint=message["hint"])


def _ended(code: int, errors: str) -> InternalError:
    """Return the error for a child that ended without a report."""
    if code < 0:
        return InternalError(
            f"the process of the rehearsal was killed by {signal.Signals(-code).name}",
            where="rehearse",
            hint="if memory ran out, give fewer --rows; else run it again",
        )
    error = Unexpected(
        f"the process of the rehearsal ended with exit code {code} and no result",
        where="rehearse",
        hint="report it with its traceback",
    )
    error.traceback = errors
    return error


@dataclass
class _JsonLines(NullReporter):
    """A reporter that writes stages and progress as lines of JSON."""

    to: TextIO = sys.stdout

    def write(self, kind: str, **content: Any) -> None:
        """Write a message."""
        self.to.write(json.dumps({"kind": kind, **content}) + "\n")
        self.to.flush()

    def started(self, stage: str) -> None:
        """Write that a stage begins."""
        self.write("started", stage=stage)

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Write that a stage ended well."""
        self.write("finished", stage=stage, seconds=seconds, peak_mib=peak_mib)

    def failed(self, stage: str) -> None:
        """Write that a stage raised."""
        self.write("failed", stage=stage)

    def advanced(self, cells: int, of: int) -> None:
        """Write how many cells are done."""
        self.write("advanced", cells=cells, of=of)

    def refused(self, error: TabulariumError, traceback: str) -> None:
        """Write why there is no release."""
        problems = error.problems if isinstance(error, SpecProblems) else ()
        self.write(
            "refused",
            what=error.what,
            where=error.where,
            hint=error.hint,
            internal=isinstance(error, InternalError),
            problems=[each.as_json() for each in problems],
            traceback=traceback,
        )


def _publish(spec: Path, home: Path) -> Path:
    """Publish a spec under a new home whose account can pay for this release alone."""
    from tabularium.flows.release_chain import release_tables
    from tabularium.ledger import Ledger
    from tabularium.tasks.runtime.run import Request, load

    request = Request.of(spec, home=home)
    loaded = load(request)
    privacy = loaded.spec.privacy
    with Ledger.connect(Home.at(home).ledger_url) as ledger:
        ledger.open_account(
            loaded.spec.dataset,
            unit=privacy.protects,
            population=privacy.unit.population,
            relation=privacy.relation,
            definition=privacy.definition,
            cap=privacy.budget,
            delta=privacy.delta,
        )
    return Path(release_tables(request, loaded).folder)


def _main() -> None:
    spec, home = map(Path, sys.argv[1:])
    lines = _JsonLines()
    try:
        with reporting_to(lines):
            folder = _publish(spec, home)
    except Exception as error:
        failure = sanitised(error, "rehearse", Home.at(home))
        shown = getattr(failure, "traceback", "")
        if isinstance(failure, InternalError) and not shown:
            # The home keeps it closed and is thrown away; the data are made up, so that it quotes nobody.
            shown = "\n".join(each.read_text() for each in Home.at(home).tracebacks.glob("*.txt"))
        lines.refused(failure, shown)
    else:
        lines.write("published", folder=str(folder))


if __name__ == "__main__":
    _main()
