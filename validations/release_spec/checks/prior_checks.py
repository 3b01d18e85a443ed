"""Tables that are drawn towards an earlier release, or the level above: is there what they need?

Only the certificate of the earlier release is read here; the numbers are read, and held against the digest in
it, when a table is drawn. That it was published is for the ledger to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from pydantic import ValidationError

from tabularium.validations.domains.known_marginals import FOLDER, PriorTable, public_prior
from tabularium.validations.imported_later import Later
from tabularium.validations.public_files import Unreadable, read_plain
from tabularium.validations.release_spec.checks.table_checks import along_of, default_mechanism
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.problems import Path, listed, quoted
from tabularium.validations.release_spec.publication_formats import complete_formats, read_first
from tabularium.validations.release_spec.tables import ABOVE, PLAIN, Table, TableEntry

if TYPE_CHECKING:
    from tabularium.validations import certificate
else:
    certificate = Later("tabularium.validations.certificate")

Places = Callable[[str], FilePath | None]
"""Release id -> its folder; None where it is not found."""


def published_places(partial: PartialSpec, folder: FilePath) -> Places:
    """Return how releases of the spec's product are found where they are published."""

    def folder_of(release: str) -> FilePath | None:
        product = partial.document.data.get("product")
        if partial.publication is None or not isinstance(product, str):
            return None
        folders = sorted((folder / partial.publication.folder / product).glob(f"*/{release}"))
        return next((path for path in folders if path.is_dir()), None)

    return folder_of


def copied_into(folder: FilePath) -> Places:
    """Return how they are found in a release that was drawn towards them."""
    return lambda release: folder / FOLDER / release


def check_priors(partial: PartialSpec, places: Places) -> None:
    """Check every table that is drawn towards an earlier release, and find its published table."""
    over = {measure.denominator for _, table in partial.tables for measure in table.measures.values()}
    for at, table in partial.tables:
        path: Path = ("tables", at, "prior")
        if table.prior is None or not partial.reads(path):
            continue
        before = partial.count()
        _check_kind(partial, path, table, over)
        if table.prior == ABOVE:
            _check_above(partial, path, table)
        elif partial.count() == before:
            prior = _prior_table(partial, path, table, places(table.prior))
            if prior is not None:
                partial.priors[table.name] = prior
                partial.public_files[public_prior(prior.release)] = prior.certificate


def prior_notes(spec: ReleaseSpec) -> Iterator[str]:
    """Yield what is allowed but may not be intended."""
    for table in spec.tables:
        if table.prior == ABOVE:
            yield (
                f"table {table.name} is drawn towards the level above: areas look more similar than they "
                "are, so it is no table to find the unusual ones by"
            )
        elif table.prior is not None:
            yield (
                f"table {table.name} is drawn towards release {table.prior}: changes since then look smaller "
                "than they are, so it is no table to read changes from"
            )


def _check_kind(partial: PartialSpec, path: Path, table: TableEntry, over: set[str | None]) -> None:
    definition = "pure" if partial.privacy is None else partial.privacy.definition
    mechanism = table.mechanism or default_mechanism(definition)
    if mechanism not in PLAIN and partial.reads((*path[:-1], "mechanism")):
        what = f"{mechanism} does not leave each cell with noise of its own, by which a prior is judged"
        partial.add(path, what, f"measure the table by {listed(PLAIN)}, or remove prior")
    if table.prior != ABOVE and partial.document.data.get("measurements_of") is not None:
        what = "the prior may stand on the very noise of measurements that were drawn before it was named"
        partial.add(path, what, "remove prior, or --measurements-of: then the counts are measured again")
    if table.measures:
        what = "only counts are drawn towards a prior, and this table has measures"
        partial.add(path, what, "publish the measures in a table of their own, or remove prior")
    if table.name in over:
        what = "a rate is over the counts of this table, and its margin needs them as they were measured"
        partial.add(path, what, "remove prior, or put the rate over another table")
    if partial.postprocessing is not None and not partial.postprocessing.consistency:
        what = "counts are drawn before levels and tables are made to agree, and consistency is off"
        partial.add(path, what, "remove consistency: false, or prior")


def _check_above(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    if any(name not in partial.domains for name in table.dimensions):
        return
    if along_of(table, partial.domains) is None or len(table.dimensions) < 2:
        what = "the level above says how areas are made up, by the dimensions that are crossed with them"
        partial.add(path, what, "cross a hierarchy with other dimensions, or remove prior")
    elif len(table.levels or ()) < 2:
        what = "one level is measured, so that there is none above it"
        partial.add(path, what, "measure a level above too: name both under levels, with their shares")


def _prior_table(
    partial: PartialSpec, path: Path, table: TableEntry, folder: FilePath | None
) -> PriorTable | None:
    document, digest = _certificate(folder)
    release = table.prior or ""
    if document is None and digest:
        what = f"{certificate.CERTIFICATE} of release {quoted(release)} {digest}"
        partial.add(path, what, "put its folder back as it was published")
        return None
    if folder is None or document is None:
        what = f"no release {quoted(release)} of this product lies in the publication folder"
        partial.add(path, what, "name a release by its id, and put its folder back if it is gone")
        return None
    if document.release_id != release:
        partial.add(path, "another release lies in the folder of that id", "put its folder back as it was")
        return None
    entry = next((candidate for candidate in _tables_of(document) if candidate.name == table.name), None)
    if entry is None or not _same_table(partial, table, entry):
        what = f"release {quoted(release)} has no table {quoted(table.name)} of the same dimensions"
        partial.add(path, f"{what}, hierarchy and universe", "name a release that has, or remove prior")
        return None
    formats = complete_formats()
    for reader in read_first(formats):
        if (file := f"{table.name}{reader.kinds[0].ending}") in document.files:
            return PriorTable(release, folder, digest, reader.name, file, document.files[file])
    what = f"release {quoted(release)} has the table neither as {' nor as '.join(formats)}"
    partial.add(path, what, "name a release that has, or remove prior")
    return None


def _certificate(folder: FilePath | None) -> tuple[certificate.Certificate | None, str]:
    """Return a certificate and its SHA-256; None and the reason where there is one that cannot be read."""
    try:
        if folder is not None:
            raw = read_plain(folder / certificate.CERTIFICATE)
            return certificate.Certificate.read(raw), hashlib.sha256(raw).hexdigest()
    except Unreadable as error:
        return None, "" if error.kind == "missing" else str(error)
    return None, ""


def _tables_of(document: certificate.Certificate) -> tuple[Table, ...]:
    try:
        return ReleaseSpec.model_validate(document.spec).tables
    except ValidationError:
        return ()


def _same_table(partial: PartialSpec, table: TableEntry, other: Table) -> bool:
    along = along_of(table, partial.domains)
    ours = table.dimensions, table.where, None if along is None else along.name
    return ours == (other.dimensions, other.where, other.along)
