"""A working day at two desks on an installation: runs wait, officers decide in browsers, runs go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tabularium.ledger import Ledger
from tabularium.ledger.keys import make_key, public_hex, read_private
from tests.debian import Unavailable
from tests.flows.desk.desk_process import Window, started, windows
from tests.flows.operations.installations import Up, running
from tests.flows.operations.products import Product, deployed, officer_of, state, until
from tests.pages import browser, violations

pytestmark = [pytest.mark.audit, pytest.mark.slow, pytest.mark.xdist_group("operations")]
PASSPHRASE = "a quill and an inkwell"


@dataclass
class Day:
    """An installation with three products, each with a run that waits for an officer.

    Attributes
    ----------
    runs
        Their ids, by the name of the product.
    """

    up: Up
    client: Any
    products: dict[str, Product]
    runs: dict[str, Any]

    @classmethod
    def begun(cls, up: Up, client: Any, folder: Path) -> Day:
        products = {}
        for name in ("approved", "accepted", "withheld"):
            products[name] = product = deployed(up, client, folder / name, name)
            text = product.spec.read_text()
            if name == "approved":
                officer_of(up.home)
                text = text.replace("dataset: people", "dataset: approved")
                with (folder / name / "people.csv").open(
                    "a", newline=""
                ) as data:  # one account for one input
                    data.write("A1,30,1\r\n")
            else:
                text = text.replace("releases}", "releases, review: officer}")
            product.spec.write_text(text)
        day = cls(up, client, products, {name: each.start(client) for name, each in products.items()})
        for name in products:
            day.comes_to(name, "Suspended")
        return day

    def second_officer(self) -> Path:
        file = self.up.home.path / "second.pem"
        key = make_key(file, PASSPHRASE.encode())
        with Ledger.connect(self.up.home.ledger_url) as books:
            by = read_private(officer_of(self.up.home))
            books.enrol_key(public_hex(key), officer="B. Ito", by=by)
        return file

    def comes_to(self, name: str, wanted: str) -> None:
        run = self.runs[name]
        until(f"{name} comes to {wanted}", lambda: state(self.client, run) == wanted, 120)

    def draft(self, name: str) -> str:
        (found,) = (self.products[name].spec.parent / "drafts").glob("*/2026/[!.]*")
        return found.name

    def decisions(self) -> Counter[str]:
        """How many entries of each kind of decision there are; the chain is whole."""
        with Ledger.connect(self.up.home.ledger_url) as books:
            books.verify()
            kinds = Counter(entry.body["kind"] for entry in books.entries())
        return Counter({name: kinds[name] for name in ("approval", "acceptance", "withheld", "withdrawn")})


def test_runs_wait_for_officers_at_two_desks(tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    try:
        with browser() as chromium, running(tmp_path / "home") as up, up.client() as client:
            day = Day.begun(up, client, tmp_path)
            keys = officer_of(up.home), day.second_officer()
            with (
                started(up.home.path, tmp_path / "first", "--key", str(keys[0])) as first_desk,
                started(up.home.path, tmp_path / "second", "--key", str(keys[1])) as second_desk,
                windows(chromium) as context,  # one browser for both: cookies know no ports
            ):
                first, second = Window(context, first_desk).enter(), Window(context, second_desk).enter()
                for window in (first, second):
                    assert "3 things wait for a person" in window.words()
                    require_no_barrier(window)
                second.go(f"/drafts/{day.draft('accepted')}")
                second.page.fill("#passphrase", PASSPHRASE)
                second.press("Open the key")
                approve(day, first, second)
                accept(day, first, second)
                withhold(day, first, second)
                assert "Nothing waits for a person" in second.go("/")
                release = publish_and_verify(day, first)
                withdraw(day, first, second, release)
                assert day.decisions() == {"approval": 1, "acceptance": 1, "withheld": 1, "withdrawn": 1}
                history = first.go("/history")
                for what in ("spec approved", "draft accepted", "draft withheld", "release withdrawn"):
                    assert what in history
                for window, desk in ((first, first_desk), (second, second_desk)):
                    assert window.strangers() == []
                    assert desk.said.read_text().split() == [desk.enter]
                    assert desk.complained.read_text() == ""
    except Unavailable as reason:
        pytest.skip(str(reason))


def require_no_barrier(window: Window) -> None:
    assert violations(window.page, grave_alone=False) == [], window.page.url


def row_of(window: Window, product: str) -> Any:
    return window.page.locator(f"tr:has(td:text-is('{product}'))")


def too_late(day: Day, window: Window, button: str, line: str) -> None:
    """See that who presses a button now signs nothing, and is told why in one line."""
    before = day.decisions()
    assert "Nothing was signed." in window.press(button)
    (said,) = window.page.locator(".note.warn").all_inner_texts()
    assert line in said and "\n" not in said
    require_no_barrier(window)
    assert day.decisions() == before


def approve(day: Day, first: Window, second: Window) -> None:
    """Both look at what they would sign; who signs first has signed, and the run goes on."""
    for window in (first, second):
        window.go("/")
        row = row_of(window, "approved")
        assert "not approved" in row.inner_text().lower()
        row.get_by_role("link", name="Approve a spec").click()
        assert "Costs ε = 1" in window.words() and "Left after 99" in window.words()
        require_no_barrier(window)
        window.page.fill("#reason", "the tables that were agreed")
        window.press("Approve…")
        require_no_barrier(window)
    bytes_shown = first.page.locator("pre.bytes")
    assert not bytes_shown.is_visible()
    first.page.click("text=What is signed, byte for byte")
    shown = bytes_shown.inner_text()
    said = first.press("Sign as O. Bell")
    assert said.startswith("Decided approved 2026 is approved, for at most 1. 1 waiting run goes on.")
    with Ledger.connect(day.up.home.ledger_url) as books:
        (entry,) = [each for each in books.entries() if each.body["kind"] == "approval"]
        signed = json.loads(shown)
        assert entry.body["reason"] == signed["reason"] == "the tables that were agreed"
        assert entry.body["by"] == signed["by"]
    too_late(day, second, "Sign as B. Ito", "is approved already by O. Bell")
    day.comes_to("approved", "Completed")


def accept(day: Day, first: Window, second: Window) -> None:
    """An answer is needed; the draft is read, and published by the run that waited."""
    release = day.draft("accepted")
    for window in (first, second):
        window.go("/")
        row_of(window, "accepted").get_by_role("link", name="Review a draft").click()
        window.page.wait_for_selector("iframe.report")
        (frame,) = window.page.frames[1:]
        frame.wait_for_selector("table")
        assert "accepted" in frame.inner_text("h1").lower()
        require_no_barrier(window)
        # A browser asks for the answer, and so does whatever is sent without one.
        window.page.get_by_role("button", name="Accept…").click()
        assert window.page.url.endswith(f"/drafts/{release}")
        window.page.evaluate("document.querySelectorAll('form').forEach(e => { e.noValidate = true })")
        too_late(day, window, "Accept…", "was not answered")
        window.go(f"/drafts/{release}")
        window.page.check("input[name=consulted][value=no]")
        assert "byte for byte" in window.press("Accept…")
    assert "1 waiting run goes on." in first.press("Sign as O. Bell")
    day.comes_to("accepted", "Completed")
    said = second.press("Sign as B. Ito")
    assert said.startswith(f"Decided before Nothing was signed now. Release {release} is accepted.")
    require_no_barrier(second)
    assert len(day.products["accepted"].published()) == 1


def withhold(day: Day, first: Window, second: Window) -> None:
    """One looks at what accepting signs while the other withholds, for a criterion."""
    release = day.draft("withheld")
    second.go(f"/drafts/{release}")
    second.page.check("input[name=consulted][value=no]")
    second.press("Accept…")
    first.go(f"/drafts/{release}")
    first.page.evaluate("document.querySelectorAll('form').forEach(e => { e.noValidate = true })")
    first.page.check("input[name=criterion][value=implausible]")
    too_late(day, first, "Withhold…", "was not answered")
    first.go(f"/drafts/{release}")
    first.page.check("input[name=criterion][value=implausible]")
    first.page.check("input[name=consulted][value=yes]")
    assert "outside the guarantee" in first.press("Withhold…")
    assert "is withheld; its budget stays spent" in first.press("Sign as O. Bell")
    too_late(day, second, "Sign as B. Ito", "withheld")
    day.comes_to("withheld", "Failed")
    assert day.products["withheld"].published() == []


def publish_and_verify(day: Day, window: Window) -> str:
    """Find what was published among the releases, and verify it; return its id."""
    (folder,) = day.products["approved"].published()
    window.go("/releases")
    require_no_barrier(window)
    window.page.click("th >> text=approved")
    window.page.click("th a")
    assert window.page.url.endswith(f"/releases/{folder.name}")
    window.press("Verify it now")
    window.page.wait_for_selector("text=0 failed", timeout=120_000)  # the page looks again by itself
    assert window.page.locator("td.failed").count() == 0
    require_no_barrier(window)
    return folder.name


def withdraw(day: Day, first: Window, second: Window, release: str) -> None:
    for window in (first, second):
        window.go(f"/releases/{release}")
        window.page.fill("#reason", "a region was coded twice")
        assert "This is not taken back." in window.press("Withdraw…")
    assert f"Release {release} is withdrawn" in first.press("Sign as O. Bell")
    said = second.press("Sign as B. Ito")
    assert said.startswith(f"Decided before Nothing was signed now. Release {release} is withdrawn")
    assert "withdrawn: a region was coded twice" in first.go(f"/releases/{release}")
    require_no_barrier(first)
    about = json.loads(
        (day.products["approved"].spec.parent / "releases/approved/2026/index.json").read_text()
    )
    assert about["current"] is None
