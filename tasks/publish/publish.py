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
        <documents>                         made of all this: see
        :mod:`tabularium.tasks.publish.documents` certificate.json                    names the digest
        of every other file, but the next statement.dsse.json                 signed over every file, if there
        is a key for releases
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.last_published import last_release
from tabularium.tasks.ledger_stages import MeasuredHandle
from tabularium.tasks.margins.measure_margins import told_of
from tabularium.tasks.measure import Finished, read_measurements
from tabularium.tasks.postprocess.denominators import total_over
from tabularium.tasks.postprocess.estimation import estimation_of
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.certificate import Contents, certificate
from tabularium.tasks.publish.documents import altered_document, without_documents, write_documents
from tabularium.tasks.publish.draft_folder import target_folder
from tabularium.tasks.publish.formats.base import write_formats
from tabularium.tasks.publish.frames import Frame, rows_into_parquet, run_parallel
from tabularium.tasks.publish.measurement_files import FOLDER, INDEX, described, index_text, measurement_files
from tabularium.tasks.publish.priors import copy_prior
from tabularium.tasks.publish.published_tables import (
    PublishedTable,
    frame_of,
    histogram_table,
)
from tabularium.tasks.publish.release_folder import (
    check_release,
    check_statement,
    digest_of,
    files_in,
    new_folder,
)
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.published_digits import all_in_digits
from tabularium.tasks.published_heads import StampedHead, write_head_marker
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.sign.sign_release import Signed, settled_statement, sign_release
from tabularium.tasks.unit_tallies import attempts, drawn, outcomes
from tabularium.validations import certificate as said
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.domains.code_lists import published_name, published_text
from tabularium.validations.spec.measures.array_owners import array_of, owner_of
from tabularium.validations.universes.universe import counted_in

EXCEPTIONS = "rounding_exceptions.txt"


@dataclass(frozen=True)
class PublishedHandle:
    """Where a release lies, and the SHA-256 of its certificate; of its signed statement, if it has one.

    ``signed_by`` is the key that signed it just now.
    """

    folder: str
    certificate: str
    statement: str | None = None
    signed_by: str | None = None

    @classmethod
    def of(cls, folder: Path, certificate: str, signed: Signed | None) -> Self:
        """Return what was written, signed now or not."""
        return cls(str(folder), certificate, *((signed.statement, signed.key) if signed else ()))


@stage("publish")
def publish(run: Run, measured: MeasuredHandle, tallied: MeasuredHandle | None) -> PublishedHandle:
    """Write the release, or adopt it when an earlier run got as far as renaming it.

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
    """Take over a folder that was renamed before its charge was closed, if it is what is written now.

    Until the charge is closed the ledger does not know the certificate's digest, so that a folder may be
    forged and fit itself. All that is made of the same measurements is the same, but the time, the newest
    entry of the ledger, what was withheld meanwhile, and the software.
    """
    digest = check_release(target, measured.release_id, measured.digest)
    ledger = run.ledger
    found = verify_certificate(target / CERTIFICATE, ledger.charge(measured.release_id), run.loaded.domains)
    document = altered_document(target, found, last_release(run, ledger))
    again = Certificate.read((aside / CERTIFICATE).read_bytes())
    different = next(_differing(found, again), document)
    if different is not None:
        other = "" if found.software == again.software else ", and it names other software"
        raise PublicationError(
            f"this folder is not what the stored measurements give: {different} differs{other}",
            where=str(target),
            hint="move the folder away and run again: it is written again, with the noise that is drawn",
        )
    return digest


def _differing(there: Certificate, here: Certificate) -> Iterator[str]:
    """Yield the sections that differ of two certificates of the same measurements, but those that may."""
    there, here = without_documents(there), without_documents(here)
    for name in Certificate.model_fields:
        if name in ("created", "software", "code", "outside_the_guarantee"):
            continue
        one, other = getattr(there, name), getattr(here, name)
        if name == "ledger":
            one, other = (each.model_dump(exclude={"head", "withheld"}) for each in (one, other))
        if one != other:
            yield name


def _statement(run: Run, folder: Path, *, adopt: bool) -> Signed | None:
    """Sign what lies in a folder, or take over the statement there; a draft is signed when it is accepted."""
    if run.loaded.spec.publication.review is not None:
        check_statement(folder, None)
        return None
    sign = settled_statement if adopt else sign_release
    return sign(run.installation, run.ledger, folder)


def _write_all(run: Run, measured: MeasuredHandle, tallied: MeasuredHandle | None, aside: Path) -> str:
    events, tables = write_files(run, measured, aside)
    found = estimation_of(run, measured)
    conflicts = {name: each.as_json() for name, each in found.conflicts.items()}
    found_tallies = [] if tallied is None else drawn(run, tallied)
    events = [each.event for each in found_tallies] + events
    contents = Contents(
        {name: said.Table.model_validate(about) for name, about in all_in_digits(tables).items()},
        events,
        _digests(aside),
        all_in_digits(found.agreement()),
        all_in_digits(conflicts),
        outcomes(run, found_tallies),
    )
    return _certify(run, measured, aside, contents)


def write_files(run: Run, measured: MeasuredHandle, aside: Path) -> tuple[list[Event], dict[str, Any]]:
    """Write all of a release but documents and certificate: the same bytes for the same measurements.

    Returns
    -------
    The events of all measurements, and what the certificate says of each table.

    Raises
    ------
    PublicationError
        If a public file of the spec changed during the run.
    """
    found, measurements, spec = (
        estimation_of(run, measured),
        read_measurements(run, measured),
        run.loaded.spec,
    )
    tables: dict[str, Any] = {}
    written: dict[str, PublishedTable] = {}
    entries: list[dict[str, Any]] = []
    writes: list[Callable[[], None]] = []
    layouts, counts = run.layouts, found.estimates
    half = {name: each.half for name, each in found.margins.items()}
    for table in spec.tables:
        layout = layouts[table.name]
        parts = {level: measurements[table.name][level] for level in layout.cuts}
        estimate, about = counts[table.name], found.margins[table.name].about
        frame = frame_of(run.loaded, layouts, table, counts, half)
        written[table.name] = PublishedTable(table, layout, frame, about["margins"]["method"])
        roots = estimate.values[layout.parents < 0]
        tables[table.name] = {
            "rows": frame.num_rows,
            "total": round(float(roots.sum())),
            "counted": counted_in(spec, table),
            "mechanism": table.mechanism,
            **layout.impossible_rows(consistent=spec.postprocessing.consistency),
            **about,
            "failed_checks": found.failed[table.name],
        }
        entries += _measurements(run, layout, parts, aside, writes)
        for name, measure in table.measures.items():
            array = array_of(table.measures, table.name, name)
            about, whole = found.margins[array].about, total_over(run.loaded, layouts, measure, counts)
            told = told_of(layouts[array], measure, counts[array].values, about, whole)
            own = tables[table.name].setdefault("measures", {})
            own[name] = {**told, "failed_checks": found.failed[array]}
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
    write_formats(run.loaded, written, aside, beside=writes)
    if found.exceptions:
        (aside / EXCEPTIONS).write_text("\n".join(found.exceptions) + "\n", encoding="utf-8")
    drawn_parts = (part for levels in measurements.values() for part in levels.values())
    return [event for part in drawn_parts for event in part.transcript], tables


def _measurements(
    run: Run, layout: Layout, parts: dict[str, Finished], aside: Path, writes: list[Callable[[], None]]
) -> list[dict[str, Any]]:
    """Add what writes a table's measurements, unless they are withheld; return what is said of them."""
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
    files |= {(each.values, "figures") for each in spec.figures if each.values}
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
    """Write the documents and, naming their digests too, the certificate; return its SHA-256."""
    ledger = run.ledger
    tried = [(number, each.release_id, each.attempts) for number, each in attempts(run, ledger)]
    told = certificate(run, measured, contents, ledger, tried)
    last = last_release(run, ledger)
    write_documents(aside, told, last, run.installation.cache)
    write_head_marker(run, measured.release_id, StampedHead.said(told.ledger.head))
    raw = told.model_copy(update={"files": _digests(aside, contents.files)}).written()
    (aside / CERTIFICATE).write_bytes(raw)
    return hashlib.sha256(raw).hexdigest()


def _digests(aside: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the digest of every file; those that are known have not been touched since."""
    found = {str(path.relative_to(aside)): path for path in sorted(files_in(aside))}
    new = [name for name in found if name not in (known or {})]
    fresh = zip(new, run_parallel([partial(digest_of, found[name]) for name in new]), strict=True)
    digests = {**(known or {}), **dict(fresh)}
    return {name: digests[name] for name in found}
