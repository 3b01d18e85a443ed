"""``tabularium desk`` in a process of its own, the addresses of all its pages, and windows of a browser on it."""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

import tabularium
from tabularium.flows.desk.serving import PAGES
from tests.flows.operations.installations import CLI

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/enter\?token=\S+")


@dataclass(frozen=True)
class Started:
    """A desk that runs.

    Attributes
    ----------
    enter
        The address that it has printed; it lets in once.
    base
        The same without its path.
    said, complained
        Files of its standard output and error.
    """

    enter: str
    base: str
    said: Path
    complained: Path


@contextmanager
def started(home: Path, folder: Path, *words: str, **environment: str) -> Iterator[Started]:
    """Run ``tabularium desk --port 0`` while the block does; what it says is kept in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    said, complained = folder / "desk.out", folder / "desk.err"
    with said.open("w") as out, complained.open("w") as errors:
        process = subprocess.Popen(
            [*CLI, "desk", "--home", str(home), "--port", "0", *words],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )
    try:
        end = time.monotonic() + 60
        while (found := ADDRESS.search(said.read_text())) is None:
            assert process.poll() is None, complained.read_text()
            assert time.monotonic() < end, "the desk did not come up"
            time.sleep(0.05)
        yield Started(found[0], found[1], said, complained)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def client_of(desk: Started) -> Iterator[httpx.Client]:
    """Yield a client that the desk has let in."""
    with httpx.Client(base_url=desk.base, follow_redirects=True, timeout=60) as client:
        client.get(desk.enter).raise_for_status()
        yield client


def addresses(home: Path, specs: Iterable[Path] = ()) -> list[str]:
    """Return the address of every page of a desk, for all that its ledger knows and for some specs."""
    with tabularium.open_ledger(home) as books:
        accounts = [each.name for each in books.accounts]
        charged = [each.charge for name in accounts for each in books.charges(name)]
        names = {
            "account": accounts,
            "release": [each.release_id for each in charged],
            "product": sorted({each.product for each in charged}),
            "number": ["1"],
        }
        pages = books.last_entry // 50 + 1
    found = []
    for method, address in PAGES:
        if method == "GET":
            parts = re.findall(r"{(\w+)}", address)
            found += (
                [address.replace(f"{{{parts[0]}}}", each) for each in names[parts[0]]] if parts else [address]
            )
    found += [f"/history?account={each}" for each in accounts]
    found += [f"/history?page={number}" for number in range(1, pages + 1)]
    return found + [f"/approve?{urlencode({'spec': spec})}" for spec in specs]


def in_vain(spec: Path) -> list[str]:
    """Return addresses that ask for what is not there, or that are broken."""
    found = [
        "/nothing",
        "/history?page=x",
        "/history?page=0",
        "/history?account=x",
        "/decided/9",
        "/approve?spec",
    ]
    found += [
        "/approve?spec=%ff%00&=&period=%zz;",
        f"/approve?spec={spec}&period=%00",
        f"/approve?spec={spec}/x",
    ]
    found += [
        f"/approve?spec={spec}&revises=1&measurements_of=x",
        "/approve?spec=%00",
        f"/approve?spec={'x' * 5000}",
    ]
    names = ("drafts", "attempts", "releases", "accounts", "products")
    return found + [
        f"/{name}/{each}" for name in names for each in ("0" * 32, "%2e%2e", "%00", "x/report.html")
    ]


def answers(client: httpx.Client, wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what addresses of a desk answer, and what their forms do before anything is signed."""
    sent = set()
    for address in wanted:
        page = client.get(address)
        yield address, page.text
        for to, form in re.findall(r'(?s)<form [^>]*method="post" action="([^"]*)">(.*?)</form>', page.text):
            fields = dict(re.findall(r'<input [^>]*?name="(\w+)" value="([^"]*)"', html.unescape(form)))
            fields |= {"reason": "a test", "consulted": "no", "passphrase": "none", "even_if_unpaid": "yes"}
            for action in [to, *re.findall(r'formaction="([^"]*)"', form)]:
                if (action, fields.get("spec")) not in sent:
                    sent.add((action, fields.get("spec")))
                    origin = {"Origin": str(client.base_url).rstrip("/")}
                    yield f"POST {action}", client.post(action, data=fields, headers=origin).text


class Window:
    """A window on a desk, and all that its pages asked for or complained of.

    Attributes
    ----------
    page
        Playwright's.
    asked
        Addresses of all requests.
    complaints
        What the browser's console says: a policy that refused something, a file that is not there.
    """

    def __init__(self, context: Any, desk: Started) -> None:
        self.page, self.desk = context.new_page(), desk
        self.asked: list[tuple[str, str]] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda each: self.asked.append((each.resource_type, each.url)))
        self.page.on("requestfailed", self._failed)
        self.page.on(
            "console",
            lambda each: self.complaints.append(each.text) if each.type in ("error", "warning") else None,
        )

    def _failed(self, request: Any) -> None:
        if request.failure == "csp":  # the browser did not even ask
            self.asked.remove((request.resource_type, request.url))

    def enter(self) -> Window:
        self.page.goto(self.desk.enter)
        assert self.page.url == f"{self.desk.base}/"
        return self

    def go(self, address: str) -> str:
        """Go to an address of the desk; return what the page says."""
        self.page.goto(self.desk.base + address)
        return self.words()

    def press(self, name: str) -> str:
        """Press a button, or follow a link that looks like one; return what the next page says."""
        button, link = (self.page.get_by_role(role, name=name, exact=True) for role in ("button", "link"))
        button.or_(link).first.click()  # which waits for either, where a page is still on its way
        return self.words()

    def words(self) -> str:
        return " ".join(self.page.inner_text("main").split())

    def strangers(self) -> list[str]:
        """What was asked of anybody but the desk, and scripts wherever they come from."""
        return [
            f"{kind} {url}"
            for kind, url in self.asked
            if kind == "script" or not url.startswith((f"{self.desk.base}/", "data:"))
        ]


@contextmanager
def windows(running: Any, *, width: int = 1200, **options: Any) -> Iterator[Any]:
    """Yield a context of the browser, with cookies of its own."""
    context = running.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(30_000)
    try:
        yield context
    finally:
        context.close()
