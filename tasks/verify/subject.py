"""The release that is verified: all in it is read once, when a check first needs it, and within limits.

Nobody vouches for the folder: see :mod:`tabularium.tasks.public_folder`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from tabularium.mechanisms.errors import PublicationError, TabulariumError
from tabularium.tasks import public_folder
from tabularium.tasks.public_tables import MOST_CELLS
from tabularium.tasks.publish.measurement_files import FOLDER, INDEX
from tabularium.tasks.publish.read_release import Released, TooManyCells
from tabularium.validations.certificate import CERTIFICATE, Certificate, OtherFormat
from tabularium.validations.public_files import LARGEST_JSON, Unreadable

T = TypeVar("T")
STATEMENT = "statement.dsse.json"


class NotARelease(Exception):
    """What is given is not a release that can be read; the text is one line."""


@contextmanager
def failing() -> Iterator[None]:
    """Turn what is wrong with a file into the failure of the check that reads it."""
    try:
        yield
    except Unreadable as error:
        raise Failed(str(error)) from None


@dataclass(frozen=True, eq=False)
class Subject:
    """A release folder, with what is at hand to verify it by.

    Attributes
    ----------
    folder
        Of the release.
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
        """Return a file of the folder, which must be a plain one and no larger than ``largest`` bytes."""
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
        """The release with its spec and code lists; a check of its own says why they cannot be read."""
        try:
            return self.read_spec()
        except TabulariumError:
            raise Skipped("a spec and code lists that can be read") from None

    def read_spec(self) -> Released:
        """Return the same, or raise why it cannot be read."""
        return self.cached("released", lambda: Released.read(self.folder, self.certificate, self.digest))

    @cached_property
    def index(self) -> dict[str, Any]:
        """What the release says of its measurements.

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
        return [*(table.name for table in spec.tables), *(each.name for each in spec.histograms)]

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` makes, made once; where it raised, what it raised."""
        if name not in self._made:
            try:
                self._made[name] = make(), None
            except Exception as error:
                self._made[name] = None, error
                raise
        made, raised = self._made[name]
        if raised is not None:
            raise raised
        found: T = made
        return found

    def require_outside_folder(self, path: Path, what: str) -> None:
        """See that a key or an export does not lie in the release: whoever wrote that could write it too."""
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
    """Something is not what the release says; the text is one line."""


class Skipped(Exception):
    """A check could not be made; the text says what would be needed for it."""


@dataclass(frozen=True)
class Check:
    """One thing that is looked at.

    Attributes
    ----------
    group
        Under which heading it is told.
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
    """What a check came to.

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
        """Return JSON-able values."""
        return {"group": self.group, "what": self.what, "outcome": self.outcome, "said": self.said}
