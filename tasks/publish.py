"""Publication: an immutable folder, written aside, made durable, then renamed into place.

::

    <folder>/<product>/<period>/<release id>/
        <table>.csv  <table>.parquet        counts with margins of error
        measurements/<table>.<level>.parquet    the noisy values before post-processing, unless withheld
        certificate.json                    written last inside; names the digest of every other file
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from mechanisms.errors import PublicationError, TabulariumError
from tasks.books import open_books
from tasks.certificate import Contents, certificate
from tasks.estimates import EstimatesHandle, read
from tasks.home import sync_folder
from tasks.layout import Layout
from tasks.release import MeasuredHandle, finished
from tasks.run import Run
from tasks.stage import stage
from tasks.tables import measurement_table, published_table

_ROWS_AT_ONCE = 200_000
CERTIFICATE = "certificate.json"


@dataclass(frozen=True)
class PublishedHandle:
    """Where a release lies, and the SHA-256 of its certificate."""

    folder: str
    certificate: str


def release_folder(run: Run, release_id: str) -> Path:
    """Return the folder in which this release is, or will be, published."""
    spec = run.loaded.spec
    return run.loaded.folder / spec.publication.folder / spec.product / spec.period / release_id


def publish_release(run: Run, measured: MeasuredHandle, estimates: EstimatesHandle) -> PublishedHandle:
    """Write the release, or adopt it when an earlier run got as far as renaming it.

    Raises
    ------
    PublicationError
        If the measurement is not fit to publish, the folder cannot be written, or one is there that is
        not this release. Nothing half-written stays under the final name.
    """
    target = release_folder(run, measured.release_id)
    if target.exists():
        return PublishedHandle(str(target), check_release(target, measured.release_id, measured.digest))
    target.parent.mkdir(parents=True, exist_ok=True)
    _clear_remains(target)
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    failure: TabulariumError
    try:
        aside.mkdir(mode=0o700)
        digest = _write_all(run, measured, estimates, aside)
        _make_durable(aside)
        aside.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        failure = PublicationError(
            f"the release could not be written: {error.strerror or type(error).__name__}",
            where=str(target.parent),
            mend="make room there and run again; the noise is drawn and paid for and will be used as it is",
        )
    else:
        return PublishedHandle(str(target), digest)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    raise failure


def check_release(folder: Path, release_id: str, measured: str | None = None) -> str:
    """See that a published folder is whole and is this release; return its certificate's SHA-256.

    Raises
    ------
    PublicationError
        Naming the first file that is missing, altered or foreign.
    """
    path = folder / CERTIFICATE
    try:
        raw = path.read_bytes()
        found: dict[str, Any] = json.loads(raw)
        same = found["release_id"] == release_id and measured in (None, found["measurements"]["digest"])
        wrong = next(
            (name for name, digest in found["files"].items() if _digest(folder / name) != digest), ""
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        same, wrong, raw = True, CERTIFICATE, b""
    if not same:
        raise PublicationError(
            "another release lies in this folder", where=str(folder), mend="move it away and run again"
        )
    if wrong:
        raise PublicationError(
            f"the published file {wrong} is missing or altered",
            where=str(folder),
            mend="restore the folder from a copy",
        )
    return hashlib.sha256(raw).hexdigest()


def _write_all(run: Run, measured: MeasuredHandle, estimates: EstimatesHandle, aside: Path) -> str:
    releases = finished(run, measured)
    if any(release.insecure for release in releases.values()):
        raise PublicationError(
            "this measurement was drawn from a seeded stream and protects nobody",
            where=f"release {measured.release_id}",
            mend="draw it with the secure channel",
        )
    spec = run.loaded.spec
    tables: dict[str, Any] = {}
    for table in spec.tables:
        layout = Layout.of(run.loaded, table)
        estimate = read(estimates, table.name)
        frame = published_table(
            layout, estimate, float(spec.publication.confidence), whole=spec.postprocessing.rounding
        )
        for ending in spec.publication.formats:
            _write(frame, aside / f"{table.name}.{ending}")
        roots = estimate.values[layout.parents < 0]
        tables[table.name] = {
            "rows": frame.num_rows,
            "total": round(float(roots.sum())),
            **_parts(table.name, releases),
        }
        if spec.publication.measurements.withhold is None:
            for level in layout.cuts:
                name = f"{table.name}.{level}.parquet" if level else f"{table.name}.parquet"
                (aside / "measurements").mkdir(exist_ok=True)
                _write(
                    measurement_table(layout, level, releases[table.name, level].values),
                    aside / "measurements" / name,
                )
    files = {str(path.relative_to(aside)): _digest(path) for path in sorted(_files(aside))}
    transcript = [event.as_dict() for release in releases.values() for event in release.transcript]
    return _certify(run, measured, aside, Contents(tables, transcript, files))


def _parts(table: str, releases: dict[tuple[str, str], Any]) -> dict[str, Any]:
    variances = {level: release.variances for (name, level), release in releases.items() if name == table}
    return {"noise_variance": {level: float(v) for level, v in variances.items()}}


def _certify(run: Run, measured: MeasuredHandle, aside: Path, contents: Contents) -> str:
    with open_books(run) as books:
        text = certificate(run, measured, contents, books)
    raw = (json.dumps(text, indent=2, ensure_ascii=False) + "\n").encode()
    (aside / CERTIFICATE).write_bytes(raw)
    return hashlib.sha256(raw).hexdigest()


def _write(frame: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pa.parquet.write_table(frame, path, compression="zstd")
        return
    plain = pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in frame.schema]
    )
    with pa.csv.CSVWriter(path, plain) as writer:
        for start in range(0, frame.num_rows, _ROWS_AT_ONCE):
            writer.write_table(frame.slice(start, _ROWS_AT_ONCE).cast(plain))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable(folder: Path) -> None:
    """Fsync every file and folder, and close them to writing: a release is never edited."""
    for path in _files(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.chmod(0o444)
    for inner in (path for path in folder.rglob("*") if path.is_dir()):
        inner.chmod(0o755)
        sync_folder(inner)
    folder.chmod(0o755)
    sync_folder(folder)


def _clear_remains(target: Path) -> None:
    """Remove what killed runs of this very release left aside; its lock is held by this run."""
    for old in target.parent.glob(f".{target.name}.*.partial"):
        shutil.rmtree(old, ignore_errors=True)


publish = stage("publish")(publish_release)
