"""Somebody who takes the place of the home's server does not get its password."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from flows.cli.operations.up import _find_again
from flows.operations import installation as installations
from flows.operations.installation import Installation, wait_until_ready
from flows.operations.listeners import listens, taken_from
from flows.operations.prefect_api import url_of_home
from flows.operations.server_address import alone, credentials, write_address
from flows.operations.supervisor import Part
from mechanisms.errors import InputError
from tasks.runtime.home import Home
from tests.flows.operations.products import until


class Impostor(ThreadingHTTPServer):
    """Answers whatever is asked, and keeps the passwords."""

    heard: list[str | None]


class Answering(BaseHTTPRequestHandler):
    server: Impostor

    def do_GET(self) -> None:
        self.server.heard.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"true")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    with Impostor(("127.0.0.1", 0), Answering) as server:
        server.heard = []
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Part]:
    """A server that has not come so far as to listen."""
    part = Part("server", [sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ), tmp_path)
    part.start()
    assert part.process is not None
    yield part
    part.process.kill()
    part.process.wait()


def place(tmp_path: Path, impostor: Impostor) -> Installation:
    return Installation(Home.at(tmp_path / "home"), "127.0.0.1", impostor.server_port)


def test_who_listens(tmp_path: Path, impostor: Impostor, waiting: Part) -> None:
    assert waiting.process is not None
    url = place(tmp_path, impostor).url
    assert listens(os.getpid(), url)
    assert not taken_from(os.getpid(), url)
    assert not listens(waiting.process.pid, url)
    assert taken_from(waiting.process.pid, url)
    impostor.server_close()
    assert not listens(os.getpid(), url)
    # A process that was started meanwhile has a copy of the socket until it runs its own program.
    until("nobody listens", lambda: not taken_from(waiting.process.pid, url), 10)


def test_another_that_answers_is_not_the_server_that_starts(
    tmp_path: Path, impostor: Impostor, waiting: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installations, "_STARTUP_SECONDS", 0.5)
    with pytest.raises(InputError, match="did not come up"):
        wait_until_ready(place(tmp_path, impostor), waiting)
    assert impostor.heard
    assert not any(impostor.heard)


def test_commands_sign_in_at_the_server_of_the_home_alone(
    tmp_path: Path, impostor: Impostor, waiting: Part, capsys: pytest.CaptureFixture[str]
) -> None:
    there = place(tmp_path, impostor)
    assert waiting.process is not None
    with alone(there.home):
        write_address(there.home, there.url, waiting.process.pid)
        assert url_of_home(there.home) is None
        assert not impostor.heard
        assert "passed over" in capsys.readouterr().err
        write_address(there.home, there.url, os.getpid())
        assert url_of_home(there.home) == there.url


def test_who_takes_the_place_of_a_server_that_died_ends_the_installation_and_its_password(
    tmp_path: Path, impostor: Impostor, waiting: Part
) -> None:
    there = place(tmp_path, impostor)
    before = credentials(there.home)
    with pytest.raises(InputError, match="another process listens"):
        _find_again(there, waiting)
    assert credentials(there.home) != before
