"""The site: the same bytes for the same releases, nothing left out in silence, nothing trusted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from html import unescape
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from rdflib import DCAT, DCTERMS, RDF, Graph, Literal, Namespace, URIRef

import tabularium as tb
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.site.offered import release_catalogue
from tabularium.tasks.site.site_pages import courses, entities
from tabularium.tasks.site.write_site import MARK, write_site
from tests.tasks.report.reported import HOSTILE, lines
from tests.tasks.site.agency import REVISED, WITHDRAWN, Agency, command, copied_releases

pytestmark = pytest.mark.xdist_group("site")  # the agency is made once

ATOM = "{http://www.w3.org/2005/Atom}"


def built(agency: Agency, out: Path, **options: object) -> Path:
    write_site(agency.releases, out, **options)  # type: ignore[arg-type]
    return out


def files(site: Path) -> dict[str, bytes]:
    return {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def targets(page: Path) -> list[str]:
    text = page.read_text()
    return [unescape(each) for each in re.findall(r'(?:href|src|action)="([^"]*)"', text)]


def text_of(page: Path) -> str:
    return "\n".join(lines(page.read_bytes()))


def test_two_builds_are_equal_and_a_site_is_replaced_whole(agency: Agency, tmp_path: Path) -> None:
    site = built(agency, tmp_path / "site")
    first = files(site)
    (site / "old.html").write_text("of an earlier site")
    assert files(built(agency, site)) == first
    assert files(built(agency, tmp_path / "other")) == first
    assert {path.name for path in tmp_path.iterdir()} == {"site", "other"}, "nothing is left aside"
    assert {path.stat().st_mode & 0o777 for path in site.rglob("*") if path.is_file()} == {0o644}
    assert site.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("copy", [False, True])
def test_every_link_leads_to_a_file(agency: Agency, tmp_path: Path, copy: bool) -> None:
    site = built(agency, tmp_path / "site", copy=copy)
    seen = 0
    for page in site.glob("**/*.html"):
        if "releases" in page.relative_to(site).parts:
            continue
        for link in targets(page):
            if re.match(r"https?:|mailto:", link):
                assert link.startswith(("https://example.org", "https://creativecommons.org", "mailto:data@"))
                continue
            place, _, anchor = link.partition("#")
            target = page.parent / unquote(place) if place else page
            assert target.is_file(), link
            assert not copy or target.resolve().is_relative_to(site.resolve())
            assert not anchor or f'id="{anchor}"' in target.read_text(), link
            seen += 1
    assert seen > 60


def test_what_was_superseded_or_withdrawn_is_said_to_be_so(agency: Agency, tmp_path: Path) -> None:
    site = built(agency, tmp_path / "site")
    told = text_of(site / "products/persons/2026.html")
    assert told.index("Current release") < told.index(f"Superseded release {agency.first[:8]}")
    assert f"revises an earlier one of the same period: {REVISED}" in told
    told = text_of(site / "products/persons/2025.html")
    assert "Every release of this period was withdrawn" in told
    assert WITHDRAWN in told and "Its budget stays spent" in told
    assert "2025 (withdrawn)" in text_of(site / "index.html")
    assert "Read the report" not in told


def test_the_budget_counts_what_was_withdrawn_and_superseded(agency: Agency, tmp_path: Path) -> None:
    found = courses(release_catalogue(agency.releases).releases)
    by_symbol = {each.symbol: each for each in found}
    pure, rho = by_symbol["ε"], by_symbol["ρ"]
    assert [step.used for step in pure.steps] == [1, 2, 3]
    assert [step.release.state for step in pure.steps] == ["withdrawn", "superseded", "current"]
    assert not any(step.between for step in pure.steps)
    assert (pure.used, pure.left, rho.used, rho.left) == (3, 7, Fraction(1, 10), Fraction(2, 5))
    (entity,) = entities(found)
    assert (entity.name, entity.releases) == ("record", 4)
    assert [(each.symbol, each.used) for each in entity.spent] == [("ε", 3), ("ρ", Fraction(1, 10))]
    told = text_of(built(agency, tmp_path / "site") / "budget.html")
    assert "up to 4 releases" in told and "ε = 3 by 1 account" in told
    assert "not added here" in told


def test_what_is_charged_between_releases_is_told(agency: Agency) -> None:
    """The step between two certificates is what neither of them charged."""
    releases = [
        each
        for each in release_catalogue(agency.releases).releases
        if each.certificate.release_id != agency.first
    ]
    (pure,) = (each for each in courses(releases) if each.symbol == "ε")
    assert [(step.between, step.amount, step.used) for step in pure.steps] == [(0, 1, 1), (1, 1, 3)]
    assert pure.path("used").startswith("M0 300.0H40.0V270.0H")
    assert pure.path("used").endswith("V210.0H1000.0")


def _no_certificate(release: Path) -> None:
    (release / "certificate.json").unlink()


def _altered(release: Path) -> None:
    path = release / "certificate.json"
    path.write_bytes(path.read_bytes().replace(b"Persons", b"persons"))


def _no_table(release: Path) -> None:
    (release / "age_sex.csv").unlink()


def _a_link_for_a_table(release: Path) -> None:
    (release / "age_sex.csv").unlink()
    (release / "age_sex.csv").symlink_to("/etc/passwd")


def _refitted(change: Callable[[dict], None]) -> Callable[[Path], None]:  # type: ignore[type-arg]
    def damage(release: Path) -> None:
        path, index = release / "certificate.json", release.parent / "index.json"
        old, said = path.read_bytes(), json.loads(path.read_bytes())
        change(said)
        path.write_text(json.dumps(said))
        new = hashlib.sha256(path.read_bytes()).hexdigest()
        index.write_text(index.read_text().replace(hashlib.sha256(old).hexdigest(), new))

    return damage


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (_no_certificate, "certificate.json is missing"),
        (_altered, "certificate.json is not the one that index.json names"),
        (_no_table, "age_sex.csv is missing"),
        (_a_link_for_a_table, "age_sex.csv is a link"),
        (_refitted(lambda said: said.pop("account")), "certificate.json is not what it should be: account"),
        (
            _refitted(lambda said: said["account"].update(cap="1/0")),
            "certificate.json is not what it should be: account.cap",
        ),
        (
            _refitted(lambda said: said["about"].update(url="javascript:alert(1)")),
            "certificate.json is not what it should be: about.url",
        ),
        (
            _refitted(lambda said: said["files"].update({"../../../x": "0" * 64})),
            "certificate.json is not what it should be: files",
        ),
        (_refitted(lambda said: said.update(period="2027")), "it is another release than its folder says"),
        (lambda release: release.rename(release.with_name("0" * 32)), "index.json names it"),
    ],
)
def test_a_damaged_release_is_listed_with_the_reason(
    agency: Agency, tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    releases = copied_releases(agency.releases, tmp_path / "releases")
    damage(releases / "persons" / "2026" / agency.second)
    told = command("site", releases, "--out", tmp_path / "site", "--json")
    said = json.loads(told)
    mine = next(each for each in said["not_shown"] if each["where"] == f"persons/2026/{agency.second}")
    assert mine["why"].startswith(why)
    assert said["releases"] == 3
    page = text_of(tmp_path / "site" / "index.html")
    assert f"{mine['where']} : {mine['why']}" in page
    assert agency.first in text_of(tmp_path / "site/products/persons/2026.html")


def test_a_period_without_an_index_is_listed(agency: Agency, tmp_path: Path) -> None:
    releases = copied_releases(agency.releases, tmp_path / "releases")
    (releases / "persons" / "2025" / "index.json").write_text("{}")
    (releases / "persons" / "2026" / ("0" * 32)).mkdir()
    found = write_site(releases, tmp_path / "site")
    assert {each.where: each.why for each in found.not_shown} == {
        "persons/2025": "index.json is not what it should be: format; "
        "without it nobody knows what is current",
        f"persons/2026/{'0' * 32}": "index.json does not name it",
    }


def test_a_copy_is_compared_with_its_digests(agency: Agency, tmp_path: Path) -> None:
    releases = copied_releases(agency.releases, tmp_path / "releases")
    table = releases / "persons" / "2026" / agency.second / "age_sex.csv"
    table.write_bytes(table.read_bytes()[:-2] + b"9\n")
    found = write_site(releases, tmp_path / "site", copy=True)
    assert [(each.where, each.why) for each in found.not_shown] == [
        (f"persons/2026/{agency.second}", "age_sex.csv is altered")
    ]
    copies = tmp_path / "site" / "releases"
    assert not (copies / "persons" / "2026" / agency.second).exists()
    assert not [*copies.rglob(".heads")]
    whole = copies / "hostile" / "2026-01"
    assert (whole / "current").readlink() == Path(agency.hostile)
    assert files(whole / "current") == files(releases / "hostile" / "2026-01" / agency.hostile)


def test_numbers_are_shown_of_files_that_are_as_the_certificate_says(agency: Agency, tmp_path: Path) -> None:
    releases = copied_releases(agency.releases, tmp_path / "releases")
    page = Path("products", "persons", "2026.html")
    write_site(releases, tmp_path / "site")
    text = (tmp_path / "site" / page).read_text()
    assert text.count('<figure class="cells">') == 2
    assert "Some rows of age sex" in text
    file = releases / "persons" / "2026" / agency.second / "age_sex.parquet"
    file.chmod(0o644)
    with file.open("ab") as altered:
        altered.write(b" ")
    write_site(releases, tmp_path / "site")
    text = (tmp_path / "site" / page).read_text()
    assert text.count('<figure class="cells">') == 1
    assert "are not shown: age_sex.parquet is altered." in text


def test_some_of_the_products_are_shown_alone(agency: Agency, tmp_path: Path) -> None:
    """With what was superseded and withdrawn of them; as links lie in the folder of all."""
    persons = tb.series(agency.releases / "persons")
    found = tb.site(persons, tmp_path / "site")
    assert set(found.releases["release"]) == {agency.first, agency.second, agency.withdrawn}
    assert found.not_shown.empty
    assert not (tmp_path / "site" / "products" / "hostile").exists()
    links = targets(tmp_path / "site" / "products" / "persons" / "2026.html")
    reports = [unquote(each) for each in links if each.endswith("/report.html")]
    assert reports
    assert all((tmp_path / "site" / "products" / "persons" / each).is_file() for each in reports)
    both = tb.site([persons, agency.releases / "hostile"], tmp_path / "both")
    tb.site(agency.releases, tmp_path / "all")
    assert files(both.folder) == files(tmp_path / "all")
    assert repr(both).startswith("4 releases of 2 products")
    copied_releases(agency.releases, tmp_path / "others")
    with pytest.raises(InputError, match="products of 2 folders"):
        tb.site([persons, tmp_path / "others" / "hostile"], tmp_path / "site")
    with pytest.raises(InputError, match="no such folder"):
        tb.site([agency.releases / "nobody"], tmp_path / "site")


def test_titles_are_not_trusted(agency: Agency, tmp_path: Path) -> None:
    site = built(agency, tmp_path / "site")
    for path, content in files(site).items():
        if path.endswith(".html"):
            text = content.decode()
            assert "<script>alert" not in text and "<twice>" not in text
            assert "default-src &#39;none&#39;" in text and "http-equiv" in text
    assert HOSTILE in unescape((site / "products/hostile.html").read_text())


def test_the_feed_is_atom_and_tells_the_newest_first(agency: Agency, tmp_path: Path) -> None:
    for address in ("", "https://example.org/site"):
        site = built(agency, tmp_path / "site", address=address, copy=bool(address))
        feed = ElementTree.parse(site / "feed.xml").getroot()
        assert feed.tag == f"{ATOM}feed"
        entries = feed.findall(f"{ATOM}entry")
        ids = [each.findtext(f"{ATOM}id") for each in (feed, *entries)]
        assert len(set(ids)) == 5 and all(str(each).startswith("urn:uuid:") for each in ids)
        times = [datetime.fromisoformat(str(each.findtext(f"{ATOM}updated"))) for each in entries]
        assert times == sorted(times, reverse=True)
        assert all(each.findtext(f"{ATOM}author/{ATOM}name") == "Office & Sons" for each in entries)
        titles = [str(each.findtext(f"{ATOM}title")) for each in entries]
        assert {"Withdrawn: Persons by age and sex, 2025", f"{HOSTILE}, 2026-01"} < {*titles}
        for each in entries:
            (link,) = each.findall(f"{ATOM}link")
            place, _, anchor = link.attrib["href"].removeprefix(f"{address}/").partition("#")
            assert f'id="{anchor}"' in (site / place).read_text()
        rel = {each.attrib["rel"]: each.attrib["href"] for each in feed.findall(f"{ATOM}link")}
        assert rel.get("self") == (f"{address}/feed.xml" if address else None)


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # by rdflib's own reader
def test_the_catalogue_holds_current_releases_and_their_files(agency: Agency, tmp_path: Path) -> None:
    site, base = built(agency, tmp_path / "site"), "https://example.org/site/"
    graph = Graph().parse(site / "catalogue.jsonld", format="json-ld", publicID=f"{base}catalogue.jsonld")
    (catalogue,) = graph.subjects(RDF.type, DCAT.Catalog)
    datasets = {*graph.subjects(RDF.type, DCAT.Dataset)}
    assert {str(graph.value(each, DCTERMS.identifier)) for each in datasets} == {
        "persons/2026",
        "hostile/2026-01",
    }
    assert datasets < {*graph.objects(catalogue, DCAT.dataset)}
    spdx = Namespace("http://spdx.org/rdf/terms#")
    seen = 0
    for dataset in datasets:
        own = Path(
            str(graph.value(dataset, DCAT.distribution))
            .partition("#")[0]
            .removeprefix("https://example.org/")
        ).parent
        folder = agency.releases.joinpath(*own.parts[-3:])
        alone = Graph().parse(
            folder / "catalogue.jsonld", format="json-ld", publicID=f"https://e.org/{own}/c"
        )
        titles = {*alone.objects(None, DCTERMS.title)}
        assert {*graph.objects(dataset, DCTERMS.title)} <= titles, "the release says the same of itself"
        for each in graph.objects(dataset, DCAT.distribution):
            content = (folder / str(graph.value(each, DCAT.downloadURL)).rpartition("/")[2]).read_bytes()
            assert int(str(graph.value(each, DCAT.byteSize))) == len(content)
            check = graph.value(each, spdx.checksum)
            assert str(graph.value(check, spdx.checksumValue)) == hashlib.sha256(content).hexdigest()
            seen += 1
    assert seen == 8
    built(agency, site, address="https://example.org/site/", copy=True)
    graph = Graph().parse(site / "catalogue.jsonld", format="json-ld", publicID="urn:nowhere")
    addresses = {str(each) for each in graph.objects(None, DCAT.downloadURL)}
    assert addresses and all(each.startswith(f"{base}releases/") for each in addresses)
    assert (
        URIRef(f"{base}catalogue.jsonld#persons"),
        DCTERMS.title,
        Literal("Persons by age and sex", "en"),
    ) in graph


def test_places_that_a_site_may_not_take(agency: Agency, tmp_path: Path) -> None:
    releases = copied_releases(agency.releases, tmp_path / "there" / "releases")
    for place in (releases, releases / "site", releases / "persons", releases.parent, tmp_path):
        with pytest.raises(InputError, match="folder of releases"):
            write_site(releases, place)
    foreign = tmp_path / "mine"
    foreign.mkdir()
    write_site(releases, foreign)  # an empty folder
    (foreign / MARK).unlink()
    with pytest.raises(InputError, match="is there already"):
        write_site(releases, foreign)
    with pytest.raises(InputError, match="holds no release"):
        write_site(releases / "persons", tmp_path / "site")
    with pytest.raises(InputError, match="cannot be read"):
        write_site(tmp_path / "none", tmp_path / "site")
    with pytest.raises(InputError, match="is no address"):
        write_site(releases, tmp_path / "site", address="ftp://x/")
    with pytest.raises(InputError, match="no room"):
        write_site(releases, tmp_path / "site", address="https://example.org")
    with pytest.raises(InputError, match="holds no release"):
        write_site(foreign, tmp_path / "site")
    assert {path.name for path in tmp_path.iterdir()} == {"there", "mine"}


def test_a_site_stays_as_it_was_where_a_new_one_fails(agency: Agency, tmp_path: Path) -> None:
    site = built(agency, tmp_path / "site")
    before = files(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.site.write_site.site_catalogue", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            built(agency, site)
    assert files(site) == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
