"""Somebody who takes the place of the home's server does not get its password."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tabularium.flows.operations.installation import Installation
from tabularium.flows.operations.listeners import listening, listens
from tabularium.flows.operations.prefect_api import url_of_home
from tabularium.flows.operations.server_address import answers, only_installation, past_proxies, write_address
from tabularium.flows.operations.supervisor import ManagedProcess
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home


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
def waiting(tmp_path: Path) -> Iterator[ManagedProcess]:
    """A server that has not come so far as to listen."""
    part = ManagedProcess(
        "server", [sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ), tmp_path
    )
    part.start()
    assert part.process is not None
    yield part
    part.process.kill()
    part.process.wait()


def place(tmp_path: Path, impostor: Impostor) -> Installation:
    return Installation(Home.at(tmp_path / "home"), "127.0.0.1", impostor.server_port)


def test_who_listens(tmp_path: Path, impostor: Impostor, waiting: ManagedProcess) -> None:
    assert waiting.process is not None
    url = place(tmp_path, impostor).url
    assert listens(os.getpid(), url)
    assert not listens(waiting.process.pid, url)
    impostor.server_close()
    assert not listens(os.getpid(), url)


def test_who_listens_at_another_address_of_the_machine_is_another() -> None:
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        url = f"http://127.0.0.1:{port}/api"
        assert not listens(os.getpid(), url)
        with socket.create_server(("127.0.0.1", port)):
            assert listens(os.getpid(), url)
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        assert listens(os.getpid(), f"http://127.0.0.1:{everywhere.getsockname()[1]}/api")


def test_no_proxy_hears_the_sign_in(
    tmp_path: Path, impostor: Impostor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Impostor(("127.0.0.1", 0), Answering) as proxy:
        proxy.heard = []
        Thread(target=proxy.serve_forever, daemon=True).start()
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "db.example")
        url = place(tmp_path, impostor).url
        assert answers(f"{url}/health", "tabularium:secret")
        for name, value in past_proxies(url).items():
            monkeypatch.setenv(name, value)
            assert value.split(",") == ["db.example", "127.0.0.1"]
        httpx.get(f"{url}/health", headers={"Authorization": "Basic secret"})
        assert impostor.heard == ["Basic dGFidWxhcml1bTpzZWNyZXQ=", "Basic secret"]
        assert proxy.heard == []
        proxy.shutdown()


def test_commands_sign_in_at_the_server_of_the_home_alone(
    tmp_path: Path, impostor: Impostor, waiting: ManagedProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    there = place(tmp_path, impostor)
    assert waiting.process is not None
    with only_installation(there.home):
        write_address(there.home, there.url, waiting.process.pid)
        assert url_of_home(there.home) is None
        assert not impostor.heard
        assert "passed over" in capsys.readouterr().err
        write_address(there.home, there.url, os.getpid())
        assert url_of_home(there.home) == there.url


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_port_is_held_from_the_start_and_refused_where_another_holds_it(host: str) -> None:
    with listening(host, 0) as held:
        address, port = held.getsockname()[:2]
        assert address == host
        for other in {host, "127.0.0.1"} if host != "::1" else {host}:
            with pytest.raises(InputError, match=r"cannot listen there \(Address already in use\)"):
                listening(other, port)
    listening(host, port).close()  # and again at once, by an installation that starts anew


def test_a_server_that_starts_again_listens_on_the_same_socket(tmp_path: Path) -> None:
    with listening("127.0.0.1", 0) as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}/api"
        sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
        part = ManagedProcess("server", sleeps, dict(os.environ), tmp_path, (held.fileno(),))
        for _ in range(2):
            part.start()
            assert part.process is not None
            assert listens(part.process.pid, url)
            part.process.kill()
            part.process.wait()
            assert not listens(part.process.pid, url)
