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
from tabularium.validations.spec.publication_formats import kind_of
from tabularium.validations.spec.tables import Histogram, Table

if TYPE_CHECKING:
    from jinja2 import Template

PERIODS_SHOWN = 12
"""Periods of a product on the first page; the others are folded away."""

_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'"


def pages(release_catalogue: ReleaseCatalogue, addresses: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every page and what it needs: its path in the site, and its text.

    Parameters
    ----------
    addresses
        Of each release, by its id: where its folder lies, seen from the first page; ends with a slash.
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
        release_catalogue=release_catalogue,
        shown=PERIODS_SHOWN,
        periods=sum(len(each.periods) for each in release_catalogue.products),
        releases=sum(1 for _ in release_catalogue.releases),
    )
    yield page("budget", "budget.html", "budget", accounts=accounts, entities=entities(accounts))
    for product in release_catalogue.products:
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


def _files(release: PublishedRelease) -> _Files:
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


def period_page(release: PublishedRelease) -> str:
    """Return the path of the page of a release's period."""
    return f"products/{release.said.product}/{release.said.period}.html"


def name_of(release_catalogue: ReleaseCatalogue) -> str:
    """Return the name of the site: that of the agency, if there is one and no more."""
    agencies = {each.newest.said.about.curator for each in release_catalogue.products}
    names = {each.name for each in agencies if each is not None}
    return f"Statistics of {names.pop()}" if len(names) == 1 else "Published statistics"


def tables_of(release: PublishedRelease) -> list[Table | Histogram]:
    """Return its tables, and then its histograms."""
    return [*release.spec.tables, *release.spec.histograms]


def title_of_table(entry: Table | Histogram) -> str:
    """Return what a table or a histogram is called for people."""
    return entry.title or entry.name.replace("_", " ")


def _tables(release: PublishedRelease) -> list[str]:
    return [title_of_table(each) for each in tables_of(release)]


def _words(release: PublishedRelease) -> str:
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


def numbers_of(release: PublishedRelease) -> list[TableNumbers]:
    """Return the first tables of a release; a file that is not what its certificate says is not shown."""
    names = [table.name for table in release.spec.tables[:MOST_TABLES]]
    try:
        released = Released.read(release.folder, release.said, "")
    except PublicationError as error:
        return [TableNumbers(name, why_not=error.what) for name in names]
    return [_table(release, released, name) for name in names]


def _table(release: PublishedRelease, released: Released, name: str) -> TableNumbers:
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


# --- ``catalogue.jsonld`` of the site: every current release as a dataset with its files, for data portals
#
# What a dataset and a file are said to be is in :mod:`tabularium.tasks.publish.dcat`; here they are held
# together by a catalogue, and by a series for each product. A thousand releases are some hundred thousand
# statements, which rdflib takes long to hold and to write: they are gathered and written here.


class _Statements:
    """Statements by what they are about; takes them as rdflib's graph does."""

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
    """Return the catalogue as JSON-LD, one line for each thing that is described.

    Parameters
    ----------
    address
        Of the site, or empty: then addresses are relative to the catalogue.
    addresses
        Of each release, by its id, seen from the site; ends with a slash.
    """
    from rdflib import DCAT, DCTERMS, RDF, XSD, Literal, Namespace, URIRef

    dcat = Namespace(str(DCAT))  # with the terms of version 3, which rdflib's own list lacks
    found, this = _Statements(), URIRef(f"{address}{NAME}#catalogue")
    found.add((this, RDF.type, dcat.Catalog))
    found.add((this, DCTERMS.title, Literal(name_of(release_catalogue), lang="en")))
    found.add((this, DCTERMS.description, Literal("Releases under differential privacy.", lang="en")))
    found.add((this, dcat.landingPage, URIRef(f"{address}index.html")))
    for product in release_catalogue.products:
        series, about = URIRef(f"{address}{NAME}#{quote(product.name)}"), product.newest.said.about
        found.add((series, RDF.type, dcat.DatasetSeries))
        found.add((series, DCTERMS.title, Literal(product.title, lang=about.language)))
        description = Literal(about.description or product.title, lang=about.language)
        found.add((series, DCTERMS.description, description))
        found.add((series, dcat.landingPage, URIRef(f"{address}products/{quote(product.name)}.html")))
        found.add((this, dcat.dataset, series))
        for each in filter(None, (period.current for period in product.periods)):
            said, folder = each.said, f"{address}{addresses[each.said.release_id]}"
            base = folder + (NAME if NAME in said.files else CERTIFICATE)
            dataset = URIRef(f"{base}#dataset")
            add_dataset(found, base, said.about, said.product, said.period)
            found.add((this, dcat.dataset, dataset))
            found.add((dataset, dcat.inSeries, series))
            found.add((dataset, dcat.landingPage, URIRef(f"{address}{period_page(each)}")))
            found.add((dataset, dcat.version, Literal(said.release_id)))
            found.add((dataset, DCTERMS.issued, Literal(said.created, datatype=XSD.dateTime)))
            _add_files(found, base, folder, each)
    nodes = (
        json.dumps({"@id": name, **found.nodes[name]}, ensure_ascii=False) for name in sorted(found.nodes)
    )
    lines = ",\n".join(nodes)
    return f'{{"@context": {json.dumps(CONTEXT)},\n"@graph": [\n{lines}\n]}}\n'.encode()


def _add_files(found: _Statements, base: str, folder: str, release: PublishedRelease) -> None:
    said = release.said
    titles = {each.name: title_of_table(each) for each in tables_of(release)}
    titles[""] = title_with_period(said.about, said.product, said.period)
    for name, digest in said.files.items():
        if "/" not in name:
            file = File(name, f"{folder}{quote(name)}", release.sizes[name], digest)
            add_distribution(found, base, said.about, file, titles)


WIDE, HIGH = 1000.0, 300.0
_MARGIN = 40.0


@dataclass(frozen=True)
class Step:
    """One release in the course of its account.

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
        The hash of its ledger's first entry, by which accounts of one name are told apart.
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
        """What the account had used when its newest release was charged."""
        return self.steps[-1].used

    @property
    def left(self) -> Fraction:
        """What was left of the cap then."""
        return self.terms.cap - self.used

    @cached_property
    def most(self) -> Fraction:
        """The top of the picture."""
        return max(max(step.cap, step.used) for step in self.steps)

    def path(self, what: str) -> str:
        """Return ``used`` or ``cap`` as a line of steps, in an SVG of ``WIDE`` by ``HIGH``."""
        moments = [datetime.fromisoformat(step.release.said.account.reserved.at) for step in self.steps]
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
    """How many releases one entity of a population may be in, by their state."""

    name: str
    accounts: list[AccountHistory]
    states: dict[str, int]

    @property
    def releases(self) -> int:
        """All of them: what was withdrawn was seen."""
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
    """What is known of one kind of entity, over all populations."""

    name: str
    populations: list[PopulationShown]
    spent: list[Spent]

    @property
    def releases(self) -> int:
        """How many releases an entity may be in that is in every population."""
        return sum(each.releases for each in self.populations)


def courses(releases: Iterable[PublishedRelease]) -> list[AccountHistory]:
    """Return the course of every account, sorted by name."""
    grouped: dict[tuple[str, str], list[PublishedRelease]] = defaultdict(list)
    for each in releases:
        grouped[each.said.account.name, each.said.ledger.head.chain].append(each)
    found = []
    for number, ((_, ledger), some) in enumerate(sorted(grouped.items()), 1):
        some.sort(key=lambda each: each.said.account.reserved.entry)
        steps, used = [], Fraction(0)
        for each in some:
            account = each.said.account
            between = account.cap - account.reserved.left_before - used
            used = account.cumulative.used
            steps.append(Step(each, between, account.reserved.amount, used, account.cap))
        found.append(AccountHistory(number, some[-1].said.account, ledger, steps))
    return found


def entities(accounts: Iterable[AccountHistory]) -> list[EntityShown]:
    """Return what one entity of each kind may be in, and what was spent on it."""
    kinds: dict[str, dict[str, list[AccountHistory]]] = defaultdict(lambda: defaultdict(list))
    for each in accounts:
        kinds[each.terms.entity][each.terms.population].append(each)
    return [
        EntityShown(
            entity,
            [_population(name, some) for name, some in sorted(populations.items())],
            _spent(each for some in populations.values() for each in some),
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
    for each in accounts:
        sums[each.symbol, each.terms.relation].append(each.used)
    return [Spent(*kind, sum(some, Fraction(0)), len(some)) for kind, some in sorted(sums.items())]
