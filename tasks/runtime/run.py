"""One run: what it is asked to do, and the secure workspace in which it does it."""

from __future__ import annotations

import hmac
import json
import os
import re
import resource
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tabularium.mechanisms.errors import DataRefused
from tabularium.tasks.runtime import diagnoses
from tabularium.tasks.runtime.home import Home, named
from tabularium.tasks.runtime.kept_open import close_within
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.workspace import Workspace
from tabularium.validations.spec.load import Loaded, load_spec


@dataclass(frozen=True)
class Request:
    """A release that somebody asks for.

    Attributes
    ----------
    spec
        Absolute path of the release spec.
    source, period
        Instead of the spec's own source or period; ``drop:ID`` is a drop that arrived in an inbox.
    home
        Absolute path of the home of the installation.
    revises
        Why what was published before is published again, as if the spec said so.
    same_input
        Whether the input may be one that was released for another period of the product.
    measurements_of
        The earlier release from whose measurements it is made, as if the spec said so.
    """

    spec: str
    source: str | None
    period: str | None
    home: str
    revises: str | None = None
    same_input: bool = False
    measurements_of: str | None = None

    @classmethod
    def of(
        cls,
        spec: str | Path,
        source: str | None = None,
        period: str | None = None,
        home: str | Path | None = None,
        revises: str | None = None,
        *,
        same_input: bool = False,
        measurements_of: str | None = None,
    ) -> Request:
        """Name a request, wherever it is asked from."""
        elsewhere = drop_of(source) is not None or is_handed(source)
        if source is not None and "://" not in source and not elsewhere:
            source = os.path.abspath(source)  # noqa: PTH100 - a glob is not a path to resolve
        path = os.path.abspath(spec)  # noqa: PTH100
        return cls(path, source, period, str(named(home)), revises, same_input, measurements_of)


@dataclass(frozen=True)
class Run:
    """Names of what a stage needs, never the things themselves: small enough for a task's parameter."""

    request: Request
    workspace: str

    @property
    def loaded(self) -> Loaded:
        """The checked spec with its code lists, read once per process.

        A task in a process of its own reads it again; what is charged and what is drawn are compared by the
        spec's digest, see :mod:`tabularium.tasks.measure`.
        """
        if self.workspace not in _specs:
            _specs[self.workspace] = load(self.request)
        return _specs[self.workspace]

    @property
    def installation(self) -> Home:
        """The home this run works in."""
        return Home(Path(self.request.home))

    @property
    def release_id(self) -> str:
        """The name under which this release is charged, today and for ever: 32 hexadecimal digits.

        The same product, period, spec and reason of a revision give the same name, hence the same charge. The
        input has no part in it: that two names differ would say that the data did.
        """
        loaded = self.loaded
        spec = loaded.spec
        named = json.dumps([spec.product, spec.period, loaded.digest, spec.revises], separators=(",", ":"))
        return hmac.digest(self.installation.subkey("release id"), named.encode(), "sha256").hex()[:32]

    @property
    def measured_as(self) -> str:
        """The release whose measurements are published: this one, or the earlier one that the spec names."""
        return self.loaded.spec.measurements_of or self.release_id

    @property
    def name(self) -> str:
        """What operators call this run: when it began (UTC), and a few letters by chance."""
        return Path(self.workspace).name

    def diagnose(self, stage: str, error: DataRefused) -> None:
        """Write down at home why the data were refused."""
        spec = self.loaded.spec
        about = {"spec": self.request.spec, "product": spec.product, "period": spec.period}
        diagnoses.record(self.installation, self.name, about, stage, error)

    def folder(self, name: str) -> Path:
        """Return a folder of that name inside the secure workspace, made if it is not there."""
        path = Path(self.workspace) / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path


def drop_of(source: str | None) -> str | None:
    """Return the id of the drop that a source names as ``drop:ID``; None of any other source."""
    found = _DROP.fullmatch(source or "")
    return found and found[1]


def is_handed(source: str | None) -> bool:
    """Whether a source names a table in memory: see :mod:`tabularium.tasks.ingest.handed_tables`."""
    return source is not None and source.startswith(HANDED)


#: How the names of such tables begin.
HANDED = "table in memory:"
_DROP = re.compile(r"drop:([0-9a-f]{32})")
# Specs of the runs that are open in this process, by workspace.
_specs: dict[str, Loaded] = {}


def load(request: Request) -> Loaded:
    """Read and check the spec of a request.

    Raises
    ------
    InputError
        If it has mistakes.
    """
    elsewhere = drop_of(request.source) is not None or is_handed(request.source)
    source = None if elsewhere else request.source  # the spec says how its files are written
    return load_spec(
        Path(request.spec),
        source=source,
        period=request.period,
        revises=request.revises,
        measurements_of=request.measurements_of,
    )


# Specs that were read before the flow that is to use them began, by request, and what those flows return.
_handed_over: dict[Request, tuple[Loaded, list[dict[str, str | None]]]] = {}


@contextmanager
def handing_over(request: Request, loaded: Loaded) -> Iterator[list[dict[str, str | None]]]:
    """Let a flow that begins inside the block, in this process, use the spec that was read already.

    Yields
    ------
    What the flow returns, once it has: what Prefect says that it returned, its server may have made up.
    """
    returned: list[dict[str, str | None]] = []
    _handed_over[request] = loaded, returned
    try:
        yield returned
    finally:
        _handed_over.pop(request, None)


def handed_over(request: Request) -> Loaded | None:
    """Return the spec that was handed over for a request, if one was."""
    return _handed_over[request][0] if request in _handed_over else None


def hand_back(request: Request, returned: dict[str, str | None]) -> dict[str, str | None]:
    """Return what a flow returns, after telling whoever handed it its spec."""
    if request in _handed_over:
        _handed_over[request][1].append(returned)
    return returned


@contextmanager
def opened(request: Request, loaded: Loaded | None = None, *, to_publish: bool = True) -> Iterator[Run]:
    """Open a run: its spec read, unless it is handed in, and a secure workspace that is removed at the end.

    The spec may ask for the workspace to be kept; that is for a run that is ``to_publish``, not for a look.
    No crash of this process leaves an image of its memory, files that it makes are its own alone, and
    temporary files of libraries lie inside the workspace.
    """
    _forbid_core_files()
    before = os.umask(0o077)
    try:
        home = Home.at(request.home)
        workspace = Workspace.create(home)
        run = Run(request, str(workspace.path))
        keep = False
        try:
            _specs[run.workspace] = loaded or load(request)
            keep = to_publish and run.loaded.spec.workspace.keep
            with workspace.temporary_files_inside():
                yield run
        except DataRefused as error:  # outside a stage, which would have done so itself
            run.diagnose("run", error)
            raise
        finally:
            _specs.pop(run.workspace, None)
            close_within(workspace.path)
            if keep:
                workspace.keep()
                note(f"the secure workspace is kept and holds microdata: {workspace.path}")
            elif not workspace.remove():
                note(f"the secure workspace could not be removed; the next run tries again: {workspace.path}")
    finally:
        os.umask(before)


@contextmanager
def without_data(loaded: Loaded) -> Iterator[Run]:
    """Yield a run that has a spec, and neither a home nor a workspace: for what can be tried without data."""
    run = Run(Request(str(loaded.path), None, None, ""), uuid.uuid4().hex)
    _specs[run.workspace] = loaded
    try:
        yield run
    finally:
        del _specs[run.workspace]


def _forbid_core_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
