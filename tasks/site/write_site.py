"""Writing a site into a temporary folder, which then replaces the old one at once."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.public_folder import read, sha256_of
from tabularium.tasks.publish.period_index import CURRENT, INDEX
from tabularium.tasks.publish.release_folder import Access, aside_of, make_readable_folder, readable
from tabularium.tasks.site.offered import NotShown, PublishedRelease, ReleaseCatalogue, release_catalogue
from tabularium.tasks.site.site_pages import name_of, pages, period_page, site_catalogue
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.public_files import Unreadable
from tabularium.validations.redaction import os_errors_as

MARK = ".tabularium-site"
"""Marks a folder as a site, which may be overwritten."""

COPIES = "releases"
_WEB = Access(0o755, 0o644)


def write_site(
    releases: Path,
    out: Path,
    *,
    address: str = "",
    copy: bool = False,
    products: Collection[str] | None = None,
) -> ReleaseCatalogue:
    """Write the pages over a folder of releases to ``out``; return the catalogue that they show.

    The same releases give the same bytes.

    Parameters
    ----------
    address
        Where ``out`` will be served: then feeds hold whole addresses, else relative ones.
    copy
        Whether the releases are copied into the site, each file compared with its digest; else pages link to
        ``releases`` as it lies next to the site, and web servers must serve both as they lie.
    products
        The names of their folders; all that lie there unless certificate.

    Raises
    ------
    InputError
        A folder or the address is not what it must be, or the site cannot be written.
    """
    releases, out = releases.resolve(), out.resolve()
    _check_places(releases, out)
    there = COPIES if copy else os.path.relpath(releases, out)
    address = _checked(address, there)
    catalogue = release_catalogue(releases, products)
    with _put_in_place(out) as aside:
        if copy:
            catalogue = _copied(catalogue, releases, aside / COPIES)
        addresses = {
            release.certificate.release_id: f"{_address(release, releases, there)}/"
            for release in catalogue.releases
        }
        for path, text in pages(catalogue, addresses):
            _write(aside / path, text.encode())
        _write(aside / "feed.xml", atom_feed(catalogue, address))
        _write(aside / "catalogue.jsonld", site_catalogue(catalogue, address, addresses))
        _write(aside / MARK, b"Made by `tabularium site`, which may replace this folder.\n")
    return catalogue


def _check_places(releases: Path, out: Path) -> None:
    if releases == out or out in releases.parents or releases in out.parents:
        raise InputError(
            "lies in the folder of releases, or holds it",
            where=f"--out {out}",
            hint="name a folder next to it: releases are never touched",
        )
    if os.path.lexists(out) and not (out / MARK).is_file() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(
            "is there already and is no site of this command",
            where=f"--out {out}",
            hint="name a new folder, or one that this command made",
        )


def _checked(address: str, there: str) -> str:
    """Return the address with a slash at its end."""
    if not address:
        return ""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(
            "is no address of a web site",
            where=f"--address {address}",
            hint="write it like https://example.org/data/",
        )
    up, deep = there.split("/").count(".."), len([part for part in parts.path.split("/") if part])
    if up > deep:
        raise InputError(
            f"the releases lie at {there} from the site, and this address has no room for that",
            where=f"--address {address}",
            hint="serve both folders as they lie, or have the releases copied into the site with --copy",
        )
    return f"{address.rstrip('/')}/"


def _address(release: PublishedRelease, releases: Path, there: str) -> str:
    return "/".join(quote(part) for part in (*there.split("/"), *release.folder.relative_to(releases).parts))


@contextmanager
def _put_in_place(out: Path) -> Iterator[Path]:
    """Yield a new folder that replaces ``out`` if all goes well; else leave everything unchanged."""
    aside, old = aside_of(out), aside_of(out)
    hint = "make room, or name another folder"
    with os_errors_as(InputError, "cannot be written: {reason}", where=f"--out {out}", hint=hint):
        try:
            make_readable_folder(out.parent)
            _folder(aside)
            yield aside
            if out.exists():
                out.rename(old)
            aside.rename(out)
        finally:
            if old.exists() and not out.exists():
                old.rename(out)
            for left in (aside, old):
                shutil.rmtree(left, ignore_errors=True)


def _copied(catalogue: ReleaseCatalogue, releases: Path, to: Path) -> ReleaseCatalogue:
    """Copy the complete releases, with index and link of each period; return the catalogue of the copies."""
    kept = ReleaseCatalogue(not_shown=catalogue.not_shown)
    for product in catalogue.products:
        periods = []
        for period in product.periods:
            target = to / product.name / period.name
            copied = [release for release in period.releases if _copy(release, target, kept.not_shown)]
            if copied:
                source = releases / product.name / period.name
                with readable(source):
                    _write(target / INDEX, read(source, INDEX))
                periods.append(type(period)(period.name, copied))
                if periods[-1].current:
                    (target / CURRENT).symlink_to(periods[-1].current.certificate.release_id)
        if periods:
            kept.products.append(type(product)(product.name, periods))
    return kept


def _copy(release: PublishedRelease, place: Path, not_shown: list[NotShown]) -> bool:
    certificate = release.certificate
    target = place / certificate.release_id
    for name in (*release.sizes, CERTIFICATE):
        _folder((target / name).parent)
        try:
            digest = sha256_of(release.folder, name, release.largest, to=target / name)
            why = f"{name} is altered" if certificate.files.get(name, digest) != digest else None
        except Unreadable as error:
            why = str(error)
        if why is not None:
            shutil.rmtree(target)
            not_shown.append(
                NotShown(f"{certificate.product}/{certificate.period}/{certificate.release_id}", why)
            )
            return False
        _WEB.give(target / name, _WEB.files)
    return True


def _folder(folder: Path) -> None:
    """Make a folder that web servers may read, with missing parents."""
    if not folder.is_dir():
        _folder(folder.parent)
        folder.mkdir()
        _WEB.give(folder, _WEB.folders)


def _write(path: Path, content: bytes) -> None:
    _folder(path.parent)
    path.write_bytes(content)
    _WEB.give(path, _WEB.files)


# ``feed.xml``: what was published, superseded and withdrawn last, for readers of feeds.
#
# Source: RFC 4287, The Atom Syndication Format. Ids are made from the ledger and the release, so that an
# entry stays the same one wherever the site is moved.

MOST_ENTRIES = 100
_ATOM = "http://www.w3.org/2005/Atom"
_NAMESPACE = uuid.UUID("0d1ba6b0-6c0f-5f0e-8a53-3b7c1f6a9d54")  # of the ids; any fixed one does


def atom_feed(release_catalogue: ReleaseCatalogue, address: str) -> bytes:
    """Return the feed, the newest first; ``address`` is the site's, empty where it is not known."""
    ElementTree.register_namespace("", _ATOM)
    feed = ElementTree.Element(f"{{{_ATOM}}}feed")
    newest = sorted(
        release_catalogue.releases,
        key=lambda release: (datetime.fromisoformat(_updated(release)), release.certificate.release_id),
        reverse=True,
    )
    ledger = min((release.certificate.created, release.certificate.ledger.head.chain) for release in newest)[
        1
    ]
    _add(feed, "id", _urn(ledger))
    _add(feed, "title", name_of(release_catalogue))
    _add(feed, "updated", _updated(newest[0]))
    if address:
        _add(feed, "link", rel="self", type="application/atom+xml", href=f"{address}feed.xml")
    _add(feed, "link", rel="alternate", type="text/html", href=f"{address}index.html")
    for release in newest[:MOST_ENTRIES]:
        _add_entry(feed, release, address)
    ElementTree.indent(feed)
    text: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_entry(feed: ElementTree.Element, release: PublishedRelease, address: str) -> None:
    certificate, about, ended = release.certificate, release.certificate.about, release.ended
    entry = _add(feed, "entry")
    _add(entry, "id", _urn(certificate.ledger.head.chain, certificate.release_id))
    start = {"current": "", "superseded": "Superseded: ", "withdrawn": "Withdrawn: "}[release.state]
    _add(entry, "title", f"{start}{about.title or certificate.product}, {certificate.period}")
    _add(entry, "published", certificate.created)
    _add(entry, "updated", _updated(release))
    author = _add(entry, "author")
    _add(author, "name", about.curator.name if about.curator else certificate.product)
    if about.curator and about.curator.url:
        _add(author, "uri", about.curator.url)
    for keyword in about.keywords:
        _add(entry, "category", term=keyword)
    page = f"{address}{period_page(release)}#r-{certificate.release_id}"
    _add(entry, "link", rel="alternate", type="text/html", href=page)
    reasons = (
        f"It revises an earlier release: {certificate.revises}" if certificate.revises else None,
        ended.reason if ended else None,
    )
    _add(entry, "summary", " · ".join(filter(None, (about.description, *reasons))) or certificate.product)


def _add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}", attributes)
    made.text = text or None
    return made


def _urn(*names: str) -> str:
    return uuid.uuid5(_NAMESPACE, "/".join(names)).urn


def _updated(release: PublishedRelease) -> str:
    """Return the time when a release was published, superseded or withdrawn."""
    return release.ended.at if release.ended else release.certificate.created
