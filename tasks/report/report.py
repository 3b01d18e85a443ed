"""The page itself: every section computed, and written by a template that escapes all that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tabularium.tasks.publish.data_dictionary import quality_in_words
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report import wording
from tabularium.tasks.report.accuracy import (
    AccuracyLine,
    MeasureLine,
    Plot,
    accuracy,
    measure_accuracy,
    plots_of,
)
from tabularium.tasks.report.cells_chart import Chart
from tabularium.tasks.report.moved_by_postprocessing import MovedLine, moved_in
from tabularium.tasks.report.released_cells import MOST_TABLES, ReleasedCells, opened
from tabularium.tasks.report.since_last_period import (
    ComparedMeasure,
    ComparedTable,
    compared,
    compared_measures,
    last_of,
)
from tabularium.tasks.report.what_was_published import (
    READ_AS,
    Example,
    TableShown,
    charts,
    downloads,
    shown,
    titled,
    worked_example,
)
from tabularium.tasks.report.wording import templates
from tabularium.validations.certificate import Certificate

LARGEST_PAGE = 1_000_000
"""Bytes; pictures are left out of a page that would be larger."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class TableReported:
    """All that the page says of one table."""

    shown: TableShown
    charts: list[Chart]
    method: str
    accuracy: list[AccuracyLine]
    of_measures: dict[str, list[MeasureLine]]
    plots: list[Plot]
    moved: list[MovedLine] | None
    compared: ComparedTable | str | None
    measures: list[ComparedMeasure]


def report(aside: Path, told: Certificate, last: Path | None, *, compared_with: Sequence[str] = ()) -> bytes:
    """Return ``report.html``: the same bytes for the same release.

    Parameters
    ----------
    aside
        The folder of the release, in which its tables lie.
    told
        Its certificate, whose ``files`` lack the documents.
    last
        The folder of the product's newest published release for an earlier period, where there is one.
    compared_with
        Sentences for the head of a page that is written anew, of what the release was compared with; the page
        in its folder is from the run that made it, which compared nothing.

    Raises
    ------
    PublicationError
        A file of the release cannot be read.
    """
    released, before = opened(aside, told), last_of(last)
    tables, example = [], None
    for table in released.spec.tables[:MOST_TABLES]:
        cells = ReleasedCells(released, table.name)
        method = told.tables[table.name].margins.method
        example = example or worked_example(table.name, cells, method)
        lines = accuracy(cells, told.tables[table.name])
        since = None if before is None else compared(released, cells, before)
        alike = before is not None and isinstance(since, ComparedTable)
        tables.append(
            TableReported(
                shown(released, cells),
                charts(released, cells),
                method,
                lines,
                _of_measures(released, table.name),
                plots_of(titled(table, table.name), lines),
                None if told.measurements.withheld else moved_in(released, table.name, cells),
                since,
                compared_measures(released, cells, before) if before is not None and alike else [],
            )
        )
    page = _page(released, told, tables, example, before, compared_with)
    if len(page) > LARGEST_PAGE:
        bare = [TableReported(**{**vars(each), "plots": [], "charts": []}) for each in tables]
        page = _page(released, told, bare, example, before, compared_with)
    return page


def _of_measures(released: Released, table: str) -> dict[str, list[MeasureLine]]:
    """Return the accuracy of each measure of a table, by what it is called."""
    found = {}
    for name, about in (released.certificate.tables[table].measures or {}).items():
        entry = next(each for each in released.spec.tables if each.name == table)
        cells = ReleasedCells(released, table, name, flags=True)
        found[entry.measures[name].title or name] = measure_accuracy(cells, about)
    return found


def _page(
    released: Released,
    told: Certificate,
    tables: list[TableReported],
    example: Example | None,
    before: Released | None,
    compared_with: Sequence[str],
) -> bytes:
    spec = released.spec
    level = told.confidence
    text = (
        templates("tabularium.tasks.report")
        .get_template("report.html.jinja")
        .render(
            policy=_POLICY,
            compared_with=compared_with,
            told=told,
            spec=spec,
            about=spec.about,
            title=spec.about.title or spec.product,
            tables=tables,
            left_out=spec.tables[MOST_TABLES:],
            histograms=[
                (titled(each, each.name), told.tables[each.name], each.of) for each in spec.histograms
            ],
            budget=budget_of(told),
            level=wording.share(float(level)),
            of_ten=_of_ten(level),
            outside_the_margin=wording.share(float(1 - level)),
            quality=spec.publication.quality and quality_in_words(spec.publication.quality),
            example=example,
            read_as=READ_AS,
            before=None if before is None else before.certificate,
            files=downloads(released.folder, told),
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
    """How the account stood when it was charged for the release.

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
        """What was left of the cap."""
        return self.cap - self.used

    @property
    def before(self) -> Fraction:
        """What was used before these charges."""
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


def budget_of(told: Certificate) -> BudgetShown:
    """Return the amounts that a certificate states."""
    privacy, account = told.privacy, told.account
    return BudgetShown(
        "ε" if privacy.definition == "pure" else "ρ",
        privacy.loss,
        [(each.epsilon, str(each.delta)) for each in privacy.epsilon_delta or ()],
        AccountShown(
            account.name,
            sum((each.amount for each in told.ledger.tally_charges), account.reserved.amount),
            account.cumulative.used,
            account.cap,
            account.cumulative.releases_before,
        ),
    )
