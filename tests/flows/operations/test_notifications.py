"""Where messages go: a mail that arrives, an address that is none, a file that holds no automations."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tabularium.flows.operations.deployments.notifications import _receiver, load_automations
from tabularium.flows.operations.reporting.announcements import Event
from tabularium.mechanisms.errors import InputError

# Of Apprise, on Python 3.11.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
FILE = Path(__file__).parents[3] / "deploy" / "automations.yaml"


class Post(socketserver.ThreadingTCPServer):
    """As much of a mail server as takes a mail."""

    daemon_threads = True
    mail = ""


class Talk(socketserver.StreamRequestHandler):
    server: Post

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        inside = False
        for line in self.rfile:
            if inside:
                self.server.mail += line.decode()
                inside = line != b".\r\n"
                if not inside:
                    self.wfile.write(b"250 taken\r\n")
            else:
                inside = line.upper().startswith(b"DATA")
                self.wfile.write(b"354 go on\r\n" if inside else b"250 yes\r\n")
            if line.upper().startswith(b"QUIT"):
                return


@pytest.fixture
def post() -> Iterator[Post]:
    with Post(("127.0.0.1", 0), Talk) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_mail_arrives(post: Post) -> None:
    port = post.server_address[1]
    receiver = _receiver(f"mailto://127.0.0.1:{port}?from=tabularium@example.org&to=officers@example.org")
    receiver.notify(subject="Published: people, 2026", body="In /srv/releases")  # type: ignore[attr-defined]
    assert "Subject: Published: people, 2026" in post.mail
    assert "officers@example.org" in post.mail


@pytest.mark.parametrize("address", ["", "officers@example.org", "nothing://known to anybody"])
def test_what_is_no_address_is_refused_and_not_quoted(address: str) -> None:
    with pytest.raises(InputError, match="--to") as refused:
        _receiver(address)
    assert not address or address not in refused.value.line()


def test_a_file_without_automations_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    for text in ("", "automations", "{automations: [{name: x}]}"):
        wrong.write_text(text)
        with pytest.raises(InputError, match=r"wrong\.yaml"):
            load_automations(None, wrong, "https://example.org")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be read"):
        load_automations(None, tmp_path / "none.yaml", "https://example.org")  # type: ignore[arg-type]


def test_automations_wait_for_events_that_there_are() -> None:
    expected = {
        each
        for written in yaml.safe_load(FILE.read_text())["automations"]
        for each in written["trigger"]["expect"]
    }
    ours = set(Event.__args__) - {"tabularium.data.arrived"}  # type: ignore[attr-defined]
    assert expected == {*ours, "prefect.flow-run.Failed"}
