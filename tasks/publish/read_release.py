"""A published release folder, read back from its certificate, lists and files only, without a home.

Nothing here judges whether the folder is what was published; that is :mod:`tabularium.tasks.verify`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import MOST_CELLS, plain_files
from tabularium.tasks.publish.formats.base import TableFormat, first_format, formats_of, known_rows
from tabularium.tasks.publish.frames import Shape
from tabularium.tasks.publish.release_folder import (
    certificate_at,
    check_release,
    damaged,
    is_rehearsal,
    readable,
)
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate
from tabularium.validations.domains.domains import Domain
from tabularium.validations.release_spec.checks.column_checks import check_columns
from tabularium.validations.release_spec.checks.fact_checks import check_invariants, check_rates
from tabularium.validations.release_spec.checks.prior_checks import check_priors, copied_into
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.yaml_lines import Document

_MOST_PERIODS = 100  # that are named
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, eq=False)
class ReleasedNumbers:
    """The numbers of a published table.

    Attributes
    ----------
    present
        (nodes,) which nodes are published: all, unless consistency is off.
    counts
        (nodes, cells) as published; not a number where a cell is suppressed, or has no mean or median; zero
        where a node is absent.
    margins
        (nodes, cells) as published; infinite where there is none.
    """

    layout: Layout
    present: NDArray[np.bool_]
    counts: NDArray[np.float64]
    margins: NDArray[np.float64]


class TooManyCells(PublicationError):
    """The tables of a release are larger than this program holds in memory."""


@dataclass(frozen=True, eq=False)
class Released:
    """A release folder whose certificate, spec, code lists and invariants have been read.

    ``loaded``: the spec in the certificate with the code lists and invariants of the folder.
    """

    folder: Path
    certificate: Certificate
    digest: str
    loaded: Loaded

    @classmethod
    def open(cls, folder: Path, *, whole: bool = False, rehearsed: bool = False) -> Released:
        """Read a release folder; its tables are read on demand.

        ``whole``: compare every file with its digest first, and the certificate with itself.
        ``rehearsed``: take a rehearsal, too.

        Raises
        ------
        InputError
            No release lies there.
        PublicationError
            Its certificate, spec or code lists cannot be read, it contradicts itself, or a file is not what
            it was.
        """
        name = REHEARSAL if rehearsed and is_rehearsal(folder) else CERTIFICATE
        if not os.path.lexists(folder / name) and not is_rehearsal(folder):
            raise InputError(
                "no release lies in this folder",
                where=str(folder),
                hint=_hint(folder),
            )
        raw, certificate = certificate_at(folder / name)
        if whole:
            check_release(folder, certificate.release_id, name=name)
        else:
            with readable(folder):
                plain_files(folder)
        released = cls.read(folder, certificate, hashlib.sha256(raw).hexdigest())
        if whole and name == CERTIFICATE:
            verify_certificate(folder / name, domains=released.domains)
        return released

    @classmethod
    def read(cls, folder: Path, certificate: Certificate, digest: str) -> Released:
        """Read the files that belong to a known certificate."""
        return cls(folder, certificate, digest, read_spec(folder, certificate))

    @property
    def spec(self) -> ReleaseSpec:
        """The spec with everything filled in."""
        return self.loaded.spec

    @property
    def domains(self) -> Mapping[str, Domain]:
        """The public domain of every column."""
        return self.loaded.domains

    @property
    def level(self) -> float:
        """The level of its margins."""
        return float(self.certificate.confidence)

    @cached_property
    def layouts(self) -> dict[str, Layout]:
        """Name of each table, and of the array of each measure -> how it lies in memory."""
        return {table.name: Layout.of(self.loaded, table) for table in self.spec.arrays}

    def bounded(self) -> None:
        """Check, before a table is made in memory, that it is no larger than the files of the folder show.

        Raises
        ------
        TooManyCells
            All together are too many for this program.
        PublicationError
            A file cannot hold the cells of its table.
        """
        everything = 0
        for name, layout in self.layouts.items():
            cells = layout.nodes * layout.cells
            everything += cells
            sizes = [
                (most, format_.table_file(name))
                for format_ in formats_of(self.spec)
                if (most := format_.most_rows(self.folder, name)) is not None
            ]
            shown, file = min(sizes, default=(MOST_CELLS, ""))
            rows = sum(len(nodes) for nodes in layout.cuts.values()) * layout.cells
            if everything > MOST_CELLS:
                raise TooManyCells(
                    f"spec.tables up to {name} have more than {MOST_CELLS:,} cells",
                    where=str(self.folder / CERTIFICATE),
                    hint="use a machine and software that hold more in memory",
                )
            if min(cells, rows) > shown:
                raise damaged(self.folder, f"table {name} has {cells:,} cells, which {file} cannot hold")

    @cached_property
    def format(self) -> TableFormat:
        """The format from which numbers are read."""
        return first_format(self.spec)

    def shape(self, name: str) -> Shape:
        """Return the rows of a table or histogram, as the spec has them."""
        return Shape.of(self.spec, name, self.layouts.get(name))

    def present(self, name: str) -> NDArray[np.bool_]:
        """Return which nodes of a table are published, (nodes,): all, unless consistency is off."""
        layout = self.layouts[name]
        present = np.ones(layout.nodes, bool)
        if not self.spec.postprocessing.consistency:
            present[:] = False
            present[np.concatenate(list(layout.cuts.values()))] = True
        return present

    def table(self, name: str, measure: str | None = None) -> ReleasedNumbers:
        """Read the counts and margins of a table, or the numbers and margins of one of its measures.

        Raises
        ------
        PublicationError
            Its file does not hold the cells that the spec declares.
        """
        self.bounded()
        layout, present = self.layouts[name], self.present(name)
        shape = (layout.nodes, layout.cells)
        counts, margins = np.zeros(shape), np.full(shape, np.inf)
        both = self.columns(
            name, *(("count", "margin") if measure is None else (measure, f"{measure}_margin"))
        )
        if len(both[0]) != int(present.sum()) * layout.cells:
            raise self._misfit(name)
        counts[present], margins[present] = (numbers.reshape(-1, layout.cells) for numbers in both)
        margins[np.isnan(margins)] = np.inf
        return ReleasedNumbers(layout, present, counts, margins)

    def histogram(self, name: str) -> NDArray[np.int64]:
        """Read a histogram: shape (k, 2), pairs (size, number), sizes descending."""
        return np.stack(self.columns(name, "size", "number"), axis=1).astype(np.int64)

    def columns(self, name: str, *wanted: str) -> list[NDArray[np.float64]]:
        """Read columns of numbers of a table's file, in its order; nulls are not numbers.

        Raises
        ------
        PublicationError
            The file cannot be read or lacks one of them.
        """
        frame = self._read(name, wanted)
        return [frame[column].cast(pa.float64()).fill_null(np.nan).to_numpy() for column in wanted]

    def everything(self, name: str) -> pa.Table:
        """Read all columns of a table's file: codes, labels and flags as dictionaries, the rest as numbers.

        Raises
        ------
        PublicationError
            The file cannot be read, or has other rows than the spec declares.
        """
        table = self._read(name)
        for index, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                table = table.set_column(index, field.with_type(_TEXT), table[index].cast(_TEXT))
        return table

    def _read(self, name: str, columns: Collection[str] | None = None) -> pa.Table:
        shape = self.shape(name)
        try:
            with readable(self.folder):
                batches = self.format.read(self.loaded, self.folder, shape, known_rows(shape), columns)
                table = pa.Table.from_batches(batches).select(list(columns or shape.columns))
            if shape.rows is None or table.num_rows == shape.rows:
                return table
        except (OSError, pa.ArrowException, KeyError, ValueError):
            pass
        raise self._misfit(name)

    def _misfit(self, name: str) -> PublicationError:
        return damaged(
            self.folder, f"the file of table {name} does not hold the cells that the spec declares"
        )


def _hint(folder: Path) -> str:
    """Return a hint about release folders: each period has one in the product's folder."""
    from tabularium.tasks.publish.period_index import CURRENT

    if os.path.lexists(folder / CURRENT):
        return f"name {folder / CURRENT}, or a release next to it"
    periods = sorted(path.parent.name for path in islice(folder.glob(f"*/{CURRENT}"), _MOST_PERIODS))
    if not periods:
        return f"name the folder that holds {CERTIFICATE}"
    return f"it holds those of {', '.join(periods)}: name for instance {folder / periods[-1] / CURRENT}"


def _groups_in_order(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> bool:
    """Whether the groups of bounds are in the order of the cells, since noise is scaled by groups."""
    measures = (measure for table in spec.tables for measure in table.measures.values())
    return all(measure.by is None or measure.groups == domains[measure.by].codes for measure in measures)


def read_spec(folder: Path, certificate: Certificate) -> Loaded:
    """Return the spec of a certificate with the code lists and invariants of its folder.

    Raises
    ------
    PublicationError
        One of them cannot be read.
    """
    try:
        spec = ReleaseSpec.model_validate(certificate.spec)
        names = [column.code_list for column in spec.columns.values()]
        names += [numbers.values for numbers in (*spec.invariants, *spec.figures)]
        if all(name is None or Path(name).name == name for name in names):
            document = Document(CERTIFICATE, certificate.spec)
            draft = PartialSpec(
                document,
                postprocessing=spec.postprocessing,
                columns=dict(spec.columns),
                tables=list(enumerate(spec.tables)),
                invariants=list(enumerate(spec.invariants)),
                figures=list(enumerate(spec.figures)),
            )
            check_columns(draft, folder / "codes")
            check_invariants(draft, folder / "invariants")
            check_rates(draft, folder / "figures")
            check_priors(draft, copied_into(folder))
            if not document.problems and _groups_in_order(spec, draft.domains):
                return Loaded(
                    spec=spec,
                    path=folder / CERTIFICATE,
                    folder=folder,
                    domains=draft.domains,
                    public_files=dict(sorted({**draft.public_files, **certificate.public_look_ups}.items())),
                    digest=certificate.spec_digest,
                    published_spec=certificate.spec,
                    source_uri="",
                    known=tuple(draft.known),
                    figures=tuple(draft.public),
                    priors=draft.priors,
                )
    except (ValidationError, KeyError, TypeError, AttributeError, MemoryError):
        pass
    raise PublicationError(
        "the spec in the certificate, or a code list or invariant with it, cannot be read",
        where=str(folder / CERTIFICATE),
        hint="restore the folder from a copy",
    )
