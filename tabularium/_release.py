"""A published release: its tables, and questions to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium._answer import Answer
from tabularium._shown import Shown
from tabularium._table import AnswerSource, Table, Tables
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.report.wording import several
from tabularium.validations.redaction import bare_errors, os_errors_as

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table as ArrowTable

    from tabularium.mechanisms.queries import QuerySource
    from tabularium.mechanisms.queries.grammar import Query
    from tabularium.mechanisms.queries.measures import SizeHistogram
    from tabularium.tasks.publish.read_release import Released
    from tabularium.tasks.query.query_release import Codes
    from tabularium.validations.certificate import Certificate, MadeUp


class Release(Tables):
    """A release folder that was read: its tables by their names in the spec. Made by :func:`open`.

    Attributes
    ----------
    verified
        Whether every file was compared with its digest in the certificate. That the certificate is the
        agency's own is another question: :func:`tabularium.verify`.
    """

    def __init__(self, released: Released, *, verified: bool) -> None:
        self._released, self.verified = released, verified
        self.folder = released.folder

    @property
    def is_rehearsal(self) -> bool:
        """Whether its records were made up: see :func:`tabularium.rehearse`."""
        return self._made_up is not None

    @property
    def _made_up(self) -> MadeUp | None:
        """The records of a rehearsal."""
        from tabularium.validations.certificate import made_up_in

        return made_up_in(self.certificate)

    def _published(self, where: str) -> Released:
        """Return what was published; refuse a rehearsal."""
        if self.is_rehearsal:
            raise InputError(
                "this is a rehearsal of made-up records, and no release",
                where=where,
                hint="name a published release",
            )
        return self._released

    @property
    def id(self) -> str:
        """The name of the release in the ledger: 32 digits and letters."""
        return self.certificate.release_id

    @property
    def certificate(self) -> Certificate:
        """What was published, what it cost, and what can be checked without the data: exact amounts, digests,
        every draw of noise. Its fields are those of ``certificate.json``.
        """
        return self._released.certificate

    @property
    def product(self) -> str:
        """The product."""
        return self._released.spec.product

    @property
    def period(self) -> str:
        """The period."""
        return self._released.spec.period

    @property
    def confidence(self) -> float:
        """The share of all numbers of the kind that lie within their margin."""
        return self._released.level

    @property
    def _of(self) -> str:
        of = f"{self.product} {self.period}"
        return f"a REHEARSAL of {of}" if self.is_rehearsal else of

    @cached_property
    def _tables(self) -> dict[str, Table]:
        from tabularium.validations.domains.domains import NumberDomain

        spec = self._released.spec
        dimensions: dict[str, tuple[str, ...]] = {table.name: table.dimensions for table in spec.tables}
        dimensions |= {histogram.name: () for histogram in spec.histograms}
        return {
            name: Table(
                *(name, self._of, columns, self.confidence),
                partial(self._read, name),
                partial(self._estimate, name),
                partial(self._total, name),
                [column for column in columns if isinstance(self._released.domains[column], NumberDomain)],
            )
            for name, columns in dimensions.items()
        }

    @property
    def measurements(self) -> Mapping[str, Table]:
        """The noisy measurements as they were drawn, by the name of their table.

        For each cell of each measured level ``measured``, and the ``variance`` of its noise where that is
        known. Nothing was made to agree: levels contradict each other by their noise.
        """
        of = f"{self._of}, as measured"
        return {
            name: Table(name, of, table.dimensions, None, partial(self._measured, name))
            for name, table in self._tables.items()
        }

    def _measured(self, name: str) -> ArrowTable:
        from tabularium.tasks.publish.release_folder import well_formed
        from tabularium.tasks.query.unbiased import measured

        with well_formed(self.folder):
            return measured(self._released, name)

    def _read(self, name: str) -> ArrowTable:
        from tabularium.tasks.publish.release_folder import well_formed

        with well_formed(self.folder):
            return self._released.everything(name)

    def _estimate(self, name: str) -> ArrowTable:
        from tabularium.tasks.publish.release_folder import well_formed
        from tabularium.tasks.query.unbiased import unbiased

        with well_formed(self.folder):
            return unbiased(self._released, name)

    @property
    def _numbers(self) -> list[str]:
        """The tables, and their measures as ``TABLE.MEASURE``."""
        tables = self._released.spec.tables
        return [*self, *(f"{table.name}.{measure}" for table in tables for measure in table.measures)]

    def _missing(self, name: str) -> str:
        return f"the tables of {self._of} are {', '.join(self._tables)}"

    def query(
        self,
        query: str,
        *,
        table: str | None = None,
        confidence: float | None = None,
        source: AnswerSource | None = None,
    ) -> Answer:
        """Ask the release, as ``count by sex where 20 <= age < 65``. Costs no budget.

        Parameters
        ----------
        query
            A line in the language of docs/reference/query-language.md.
        confidence
            Confidence of the intervals, between 0 and 1; by default, as in the release.
        source
            Answer from the noisy measurements or from the published tables; by default from what is
            better known.

        Raises
        ------
        InputError
            The question cannot be read, or the release cannot answer it.
        """
        from tabularium.tasks.publish.release_folder import well_formed
        from tabularium.tasks.query.query_release import asked_release

        with well_formed(self.folder):
            release = asked_release(self._released, table=table, verified=self.verified)
            return self._answer(query, query, release.asked, confidence, source, release.histograms)

    def _total(
        self, name: str, codes: Codes, *, confidence: float | None, source: AnswerSource | None
    ) -> Answer:
        from tabularium.tasks.publish.release_folder import well_formed
        from tabularium.tasks.query.query_release import asked_release, total_query

        if name not in self._released.layouts:
            raise InputError(
                "is a histogram, of no cells with codes", where=f"table {name}", hint="ask a table"
            )
        with well_formed(self.folder):
            (table,) = asked_release(self._released, table=name, verified=self.verified).tables
            query, text = total_query(table, codes)
            return self._answer(query, text, (table,), confidence, source)

    def _answer(
        self,
        query: str | Query,
        text: str,
        tables: Sequence[QuerySource],
        confidence: float | None,
        source: AnswerSource | None,
        histograms: Sequence[SizeHistogram] = (),
    ) -> Answer:
        from tabularium.mechanisms.queries import ask

        if source not in (None, "measurements", "tables"):
            raise InputError("there is no such source", where="source", hint="measurements, or tables")
        if confidence is not None and not 0 < confidence < 1:
            raise InputError(
                "is not between 0 and 1", where="confidence", hint="0.9 means that 90 percent hold"
            )
        level = confidence or self.confidence
        answer = ask(query, tables, level=level, source=source, histograms=histograms)
        return Answer(
            text, answer, self.certificate.tables[answer.table].counted, is_rehearsal=self.is_rehearsal
        )

    @bare_errors
    def report(self, path: str | os.PathLike[str], *, last: Release | None = None) -> None:
        """Write the page for people again: what was published, how sure it is, and what it cost.

        It says at its head what it was compared with, which is neither the signature nor the ledger. Links in
        it lead to the files of the release where the page lies next to them.

        Parameters
        ----------
        last
            The release of an earlier period to compare with.

        Raises
        ------
        InputError
            ``last`` is of another product, or the file is there or cannot be written.
        PublicationError
            A file of the release cannot be read.
        """
        from tabularium.tasks.publish.documents import without_documents
        from tabularium.tasks.publish.release_folder import well_formed
        from tabularium.tasks.report.report import report

        target, before = self._new_file(path, last), None if last is None else last.folder
        with well_formed(self.folder):
            certificate = without_documents(self.certificate)
            page = report(self.folder, certificate, before, compared_with=self._compared_with(last))
        _write(target, page)

    @bare_errors
    def registry_entry(self, path: str | os.PathLike[str], *, last: Release | None = None) -> None:
        """Write an entry for OpenDP's Differential Privacy Deployments Registry, from the certificate.

        Its first line names what the registry asks for and the certificate does not say.

        Parameters
        ----------
        last
            A release of an earlier period, which says that the product has many releases.

        Raises
        ------
        InputError
            This is a rehearsal, ``last`` is of another product, or the file is there or cannot be written.
        """
        from tabularium.tasks.report.registry_entry import registry_entry

        certificate = self._published("registry_entry").certificate
        target = self._new_file(path, last)
        _write(target, registry_entry(certificate, earlier=last is not None))

    def _new_file(self, path: str | os.PathLike[str], last: Release | None) -> Path:
        """Return the path of a new file about this release, and maybe an earlier one."""
        target = Path(path)
        if os.path.lexists(target):
            raise InputError("there is such a file", where=str(target), hint="name a new file")
        if last is not None and (last.product != self.product or last.id == self.id):
            raise InputError(
                "this is no other release of the same product", where=str(last.folder), hint="name one"
            )
        return target

    def _compared_with(self, last: Release | None) -> tuple[str, ...]:
        if self._made_up is not None:
            return (*self._headline().splitlines(), self._made_up.says)
        both = "" if last is None else ", and so was the release before it"
        files = (
            "Compared were the files with the digests that the certificate names, and the certificate with "
            f"what its own spec, draws and files give{both}."
        )
        return (
            "This page was not compared with the agency's signature and the ledger: anyone who can write a "
            "folder like this can make it say all that stands here. What compares them is: tabularium verify "
            f"{self.folder.name} --key agency.pub.pem --export books.txt",
            files if self.verified else "Not even the files were compared with their digests.",
        )

    def _headline(self) -> str:
        how = "every file is as the certificate says" if self.verified else "UNVERIFIED"
        if self._made_up is not None:
            of = f"{self._made_up.records:,} made-up records of {self.product} {self.period}"
            return f"REHEARSAL of {of}: {several(len(self), 'table')}\nNumber of records: {self._made_up.why}"
        return f"release {self._of} ({self.id[:8]}…): {several(len(self), 'table')}; {how}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        return pd.DataFrame(
            [{"table": name, "by": ", ".join(table.dimensions)} for name, table in self._tables.items()]
        )

    __repr__ = Shown.__repr__


def open(folder: str | os.PathLike[str], *, verify: bool = True) -> Release:
    """Open a release folder: the one that holds ``certificate.json``, or the link ``current`` of a period.

    A rehearsal is opened as well; it says everywhere that it is one.

    The folder may come from anybody: it is read within limits, and no link in it is followed.

    Parameters
    ----------
    verify
        Compare every file with its digest in the certificate first.

    Raises
    ------
    InputError
        No release lies there.
    PublicationError
        It is not what its certificate says.

    Examples
    --------
    >>> release = open("releases/persons/2026/current")          # doctest: +SKIP
    >>> release["age_by_sex"].to_pandas(level="region")          # doctest: +SKIP
    """
    from tabularium.tasks.publish.read_release import Released
    from tabularium.tasks.publish.release_folder import well_formed

    target = Path(os.path.realpath(folder))  # what `current` leads to now, also when it leads elsewhere later
    with well_formed(target):
        return Release(Released.open(target, whole=verify, rehearsed=True), verified=verify)


def _write(target: Path, content: bytes) -> None:
    with os_errors_as(InputError, "cannot be written ({reason})", where=target, hint="name another file"):
        target.write_bytes(content)
