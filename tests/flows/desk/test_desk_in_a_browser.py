"""The desk in a real browser, as the command serves it: pages for everybody, and decisions without a script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tabularium.ledger import AwaitingReview
from tabularium.ledger.keys import make_key, public_hex, read_private
from tests.debian import Unavailable
from tests.flows.desk.desk_process import Started, Window, addresses, started, windows
from tests.flows.desk.desk_scene import Browser, Place
from tests.flows.release.scene import publish
from tests.pages import browser, violations
from tests.sizes import full

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("desk")]
WINDOWS = (
    (1200, False),
    (1200, True),
    (360, False),
    (360, True),
)  # width, dark; usually the last but for "/"
LONG = "aproductwhosenameisaslongasaspectakesoneandhasnoblanknorahyphen"
PLANTED = """
<p id="planted">planted</p>
<script>document.title = 'ran'; document.getElementById('planted').textContent = 'ran'</script>
<img src="x" onerror="document.getElementById('planted').textContent = 'ran'">
<img src="/releases?from=the-report">
<form action="/lock" method="post"><button id="send">send</button></form>
<a id="away" href="/accounts" target="_top">away</a>
"""


@contextmanager
def chromium_window(**options: Any) -> Iterator[Any]:
    """Yield a context of a browser of its own, closed before the test ends: its loop is seen by all else."""
    pytest.importorskip("playwright")
    try:
        with browser() as running, windows(running, **options) as context:
            yield context
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def desk(place: Place, tmp_path: Path) -> Iterator[Started]:
    with started(place.home.path, tmp_path / "desk", "--key", str(place.key)) as found:
        yield found


def require_for_everybody(window: Window) -> None:
    """See that the page that is shown has no barrier, fits a screen of any width, and was read to the end."""
    page = window.page
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
    for width, dark in WINDOWS if full() or page.url.endswith("/") else WINDOWS[-1:]:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if dark else "light")
        assert violations(page, grave_alone=False) == [], page.url
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") is not dark, page.url
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), page.url


def test_every_page_is_for_everybody_and_loads_nothing_else(place: Place, desk: Started) -> None:
    text = place.spec.read_text()
    place.spec.write_text(text.replace("product: small", f"product: {LONG}").replace('"2026"', '"2027"'))
    with pytest.raises(AwaitingReview):
        publish(place.spec, place.home)
    with chromium_window() as context:
        window = Window(context, desk).enter()
        visited = addresses(place.home.path, [place.spec])
        for address in visited:
            said = window.go(address)
            assert said
            if not address.endswith("report.html"):  # a page of its own, which the tests of reports look at
                require_for_everybody(window)
        assert len(visited) > 25
        window.go(f"/approve?spec={place.spec}&period=2028")
        window.page.fill("#reason", "as the year before")
        assert "Approve" in window.press("Approve…")
        require_for_everybody(window)
        assert window.press("Sign as A. Ro").startswith("Decided")
        require_for_everybody(window)
        assert window.strangers() == []
        kinds = {(kind, url.partition("?")[0].rpartition("/")[2]) for kind, url in window.asked}
        assert {name for kind, name in kinds if kind != "document"} <= {"desk.css", "favicon.ico"}
        assert [each for each in window.complaints if "status of 40" not in each] == []


def test_without_javascript_a_decision_is_shown_and_signed(place: Place, desk: Started) -> None:
    before = place.entries()
    with chromium_window(java_script_enabled=False) as context:
        window = Window(context, desk).enter()
        window.page.fill("#spec", str(place.spec))
        window.page.fill("#period", "2027")
        assert "Costs ε = 1" in window.press("Look at it")
        window.page.fill("#reason", "the table of last year")
        window.press("Approve…")
        assert not window.page.locator("pre.bytes").is_visible()
        window.page.click("text=What is signed, byte for byte")
        shown = window.page.locator("pre.bytes").inner_text()
        assert place.entries() == before
        assert window.press("Sign as A. Ro").startswith("Decided small 2027 is approved, for at most 1.")
    with place.ledger() as books:
        (entry,) = books.last_entries(1)
    assert place.entries() == before + 1
    signed = json.loads(shown)
    assert (signed["kind"], signed["reason"]) == ("approval", "the table of last year")
    assert {name: entry.body[name] for name in signed if name in entry.body}.items() <= signed.items()


def test_the_report_of_a_draft_is_rendered_and_runs_nothing(
    place: Place, desk: Started, tmp_path: Path
) -> None:
    (report,) = (place.spec.parent / "drafts").glob("*/*/*/report.html")
    bad = report.read_text().replace("<main", PLANTED + "<main", 1)
    bad = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", bad)  # what a report says of itself

    def with_more(route: Any) -> None:  # a draft whose files were altered is not shown
        route.fulfill(response=route.fetch(), body=bad)

    with chromium_window() as context:
        context.route("**/report.html", with_more)
        window = Window(context, desk).enter()
        window.go(f"/drafts/{place.draft}")
        (frame,) = window.page.frames[1:]
        frame.wait_for_selector("table")
        assert frame.locator("svg, img").first.bounding_box()["height"] > 10
        style = frame.eval_on_selector("body", "e => getComputedStyle(e).fontFamily")
        assert "serif" not in style.split(",")[0].lower()
        before = len(window.asked)
        frame.click("#send")
        frame.click("#away")
        window.page.wait_for_timeout(300)
        assert len(window.asked) == before, "it sends and opens nothing"
        assert frame.inner_text("#planted") == "planted"
        assert not [url for _kind, url in window.asked if "from=the-report" in url]
        assert any("sandboxed" in each for each in window.complaints)
        window.page.goto(f"{desk.base}/drafts/{place.draft}/report.html")  # and by itself
        assert window.page.inner_text("#planted") == "planted" and window.page.title() != "ran"
        assert window.strangers() == []
        alone = context.new_page()  # from disk the same file runs its script, so that this test can fail
        (tmp_path / "alone.html").write_text(bad)
        alone.goto((tmp_path / "alone.html").as_uri())
        assert alone.title() == "ran" and alone.inner_text("#planted") == "ran"


def test_a_key_is_opened_by_its_passphrase_closed_and_forgotten(place: Place, tmp_path: Path) -> None:
    file = place.key.with_name("locked.pem")
    key = make_key(file, b"open sesame")
    with place.ledger() as books:
        books.enrol_key(public_hex(key), officer="C. Lock", by=read_private(place.key, None))
    before = place.entries()
    with (
        started(place.home.path, tmp_path / "locked", "--key", str(file)) as desk,
        chromium_window() as context,
    ):
        window = Window(context, desk).enter()
        assert "Passphrase of locked.pem" in window.go(f"/drafts/{place.draft}")
        require_for_everybody(window)
        window.page.fill("#passphrase", "close sesame")
        refused = window.press("Open the key")
        assert "this is not the passphrase of this key" in refused and "Nothing was signed." in refused
        (line,) = window.page.locator(".note.warn").all_inner_texts()
        assert "\n" not in line and "sesame" not in window.page.content()
        window.go(f"/drafts/{place.draft}")
        window.page.fill("#passphrase", "open sesame")
        assert "Accept…" in window.press("Open the key")
        assert window.page.url == f"{desk.base}/drafts/{place.draft}"
        assert "Signs as C. Lock" in window.page.inner_text(".who")
        window.press("Close the key")
        assert "The key is closed" in window.page.inner_text(".who")
        assert "Passphrase of locked.pem" in window.go(f"/drafts/{place.draft}")
    here = Browser(place, file)  # the same in this process
    assert here.key is not None
    address = f"{here.origin}/enter?token={here.session.new_token()}"
    with chromium_window() as context:
        window = Window(context, Started(address, here.origin, tmp_path, tmp_path)).enter()
        window.go(f"/drafts/{place.draft}")
        window.page.fill("#passphrase", "open sesame")
        window.press("Open the key")
        window.page.check("input[name=consulted][value=no]")
        window.page.check("input[name=criterion] >> nth=0")
        window.press("Withhold…")
        here.key.idle = 1.0  # with less patience from here on
        window.page.wait_for_timeout(1300)
        assert "the key is closed" in window.press("Sign as C. Lock")
        assert "Passphrase of locked.pem" in window.go(f"/drafts/{place.draft}")
    assert place.entries() == before
