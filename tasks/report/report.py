"""The report of a release: every section computed, and written by a template that escapes its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

import numpy as np

from tabularium.tasks.publish.data_dictionary import quality_in_words
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report import wording
from tabularium.tasks.report.accuracy import (
    AccuracyLine,
    MeasureLine,
    MovedLine,
    Plot,
    accuracy,
    measure_accuracy,
    moved_in,
    plots_of,
)
from tabularium.tasks.report.cells_chart import Chart, chart_of
from tabularium.tasks.report.released_cells import MOST_TABLES, ReleasedCells, names_of, opened
from tabularium.tasks.report.since_last_period import (
    ComparedMeasure,
    ComparedTable,
    compared,
    compared_measures,
    last_of,
)
from tabularium.tasks.report.wording import templates
from tabularium.validations.certificate import Certificate, Measure
from tabularium.validations.domains.known_marginals import FOLDER as PRIOR_RELEASES
from tabularium.validations.release_spec.columns import Column
from tabularium.validations.release_spec.publication_formats import kind_of
from tabularium.validations.release_spec.tables import Histogram, Table

LARGEST_PAGE = 1_000_000
"""Bytes; pictures are left out of a page that would be larger."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class TableReported:
    """The description of one table on the page."""

    shown: TableShown
    charts: list[Chart]
    method: str
    accuracy: list[AccuracyLine]
    of_measures: dict[str, list[MeasureLine]]
    plots: list[Plot]
    moved: list[MovedLine] | None
    compared: ComparedTable | str | None
    measures: list[ComparedMeasure]


def report(
    aside: Path, certificate: Certificate, last: Path | None, *, compared_with: Sequence[str] = ()
) -> bytes:
    """Return ``report.html``: the same bytes for the same release.

    Parameters
    ----------
    aside
        The folder of the release, in which its tables lie.
    certificate
        Its certificate, whose ``files`` lack the documents.
    last
        The folder of the product's newest published release for an earlier period, where there is one.
    compared_with
        Sentences for the head of a rewritten page, on what the release was compared with; the page
        in its folder is from the run that made it, which compared nothing.

    Raises
    ------
    PublicationError
        A file of the release cannot be read.
    """
    released, before = opened(aside, certificate), last_of(last)
    tables, example = [], None
    for table in released.spec.tables[:MOST_TABLES]:
        cells = ReleasedCells(released, table.name)
        method = certificate.tables[table.name].margins.method
        example = example or worked_example(table.name, cells, method)
        lines = accuracy(cells, certificate.tables[table.name])
        since = None if before is None else compared(released, cells, before)
        comparable = before is not None and isinstance(since, ComparedTable)
        tables.append(
            TableReported(
                shown(released, cells),
                charts(released, cells),
                method,
                lines,
                _of_measures(released, table.name),
                plots_of(titled(table, table.name), lines),
                None if certificate.measurements.withheld else moved_in(released, table.name, cells),
                since,
                compared_measures(released, cells, before) if before is not None and comparable else [],
            )
        )
    page = _page(released, certificate, tables, example, before, compared_with)
    if len(page) > LARGEST_PAGE:
        bare = [TableReported(**{**vars(table), "plots": [], "charts": []}) for table in tables]
        page = _page(released, certificate, bare, example, before, compared_with)
    return page


def _of_measures(released: Released, table: str) -> dict[str, list[MeasureLine]]:
    """Return the accuracy of each measure of a table, by its title."""
    of_measures = {}
    for name, about in (released.certificate.tables[table].measures or {}).items():
        entry = next(candidate for candidate in released.spec.tables if candidate.name == table)
        cells = ReleasedCells(released, table, name, flags=True)
        of_measures[entry.measures[name].title or name] = measure_accuracy(cells, about)
    return of_measures


def _page(
    released: Released,
    certificate: Certificate,
    tables: list[TableReported],
    example: Example | None,
    before: Released | None,
    compared_with: Sequence[str],
) -> bytes:
    spec = released.spec
    level = certificate.confidence
    text = (
        templates("tabularium.tasks.report")
        .get_template("report.html.jinja")
        .render(
            policy=_POLICY,
            compared_with=compared_with,
            certificate=certificate,
            spec=spec,
            about=spec.about,
            title=spec.about.title or spec.product,
            tables=tables,
            left_out=spec.tables[MOST_TABLES:],
            histograms=[
                (titled(histogram, histogram.name), certificate.tables[histogram.name], histogram.of)
                for histogram in spec.histograms
            ],
            budget=budget_of(certificate),
            level=wording.share(float(level)),
            of_ten=_of_ten(level),
            outside_the_margin=wording.share(float(1 - level)),
            quality=spec.publication.quality and quality_in_words(spec.publication.quality),
            example=example,
            read_as=READ_AS,
            before=None if before is None else before.certificate,
            files=downloads(released.folder, certificate),
        )
    )
    return text.encode()


def _of_ten(level: Fraction) -> str:
    """Return a share as so many out of ten, a hundred or a thousand."""
    for out_of in (10, 100, 1000):
        if (level * out_of).denominator == 1:
            return f"{level * out_of} out of {out_of}"
    return f"{float(level):.4g} of all"


@dataclass(frozen=True)
class AccountShown:
    """The account when it was charged for the release.

    Attributes
    ----------
    amount
        What the release cost: what was charged then, and before it for its tallies.
    used, cap
        The sum of all that was reserved or spent then, these charges included, and the most it may ever be.
    releases_before
        How many releases of the account came earlier.
    """

    name: str
    amount: Fraction
    used: Fraction
    cap: Fraction
    releases_before: int

    @property
    def left(self) -> Fraction:
        """The rest of the cap."""
        return self.cap - self.used

    @property
    def before(self) -> Fraction:
        """The amount used before these charges."""
        return self.used - self.amount

    def part(self, amount: Fraction) -> float:
        """Return a part of the cap."""
        return float(amount / self.cap)


@dataclass(frozen=True)
class BudgetShown:
    """The price of a release for one protected unit.

    Attributes
    ----------
    symbol
        ε or ρ.
    epsilon_delta
        Under zcdp: the same loss as (ε, δ).
    """

    symbol: str
    amount: Fraction
    epsilon_delta: list[tuple[float, str]]
    account: AccountShown


def budget_of(certificate: Certificate) -> BudgetShown:
    """Return the amounts that a certificate states."""
    privacy, account, ledger = certificate.privacy, certificate.account, certificate.ledger
    tallies = ledger.tally_charges if ledger.rests_on is None else ()  # else an earlier release paid for them
    return BudgetShown(
        "ε" if privacy.definition == "pure" else "ρ",
        privacy.loss,
        [(pair.epsilon, str(pair.delta)) for pair in privacy.epsilon_delta or ()],
        AccountShown(
            account.name,
            sum((charge.amount for charge in tallies), account.reserved.amount),
            account.cumulative.used,
            account.cap,
            account.cumulative.releases_before,
        ),
    )


# What a release holds: titles, tables, how to read a row of each, and what can be downloaded.


_SAMPLE = 6
_CODES = 6
_PICTURED = 3  # measures


@dataclass(frozen=True)
class DimensionShown:
    """One dimension of a table: its column, its title, the number of its values and the first of them."""

    name: str
    title: str
    number: int
    values: list[str]
    levels: list[str]


Row = tuple[str, list[str], float, float, list[tuple[float, float]]]


@dataclass(frozen=True)
class TableShown:
    """The introduction of one table.

    Attributes
    ----------
    rows
        Column values of some rows, as the file has them: level if there is one, labels, count, margin, and of
        each measure number and margin.
    measures
        The certificate's entry of each sum, mean and median.
    impossible
        How many of its cells nobody can be in.
    """

    name: str
    title: str
    cells: int
    total: float
    counted: str
    mechanism: str
    dimensions: list[DimensionShown]
    rows: list[Row]
    failed: int
    measures: dict[str, Measure]
    impossible: int = 0

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the rows shown."""
        return [dimension.title for dimension in self.dimensions]


def titled(entry: Column | Table | Histogram, name: str) -> str:
    """Return the title of a table or a column."""
    return entry.title or name.replace("_", " ")


def shown(released: Released, numbers: ReleasedCells) -> TableShown:
    """Return the introduction of a table: what it counts, by what, and some of its rows."""
    layout, table = numbers.layout, numbers.layout.table
    about = released.certificate.tables[table.name]
    dimensions = []
    for name in table.dimensions:
        title = titled(released.spec.columns[name], name)
        if layout.along is not None and name == table.along:
            number = int(numbers.present.sum())
            levels = [level.name for level in numbers.levels]
            labels = layout.along.node_labels[: min(number, _CODES)]
        else:
            domain = next(other for other in layout.others if other.name == name)
            number, levels, labels = domain.size, [], domain.labels[:_CODES]
        dimensions.append(DimensionShown(name, title, number, list(labels), levels))
    return TableShown(
        table.name,
        titled(table, table.name),
        numbers.rows,
        about.total,
        about.counted,
        table.mechanism_in_words,
        dimensions,
        _rows(numbers, [ReleasedCells(released, table.name, name) for name in table.measures]),
        sum(check.count for check in about.failed_checks or ()),
        about.measures or {},
        about.impossible or 0,
    )


def charts(released: Released, numbers: ReleasedCells) -> list[Chart]:
    """Return a chart of a table's counts, and one of each of its first measures."""
    table = numbers.layout.table
    titles = {name: titled(released.spec.columns[name], name) for name in table.dimensions}
    made = [chart_of(numbers, titles, titled(table, table.name))]
    for name, measure in [*table.measures.items()][:_PICTURED]:
        of_it = f"{titled(table, table.name)}, {measure.title or name}"
        least = None if measure.linear else measure.smallest
        cells = ReleasedCells(released, table.name, name, flags=True)
        made.append(chart_of(numbers, titles, of_it, cells, least=least))
    return [chart for chart in made if chart is not None]


def _rows(numbers: ReleasedCells, measures: list[ReleasedCells]) -> list[Row]:
    """Return some rows, from each level the first cells that are not empty."""
    layout, levels = numbers.layout, numbers.levels
    number = max(1, _SAMPLE // len(levels))
    rows = []
    for level in levels:
        first, last = level.nodes.start, level.nodes.stop
        nodes = np.arange(first, last)[numbers.present[first:last]]
        head = nodes[: max(1, -(-200 // layout.cells))]
        counts, margins = numbers.at(head)
        measured = [measure.at(head) for measure in measures]
        filled = np.flatnonzero(np.nan_to_num(counts) > 0)
        places = filled if len(filled) else np.arange(counts.size)
        for at in places[np.unique(np.linspace(0, len(places) - 1, min(number, len(places))).astype(int))]:
            node, cell = divmod(int(at), layout.cells)
            labels = [label for _, _, label in names_of(layout, int(head[node]), cell)]
            both = float(counts[node, cell]), float(margins[node, cell])
            values = [(float(shown[node, cell]), float(half[node, cell])) for shown, half in measured]
            rows.append((level.name, labels, *both, values))
    return rows


# --- one number of the release, read aloud with its margin

READ_AS = {
    "exact": (
        "In {of_ten} releases drawn like this one, the true count of this very cell lies between the ends."
    ),
    "simulated": (
        "Over the cells of this table whose published counts are about as large, the true count lies between "
        "the two ends for {of_ten}. That is an average: it is not promised for this cell by itself."
    ),
    "prior": (
        "Over the cells of this table that are about as large, and that changed about as much since the "
        "earlier release they were drawn towards, the true count lies between the two ends for {of_ten}. "
        "That is an average: it is not promised for this cell by itself."
    ),
    "above": (
        "Over the cells of this table in which about as many were to be expected after the level above, and "
        "that differ about as much from it, the true count lies between the two ends for {of_ten}. That is "
        "an average: it is not promised for this cell by itself."
    ),
    "risk": (
        "Over the cells of this table, the true count lies between the two ends for {of_ten}. That is an "
        "average: a cell that differs much from its neighbours may be further off."
    ),
    "measured": (
        "Over the cells of this table whose published counts are about as large, the true count lies between "
        "the two ends for {of_ten}. That is an average: a few cells may be much further off."
    ),
}


@dataclass(frozen=True)
class Example:
    """One published number.

    Attributes
    ----------
    names
        Dimension, code and label of the cell.
    low, high
        The ends of its interval; nobody is counted less than not at all.
    """

    table: str
    names: list[tuple[str, str, str]]
    count: float
    margin: float
    method: str

    @property
    def low(self) -> float:
        """The lower end."""
        return max(0.0, self.count - self.margin)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.count + self.margin


_MIDDLE = """
    with fit as materialized (
        select row, number, margin, margin <= number / 2 as telling
        from cells where margin > 0 and number > 0
    ), middle as (
        select quantile_disc(margin, 0.5) filter (telling) as telling, quantile_disc(margin, 0.5) as margin
        from fit
    )
    select row, number, fit.margin from fit, middle
    where fit.margin = coalesce(middle.telling, middle.margin) and (fit.telling or middle.telling is null)
    order by row limit 1"""


def worked_example(name: str, cells: ReleasedCells, method: str) -> Example | None:
    """Return a cell of medium accuracy; None where no cell has a margin above zero.

    Of those above zero it is the middle one by margin, and of several the first in the table; those with a
    margin of no more than half the count go first.
    """
    for row, count, margin in cells.ask(_MIDDLE):
        node, cell = cells.cell_of(row)
        return Example(name, list(names_of(cells.layout, node, cell)), count, margin, method)
    return None


# --- the files of a release as a page next to them links to them

MOST_FILES = 60
"""Files that are listed; what is more lies in the folder, and in the certificate."""

_DOCUMENTS = {
    ".cdx.json": "bill of materials (CycloneDX)",
    ".html": "report, for people",
    ".json": "JSON",
    ".txt": "text",
}
_FOLDERS = {
    "codes": "code list",
    "figures": "public numbers that rates are over",
    "invariants": "public numbers that the tables show exactly",
    "measurements": "noisy measurements before post-processing",
    PRIOR_RELEASES: "of the earlier release that a table was drawn towards",
}


@dataclass(frozen=True)
class Download:
    """One file: its name, an address relative to the folder, its description and size."""

    name: str
    address: str
    what: str
    size: int


def downloads(folder: Path, certificate: Certificate) -> list[Download]:
    """Return the files that a certificate names, tables first."""
    names = sorted(
        certificate.files, key=lambda name: (name.count("/"), name.partition("/")[0] == "measurements", name)
    )
    return [
        Download(name, quote(name), _what(name), (folder / name).stat().st_size)
        for name in names[:MOST_FILES]
    ]


def _what(name: str) -> str:
    directory, _, rest = name.rpartition("/")
    kind = kind_of(rest or name)
    words = next((label for ending, label in _DOCUMENTS.items() if name.endswith(ending)), "file")
    words = words if kind is None else kind.words
    folder = directory.partition("/")[0]
    return f"{_FOLDERS[folder]} ({words})" if folder in _FOLDERS else words
