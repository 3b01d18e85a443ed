"""Another user of the machine: a process that became ``nobody``, and what it can do to a command that runs."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import pwd
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
ASKS = {"X-Asked-By": "nobody"}  # what one of them asks is not for another to hear
FOREIGN = {"Host": "evil.example", "Origin": "http://evil.example"}
PATHS = (
    *(("GET", "/api/health"), ("GET", "/api/ready"), ("GET", "/api/version"), ("GET", "/api/admin/version")),
    *(("GET", "/api/admin/settings"), ("GET", "/api/docs"), ("GET", "/api/openapi.json")),
    *(("GET", "/"), ("GET", "/ui-settings"), ("GET", "/docs"), ("GET", "/openapi.json")),
    *(("GET", "/api/variables/name/health"), ("GET", "//api/admin/version"), ("GET", "/api//admin/version")),
    *(("GET", "/api/events/out"), ("POST", "/api/events"), ("POST", "/api/flow_runs/filter")),
)


@dataclass
class Findings:
    """What another user got.

    Attributes
    ----------
    answers
        Of each path that was asked for, the status codes, by port.
    words
        The command lines that were seen.
    secrets
        The environments that could be read.
    taken
        Ports on which the user could listen although they were, or were to be, another's.
    heard
        The first bytes of each connection to one of these.
    """

    answers: dict[int, dict[str, set[int]]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    heard: list[bytes] = field(default_factory=list)


@contextmanager
def another_user(*, takes: bool, port: int | None = None) -> Iterator[Findings]:
    """Have another user look, ask and try while the block runs; the findings are complete after it.

    Parameters
    ----------
    takes
        Whether the user tries to listen on each port that shows up; otherwise each is asked.
    port
        One that the user tries again and again, whoever listens there.
    """
    found = Findings()
    here, there = multiprocessing.get_context("fork").Pipe()
    process = multiprocessing.get_context("fork").Process(target=_be, args=(there, takes, port), daemon=True)
    process.start()
    there.close()
    try:
        assert here.recv() == "ready"
        yield found
    finally:
        here.send("stop")
        found.__dict__.update(here.recv())
        process.join(10)


def _be(parent: Connection, takes: bool, wanted: int | None) -> None:
    account = pwd.getpwnam("nobody")
    socket.getaddrinfo("127.0.0.1", 80)  # imports what this user may not read
    of_these = os.getppid()
    os.setgroups([])
    os.setresgid(*[account.pw_gid] * 3)
    os.setresuid(*[account.pw_uid] * 3)
    found, listeners = Findings(), dict[int, socket.socket]()
    known = _listening()
    parent.send("ready")
    while not parent.poll():
        shown = {int(port) for port in re.findall(r"--port (\d+)", " ".join(_look(found, of_these)))}
        new = (_listening() | shown) - known | ({wanted} if wanted else set())
        for port in new - set(listeners):
            if takes and (listener := _take(port)):
                listeners[port] = listener
            elif not takes:
                _ask(port, found.answers.setdefault(port, {}))
        for listener in listeners.values():
            _hear(listener, found.heard)
        time.sleep(0.02 if takes else 0.5)
    found.taken = set(listeners)
    parent.send(found.__dict__)


def _look(found: Findings, of_these: int) -> list[str]:
    """Read what another user may of the processes that the tests started; return their command lines."""
    now = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if folder.stat().st_uid != os.getuid() and _descends(int(folder.name), of_these):
                now.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                found.secrets.add((folder / "environ").read_text(errors="replace"))
    found.words |= set(now)
    return now


def _descends(process: int, ancestor: int) -> bool:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if process == ancestor:
            return True
    return False


def _listening() -> set[int]:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {int(each.split()[1].rpartition(":")[2], 16) for each in lines if each.split()[3] == "0A"}


def _take(port: int) -> socket.socket | None:
    for host in ("127.0.0.1", "0.0.0.0"):
        for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            listener = socket.socket()
            try:
                if option is not None:
                    listener.setsockopt(socket.SOL_SOCKET, option, 1)
                listener.bind((host, port))
                listener.listen()
            except OSError:
                listener.close()
            else:
                listener.settimeout(0.01)
                return listener
    return None


def _hear(listener: socket.socket, heard: list[bytes]) -> None:
    """Answer as a healthy server would, and keep what was asked."""
    with contextlib.suppress(OSError):
        connection = listener.accept()[0]
        with connection:
            connection.settimeout(1)
            asked = connection.recv(10_000)
            if next(iter(ASKS)).encode() not in asked:
                heard.append(asked)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntrue")


def _ask(port: int, answers: dict[str, set[int]]) -> None:
    for method, path in PATHS if request(port, *PATHS[0])[0] else ():
        for headers in ({}, FOREIGN):
            if status := request(port, method, path, headers)[0]:
                answers.setdefault(f"{method} {path}", set()).add(status)


def port_of(url: str) -> int:
    """Return the port of the URL of an API."""
    return int(url.rpartition(":")[2].removesuffix("/api"))


def request(port: int, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Return status and body of an answer; 0 where there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        sent = "{}" if method == "POST" else None
        connection.request(
            method, path, sent, {"Content-Type": "application/json", **ASKS, **(headers or {})}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
