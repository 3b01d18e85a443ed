"""DCAT: a release as a dataset whose files are its distributions, for data portals.

Source: W3C Recommendation "Data Catalog Vocabulary (DCAT) Version 3", with the properties that DCAT-AP 3
asks for. Nothing in the graph is blank: everything has a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabularium.tasks.arrival.inboxes import first_and_last
from tabularium.tasks.publish.data_dictionary import title_with_period
from tabularium.validations.release_spec.publication import About
from tabularium.validations.release_spec.publication_formats import kind_of

NAME = "catalogue.jsonld"
_IANA = "https://www.iana.org/assignments/media-types/"
_LANGUAGES = "http://publications.europa.eu/resource/authority/language/"
_TYPES = "http://publications.europa.eu/resource/authority/file-type/"
_SPDX = "http://spdx.org/rdf/terms#"
_VCARD = "http://www.w3.org/2006/vcard/ns#"
#: What the names in the files begin with.
CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": _SPDX,
    "vcard": _VCARD,
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


@dataclass(frozen=True)
class File:
    """A file of tables: its name, path, bytes and SHA-256."""

    name: str
    address: str
    size: int
    digest: str


def language_address(tag: str) -> str:
    """Return the address of a language in the authority table of the European Union.

    That has languages by their three letters, without regions. Of what has none it knows "undetermined".
    """

    language = tag.partition("-")[0].casefold()
    known = language if len(language) > 2 else THREE_LETTERS.get(language, "und")
    return f"{_LANGUAGES}{known.upper()}"


def add_dataset(graph: Any, base: str, about: About, product: str, period: str) -> None:
    """Add a release to a graph as a dataset.

    ``base``: the address of the document in which the dataset and all that belongs to it are named.
    """
    from rdflib import DCAT, DCTERMS, FOAF, RDF, RDFS, SKOS, XSD, Literal, Namespace, URIRef

    this, vcard = URIRef(f"{base}#dataset"), Namespace(_VCARD)
    title = title_with_period(about, product, period)

    def words(text: str) -> Literal:
        return Literal(text, lang=about.language)

    graph.add((this, RDF.type, DCAT.Dataset))
    graph.add((this, DCTERMS.title, words(title)))
    graph.add((this, DCTERMS.description, words(about.description or title)))
    graph.add((this, DCTERMS.identifier, Literal(f"{product}/{period}")))
    graph.add((this, DCTERMS.language, URIRef(language_address(about.language))))
    for keyword in about.keywords:
        graph.add((this, DCAT.keyword, words(keyword)))
    if about.url is not None:
        graph.add((this, DCAT.landingPage, URIRef(about.url)))
    if about.curator is not None:
        who, contact = URIRef(f"{base}#publisher"), URIRef(f"{base}#contact")
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
        where = URIRef(f"{base}#region")
        graph.add((this, DCTERMS.spatial, where))
        graph.add((where, RDF.type, DCTERMS.Location))
        graph.add((where, DCTERMS.identifier, Literal(about.region.code)))
        graph.add((where, SKOS.prefLabel, words(about.region.label or about.region.code)))
    when, days = URIRef(f"{base}#period"), first_and_last(period)
    graph.add((this, DCTERMS.temporal, when))
    graph.add((when, RDF.type, DCTERMS.PeriodOfTime))
    graph.add((when, RDFS.label, Literal(period)))
    for which, day in zip((DCAT.startDate, DCAT.endDate), days or (), strict=False):
        graph.add((when, which, Literal(day.isoformat(), datatype=XSD.date)))


def add_distribution(graph: Any, base: str, about: About, file: File, titles: Mapping[str, str]) -> None:
    """Add a file to the dataset named in ``base``, if it holds tables.

    ``titles``: of each table, and of the whole release under the name ``""``.
    """
    from rdflib import DCAT, DCTERMS, RDF, XSD, Literal, Namespace, URIRef

    kind = kind_of(file.name)
    if kind is None or not kind.title:
        return
    title, spdx = titles.get(file.name.removesuffix(kind.ending), titles[""]), Namespace(_SPDX)
    address = URIRef(file.address)
    this, sum_ = (URIRef(f"{base}{start}{file.name}") for start in ("#", "#sha256-"))
    graph.add((URIRef(f"{base}#dataset"), DCAT.distribution, this))
    graph.add((this, RDF.type, DCAT.Distribution))
    graph.add((this, DCTERMS.title, Literal(f"{title} ({kind.title})", lang=about.language)))
    graph.add((this, DCAT.accessURL, address))
    graph.add((this, DCAT.downloadURL, address))
    graph.add((this, DCAT.mediaType, URIRef(_IANA + kind.media_type)))
    graph.add((this, DCTERMS["format"], URIRef(_TYPES + kind.file_type)))
    graph.add((this, DCAT.byteSize, Literal(str(file.size), datatype=XSD.nonNegativeInteger)))
    graph.add((this, spdx.checksum, sum_))
    graph.add((sum_, RDF.type, spdx.Checksum))
    graph.add((sum_, spdx.algorithm, spdx.checksumAlgorithm_sha256))
    graph.add((sum_, spdx.checksumValue, Literal(file.digest, datatype=XSD.hexBinary)))
    if about.licence is not None:
        graph.add((this, DCTERMS.license, URIRef(about.licence)))


_PAIRS = """
aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel
bg:bul bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces cu:chu
cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa et:est eu:eus fa:fas
ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb
hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido
is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor
kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub
lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde
ne:nep ng:ndo nl:nld nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan
pi:pli pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme
sg:sag si:sin sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa
ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah
ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha zh:zho
zu:zul
"""
THREE_LETTERS = dict(pair.split(":") for pair in _PAIRS.split())
