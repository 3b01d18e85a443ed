"""The process of a rehearsal: a home of its own, an account that pays for one release, and the release.

A process apart, because what an installation is, is said by its environment: in the process of whoever asks,
a run that goes on beside could find itself without its ledger, and draw anew what is paid for already.
It is told a spec and a folder, and tells what happens as a line of JSON for each thing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tabularium.mechanisms.errors import InputError, InternalError, TabulariumError
from tabularium.tasks.runtime.progress import Quiet, reporter, reporting_to

_OF_AN_INSTALLATION = ("TABULARIUM_", "PREFECT_")


def released_apart(spec: Path, home: Path) -> Path:
    """Publish a spec under a new home, in a process that knows of no other, and return the folder.

    Its stages are reported here. What it notes is not: it is of made-up records.

    Raises
    ------
    TabulariumError
        As the release would.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_OF_AN_INSTALLATION)
    }
    command = [sys.executable, "-P", "-m", __name__, str(spec), str(home)]
    with subprocess.Popen(  # noqa: S603 - this program
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        try:
            for line in process.stdout:
                found = _heard(json.loads(line))
                if found is not None:
                    return found
        finally:
            process.kill()
    raise InternalError("the process of the rehearsal ended", where="rehearse", mend="run it again")


def _heard(told: dict[str, Any]) -> Path | None:
    kind = told.pop("told")
    if kind == "published":
        return Path(told["folder"])
    if kind == "refused":
        raise InputError(told["what"], where=told["where"], mend=told["mend"])
    getattr(reporter(), kind)(**told)
    return None


@dataclass
class _Telling(Quiet):
    """Tells of stages, and of cells that are done."""

    to: TextIO = sys.stdout

    def tell(self, kind: str, **what: Any) -> None:
        """Tell a thing."""
        self.to.write(json.dumps({"told": kind, **what}) + "\n")
        self.to.flush()

    def started(self, stage: str) -> None:
        """Tell it."""
        self.tell("started", stage=stage)

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Tell it."""
        self.tell("finished", stage=stage, seconds=seconds, peak_mib=peak_mib)

    def failed(self, stage: str) -> None:
        """Tell it."""
        self.tell("failed", stage=stage)

    def advanced(self, cells: int, of: int) -> None:
        """Tell it."""
        self.tell("advanced", cells=cells, of=of)


def _publish(spec: Path, home: Path) -> Path:
    """Publish a spec under a new home whose account can pay for just that."""
    from tabularium.flows.release_chain import release_tables
    from tabularium.ledger import Ledger
    from tabularium.tasks.runtime.home import Home
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
    telling = _Telling()
    try:
        with reporting_to(telling):
            folder = _publish(Path(sys.argv[1]), Path(sys.argv[2]))
    except TabulariumError as error:
        telling.tell("refused", what=error.what, where=error.where, mend=error.mend)
    else:
        telling.tell("published", folder=str(folder))


if __name__ == "__main__":
    _main()
