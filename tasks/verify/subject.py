"""The release that is verified: all in it is read once, when a check first needs it, and within limits.

Nobody vouches for the folder. What is read of it whole has a largest size, and a table is never made larger
in memory than files in the folder show that it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet

from mechanisms.errors import TabulariumError
from tasks.publish.measurement_files import FOLDER, INDEX
from tasks.publish.read_release import FORMAT, Released
from tasks.publish.release_folder import CERTIFICATE
from tasks.verify.findings import CouldNot, Failed

T = TypeVar("T")
STATEMENT = "statement.dsse.json"
MIB = 1 << 20
LARGEST_JSON = 256 * MIB
MOST_FILES = 100_000
MOST_CELLS = 1 << 28  # of all tables together, where no CSV file shows how many rows there are
SHORTEST_ROW = 4  # bytes of a line of CSV: two numbers


_ABSURD = re.compile(r"\s*[-+]?[\d_.]*[eE][-+]?[\d_]{4,}\s*")
"""A number whose digits would fill the memory."""


def sober(value: Any) -> Any:
    """Return what was read of JSON, if no text in it is a number of absurd size.

    Raises
    ------
    ValueError
        One is.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and _ABSURD.fullmatch(one):
            raise ValueError
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return value


class NotARelease(Exception):
    """What is given is not a release that can be read; the text is one line."""


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
        waiting, seen = [self.folder], 0
        while waiting:
            place = waiting.pop()
            for entry in sorted(os.scandir(place), key=lambda each: each.name):
                seen += 1
                if seen > MOST_FILES:
                    raise Failed(f"the folder holds more than {MOST_FILES:,} files")
                path = Path(entry.path)
                name = path.relative_to(self.folder).as_posix()
                if not name.isprintable():  # what is no text is read as surrogates, which are not printable
                    raise Failed(f"a name cannot be read: {name!a}")
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(path)
                yield name, about

    def read(self, name: str, largest: int = LARGEST_JSON) -> bytes:
        """Return a file of the folder, which must be a plain one and no larger than ``largest`` bytes."""
        path = self.folder / name
        try:
            about = path.lstat()
        except OSError:
            raise Failed(f"{name} is missing") from None
        if not stat.S_ISREG(about.st_mode):
            raise Failed(f"{name} is no plain file")
        if about.st_size > largest:
            raise Failed(f"{name} is larger than {largest // MIB} MiB")
        return path.read_bytes()

    def document(self, name: str) -> dict[str, Any]:
        """Return a JSON object that a file of the folder holds."""
        try:
            found = sober(json.loads(self.read(name)))
        except (ValueError, RecursionError):
            raise Failed(f"{name} is not JSON") from None
        if not isinstance(found, dict):
            raise Failed(f"{name} is not a JSON object")
        return found

    @cached_property
    def raw(self) -> bytes:
        """The certificate as it stands."""
        try:
            return self.read(CERTIFICATE)
        except (Failed, OSError) as error:
            raise NotARelease(f"{self.folder}: {error}; name the folder that holds {CERTIFICATE}") from None

    @cached_property
    def certificate(self) -> dict[str, Any]:
        """The certificate.

        Raises
        ------
        NotARelease
            It is none, or one of another format.
        """
        try:
            found = sober(json.loads(self.raw))
            format_of, files = found["format"], found["files"]
            shaped = isinstance(found, dict) and isinstance(files, dict) and isinstance(found["spec"], dict)
        except (ValueError, KeyError, TypeError, RecursionError):
            shaped = False
        if not shaped:
            raise NotARelease(f"{self.folder}: {CERTIFICATE} is no certificate of a release") from None
        if format_of != FORMAT:
            raise NotARelease(
                f"{self.folder}: this certificate is of another format; use the version that made it"
            )
        return dict(found)

    @property
    def digest(self) -> str:
        """The SHA-256 of the certificate."""
        return hashlib.sha256(self.raw).hexdigest()

    @cached_property
    def released(self) -> Released:
        """The release with its spec and code lists; a check of its own says why they cannot be read."""
        try:
            return Released.read(self.folder, self.certificate, self.digest)
        except TabulariumError:
            raise CouldNot("a spec and code lists that can be read") from None

    @cached_property
    def index(self) -> dict[str, Any]:
        """What the release says of its measurements.

        Raises
        ------
        CouldNot
            They are withheld.
        """
        withheld = self.certificate["measurements"]["withheld"]
        if withheld is not None:
            raise CouldNot(f"the noisy measurements, which are withheld: {withheld}")
        return self.document(f"{FOLDER}/{INDEX}")

    @property
    def names(self) -> list[str]:
        """The tables and histograms of the release."""
        spec = self.released.spec
        return [*(table.name for table in spec.tables), *(each.name for each in spec.histograms)]

    @property
    def base(self) -> str:
        """The format that the others are compared with."""
        return "csv" if "csv" in self.released.spec.publication.formats else "parquet"

    def once(self, name: str, make: Callable[[], T]) -> T:
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

    def see_got_elsewhere(self, path: Path, what: str) -> None:
        """See that a key or an export does not lie in the release: whoever wrote that could write it too."""
        if path.resolve().is_relative_to(self.folder.resolve()):
            raise CouldNot(f"{what} got elsewhere: one that lies in the release is no reason to believe it")

    def bounded(self) -> None:
        """See, before a table is made in memory, that it is no larger than files of the folder show."""
        everything = 0
        for name, layout in self.released.layouts.items():
            cells = layout.nodes * layout.cells
            everything += cells
            place = self.folder / f"{name}.csv"
            shown = place.stat().st_size // SHORTEST_ROW if place.is_file() else MOST_CELLS
            rows = sum(len(nodes) for nodes in layout.cuts.values()) * layout.cells
            if everything > MOST_CELLS:
                raise CouldNot(f"a machine and software that hold more than {MOST_CELLS:,} cells in memory")
            if min(cells, rows) > shown:
                raise Failed(f"table {name} has {cells:,} cells, which its file cannot hold")

    def rows_of(self, name: str) -> int:
        """Return how many rows a Parquet file of the folder has, by its own account."""
        path = self.folder / name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Failed(f"{name} is no plain file")
        return int(pyarrow.parquet.read_metadata(path).num_rows)
