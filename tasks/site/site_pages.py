"""The pages: products, periods, accounts; each written by a template that escapes all that it is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tabularium.ledger.records import SYMBOLS
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.public_folder import sha256_of
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.cells_chart import Chart
from tabularium.tasks.report.downloads import Download, downloads
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.report.templates import templates
from tabularium.tasks.report.what_was_published import TableShown, charts, shown
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.site.account_course import courses, entities
from tabularium.tasks.site.offered import Offered, Shelf
from tabularium.validations.public_files import Unreadable
from tabularium.validations.spec.publication_formats import kind_of
from tabularium.validations.spec.tables import Histogram, Table

if TYPE_CHECKING:
    from jinja2 import Template

PERIODS_SHOWN = 12
"""Periods of a product on the first page; the others are folded away."""

_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'"


def pages(shelf: Shelf, addresses: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every page and what it needs: its path in the site, and its text.

    Parameters
    ----------
    addresses
        Of each release, by its id: where its folder lies, seen from the first page; ends with a slash.
    """
    made = templates("tabularium.tasks.site", "tabularium.tasks.report")
    made.filters["at"] = partial(quote, safe="")
    accounts = courses(shelf.releases)
    made.globals.update(
        statement=STATEMENT,
        policy=_POLICY,
        name=name_of(shelf),
        tables=_tables,
        words=_words,
        symbols=SYMBOLS,
        numbers={(each.terms.name, each.ledger): each.number for each in accounts},
    )

    def page(name: str, path: str, about: str = "", **told: Any) -> tuple[str, str]:
        template: Template = made.get_template(f"{name}.html.jinja")
        return path, template.render(root="../" * path.count("/"), here=about, **told)

    yield "style.css", "".join(made.loader.get_source(made, each)[0] for each in ("report.css", "site.css"))  # type: ignore[union-attr]
    yield (
        "search.js",
        files("tabularium.tasks.site").joinpath("page", "search.js").read_text(encoding="utf-8"),
    )
    yield page(
        "index",
        "index.html",
        "products",
        shelf=shelf,
        shown=PERIODS_SHOWN,
        periods=sum(len(each.periods) for each in shelf.products),
        releases=sum(1 for _ in shelf.releases),
    )
    yield page("budget", "budget.html", "budget", accounts=accounts, entities=entities(accounts))
    for product in shelf.products:
        yield page("product", f"products/{product.name}.html", product=product)
        for period in product.periods:
            own = {each.said.release_id: each for each in period.releases}
            yield page(
                "period",
                period_page(period.newest),
                product=product,
                period=period,
                addresses={name: f"../../{addresses[name]}" for name in own},
                files={name: _files(each) for name, each in own.items()},
                numbers_shown=[] if period.current is None else numbers_of(period.current),
            )


@dataclass(frozen=True)
class _Files:
    """Files of a release: those of tables by title, others, how many are not listed; signed or not."""

    tables: list[tuple[str, list[Download]]]
    others: list[Download]
    left_out: int
    signed: bool


def _files(release: Offered) -> _Files:
    said = release.said
    listed = downloads(release.folder, said)
    titles = {each.name: title_of_table(each) for each in tables_of(release)}
    tables: dict[str, list[Download]] = defaultdict(list)
    others = []
    for file in listed:
        kind = None if "/" in file.name else kind_of(file.name)
        if kind is None or not kind.title:
            others.append(file)
        else:
            tables[titles.get(file.name.removesuffix(kind.ending), "All tables")].append(file)
    signed = STATEMENT in release.sizes
    return _Files([*tables.items()], others, len(said.files) - len(listed), signed)


def period_page(release: Offered) -> str:
    """Return the path of the page of a release's period."""
    return f"products/{release.said.product}/{release.said.period}.html"


def name_of(shelf: Shelf) -> str:
    """Return the name of the site: that of the agency, if there is one and no more."""
    agencies = {each.newest.said.about.curator for each in shelf.products}
    names = {each.name for each in agencies if each is not None}
    return f"Statistics of {names.pop()}" if len(names) == 1 else "Published statistics"


def tables_of(release: Offered) -> list[Table | Histogram]:
    """Return its tables, and then its histograms."""
    return [*release.spec.tables, *release.spec.histograms]


def title_of_table(entry: Table | Histogram) -> str:
    """Return what a table or a histogram is called for people."""
    return entry.title or entry.name.replace("_", " ")


def _tables(release: Offered) -> list[str]:
    return [title_of_table(each) for each in tables_of(release)]


def _words(release: Offered) -> str:
    """Return titles of tables and of what they are by, for the search."""
    columns = {name for each in release.spec.tables for name in each.dimensions}
    named = [release.spec.columns[name].title or name for name in sorted(columns)]
    return " ".join([*_tables(release), *named])


MOST_TABLES = 8
"""Tables of a release whose numbers are on its page."""


@dataclass(frozen=True)
class TableNumbers:
    """A table as its page shows it; ``why_not`` says why it does not."""

    name: str
    shown: TableShown | None = None
    charts: tuple[Chart, ...] = ()
    why_not: str = ""


def numbers_of(release: Offered) -> list[TableNumbers]:
    """Return the first tables of a release; a file that is not what its certificate says is not shown."""
    names = [table.name for table in release.spec.tables[:MOST_TABLES]]
    try:
        released = Released.read(release.folder, release.said, "")
    except PublicationError as error:
        return [TableNumbers(name, why_not=error.what) for name in names]
    return [_table(release, released, name) for name in names]


def _table(release: Offered, released: Released, name: str) -> TableNumbers:
    file = released.format.table_file(name)
    try:
        if sha256_of(release.folder, file, release.largest) != release.said.files.get(file):
            return TableNumbers(name, why_not=f"{file} is altered")
        cells = ReleasedCells(released, name)
        return TableNumbers(name, shown(released, cells), tuple(charts(released, cells)))
    except Unreadable as error:
        return TableNumbers(name, why_not=str(error))
    except PublicationError as error:
        return TableNumbers(name, why_not=error.what)
