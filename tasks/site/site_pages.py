"""The pages of a site: products, periods and accounts, written by templates that escape their values.

The budget of an account over time is read from certificates, not from a ledger. A certificate says what its
account had used when the release was charged, that charge included. So the pages also know how much was
charged or given back between two releases, but not for what; they know nothing after the newest release of an
account. A release that was superseded or withdrawn counts like any other: its budget does not come back.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cache, cached_property, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tabularium.ledger.records import SYMBOLS
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.public_folder import sha256_of
from tabularium.tasks.publish.data_dictionary import title_with_period
from tabularium.tasks.publish.dcat import CONTEXT, NAME, File, add_dataset, add_distribution
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.cells_chart import Chart
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.report.report import Download, TableShown, charts, downloads, shown
from tabularium.tasks.report.wording import templates
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.site.offered import PublishedRelease, ReleaseCatalogue
from tabularium.validations.certificate import CERTIFICATE, Account
from tabularium.validations.public_files import Unreadable
from tabularium.validations.release_spec.publication_formats import kind_of
from tabularium.validations.release_spec.tables import Histogram, Table

if TYPE_CHECKING:
    from jinja2 import Template

PERIODS_SHOWN = 12
"""Periods of a product on the first page; the others are folded away."""

_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'"


def pages(release_catalogue: ReleaseCatalogue, addresses: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every file of the site: its path, and its text.

    ``addresses``: of each release, by its id: where its folder lies, seen from the first page; ends with a
    slash.
    """
    made = templates("tabularium.tasks.site", "tabularium.tasks.report")
    made.filters["at"] = partial(quote, safe="")
    accounts = courses(release_catalogue.releases)
    made.globals.update(
        statement=STATEMENT,
        policy=_POLICY,
        name=name_of(release_catalogue),
        tables=_tables,
        words=_words,
        symbols=SYMBOLS,
        numbers={(account.terms.name, account.ledger): account.number for account in accounts},
    )

    def page(name: str, path: str, about: str = "", **values: Any) -> tuple[str, str]:
        template: Template = made.get_template(f"{name}.html.jinja")
        return path, template.render(root="../" * path.count("/"), here=about, **values)

    yield "style.css", "".join(made.loader.get_source(made, part)[0] for part in ("report.css", "site.css"))  # type: ignore[union-attr]
    yield (
        "search.js",
        files("tabularium.tasks.site").joinpath("page", "search.js").read_text(encoding="utf-8"),
    )
    yield page(
        "index",
        "index.html",
        "products",
        release_catalogue=release_catalogue,
        shown=PERIODS_SHOWN,
        periods=sum(len(product.periods) for product in release_catalogue.products),
        releases=sum(1 for _ in release_catalogue.releases),
    )
    yield page("budget", "budget.html", "budget", accounts=accounts, entities=entities(accounts))
    for product in release_catalogue.products:
        yield page("product", f"products/{product.name}.html", product=product)
        for period in product.periods:
            published = {release.certificate.release_id: release for release in period.releases}
            yield page(
                "period",
                period_page(period.newest),
                product=product,
                period=period,
                addresses={name: f"../../{addresses[name]}" for name in published},
                files={name: _files(release) for name, release in published.items()},
                numbers_shown=[] if period.current is None else numbers_of(period.current),
            )


@dataclass(frozen=True)
class _Files:
    """Files of a release: tables by title, others, the number not listed; signed or not."""

    tables: list[tuple[str, list[Download]]]
    others: list[Download]
    left_out: int
    signed: bool


def _files(release: PublishedRelease) -> _Files:
    certificate = release.certificate
    listed = downloads(release.folder, certificate)
    titles = {table.name: title_of_table(table) for table in tables_of(release)}
    tables: dict[str, list[Download]] = defaultdict(list)
    others = []
    for file in listed:
        kind = None if "/" in file.name else kind_of(file.name)
        if kind is None or not kind.title:
            others.append(file)
        else:
            tables[titles.get(file.name.removesuffix(kind.ending), "All tables")].append(file)
    signed = STATEMENT in release.sizes
    return _Files([*tables.items()], others, len(certificate.files) - len(listed), signed)


def period_page(release: PublishedRelease) -> str:
    """Return the path of the page of a release's period."""
    return f"products/{release.certificate.product}/{release.certificate.period}.html"


def name_of(release_catalogue: ReleaseCatalogue) -> str:
    """Return the name of the site: the agency's, if there is exactly one."""
    agencies = {product.newest.certificate.about.curator for product in release_catalogue.products}
    names = {agency.name for agency in agencies if agency is not None}
    return f"Statistics of {names.pop()}" if len(names) == 1 else "Published statistics"


def tables_of(release: PublishedRelease) -> list[Table | Histogram]:
    """Return its tables, and then its histograms."""
    return [*release.spec.tables, *release.spec.histograms]


def title_of_table(entry: Table | Histogram) -> str:
    """Return the title of a table or a histogram."""
    return entry.title or entry.name.replace("_", " ")


def _tables(release: PublishedRelease) -> list[str]:
    return [title_of_table(table) for table in tables_of(release)]


def _words(release: PublishedRelease) -> str:
    """Return titles of tables and of their dimensions, for the search."""
    columns = {name for table in release.spec.tables for name in table.dimensions}
    named = [release.spec.columns[name].title or name for name in sorted(columns)]
    return " ".join([*_tables(release), *named])


MOST_TABLES = 8
"""Tables of a release whose numbers are on its page."""


@dataclass(frozen=True)
class TableNumbers:
    """A table as its page shows it; ``why_not`` says why it is not shown."""

    name: str
    shown: TableShown | None = None
    charts: tuple[Chart, ...] = ()
    why_not: str = ""


def numbers_of(release: PublishedRelease) -> list[TableNumbers]:
    """Return the first tables of a release; a file that differs from the certificate is not shown."""
    names = [table.name for table in release.spec.tables[:MOST_TABLES]]
    try:
        released = Released.read(release.folder, release.certificate, "")
    except PublicationError as error:
        return [TableNumbers(name, why_not=error.what) for name in names]
    return [_table(release, released, name) for name in names]


def _table(release: PublishedRelease, released: Released, name: str) -> TableNumbers:
    file = released.format.table_file(name)
    try:
        if sha256_of(release.folder, file, release.largest) != release.certificate.files.get(file):
            return TableNumbers(name, why_not=f"{file} is altered")
        cells = ReleasedCells(released, name)
        return TableNumbers(name, shown(released, cells), tuple(charts(released, cells)))
    except Unreadable as error:
        return TableNumbers(name, why_not=str(error))
    except PublicationError as error:
        return TableNumbers(name, why_not=error.what)


# --- ``catalogue.jsonld`` of the site: every current release as a dataset with its files, for data portals
#
# The description of a dataset and of a file is in :mod:`tabularium.tasks.publish.dcat`; here they are held
# together by a catalogue, and by a series for each product. A thousand releases are some hundred thousand
# statements, which rdflib takes long to hold and to write: they are gathered and written here.


class _Statements:
    """Statements by subject, added as to an rdflib graph."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))

    def add(self, statement: tuple[Any, Any, Any]) -> None:
        from rdflib import RDF, Literal

        about, what, value = statement
        if what == RDF.type:
            self.nodes[str(about)]["@type"].append(_short(value))
        elif isinstance(value, Literal):
            more = {"@language": value.language} if value.language else {}
            more |= {"@type": _short(value.datatype)} if value.datatype else {}
            self.nodes[str(about)][_short(what)].append({"@value": str(value), **more})
        else:
            self.nodes[str(about)][_short(what)].append({"@id": str(value)})


@cache
def _short(name: str) -> str:
    for prefix, start in CONTEXT.items():
        if name.startswith(start):
            return f"{prefix}:{name.removeprefix(start)}"
    return str(name)


def site_catalogue(release_catalogue: ReleaseCatalogue, address: str, addresses: dict[str, str]) -> bytes:
    """Return the catalogue as JSON-LD, one line for each subject.

    Parameters
    ----------
    address
        Of the site, or empty: then addresses are relative to the catalogue.
    addresses
        Of each release, by its id, seen from the site; ends with a slash.
    """
    from rdflib import DCAT, DCTERMS, RDF, XSD, Literal, Namespace, URIRef

    dcat = Namespace(str(DCAT))  # with the terms of version 3, which rdflib's own list lacks
    statements, this = _Statements(), URIRef(f"{address}{NAME}#catalogue")
    statements.add((this, RDF.type, dcat.Catalog))
    statements.add((this, DCTERMS.title, Literal(name_of(release_catalogue), lang="en")))
    statements.add((this, DCTERMS.description, Literal("Releases under differential privacy.", lang="en")))
    statements.add((this, dcat.landingPage, URIRef(f"{address}index.html")))
    for product in release_catalogue.products:
        series, about = URIRef(f"{address}{NAME}#{quote(product.name)}"), product.newest.certificate.about
        statements.add((series, RDF.type, dcat.DatasetSeries))
        statements.add((series, DCTERMS.title, Literal(product.title, lang=about.language)))
        description = Literal(about.description or product.title, lang=about.language)
        statements.add((series, DCTERMS.description, description))
        statements.add((series, dcat.landingPage, URIRef(f"{address}products/{quote(product.name)}.html")))
        statements.add((this, dcat.dataset, series))
        for release in filter(None, (period.current for period in product.periods)):
            certificate, folder = release.certificate, f"{address}{addresses[release.certificate.release_id]}"
            base = folder + (NAME if NAME in certificate.files else CERTIFICATE)
            dataset = URIRef(f"{base}#dataset")
            add_dataset(statements, base, certificate.about, certificate.product, certificate.period)
            statements.add((this, dcat.dataset, dataset))
            statements.add((dataset, dcat.inSeries, series))
            statements.add((dataset, dcat.landingPage, URIRef(f"{address}{period_page(release)}")))
            statements.add((dataset, dcat.version, Literal(certificate.release_id)))
            statements.add((dataset, DCTERMS.issued, Literal(certificate.created, datatype=XSD.dateTime)))
            _add_files(statements, base, folder, release)
    nodes = (
        json.dumps({"@id": name, **statements.nodes[name]}, ensure_ascii=False)
        for name in sorted(statements.nodes)
    )
    lines = ",\n".join(nodes)
    return f'{{"@context": {json.dumps(CONTEXT)},\n"@graph": [\n{lines}\n]}}\n'.encode()


def _add_files(statements: _Statements, base: str, folder: str, release: PublishedRelease) -> None:
    certificate = release.certificate
    titles = {table.name: title_of_table(table) for table in tables_of(release)}
    titles[""] = title_with_period(certificate.about, certificate.product, certificate.period)
    for name, digest in certificate.files.items():
        if "/" not in name:
            file = File(name, f"{folder}{quote(name)}", release.sizes[name], digest)
            add_distribution(statements, base, certificate.about, file, titles)


WIDE, HIGH = 1000.0, 300.0
_MARGIN = 40.0


@dataclass(frozen=True)
class Step:
    """One release in the history of its account.

    Attributes
    ----------
    between
        What was charged since the release before it and is none of these releases; below zero if given back.
    amount, used, cap
        Its charge, all that the account had used then with it, and the cap then.
    """

    release: PublishedRelease
    between: Fraction
    amount: Fraction
    used: Fraction
    cap: Fraction


@dataclass(frozen=True)
class AccountHistory:
    """An account over time, the oldest step first.

    Attributes
    ----------
    number
        Its place on the page, from 1.
    terms
        The account as its newest certificate has it.
    ledger
        The hash of its ledger's first entry, which distinguishes accounts of one name.
    """

    number: int
    terms: Account
    ledger: str
    steps: list[Step]

    @property
    def symbol(self) -> str:
        """ε or ρ."""
        return SYMBOLS[self.terms.definition]

    @property
    def used(self) -> Fraction:
        """The used amount when the newest release of the account was charged."""
        return self.steps[-1].used

    @property
    def left(self) -> Fraction:
        """The rest of the cap at that time."""
        return self.terms.cap - self.used

    @cached_property
    def most(self) -> Fraction:
        """The top of the picture."""
        return max(max(step.cap, step.used) for step in self.steps)

    def path(self, what: str) -> str:
        """Return ``used`` or ``cap`` as a line of steps, in an SVG of ``WIDE`` by ``HIGH``."""
        moments = [
            datetime.fromisoformat(step.release.certificate.account.reserved.at) for step in self.steps
        ]
        first, span = moments[0], (moments[-1] - moments[0]).total_seconds()
        before = self.steps[0].used - self.steps[0].amount if what == "used" else self.steps[0].cap
        line = [f"M0 {self._height(before)}"]
        for moment, step in zip(moments, self.steps, strict=True):
            part = (moment - first).total_seconds() / span if span else 0.0
            at = f"{_MARGIN + part * (WIDE - 2 * _MARGIN):.1f}"
            line.append(f"H{at}V{self._height(getattr(step, what))}")
        return "".join([*line, f"H{WIDE:.1f}"])

    def _height(self, amount: Fraction) -> str:
        return f"{HIGH * (1 - float(amount / self.most)):.1f}"


@dataclass(frozen=True)
class PopulationShown:
    """The number of releases that one entity of a population may be in, by state."""

    name: str
    accounts: list[AccountHistory]
    states: dict[str, int]

    @property
    def releases(self) -> int:
        """The number of all releases: withdrawn ones were seen."""
        return sum(self.states.values())


@dataclass(frozen=True)
class Spent:
    """A plain sum over accounts of one definition and relation."""

    symbol: str
    relation: str
    used: Fraction
    accounts: int


@dataclass(frozen=True)
class EntityShown:
    """The releases and spent budget of one kind of entity, over all populations."""

    name: str
    populations: list[PopulationShown]
    spent: list[Spent]

    @property
    def releases(self) -> int:
        """The number of releases of an entity that is in every population."""
        return sum(population.releases for population in self.populations)


def courses(releases: Iterable[PublishedRelease]) -> list[AccountHistory]:
    """Return the history of every account, sorted by name."""
    grouped: dict[tuple[str, str], list[PublishedRelease]] = defaultdict(list)
    for release in releases:
        grouped[release.certificate.account.name, release.certificate.ledger.head.chain].append(release)
    histories = []
    for number, ((_, ledger), some) in enumerate(sorted(grouped.items()), 1):
        some.sort(key=lambda release: release.certificate.account.reserved.entry)
        steps, used = [], Fraction(0)
        for release in some:
            account = release.certificate.account
            between = account.cap - account.reserved.left_before - used
            used = account.cumulative.used
            steps.append(Step(release, between, account.reserved.amount, used, account.cap))
        histories.append(AccountHistory(number, some[-1].certificate.account, ledger, steps))
    return histories


def entities(accounts: Iterable[AccountHistory]) -> list[EntityShown]:
    """Return the releases that one entity of each kind may be in, and the budget spent on it."""
    kinds: dict[str, dict[str, list[AccountHistory]]] = defaultdict(lambda: defaultdict(list))
    for account in accounts:
        kinds[account.terms.entity][account.terms.population].append(account)
    return [
        EntityShown(
            entity,
            [_population(name, some) for name, some in sorted(populations.items())],
            _spent(release for some in populations.values() for release in some),
        )
        for entity, populations in sorted(kinds.items())
    ]


def _population(name: str, accounts: list[AccountHistory]) -> PopulationShown:
    states = dict.fromkeys(("current", "superseded", "withdrawn"), 0)
    for account in accounts:
        for step in account.steps:
            states[step.release.state] += 1
    return PopulationShown(name, accounts, states)


def _spent(accounts: Iterable[AccountHistory]) -> list[Spent]:
    sums: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
    for account in accounts:
        sums[account.symbol, account.terms.relation].append(account.used)
    return [Spent(*kind, sum(some, Fraction(0)), len(some)) for kind, some in sorted(sums.items())]
