"""``catalogue.jsonld`` of the site: every current release as a dataset with its files, for data portals.

What a dataset and a file are said to be is in :mod:`tabularium.tasks.publish.dcat`; here
they are held together by a catalogue, and by a series for each product. A thousand releases are some hundred
thousand statements, which rdflib takes long to hold and to write: they are gathered and written here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from typing import Any
from urllib.parse import quote

from tabularium.tasks.publish.data_dictionary import title_with_period
from tabularium.tasks.publish.dcat import CONTEXT, NAME, File, add_dataset, add_distribution
from tabularium.tasks.site.offered import Offered, Shelf
from tabularium.tasks.site.site_pages import name_of, period_page, tables_of, title_of_table
from tabularium.validations.certificate import CERTIFICATE


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


def site_catalogue(shelf: Shelf, address: str, addresses: dict[str, str]) -> bytes:
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
    found.add((this, DCTERMS.title, Literal(name_of(shelf), lang="en")))
    found.add((this, DCTERMS.description, Literal("Releases under differential privacy.", lang="en")))
    found.add((this, dcat.landingPage, URIRef(f"{address}index.html")))
    for product in shelf.products:
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


def _add_files(found: _Statements, base: str, folder: str, release: Offered) -> None:
    said = release.said
    titles = {each.name: title_of_table(each) for each in tables_of(release)}
    titles[""] = title_with_period(said.about, said.product, said.period)
    for name, digest in said.files.items():
        if "/" not in name:
            file = File(name, f"{folder}{quote(name)}", release.sizes[name], digest)
            add_distribution(found, base, said.about, file, titles)
