"""One run: its request, and the secure workspace in which it works."""

from __future__ import annotations

import hmac
import json
import os
import re
import resource
import uuid
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tabularium.mechanisms.errors import DataRefused
from tabularium.tasks.runtime import diagnoses
from tabularium.tasks.runtime.home import Home, named
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.workspace import Workspace, close_all
from tabularium.validations.release_spec.exact_facts import exact_facts
from tabularium.validations.release_spec.load import Loaded, load_spec

if TYPE_CHECKING:
    from tabularium.ledger import Ledger
    from tabularium.ledger.measurement.store import MeasurementStore
    from tabularium.tasks.postprocess.postprocessing import PostProcessor
    from tabularium.tasks.postprocess.table_layout import Layout

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request for a release.

    Attributes
    ----------
    spec
        Absolute path of the release spec.
    source, period
        Instead of the spec's own source or period; ``drop:ID`` is a drop that arrived in an inbox.
    home
        Absolute path of the home of the installation.
    revises
        Why what was published before is published again, as if the spec stated it.
    same_input
        Whether the input may be one that was released for another period of the product.
    measurements_of
        The earlier release from whose measurements it is made, as if the spec stated it.
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
        """Return a request with its paths made absolute."""
        elsewhere = drop_of(source) is not None or is_handed(source)
        if source is not None and "://" not in source and not elsewhere:
            source = os.path.abspath(source)  # noqa: PTH100 - a glob is not a path to resolve
        path = os.path.abspath(spec)  # noqa: PTH100
        return cls(path, source, period, str(named(home)), revises, same_input, measurements_of)


class _OpenHome(Home):
    """The home of a run, which reads the agency secret once."""

    @cached_property
    def _secret(self) -> bytes:
        return super().secret()

    def secret(self) -> bytes:
        """Return the agency secret as it was when the run asked for it first."""
        return self._secret


class Run:
    """One release in the making: its spec, ledger and workspace, and what follows from the spec.

    Everything but the request and the workspace is opened or worked out when it is asked for first, and once.
    Pickled, a run is only these two names: another process reads the spec again, and what is charged and
    what is drawn are compared by its digest (:mod:`tabularium.tasks.measure`).

    Parameters
    ----------
    loaded
        The spec of the request, where it has been read already.
    """

    def __init__(self, request: Request, workspace: str, loaded: Loaded | None = None) -> None:
        self.request, self.workspace = request, workspace
        if loaded is not None:
            self.loaded = loaded
        self._shared: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[type[Run], tuple[Request, str]]:
        return Run, (self.request, self.workspace)

    @cached_property
    def loaded(self) -> Loaded:
        """The checked spec with its code lists."""
        return load(self.request)

    @cached_property
    def post(self) -> PostProcessor:
        """The post-processing of the spec's tables, and their agreement."""
        from tabularium.tasks.postprocess.postprocessing import PostProcessor

        return PostProcessor.of(self.loaded)

    @property
    def layouts(self) -> dict[str, Layout]:
        """Name of each table and array of a measure -> its layout, in the order of the spec."""
        return self.post.agreement.layouts

    @cached_property
    def has_exact_facts(self) -> bool:
        """Whether the release shows exact facts of the data that no budget covers."""
        return bool(exact_facts(self.loaded.spec))

    @cached_property
    def installation(self) -> Home:
        """The home this run works in."""
        return _OpenHome(Path(self.request.home))

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of the home."""
        from tabularium.ledger import Ledger

        ledger = Ledger.connect(self.installation.ledger_url)
        self.installation.remember_ledger()
        return ledger

    @cached_property
    def store(self) -> MeasurementStore:
        """The measurement store of the home."""
        from tabularium.ledger.measurement.store import MeasurementStore

        return MeasurementStore(self.installation.measurements)

    @cached_property
    def release_id(self) -> str:
        """The permanent id under which this release is charged: 32 hexadecimal digits.

        The same product, period, spec and reason of a revision give the same name, hence the same charge. The
        input has no part in it: that two names differ would say that the data did.
        """
        loaded = self.loaded
        spec = loaded.spec
        named = json.dumps([spec.product, spec.period, loaded.digest, spec.revises], separators=(",", ":"))
        return hmac.digest(self.installation.subkey("release id"), named.encode(), "sha256").hex()[:32]

    @property
    def measurements_from(self) -> str:
        """The release whose measurements are published: this one, or the earlier one that the spec names."""
        return self.loaded.spec.measurements_of or self.release_id

    @property
    def name(self) -> str:
        """The run's name for operators: when it began (UTC), and a few random letters."""
        return Path(self.workspace).name

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value that stages of this run share under a key, made on first use."""
        if key not in self._shared:
            self._shared[key] = make()
        shared: T = self._shared[key]
        return shared

    def diagnose(self, stage: str, error: DataRefused) -> None:
        """Record at home why the data were refused."""
        spec = self.loaded.spec
        about = {"spec": self.request.spec, "product": spec.product, "period": spec.period}
        diagnoses.record(self.installation, self.name, about, stage, error)

    def folder(self, name: str) -> Path:
        """Return a folder of that name inside the secure workspace, created if missing."""
        path = Path(self.workspace) / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def __enter__(self) -> Run:
        return self

    def __exit__(self, exception: type[BaseException] | None, *more: object) -> None:
        """Close the resources that stages opened inside the workspace, and the ledger."""
        close_all(Path(self.workspace))
        if "ledger" in vars(self):
            self.ledger.__exit__(exception, *more)


def drop_of(source: str | None) -> str | None:
    """Return the id of the drop that a source names as ``drop:ID``; None for any other source."""
    match = _DROP.fullmatch(source or "")
    return match and match[1]


def is_handed(source: str | None) -> bool:
    """Whether a source names a table in memory: see :mod:`tabularium.tasks.ingest.ingest`."""
    return source is not None and source.startswith(HANDED)


#: How the names of such tables begin.
HANDED = "table in memory:"
_DROP = re.compile(r"drop:([0-9a-f]{32})")


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
    """Let a flow that begins inside the block, in this process, use the spec that was already read.

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
    """Return a flow's result, and hand it to the caller that handed over its spec."""
    if request in _handed_over:
        _handed_over[request][1].append(returned)
    return returned


@contextmanager
def opened(request: Request, loaded: Loaded | None = None, *, to_publish: bool = True) -> Iterator[Run]:
    """Open a run: its spec read, unless it is handed in, and a secure workspace that is removed at the end.

    The spec may ask for the workspace to be kept; that is for a run that is ``to_publish``, not for a look.
    No crash of this process leaves an image of its memory, files that it makes are only its own, and
    temporary files of libraries lie inside the workspace.
    """
    _forbid_core_files()
    before = os.umask(0o077)
    try:
        home = Home.at(request.home)
        workspace = Workspace.create(home)
        run, keep = Run(request, str(workspace.path), loaded), False
        try:
            with run, workspace.temporary_files_inside():
                keep = run.loaded.spec.workspace.keep and to_publish
                yield run
        except DataRefused as error:  # outside a stage, which would have done so itself
            run.diagnose("run", error)
            raise
        finally:
            if keep:
                workspace.keep()
                note(f"the secure workspace is kept and holds microdata: {workspace.path}")
            elif not workspace.remove():
                note(f"the secure workspace could not be removed; the next run tries again: {workspace.path}")
    finally:
        os.umask(before)


def without_data(loaded: Loaded) -> Run:
    """Return a run of a spec without home and workspace, for steps without data."""
    return Run(Request(str(loaded.path), None, None, ""), uuid.uuid4().hex, loaded)


def _forbid_core_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
