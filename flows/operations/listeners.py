"""Who listens on a port of this machine: no password goes to a process that only took a server's place.

A server gets a socket that listens already from the process that starts it, so that no other process can
ever answer in its place. Who only finds a server looks up which process holds its socket.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from mechanisms.errors import InputError

_LISTENS = "0A"  # as the kernel writes the state of a socket
LOOPBACK = "127.0.0.1"
_BACKLOG = 2048  # connections that wait while a server starts


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at ``host``: while it is open, the kernel gives the port to nobody else.

    Parameters
    ----------
    port
        0 for one that is free.

    Raises
    ------
    InputError
        If something listens there, or ``host`` is no address of this machine.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = (error.strerror or "no such address").partition(" (while")[0]
        failure = InputError(
            f"the server cannot listen there ({reason})",
            where=f"{host}:{port}",
            mend="choose another --port (0 takes a free one), or another --host",
        )
    raise failure


@contextlib.contextmanager
def listening_while_served() -> Iterator[socket.socket]:
    """Yield a socket that listens on a free port of the loopback, to be closed once a server inherited it.

    When that server dies, connections are refused, and until the block ends no other user can take the port.
    """
    with socket.socket() as guard, socket.socket() as listener:
        for each in (guard, listener):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # shared by sockets of one user alone
        guard.bind((LOOPBACK, 0))
        listener.bind(guard.getsockname())
        listener.listen(_BACKLOG)
        yield listener


def server_command(listener: socket.socket) -> list[str]:
    """Return the command of a Prefect server on a socket that it inherits."""
    return [sys.executable, "-P", "-m", "flows.operations.prefect_server", str(listener.fileno())]


def listens(process: int, url: str) -> bool:
    """Tell whether ``process``, and nobody else, listens on the port of ``url`` on this machine.

    What a process of another user has open is not to be seen, which is as if it did not listen.
    """
    listening = _listening(url)
    return bool(listening) and listening <= _open(process)


def _listening(url: str) -> set[str]:
    """Return the sockets that listen on the port of ``url``, as the kernel numbers them."""
    port = urlsplit(url).port
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:  # a machine without IPv6
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _open(process: int) -> set[str]:
    """Return what a process has open."""
    found = set()
    try:
        for link in Path(f"/proc/{process}/fd").iterdir():
            try:
                found.add(str(link.readlink()))
            except OSError:  # closed meanwhile
                continue
    except OSError:  # gone, or another user's
        pass
    return found
