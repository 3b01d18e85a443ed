"""Publication: an immutable folder, written aside, made durable, then renamed into place.

::

    <folder>/<product>/<period>/<release id>/
        <table>.csv  <table>.parquet  …     counts with margins of error, in every format of the spec
        measurements/                       the noisy values before post-processing, unless withheld
        codes/<code list>.csv               of hierarchies and categories
        invariants/<file>.csv               public numbers that the tables show exactly
        figures/<file>.csv                  public numbers that rates are over
        prior-releases/<id>/                published tables that these were drawn towards, as they were
        rounding_exceptions.txt             sums that whole numbers could not meet, if there are any
        <documents>                         made from all this: tabularium.tasks.publish.documents
        certificate.json                    names the digest of every other file, but the next
        statement.dsse.json                 signed over every file, if there is a key for releases

A published folder that was lost is rebuilt, byte for byte (:func:`rebuild`). The tables, and all that follows
from the measurements, are computed again. The certificate was kept
(:mod:`tabularium.tasks.publish.documents`) and names the digest of every file. The folder appears only if
every file comes out as it was published.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.ledger_stages import ChargeHandle, MeasuredHandle
from tabularium.tasks.margins.measure_margins import describe_measure
from tabularium.tasks.measure import Finished, read_measurements
from tabularium.tasks.postprocess.estimation import CHECKS, estimation_of
from tabularium.tasks.postprocess.table_layout import Layout, total_over
from tabularium.tasks.publish.certificate import Contents, certificate, software_versions
from tabularium.tasks.publish.documents import (
    altered_document,
    kept_documents,
    without_documents,
    write_documents,
)
from tabularium.tasks.publish.draft_folder import target_folder
from tabularium.tasks.publish.formats.base import write_formats
from tabularium.tasks.publish.frames import Frame, all_in_digits, rows_into_parquet, run_parallel
from tabularium.tasks.publish.measurement_files import FOLDER, INDEX, described, index_text, measurement_files
from tabularium.tasks.publish.priors import copy_prior
from tabularium.tasks.publish.published_tables import PublishedTable, frame_of, histogram_table
from tabularium.tasks.publish.release_folder import (
    check_release,
    check_statement,
    digest_of,
    files_in,
    new_folder,
)
from tabularium.tasks.publish.verify_certificate import last_release, verify_certificate
from tabularium.tasks.published_heads import StampedHead, write_head_marker
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.sign.sign_release import Signed, settled_statement, sign_release
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.unit_tallies import attempts, drawn, outcomes
from tabularium.validations import certificate as schema
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.domains.code_lists import published_name, published_text
from tabularium.validations.release_spec.tables import array_of, owner_of
from tabularium.validations.universes.universe import counted_in

EXCEPTIONS = "rounding_exceptions.txt"


@dataclass(frozen=True)
class PublishedHandle:
    """The folder of a release, and the SHA-256 of its certificate and of its signed statement, if it has one.

    ``signed_by`` is the key that signed it just now.
    """

    folder: str
    certificate: str
    statement: str | None = None
    signed_by: str | None = None

    @classmethod
    def of(cls, folder: Path, certificate: str, signed: Signed | None) -> Self:
        """Return the handle of a folder, signed now or not."""
        return cls(str(folder), certificate, *((signed.statement, signed.key) if signed else ()))


@stage("publish")
def publish(run: Run, measured: MeasuredHandle, tallied: MeasuredHandle | None) -> PublishedHandle:
    """Write the release, or adopt the folder that an earlier run has renamed.

    What is to be reviewed is written as it is to be published, where only officers read it.

    Raises
    ------
    PublicationError
        If the measurement is not fit to publish, the folder cannot be written, or one is there that is
        not this release. Nothing half-written stays under the final name.
    """
    reviewed = run.loaded.spec.publication.review is not None
    target, access = target_folder(run, measured.release_id, reviewed=reviewed)
    hint = (
        "make room or give the right to write there, and run again; the noise is drawn and paid for and will "
        "be used as it is"
    )
    with new_folder(target, access, what="the release could not be written: {reason}", hint=hint) as aside:
        digest = _write_all(run, measured, tallied, aside)
        there = target.exists()
        if there:
            digest = _adopt(run, target, measured, aside)
            shutil.rmtree(aside)
        signed = _statement(run, target if there else aside, adopt=there)
    return PublishedHandle.of(target, digest, signed)


def _adopt(run: Run, target: Path, measured: MeasuredHandle, aside: Path) -> str:
    """Adopt a folder that was renamed before its charge was closed, if it equals what is written now.

    Until the charge is closed the ledger does not know the certificate's digest, so that a folder may be
    forged and fit itself. All that is made of the same measurements is the same, but the time, the newest
    entry of the ledger, what was withheld meanwhile, and the software.
    """
    digest = check_release(target, measured.release_id, measured.digest)
    ledger = run.ledger
    certificate = verify_certificate(
        target / CERTIFICATE, ledger.charge(measured.release_id), run.loaded.domains
    )
    document = altered_document(target, certificate, last_release(run, ledger))
    again = Certificate.read((aside / CERTIFICATE).read_bytes())
    different = next(_differing(certificate, again), document)
    if different is not None:
        other = "" if certificate.software == again.software else ", and it names other software"
        raise PublicationError(
            f"this folder is not what the stored measurements give: {different} differs{other}",
            where=str(target),
            hint="move the folder away and run again: it is rebuilt with the same noise",
        )
    return digest


def _differing(there: Certificate, here: Certificate) -> Iterator[str]:
    """Yield the sections in which two certificates of the same measurements differ and may not."""
    there, here = without_documents(there), without_documents(here)
    for name in Certificate.model_fields:
        if name in ("created", "software", "code", "outside_the_guarantee"):
            continue
        one, other = getattr(there, name), getattr(here, name)
        if name == "ledger":
            one, other = (half.model_dump(exclude={"head", "withheld"}) for half in (one, other))
        if one != other:
            yield name


def _statement(run: Run, folder: Path, *, adopt: bool) -> Signed | None:
    """Sign the files of a folder, or adopt its statement; a draft is signed when it is accepted."""
    if run.loaded.spec.publication.review is not None:
        check_statement(folder, None)
        return None
    sign = settled_statement if adopt else sign_release
    return sign(run.installation, run.ledger, folder)


def _write_all(run: Run, measured: MeasuredHandle, tallied: MeasuredHandle | None, aside: Path) -> str:
    events, tables = write_files(run, measured, aside)
    estimation = estimation_of(run, measured).up_to(CHECKS)
    conflicts = {name: conflict.as_json() for name, conflict in estimation.conflicts.items()}
    found_tallies = [] if tallied is None else drawn(run, tallied)
    events = [tally.event for tally in found_tallies] + events
    contents = Contents(
        {name: schema.Table.model_validate(about) for name, about in all_in_digits(tables).items()},
        events,
        _digests(aside),
        all_in_digits(estimation.agreement()),
        all_in_digits(conflicts),
        outcomes(run, found_tallies),
    )
    return _certify(run, measured, aside, contents)


def write_files(run: Run, measured: MeasuredHandle, aside: Path) -> tuple[list[Event], dict[str, Any]]:
    """Write a release without documents and certificate: the same bytes for the same measurements.

    Returns
    -------
    The events of all measurements, and what the certificate says of each table.

    Raises
    ------
    PublicationError
        If a public file of the spec changed during the run.
    """
    estimation, measurements, spec = (
        estimation_of(run, measured).up_to(CHECKS),
        read_measurements(run, measured),
        run.loaded.spec,
    )
    tables: dict[str, Any] = {}
    written: dict[str, PublishedTable] = {}
    entries: list[dict[str, Any]] = []
    writes: list[Callable[[], None]] = []
    layouts, counts = run.layouts, estimation.estimates
    half = {name: margin.half for name, margin in estimation.margins.items()}
    for table in spec.tables:
        layout = layouts[table.name]
        parts = {level: measurements[table.name][level] for level in layout.cuts}
        estimate, about = counts[table.name], estimation.margins[table.name].about
        frame = frame_of(run.loaded, layouts, table, counts, half)
        written[table.name] = PublishedTable(table, layout, frame, about["margins"]["method"])
        consistent = spec.postprocessing.consistency
        roots = estimate.values[layout.tops(consistent=consistent)]
        tables[table.name] = {
            "rows": frame.num_rows,
            "total": round(float(roots.sum())),
            "counted": counted_in(spec, table),
            "mechanism": table.mechanism,
            **layout.impossible_rows(consistent=consistent),
            **about,
            "failed_checks": estimation.failed[table.name],
        }
        entries += _measurements(run, layout, parts, aside, writes)
        for name, measure in table.measures.items():
            array = array_of(table.measures, table.name, name)
            about, total = estimation.margins[array].about, total_over(run.loaded, layouts, array, counts)
            values = counts[array].values[layouts[array].tops(consistent=consistent)]
            description = describe_measure(layouts[array], measure, values, about, total)
            measures = tables[table.name].setdefault("measures", {})
            measures[name] = {**description, "failed_checks": estimation.failed[array]}
            if owner_of(table.measures, name) != name:
                continue  # what it is read off has been written
            parts = measurements[array]
            entries += _measurements(run, layouts[array], parts, aside, writes)
    for histogram in spec.histograms:
        part = measurements[histogram.name][""]
        frame = histogram_table(part.release.values, histogram.largest_size(spec.privacy))
        layout = Layout.of_histogram(histogram)
        written[histogram.name] = PublishedTable(histogram, layout, frame, "none")
        tables[histogram.name] = {
            "rows": frame.num_rows,
            "total": int(part.release.diagnostics["total"]),
            "counted": counted_in(spec, histogram),
            "mechanism": part.measured.mechanism,
            "sizes_of": histogram.of,
            "largest_size": histogram.largest_size(spec.privacy),
            "margins": {"method": "none"},
        }
        entries += _measurements(run, layout, {"": part}, aside, writes)
    if entries:
        (aside / FOLDER / INDEX).write_text(index_text(entries), encoding="utf-8")
    _copy_public_files(run, aside)
    write_formats(run.loaded, written, aside, meanwhile=writes)
    if estimation.exceptions:
        (aside / EXCEPTIONS).write_text("\n".join(estimation.exceptions) + "\n", encoding="utf-8")
    drawn_parts = (part for levels in measurements.values() for part in levels.values())
    return [event for part in drawn_parts for event in part.transcript], tables


def _measurements(
    run: Run, layout: Layout, parts: dict[str, Finished], aside: Path, writes: list[Callable[[], None]]
) -> list[dict[str, Any]]:
    """Add the writers of a table's measurements, unless withheld; return their index entries."""
    if run.loaded.spec.publication.measurements.withhold is not None:
        return []
    (aside / FOLDER).mkdir(exist_ok=True)
    for name, content in measurement_files(layout, parts):
        writes.append(partial(_write_parquet, content, aside / FOLDER / name))
    return described(layout, parts)


def _write_parquet(content: Callable[[], Frame], path: Path) -> None:
    frame = content()
    with rows_into_parquet(frame.schema, path) as take:
        for part in frame.parts():
            take(part)


def _copy_public_files(run: Run, aside: Path) -> None:
    """Publish code lists, invariants and figures beside the tables, as they were when the spec was read.

    Of a code list only what the release speaks of is published: code, label and parent.
    """
    spec = run.loaded.spec
    files = {(column.code_list, "codes") for column in spec.columns.values() if column.code_list}
    files |= {(known.values, "invariants") for known in spec.invariants if known.values}
    files |= {(figure.values, "figures") for figure in spec.figures if figure.values}
    for name, folder in sorted(files):
        path = run.loaded.folder / name
        content = published_text(path, spec.about.language) if folder == "codes" else path.read_bytes()
        published = published_name(name) if folder == "codes" else path.name
        if hashlib.sha256(content).hexdigest() != run.loaded.public_files[published]:
            what = "the code list" if folder == "codes" else f"the file of {folder}"
            raise PublicationError(
                f"{what} changed during the run", where=name, hint="run again: the noise drawn is kept"
            )
        (aside / folder).mkdir(exist_ok=True)
        (aside / folder / published).write_bytes(content)
    for prior in run.loaded.priors.values():
        copy_prior(prior, aside)


def _certify(run: Run, measured: MeasuredHandle, aside: Path, contents: Contents) -> str:
    """Write the documents, and the certificate with their digests; return its SHA-256."""
    ledger = run.ledger
    tried = [(number, attempt.release_id, attempt.attempts) for number, attempt in attempts(run, ledger)]
    document = certificate(run, measured, contents, ledger, tried)
    last = last_release(run, ledger)
    write_documents(aside, document, last, run.installation.cache)
    write_head_marker(run, measured.release_id, StampedHead.read(document.ledger.head))
    raw = document.model_copy(update={"files": _digests(aside, contents.files)}).written()
    (aside / CERTIFICATE).write_bytes(raw)
    return hashlib.sha256(raw).hexdigest()


def _digests(aside: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the digest of every file; those that are known have not been touched since."""
    paths = {str(path.relative_to(aside)): path for path in sorted(files_in(aside))}
    new = [name for name in paths if name not in (known or {})]
    fresh = zip(new, run_parallel([partial(digest_of, paths[name]) for name in new]), strict=True)
    digests = {**(known or {}), **dict(fresh)}
    return {name: digests[name] for name in paths}


def is_lost(run: Run, charge: ChargeHandle) -> bool:
    """Whether the folder of a published release, or of a draft, is missing and can be rebuilt."""
    if charge.state != "published" and not charge.drafted:
        return False
    if os.path.lexists(target_folder(run, charge.release_id, reviewed=charge.drafted)[0]):
        return False
    return _kept(run, charge.release_id) is not None


@stage("rebuild the folder")
def rebuild(run: Run, measured: MeasuredHandle) -> PublishedHandle:
    """Rebuild the folder of a published release, or of a draft, byte for byte.

    Raises
    ------
    PublicationError
        If a file comes out otherwise, or the folder cannot be written. Nothing stays then.
    """
    kept = _kept(run, measured.release_id) or {}
    certificate = Certificate.read(kept[CERTIFICATE])
    charge = run.ledger.charge(measured.release_id)
    drafted = charge is not None and charge.state == "measured"
    target, access = target_folder(run, measured.release_id, reviewed=drafted)
    what = "the release could not be written again: {reason}"
    hint = "make room or give the right to write there, and run again"
    with new_folder(target, access, what=what, hint=hint) as aside:
        write_files(run, measured, aside)
        for name, content in kept.items():
            (aside / name).write_bytes(content)
        _compare(aside, certificate)
        digest = check_release(aside, measured.release_id, measured.digest)
        write_head_marker(run, measured.release_id, StampedHead.read(certificate.ledger.head))
    return PublishedHandle(str(target), digest, None if charge is None else charge.statement)


def _kept(run: Run, release_id: str) -> dict[str, bytes] | None:
    charge, draft = run.ledger.charge(release_id), run.ledger.draft(release_id)
    if charge is None:
        return None
    laid_out = None if draft is None else draft.digest
    certificate = charge.publication_digest or laid_out
    return kept_documents(run.installation, release_id, certificate, charge.statement)


def _compare(aside: Path, certificate: Certificate) -> None:
    """Refuse a folder with a file that differs from the certificate, naming the software that differs."""
    there = {str(path.relative_to(aside)): digest_of(path) for path in files_in(aside)}
    for name in (CERTIFICATE, STATEMENT):
        there.pop(name, None)
    published = certificate.files
    names = there.keys() | published.keys()
    different = sorted(name for name in names if there.get(name) != published.get(name))
    if not different:
        return
    now = {"python": platform.python_version(), **software_versions()}
    then = certificate.software
    others = ", ".join(f"{name} {then.get(name)}" for name in sorted(now) if then.get(name) != now[name])
    raise PublicationError(
        f"{different[0]} does not come out as it was published"
        + (f": it was made with {others}" if others else ", though the software is the same"),
        where=f"release {certificate.release_id}",
        hint="restore the folder from a backup" + (", or run with that software" if others else ""),
    )
