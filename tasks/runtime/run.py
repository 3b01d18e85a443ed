"""What one run is asked to do; small enough to be a task's parameter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tasks.runtime.home import Home
from validations.spec.load import Loaded, load_spec


@dataclass(frozen=True)
class Run:
    """Names of everything a stage needs; never the things themselves."""

    spec: str
    source: str | None
    period: str | None
    home: str
    workspace: str

    @property
    def loaded(self) -> Loaded:
        """The checked spec with its code lists, read once per run and process.

        A task that runs in another process reads it again; what is charged and what is drawn are compared
        by the spec's digest, see :mod:`tasks.measure`.
        """
        return _loaded(self.workspace, self.spec, self.source, self.period)

    @property
    def installation(self) -> Home:
        """The home this run works in."""
        return Home(Path(self.home))

    def folder(self, name: str) -> Path:
        """Return a folder of that name inside the secure workspace, made if it is not there."""
        path = Path(self.workspace) / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path


@lru_cache(maxsize=4)
def _loaded(_workspace: str, spec: str, source: str | None, period: str | None) -> Loaded:
    return load_spec(Path(spec), source=source, period=period)
