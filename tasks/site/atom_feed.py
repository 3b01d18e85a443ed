"""``feed.xml``: what was published, superseded and withdrawn last, for readers of feeds.

Source: RFC 4287, The Atom Syndication Format. Ids are made from the ledger and the release, so that an entry
stays the same one wherever the site is moved.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from xml.etree import ElementTree

from tabularium.tasks.site.offered import Offered, Shelf
from tabularium.tasks.site.site_pages import name_of, period_page

MOST_ENTRIES = 100
_ATOM = "http://www.w3.org/2005/Atom"
_NAMESPACE = uuid.UUID("0d1ba6b0-6c0f-5f0e-8a53-3b7c1f6a9d54")  # of the ids; any fixed one does


def atom_feed(shelf: Shelf, address: str) -> bytes:
    """Return the feed, the newest first; ``address`` is that of the site, or empty where it is not known."""
    ElementTree.register_namespace("", _ATOM)
    feed = ElementTree.Element(f"{{{_ATOM}}}feed")
    newest = sorted(
        shelf.releases,
        key=lambda each: (datetime.fromisoformat(_updated(each)), each.said.release_id),
        reverse=True,
    )
    ledger = min((each.said.created, each.said.ledger.head.chain) for each in newest)[1]
    _add(feed, "id", _urn(ledger))
    _add(feed, "title", name_of(shelf))
    _add(feed, "updated", _updated(newest[0]))
    if address:
        _add(feed, "link", rel="self", type="application/atom+xml", href=f"{address}feed.xml")
    _add(feed, "link", rel="alternate", type="text/html", href=f"{address}index.html")
    for each in newest[:MOST_ENTRIES]:
        _add_entry(feed, each, address)
    ElementTree.indent(feed)
    text: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_entry(feed: ElementTree.Element, release: Offered, address: str) -> None:
    said, about, ended = release.said, release.said.about, release.ended
    entry = _add(feed, "entry")
    _add(entry, "id", _urn(said.ledger.head.chain, said.release_id))
    start = {"current": "", "superseded": "Superseded: ", "withdrawn": "Withdrawn: "}[release.state]
    _add(entry, "title", f"{start}{about.title or said.product}, {said.period}")
    _add(entry, "published", said.created)
    _add(entry, "updated", _updated(release))
    author = _add(entry, "author")
    _add(author, "name", about.curator.name if about.curator else said.product)
    if about.curator and about.curator.url:
        _add(author, "uri", about.curator.url)
    for keyword in about.keywords:
        _add(entry, "category", term=keyword)
    page = f"{address}{period_page(release)}#r-{said.release_id}"
    _add(entry, "link", rel="alternate", type="text/html", href=page)
    reasons = (
        f"It revises an earlier release: {said.revises}" if said.revises else None,
        ended.reason if ended else None,
    )
    _add(entry, "summary", " · ".join(filter(None, (about.description, *reasons))) or said.product)


def _add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}", attributes)
    made.text = text or None
    return made


def _urn(*names: str) -> str:
    return uuid.uuid5(_NAMESPACE, "/".join(names)).urn


def _updated(release: Offered) -> str:
    """Return when a release was published or what became of it since."""
    return release.ended.at if release.ended else release.said.created
