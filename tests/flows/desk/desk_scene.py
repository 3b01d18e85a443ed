"""A home with releases and a draft, and a desk on it that is asked over HTTP as a browser would."""

from __future__ import annotations

import html
import re
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from tabularium.flows.desk.desk import IDLE_SECONDS, Desk, SigningKey
from tabularium.flows.desk.safety import Session
from tabularium.flows.desk.serving import application
from tabularium.ledger import AwaitingReview, Ledger
from tabularium.ledger.keys import make_key, public_hex, read_private
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish
from tests.flows.release.test_reviewed import write_reviewed


@dataclass(frozen=True)
class Place:
    """A spec that was published for 2024 and 2025, and laid out as a draft for 2026; the officer A. Ro."""

    spec: Path
    home: Home
    key: Path
    published: str
    draft: str

    def second_officer(self) -> Path:
        """Enrol B. Ito; return the key file."""
        file = self.key.with_name("second.pem")
        key = make_key(file)
        with self.ledger() as books:
            books.enrol_key(public_hex(key), officer="B. Ito", by=read_private(self.key, None))
        return file

    def ledger(self) -> Ledger:
        return Ledger.connect(self.home.ledger_url)

    def entries(self) -> int:
        with self.ledger() as books:
            return books.head().seq


def write_place(folder: Path) -> Place:
    spec, home, key = write_reviewed(folder)
    reviewed = spec.read_text()
    spec.write_text(reviewed.replace(", review: officer}", "}"))
    publish(spec, home, period="2024")
    published = publish(spec, home, period="2025").release_id
    targets = "  - {table: area_age_sex, level: nation, margin: 1000}\n  - {table: age_sex, margin: 1}\n"
    targets += "  - {table: area_age_sex, margin: 1000}\n"
    spec.write_text(f"{reviewed}targets:\n{targets}")
    with pytest.raises(AwaitingReview):
        publish(spec, home)
    (draft,) = (folder / "drafts" / "small" / "2026").iterdir()
    return Place(spec, home, key, published, draft.name)


_running: list[Browser] = []


def close_all() -> None:
    """Close every desk that a test has opened."""
    while _running:
        _running.pop().close()


class Browser:
    """A desk, and a browser that was let in."""

    def __init__(self, place: Place, key: Path | None = None, *, idle: float = IDLE_SECONDS) -> None:
        self.key = None if key is None else SigningKey(place.home.path, key, idle=idle)
        self.desk = Desk(place.home.path, (), self.key)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        self.session, self.origin = Session(port), f"http://127.0.0.1:{port}"
        config = uvicorn.Config(
            application(self.desk, self.session),
            log_config=None,
            lifespan="off",
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        self.client = httpx.Client(base_url=self.origin, follow_redirects=True, timeout=60)
        self.client.get(f"/enter?token={self.session.new_token()}")
        _running.append(self)

    def close(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join()

    def page(self, address: str, status: int = 200) -> str:
        """Return what a page says, without its marks."""
        answer = self.client.get(address)
        assert answer.status_code == status, answer.text
        return words_of(answer)

    def send(self, address: str, **fields: str) -> httpx.Response:
        """Send a form of this session."""
        sent = {"secret": self.session.form_secret, **fields}
        return self.client.post(address, data=sent, headers={"Origin": self.origin})

    def sign(self, address: str, **fields: str) -> str:
        """Send a form, look at what it signs, and sign it; return what the last page says."""
        shown = self.send(address, **fields)
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', shown.text))
        if "signed" not in hidden:
            return words_of(shown)
        return words_of(self.send(address, **{name: html.unescape(text) for name, text in hidden.items()}))


def words_of(answer: httpx.Response) -> str:
    """Return the words of a page's content, blanks and line ends made one."""
    main = answer.text.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main)).split()) or answer.text.strip()
