"""Who may speak to the desk: nobody but the browser that opened the printed address, by forms of its pages."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tabularium.flows.desk.safety import POLICY
from tabularium.flows.desk.serving import LARGEST_FORM, PAGES
from tests.flows.desk.desk_scene import Browser, Place

pytestmark = pytest.mark.xdist_group("desk")


def filled(address: str, place: Place) -> str:
    names = {"release": place.draft, "number": "1", "account": "people", "product": "small"}
    return re.sub(r"{(\w+)}", lambda found: names[found[1]], address)


@pytest.fixture
def browser(place: Place) -> Browser:
    return Browser(place, place.key)


ADDRESSES = [*PAGES, ("GET", "/desk.css"), ("GET", "/nothing")]


@pytest.mark.parametrize(("method", "address"), ADDRESSES, ids=" ".join)
def test_every_address_refuses_who_is_not_the_session(
    browser: Browser, place: Place, method: str, address: str
) -> None:
    before, to = place.entries(), filled(address, place)
    known = dict(browser.client.cookies)
    fields = {"secret": browser.session.form_secret, "draft": "x", "consulted": "no"}
    refused = {
        "no cookie": ({}, {"Origin": browser.origin}),
        "another cookie": (dict.fromkeys(known, "x"), {"Origin": browser.origin}),
        "foreign host": (known, {"Host": "desk.example:80", "Origin": browser.origin}),
        "host without port": (known, {"Host": "127.0.0.1", "Origin": browser.origin}),
        "foreign origin": (known, {"Origin": "http://evil.example"}),
        "opaque origin": (known, {"Origin": "null"}),
        "another port": (known, {"Origin": "http://127.0.0.1:1"}),
    }
    if method == "POST":
        refused["no origin"] = (known, {})
        refused["from another site"] = (known, {"Origin": browser.origin, "Sec-Fetch-Site": "cross-site"})
    for name, (cookies, headers) in refused.items():
        browser.client.cookies = cookies  # type: ignore[assignment]
        answer = browser.client.request(
            method, to, headers=headers, data=fields if method == "POST" else None, follow_redirects=False
        )
        assert answer.status_code == 403, name
        assert len(answer.content) < 200 and "people" not in answer.text, name
        assert answer.headers["content-security-policy"] == POLICY
    assert place.entries() == before


@pytest.mark.parametrize("address", [to for method, to in PAGES if method == "POST"])
def test_a_form_needs_the_secret_of_the_session(browser: Browser, place: Place, address: str) -> None:
    before, to = place.entries(), filled(address, place)
    form = {"Origin": browser.origin, "Content-Type": "application/x-www-form-urlencoded"}
    bodies = {
        "none": b"",
        "another": b"secret=x&consulted=no",
        "not ASCII": "secret=ß".encode(),
        "too large": b"secret=" + browser.session.form_secret.encode() + b"&x=" + b"x" * LARGEST_FORM,
        "no form": b"{}",
    }
    for name, body in bodies.items():
        headers = {**form, "Content-Type": "application/json"} if name == "no form" else form
        answer = browser.client.post(to, content=body, headers=headers)
        assert answer.status_code == 403, name
        assert "not one of this session" in answer.text, name
    assert place.entries() == before


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="nobody tells whose a connection is")
@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_a_cookie_that_another_user_got_hold_of_opens_nothing(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    port = int(browser.origin.rpartition(":")[2])
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    headers = f"Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nX-Forwarded-For: 127.0.0.1\r\n"

    def asked() -> bytes:
        with socket.create_connection((address, port), timeout=60) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
            with connection.makefile("rb") as answer:
                return answer.read()

    assert asked().startswith(b"HTTP/1.1 200")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    refused = asked()
    assert refused.startswith(b"HTTP/1.1 403") and b"no other user of this machine" in refused


def test_an_address_lets_in_once(place: Place) -> None:
    browser = Browser(place)
    token = browser.session.new_token()
    browser.client.cookies.clear()
    assert browser.client.get("/enter?token=x").status_code == 403
    assert browser.client.get("/enter").status_code == 403
    entered = browser.client.get(f"/enter?token={token}", follow_redirects=False)
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    browser.client.cookies.clear()
    assert browser.client.get(f"/enter?token={token}", follow_redirects=False).status_code == 403


@pytest.mark.parametrize("other", ['theme={"a": 1}', "a[b]=1", "a b=c", "plain", "=x", 'x="y'])
def test_cookies_of_other_programs_on_this_machine_keep_nobody_out(browser: Browser, other: str) -> None:
    own = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    for cookies in (f"{other}; {own}", f"{own}; {other}"):
        assert httpx.get(f"{browser.origin}/", headers={"Cookie": cookies}).status_code == 200
    assert httpx.get(f"{browser.origin}/", headers={"Cookie": f"{other}; {own}x"}).status_code == 403


def test_pages_load_and_run_nothing_else_and_are_kept_nowhere(browser: Browser, place: Place) -> None:
    answer = browser.client.get("/")
    assert answer.headers["cache-control"] == "no-store"
    assert "script-src" not in POLICY and "default-src 'none'" in POLICY
    report = browser.client.get(f"/drafts/{place.draft}/report.html")
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert report.headers["x-content-type-options"] == "nosniff"
    for method, address in PAGES:
        if method == "GET" and not address.endswith("report.html"):  # which has a policy of its own
            answer = browser.client.get(filled(address, place))
            assert "<script" not in answer.text and " style=" not in answer.text


def test_an_unexpected_error_says_nothing_of_what_it_holds(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_given: object, **_named: object) -> None:
        raise ValueError("record 4711 is Ada")

    monkeypatch.setattr("tabularium.Books.newest_releases", wrong)
    answer = browser.client.get("/releases")
    assert answer.status_code == 500
    assert "unexpected ValueError" in answer.text and "Ada" not in answer.text
    assert "Ada" not in "".join(capfd.readouterr())


def test_who_may_not_read_what_a_page_needs_is_told_which_file(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_given: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied", "/srv/drafts/small")

    def nameless(*_given: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tabularium.Books.newest_releases", closed)
    answer = browser.client.get("/releases")
    assert answer.status_code == 400 and "/srv/drafts/small: may not be used" in answer.text
    monkeypatch.setattr("tabularium.Books.newest_releases", nameless)
    assert "a file of the installation: may not be used" in browser.client.get("/releases").text
    monkeypatch.setattr("tabularium.open_ledger", closed)  # nor the home
    monkeypatch.setattr("tabularium.Officer.name", property(closed))
    for answer in (browser.client.get("/"), browser.send("/lock", back="/")):
        assert answer.status_code == 400 and "the ledger does not answer" in answer.text


def test_the_command_serves_on_loopback_and_ends_quietly(place: Place, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tabularium.flows.cli.app", "desk", "--home", str(place.home.path)]
    said = tmp_path / "said"
    with said.open("w") as file:
        running = subprocess.Popen([*command, "--port", "0"], stdout=file, stderr=file)
    try:
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/enter\S+", said.read_text())):
            assert running.poll() is None, said.read_text()
        listening = subprocess.run(
            ["ss", "-Hltn", f"sport = :{found[1]}"], capture_output=True, text=True, check=False
        )
        if listening.returncode == 0:
            assert re.findall(r"(\S+):\d+\s+\S+:\*", listening.stdout) == ["127.0.0.1"]
        assert "1 thing waits for a person" in _opened(found[0])
        port = [*command, "--port", found[1]]
        twice = subprocess.run(port, capture_output=True, text=True, check=False)
        assert twice.returncode == 1
        assert "name another with --port" in twice.stderr and "Traceback" not in twice.stderr
    finally:
        os.kill(running.pid, signal.SIGTERM)
        running.wait(timeout=30)
    assert said.read_text().count("\n") == 1, "nothing but the address"


def _opened(address: str) -> str:
    with httpx.Client(follow_redirects=True) as client:
        return client.get(address).text
