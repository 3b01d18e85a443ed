"""The release that is verified: its files, read once and within limits, and its tables made again.

Nobody vouches for the folder: see :mod:`tabularium.tasks.public_folder`.

The published tables are made again from the published measurements, by the functions that made them::

    measurements/ ─▶ mechanisms' own post-processing ─▶ consistency ─▶ non-negativity ─▶ rounding ─▶ margins

The measurements are compared with the spec before anything is computed from them, so that a folder of unknown
origin cannot ask for another mechanism, or for arrays that no table of its size has.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from tabularium.mechanisms import build, restore
from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.errors import PublicationError, TabulariumError
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.tasks import public_folder
from tabularium.tasks.measure import Finished, MeasuredError, Parts
from tabularium.tasks.postprocess.estimation import Estimation, estimate
from tabularium.tasks.postprocess.postprocessing import CHANGED_IN_VERSION, REMADE
from tabularium.tasks.public_folder import MOST_CELLS, named, open_parquet
from tabularium.tasks.publish.measurement_files import FOLDER, INDEX, MOST_NUMBERS, read_measurement
from tabularium.tasks.publish.read_release import Released, TooManyCells
from tabularium.tasks.runtime.extras import DISTRIBUTION
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.certificate import CERTIFICATE, Certificate, OtherFormat
from tabularium.validations.public_files import LARGEST_JSON, Unreadable
from tabularium.validations.release_spec.checks.table_checks import MECHANISM
from tabularium.validations.release_spec.model import ReleaseSpec

T = TypeVar("T")
STATEMENT = "statement.dsse.json"


class NotARelease(Exception):
    """The folder is not a readable release; the text is one line."""


@contextmanager
def failing() -> Iterator[None]:
    """Turn errors of a file into the failure of the check that reads it."""
    try:
        yield
    except Unreadable as error:
        raise Failed(str(error)) from None


@dataclass(frozen=True, eq=False)
class Subject:
    """A release folder, with the key and export at hand for its verification.

    Attributes
    ----------
    key
        File of a public key for releases, which did not come with the folder.
    export
        File of an exported ledger.
    """

    folder: Path
    key: Path | None = None
    export: Path | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield everything in the folder at any depth, by its name from there; links are not followed.

        Raises
        ------
        Failed
            There is more than any release holds, or a name that cannot be read.
        """
        with failing():
            yield from public_folder.entries(self.folder)

    def read(self, name: str, largest: int = LARGEST_JSON) -> bytes:
        """Return a file of the folder, which must be a plain file of at most ``largest`` bytes."""
        with failing():
            return public_folder.read(self.folder, name, largest)

    def document(self, name: str) -> dict[str, Any]:
        """Return a JSON object that a file of the folder holds."""
        with failing():
            return public_folder.document(self.folder, name)[1]

    def sha256(self, name: str) -> str:
        """Return the digest of a file of the folder, which must not be larger than its rows explain."""
        with failing():
            return public_folder.sha256_of(self.folder, name, public_folder.largest_file(self.certificate))

    @cached_property
    def raw(self) -> bytes:
        """The certificate as it stands."""
        try:
            return self.read(CERTIFICATE)
        except Failed as error:
            raise NotARelease(f"{self.folder}: {error}; name the folder that holds {CERTIFICATE}") from None

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate.

        Raises
        ------
        NotARelease
            It is none, or one of another format.
        """
        raw = self.raw
        try:
            return Certificate.read(raw)
        except OtherFormat as error:
            what = f"{CERTIFICATE} {error}; use the version that made it"
            raise NotARelease(f"{self.folder}: {what}") from None
        except Unreadable as error:
            raise NotARelease(f"{self.folder}: {CERTIFICATE} {error}") from None

    @property
    def digest(self) -> str:
        """The SHA-256 of the certificate."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def released(self) -> Released:
        """The release with its spec and code lists; a separate check reports why they cannot be read."""
        try:
            return self.read_spec()
        except TabulariumError:
            raise Skipped("a spec and code lists that can be read") from None

    def read_spec(self) -> Released:
        """Return ``released``, or raise the reason why it cannot be read."""
        return self.cached("released", lambda: Released.read(self.folder, self.certificate, self.digest))

    @cached_property
    def index(self) -> dict[str, Any]:
        """The index of the measurements.

        Raises
        ------
        Skipped
            They are withheld.
        """
        withheld = self.certificate.measurements.withheld
        if withheld is not None:
            raise Skipped(f"the noisy measurements, which are withheld: {withheld}")
        return self.document(f"{FOLDER}/{INDEX}")

    @property
    def names(self) -> list[str]:
        """The tables and histograms of the release."""
        spec = self.released.spec
        return [*(table.name for table in spec.tables), *(histogram.name for histogram in spec.histograms)]

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of ``make``, called once; raise its error again."""
        if name not in self._made:
            try:
                self._made[name] = make(), None
            except Exception as error:
                self._made[name] = None, error
                raise
        made, raised = self._made[name]
        if raised is not None:
            raise raised
        value: T = made
        return value

    def require_outside_folder(self, path: Path, what: str) -> None:
        """Refuse a key or an export inside the release: its author could have written it."""
        if path.resolve().is_relative_to(self.folder.resolve()):
            raise Skipped(f"{what} got elsewhere: one that lies in the release is no reason to believe it")

    def bounded(self) -> None:
        """See, before a table is made in memory, that it is no larger than files of the folder show."""
        try:
            self.released.bounded()
        except TooManyCells as error:
            raise Skipped(
                f"a machine and software that hold more than {MOST_CELLS:,} cells in memory; "
                f"{CERTIFICATE}: {error.what}"
            ) from None
        except PublicationError as error:
            raise Failed(error.what) from None


# --- what a check comes to: it was made, it could not be made, or it found something wrong

Outcome = Literal["checked", "unchecked", "failed"]


class Failed(Exception):
    """A check failed; the text is one line."""


class Skipped(Exception):
    """A check could not be made; the text says what it needs."""


@dataclass(frozen=True)
class Check:
    """One check of a release.

    Attributes
    ----------
    what
        What is checked, as a statement that holds or does not.
    look
        Takes the release (:mod:`tabularium.tasks.verify.subject`) and returns a remark, often an empty one;
        raises ``Failed`` or ``Skipped``. Whatever else it raises, of a folder that nobody vouches for, is a
        failure as well.
    """

    group: str
    what: str
    look: Callable[[Any], str | None]


@dataclass(frozen=True)
class Finding:
    """The outcome of a check.

    Attributes
    ----------
    said
        A remark; what would be needed; or what is wrong.
    not_installed
        Whether it was not made for want of a library.
    """

    group: str
    what: str
    outcome: Outcome
    said: str = ""
    not_installed: bool = False

    def as_dict(self) -> dict[str, str]:
        """Return it as JSON values."""
        return {"group": self.group, "what": self.what, "outcome": self.outcome, "said": self.said}


def wanted(spec: ReleaseSpec) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield the measurements of a spec: table, level, mechanism and its parameters."""
    for table in spec.arrays:
        for level in table.levels or ("",):
            yield table.name, level, table.mechanism, dict(table.parameters)
    for histogram in spec.histograms:
        yield histogram.name, "", MECHANISM, {**histogram.parameters, "form": "prevalences"}


def described_in(subject: Subject) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the index entry of each measurement, compared with the spec.

    Raises
    ------
    Failed
        It names another measurement, mechanism or parameter, an array that is too large, or another file.
    """
    released, index = subject.released, subject.index
    entries = {(entry["table"], entry["level"]): entry for entry in index["measurements"]}
    expected = {(name, level): (kind, given) for name, level, kind, given in wanted(released.spec)}
    if list(entries) != list(expected) or len(entries) != len(index["measurements"]):
        raise Failed("the measurements are not those of the spec")
    for (name, level), entry in entries.items():
        kind, given = expected[name, level]
        mechanism = build(kind, **given)  # which may go by several names
        what, about = f"the measurement {'/'.join(filter(None, (name, level)))}", entry["measured"]
        if (about["mechanism"], about["parameters"]) != (mechanism.name, mechanism.parameters()):
            raise Failed(f"{what} is of another mechanism or has other parameters than the spec says")
        if about["definition"] != released.spec.privacy.definition or about["insecure"] is not False:
            raise Failed(f"{what} was drawn under another definition, or with predictable noise")
        _see_arrays(subject, what, name, level, entry["arrays"])
    return entries


def _see_arrays(subject: Subject, what: str, name: str, level: str, arrays: Mapping[str, Any]) -> None:
    """Check that arrays are in the folder and no larger than their files and the table explain."""
    layout = subject.released.layouts.get(name)
    cells = 0 if layout is None else prod(layout.shape(level))
    for array, about in arrays.items():
        file, numbers = about["file"], prod(about["shape"])
        plain = ".".join(filter(None, (name, level, "parquet")))
        if file not in (plain, ".".join(filter(None, (name, level, array, "parquet")))):
            raise Failed(f"{what} names a file that is not its own")
        if any(type(size) is not int or size < 0 for size in about["shape"]) or len(about["shape"]) > 32:
            raise Failed(f"{what} has an array of an impossible shape")
        if numbers > 64 * cells + MOST_NUMBERS:
            raise Failed(f"{file} does not hold the numbers that are declared")
        with failing(), named(file):
            open_parquet(subject.folder / FOLDER / file, rows=numbers, columns=["measured"])
        if np.dtype(about["dtype"]).kind not in "iuf":
            raise Failed(f"{file} is declared to hold no numbers")


def parts_in(subject: Subject) -> Parts:
    """Return every measurement of a release, finished by its mechanism."""
    version = subject.certificate.postprocessing.version
    spec = subject.released.spec
    used = {str(name) for _, _, kind, given in wanted(spec) for name in (kind, given.get("mechanism"))}
    used |= {"prior" for table in spec.tables if table.prior is not None}
    if version not in REMADE or version < max(CHANGED_IN_VERSION.get(name, 0) for name in used):
        made = subject.certificate.software.get(DISTRIBUTION, "of that time")
        raise Skipped(f"post-processing of version {version}: install {DISTRIBUTION} {made}")
    parts: Parts = {}
    for (name, level), entry in described_in(subject).items():
        parts.setdefault(name, {})[level] = _finished(subject, name, level, entry)
    return parts


def _finished(subject: Subject, name: str, level: str, entry: Mapping[str, Any]) -> Finished:
    measured = read_measurement(subject.folder, name, level)
    error = None
    if "error" in entry:
        totals = tuple(round(total * UNIT) for total in entry["error"]["measured"])
        error = MeasuredError(totals, Event.from_dict(entry["error"]["event"]))
    part = Finished(measured, restore(measured).finish(measured), error)
    return part.in_shape(subject.released.layouts.get(name), level)


def transcript_of(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events in an index entry."""
    return [*entry["measured"]["transcript"], *([entry["error"]["event"]] if "error" in entry else [])]


def recomputed(subject: Subject) -> Estimation:
    """Return the tables of the release with their margins, made again from the measurements once."""

    def make() -> Estimation:
        subject.bounded()
        return recompute(subject.released, parts_in(subject))

    return subject.cached("recomputed", make)


def recompute(released: Released, parts: Parts) -> Estimation:
    """Make the tables of a release again.

    ``parts``: table, level -> what was measured, finished by its mechanism.
    """
    certificate = released.certificate
    version = certificate.postprocessing.version
    return estimate(without_data(released.loaded), parts, certificate.release_id, version=version)
