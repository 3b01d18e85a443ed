"""DCAT: ``catalogue.jsonld``, the release as a dataset whose files are its distributions, for data portals.

Source: W3C Recommendation "Data Catalog Vocabulary (DCAT) Version 3", with the properties that DCAT-AP 3
asks for. Addresses are relative to the file, so that it is right wherever the folder is put. Nothing in the
graph is blank: everything has a name, and the text is sorted, so that the same release gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.arrival.calendar_periods import first_and_last
from tasks.publish.formats.column_meanings import title_of, title_of_release
from tasks.publish.published_tables import PublishedTable
from tasks.publish.release_folder import digest_of
from validations.spec.load import Loaded

NAME = "catalogue.jsonld"
_IANA = "https://www.iana.org/assignments/media-types/"
_TYPES = "http://publications.europa.eu/resource/authority/file-type/"
_SPDX = "http://spdx.org/rdf/terms#"
_VCARD = "http://www.w3.org/2006/vcard/ns#"
#: Ending -> media type, file type of the EU's list, and what the file is.
_ENDINGS = {
    ".sdmx.csv": ("application/vnd.sdmx.data+csv", "CSV", "SDMX-CSV 2.0"),
    ".csv": ("text/csv", "CSV", "CSV"),
    ".parquet": ("application/vnd.apache.parquet", "PARQUET", "Parquet"),
    ".sdmx.xml": ("application/vnd.sdmx.structure+xml", "XML", "SDMX-ML 3.0, structure"),
    ".sdmx.json": ("application/vnd.sdmx.structure+json", "JSON", "SDMX-JSON 2.0, structure"),
    ".xlsx": (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "XLSX",
        "Excel workbook",
    ),
}


def write_catalogue(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``catalogue.jsonld`` over the files of tables that lie in the folder already."""
    (aside / NAME).write_text(_text(loaded, tables, aside), encoding="utf-8")


def _text(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> str:
    from rdflib import DCAT, DCTERMS, Graph

    graph = Graph()
    _add_dataset(graph, loaded)
    for path in sorted(each for each in aside.iterdir() if each.is_file()):
        ending = next((each for each in _ENDINGS if path.name.endswith(each)), None)
        if ending is not None:
            table = tables.get(path.name.removesuffix(ending))
            of = title_of_release(loaded) if table is None else title_of(table.entry)
            _add_distribution(graph, loaded, path, _ENDINGS[ending], of)
    context = {
        "dcat": str(DCAT),
        "dct": str(DCTERMS),
        "foaf": "http://xmlns.com/foaf/0.1/",
        "skos": "http://www.w3.org/2004/02/skos/core#",
        "spdx": _SPDX,
        "vcard": _VCARD,
        "xsd": "http://www.w3.org/2001/XMLSchema#",
    }
    found = json.loads(graph.serialize(format="json-ld", context=context, auto_compact=False))
    return json.dumps(_in_order(found), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _add_dataset(graph: Any, loaded: Loaded) -> None:
    from rdflib import DCAT, DCTERMS, FOAF, RDF, RDFS, SKOS, XSD, Literal, Namespace, URIRef

    spec, about = loaded.spec, loaded.spec.about
    this, vcard = URIRef("#dataset"), Namespace(_VCARD)

    def words(text: str) -> Literal:
        return Literal(text, lang=about.language)

    graph.add((this, RDF.type, DCAT.Dataset))
    graph.add((this, DCTERMS.title, words(title_of_release(loaded))))
    graph.add((this, DCTERMS.description, words(about.description or title_of_release(loaded))))
    graph.add((this, DCTERMS.identifier, Literal(f"{spec.product}/{spec.period}")))
    graph.add((this, DCTERMS.language, Literal(about.language)))
    for keyword in about.keywords:
        graph.add((this, DCAT.keyword, words(keyword)))
    if about.url is not None:
        graph.add((this, DCAT.landingPage, URIRef(about.url)))
    if about.curator is not None:
        who, contact = URIRef("#publisher"), URIRef("#contact")
        graph.add((this, DCTERMS.publisher, who))
        graph.add((who, RDF.type, FOAF.Agent))
        graph.add((who, FOAF.name, words(about.curator.name)))
        if about.curator.url is not None:
            graph.add((who, FOAF.homepage, URIRef(about.curator.url)))
        if about.curator.email is not None:
            graph.add((this, DCAT.contactPoint, contact))
            graph.add((contact, RDF.type, vcard.Organization))
            graph.add((contact, vcard.fn, words(about.curator.name)))
            graph.add((contact, vcard.hasEmail, URIRef(f"mailto:{about.curator.email}")))
    if about.region is not None:
        where = URIRef("#region")
        graph.add((this, DCTERMS.spatial, where))
        graph.add((where, RDF.type, DCTERMS.Location))
        graph.add((where, DCTERMS.identifier, Literal(about.region.code)))
        graph.add((where, SKOS.prefLabel, words(about.region.label or about.region.code)))
    when, days = URIRef("#period"), first_and_last(spec.period)
    graph.add((this, DCTERMS.temporal, when))
    graph.add((when, RDF.type, DCTERMS.PeriodOfTime))
    graph.add((when, RDFS.label, Literal(spec.period)))
    for which, day in zip((DCAT.startDate, DCAT.endDate), days or (), strict=False):
        graph.add((when, which, Literal(day.isoformat(), datatype=XSD.date)))


def _add_distribution(graph: Any, loaded: Loaded, path: Path, kind: tuple[str, str, str], title: str) -> None:
    from rdflib import DCAT, DCTERMS, RDF, XSD, Literal, Namespace, URIRef

    spdx = Namespace(_SPDX)
    media, file_type, words = kind
    file, this, sum_ = (URIRef(f"{start}{path.name}") for start in ("", "#", "#sha256-"))
    graph.add((URIRef("#dataset"), DCAT.distribution, this))
    graph.add((this, RDF.type, DCAT.Distribution))
    graph.add((this, DCTERMS.title, Literal(f"{title} ({words})", lang=loaded.spec.about.language)))
    graph.add((this, DCAT.accessURL, file))
    graph.add((this, DCAT.downloadURL, file))
    graph.add((this, DCAT.mediaType, URIRef(_IANA + media)))
    graph.add((this, DCTERMS["format"], URIRef(_TYPES + file_type)))
    graph.add((this, DCAT.byteSize, Literal(str(path.stat().st_size), datatype=XSD.nonNegativeInteger)))
    graph.add((this, spdx.checksum, sum_))
    graph.add((sum_, RDF.type, spdx.Checksum))
    graph.add((sum_, spdx.algorithm, spdx.checksumAlgorithm_sha256))
    graph.add((sum_, spdx.checksumValue, Literal(digest_of(path), datatype=XSD.hexBinary)))
    if loaded.spec.about.licence is not None:
        graph.add((this, DCTERMS.license, URIRef(loaded.spec.about.licence)))


def _in_order(node: Any) -> Any:
    """Sort the lists of a document: in RDF they are sets, whose order nobody keeps."""
    if isinstance(node, list):
        return sorted((_in_order(each) for each in node), key=lambda each: json.dumps(each, sort_keys=True))
    return {key: _in_order(value) for key, value in node.items()} if isinstance(node, dict) else node
