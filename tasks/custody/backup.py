"""Backups of an installation: one folder, written aside, read back, then renamed.

::

    <target>/
        about.json      when, from what ledger, with what; the SHA-256 of the other files
        ledger.txt      the ledger's export, readable by anybody
        key.age         | all else, encrypted: secret, bindings of inputs, measurements, inboxes, drafts,
        sealed.age      / which drops arrived, and the publication folders (tabularium.tasks.custody.sealing)

Releases may go on meanwhile. The export is written first; what is newer than it is left out, so that the
restored home holds nothing that its ledger does not know, and everything that its ledger says is there.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from stat import S_IMODE

from tabularium.ledger import Charge, Entry, Head, Ledger
from tabularium.ledger import export as exported
from tabularium.ledger.durable_files import sync_folder
from tabularium.ledger.measurement.store import MeasurementStore, read_head
from tabularium.ledger.records import TRANSITIONS
from tabularium.ledger.refusals import MeasurementDamaged
from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.arrival.claims import Claims
from tabularium.tasks.custody.sealing import KEY, SEALED, Lock, Member, seal
from tabularium.tasks.publish.documents import KEPT
from tabularium.tasks.publish.release_folder import (
    HEADS,
    PLACE,
    check_release,
    check_statement,
    digest_of,
    files_in,
    publication_folders,
)
from tabularium.tasks.runtime.extras import DISTRIBUTION
from tabularium.tasks.runtime.home import Home, secret_command
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.redaction import os_errors_as

FORMAT = 1
ABOUT, LEDGER = "about.json", "ledger.txt"
#: Where folders are, who may read drafts, and which drops arrived.
BASES, ACCESS, CLAIMS = "publications.json", "drafts.json", "arrivals.json"
#: Entries of the home, and of its ledger's folder, that are copied unchanged.
OF_HOME, OF_LEDGER = ("inboxes.json", "budget-warnings.json"), ("secret.check",)
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


@dataclass(frozen=True)
class BackupResult:
    """The content of a backup.

    Attributes
    ----------
    missing
        Published releases whose folders were missing or incomplete; a run rebuilds them.
    lost
        The number of these that it cannot rebuild: their certificates are not in the home.
    """

    target: str
    head: Head
    entries: int
    files: int
    releases: int
    missing: int
    lost: int


def backup(home: Home, target: Path, lock: Lock) -> BackupResult:
    """Write a backup into a new folder.

    Raises
    ------
    InputError
        If something stands there, it cannot be written, or cannot be locked.
    LedgerError
        If the ledger does not verify, or a measurement that it names is missing or damaged.
    """
    if os.path.lexists(target):
        raise InputError("is there already", where=str(target), hint="name a new folder")
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    with os_errors_as(
        InputError,
        "the backup could not be written: {reason}",
        where=target,
        hint="make room, give the right to write there, or name another folder",
    ):
        try:
            aside.mkdir(mode=0o700, parents=True)
            written = _write(home, aside, target, lock)
            sync_folder(aside)
            aside.rename(target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return written


def _write(home: Home, aside: Path, target: Path, lock: Lock) -> BackupResult:
    with Ledger.connect(home.ledger_url) as ledger:
        exported.export(ledger, aside / LEDGER)
    charges: dict[str, Charge] = {}

    def see(entry: Entry) -> None:
        if entry.body["kind"] in TRANSITIONS:
            charge = Charge.of(entry.body)
            charges[charge.release_id] = charge

    export = exported.verify_export(aside / LEDGER, see=see)
    bases = publication_folders(home)
    held = _Held(home, export.head, charges)
    published = list(held.publications(bases))
    digests = seal(aside, [*held.of_home(), *held.measurements(), *held.drafts(), *published], lock)
    held.require_measured(digests)
    about = {
        "format": FORMAT,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "tabularium": metadata.version(DISTRIBUTION),
        "ledger": {"entries": export.entries, "head": {"seq": export.head.seq, "hash": export.head.hash}},
        "secret": "in the key store of TABULARIUM_SECRET_COMMAND" if secret_command() else SEALED,
        "opens_with": "the passphrase" if lock.passphrase else list(lock.recipients),
        "files": {name: digest_of(aside / name) for name in (KEY, LEDGER, SEALED)},
    }
    (aside / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    for path in aside.iterdir():
        with path.open("rb") as file:
            path.chmod(0o600)
            os.fsync(file.fileno())
    certificates = {digests[member.name] for member in published if member.name.endswith(f"/{CERTIFICATE}")}
    missing = held.published.keys() - certificates
    lost = sum(held.published[digest] is None for digest in missing)
    number = len(held.published)
    return BackupResult(
        str(target), export.head, export.entries, len(digests), number - len(missing), len(missing), lost
    )


class _Held:
    """The content of a home at one head of its ledger."""

    def __init__(self, home: Home, head: Head, charges: dict[str, Charge]) -> None:
        self._home, self._head, self._charges = home, head, charges
        #: digest of the certificate, which the charges of a release and of its tallies share -> the release
        #: whose measurement it is kept with
        self.published: dict[str, str | None] = {}
        for charge in charges.values():
            if charge.state == "published" and charge.publication_digest is not None:
                path = home.measurements / charge.release_id / CERTIFICATE
                if path.is_file() and digest_of(path) == charge.publication_digest:
                    self.published[charge.publication_digest] = charge.release_id
                self.published.setdefault(charge.publication_digest, None)

    def of_home(self) -> Iterator[Member]:
        """Yield secret, registry, outcomes of drops, and bindings of inputs."""
        home, ledger_folder = self._home.path, self._home.ledger_folder
        if secret_command() is None:
            yield Member("home/secret", self._home.secret())
        for name, folder, kind in (
            *((name, home, "home") for name in OF_HOME),
            *((name, ledger_folder, "beside") for name in OF_LEDGER),
        ):
            if (folder / name).is_file():
                yield Member(f"{kind}/{name}", folder / name)
        yield Member(CLAIMS, json.dumps([asdict(drop) for drop in Claims.known(self._home)]).encode())
        for path in sorted(files_in(ledger_folder / "inputs")):
            known = path.parent.name != "releases" or path.name in self._charges
            if known and not path.name.startswith("."):
                yield Member(f"beside/{path.relative_to(ledger_folder)}", path)

    def measurements(self) -> Iterator[Member]:
        """Yield the measurement files that are no newer than the head, and the files kept with them."""
        for path in sorted(self._home.measurements.glob("*/*")):
            charge = self._charges.get(path.parent.name)
            if charge is None or path.name.startswith("."):
                continue
            if path.name in KEPT or path.name == PLACE or self._is_known(path):
                yield Member(f"beside/measurements/{charge.release_id}/{path.name}", path)

    def _is_known(self, path: Path) -> bool:
        try:
            return read_head(path).seq <= self._head.seq
        except _UNREADABLE:
            return True  # unchanged: readers will be warned

    def drafts(self) -> Iterator[Member]:
        """Yield the drafts that wait for an officer, with their folders and access."""
        accesses: dict[str, dict[str, object]] = {}
        for path in sorted((self._home.ledger_folder / "drafts").glob("[!.]*")):
            charge = self._charges.get(path.name)
            if charge is not None and charge.state == "measured":
                yield Member(f"beside/drafts/{path.name}", path)
                draft = Path(json.loads(path.read_bytes())["draft"])
                for file in sorted(files_in(draft)):
                    yield Member(f"drafts/{path.name}/{file.relative_to(draft)}", file)
                if (draft / CERTIFICATE).is_file():
                    accesses[path.name] = {
                        "folders": S_IMODE(draft.stat().st_mode),
                        "files": S_IMODE((draft / CERTIFICATE).stat().st_mode),
                        "group": draft.group(),
                    }
        yield Member(ACCESS, json.dumps(accesses).encode())

    def publications(self, bases: list[Path]) -> Iterator[Member]:
        """Yield the complete publication folders, their heads, and their paths."""
        yield Member(BASES, json.dumps([os.fspath(base) for base in bases]).encode())
        for number, base in enumerate(bases):
            for path in sorted(base.glob(f"*/{HEADS}/*")):
                if path.name in self._charges and _names(path) <= self._head.seq:
                    yield Member(f"publications/{number}/{path.relative_to(base)}", path)
            for folder in sorted(base.glob("*/*/*")):
                charge = self._charges.get(folder.name)
                if charge is not None and is_whole(folder, charge):
                    for path in sorted(files_in(folder)):
                        yield Member(f"publications/{number}/{path.relative_to(base)}", path)

    def require_measured(self, digests: dict[str, str]) -> None:
        """Refuse a backup that lacks a measurement whose digest is in the ledger, or a part of one."""
        store = MeasurementStore(self._home.measurements)
        for charge in self._charges.values():
            if charge.state not in ("measured", "published", "withheld"):
                continue
            release_id, files = charge.measured_as, {}
            with suppress(MeasurementDamaged):
                measurements = store.read(release_id, charge.fence, charge.measurement_digest)
                files = {
                    store.part_path(release_id, part.name): part.digest
                    for part in measurements.parts.values()
                }
                files[store.path(release_id, charge.fence)] = measurements.digest
            if not files or any(
                digests.get(f"beside/measurements/{release_id}/{path.name}") != digest
                for path, digest in files.items()
            ):
                raise InputError(
                    "the measurement that the ledger names is missing or damaged, so no backup was made",
                    where=f"release {release_id}",
                    hint=f"restore {self._home.measurements} from an earlier backup first",
                )


def is_whole(folder: Path, charge: Charge) -> bool:
    """Whether a folder holds the release as it was published, every file of it."""
    if charge.publication_digest is None or not folder.is_dir():
        return False
    try:
        check_statement(folder, charge.statement)
        return check_release(folder, charge.release_id) == charge.publication_digest
    except PublicationError:
        return False


def _names(path: Path) -> int:
    """Return the number of the entry that a head file names; 0 if it is not ours."""
    try:
        return int(json.loads(path.read_bytes())["ledger"]["head"]["seq"])
    except _UNREADABLE:
        return 0


def read_about(source: Path) -> dict[str, object]:
    """Return the description of a backup, after checking its files against it.

    Raises
    ------
    InputError
        If it is no backup, or a file is damaged.
    """
    try:
        about: dict[str, object] = json.loads((source / ABOUT).read_bytes())
        files = about["files"]
        if about["format"] == FORMAT and isinstance(files, dict) and {KEY, LEDGER, SEALED} == set(files):
            for name, digest in files.items():
                if hashlib.sha256((source / name).read_bytes()).hexdigest() != digest:
                    raise InputError(
                        f"{name} is damaged or cut off",
                        where=str(source),
                        hint="take another copy of the backup",
                    )
            return about
    except _UNREADABLE:
        pass
    raise InputError(
        "no backup is here, or not one of this release of Tabularium",
        where=str(source),
        hint="name the folder that tabularium backup wrote",
    )
