"""Listeners on ports of this machine: no password goes to a process that only took a server's place.

A server gets a socket that listens already from the process that starts it, so that no other process can
ever answer in its place. Who only finds a server looks up which process holds its socket.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors

_LISTENS = "0A"  # as the kernel writes the state of a socket
LOOPBACK = "127.0.0.1"
_BACKLOG = 2048  # connections that wait while a server starts


@bare_errors
def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at ``host``: while it is open, no other user gets the port.

    ``port``: 0 for one that is free.

    Raises
    ------
    InputError
        If something listens there, or ``host`` is no address of this machine.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if port and _answered(host, port):  # another server of ours, say: sockets of one user share a port
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, reuse_port=True)
    except OSError as error:
        reason = (error.strerror or "no such address").partition(" (while")[0]
        raise InputError(
            f"the server cannot listen there ({reason})",
            where=f"{host}:{port}",
            hint="choose another --port (0 takes a free one), or another --host",
        ) from None


@contextlib.contextmanager
def listening_while_served() -> Iterator[socket.socket]:
    """Yield a socket that listens on a free port of the loopback, to be closed once a server inherited it.

    When that server dies, connections are refused, and until the block ends no other user can take the port.
    """
    with socket.socket() as guard, socket.socket() as listener:
        for listener_socket in (guard, listener):
            listener_socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEPORT, 1
            )  # shared only by sockets of one user
        guard.bind((LOOPBACK, 0))
        listener.bind(guard.getsockname())
        listener.listen(_BACKLOG)
        yield listener


@contextlib.contextmanager
def port_held(url: str) -> Iterator[bool]:
    """Let no other user listen on the port of ``url`` while the block runs, also when its server has ended.

    Yields whether that can be: not where a process of another user listens there already.
    """
    guard = _guard(url)
    try:
        yield guard is not None
    finally:
        if guard is not None:
            guard.close()


def hold_port(url: str) -> None:
    """Let no other user listen where a server of this user does now, until this process ends."""
    with contextlib.suppress(ValueError):  # the name of another machine, say
        if urlsplit(url).port and _listening(url) and (guard := _guard(url)) is not None:
            guard.detach()  # the kernel closes it


def _guard(url: str) -> socket.socket | None:
    """Return a socket at the port of ``url`` that does not listen; None where another user's does."""
    address = urlsplit(url)
    guard = socket.socket(socket.AF_INET6 if ":" in str(address.hostname) else socket.AF_INET)
    guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # shared only by sockets of one user
    try:
        guard.bind((address.hostname, address.port))
    except OSError:
        guard.close()
        return None
    return guard


def server_command(listener: socket.socket) -> list[str]:
    """Return the command of a Prefect server on a socket that it inherits."""
    return [sys.executable, "-P", "-m", "tabularium.flows.operations.prefect_server", str(listener.fileno())]


def _answered(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def listens(process: int, url: str) -> bool:
    """Tell whether ``process``, and nobody else, listens at the address and port of ``url`` on this machine.

    What a process of another user has open is not to be seen, which is as if it did not listen.
    """
    listening = _listening(url)
    return bool(listening) and listening <= _open(process)


def _listening(url: str) -> set[str]:
    """Return the sockets that answer at ``url``, as the kernel numbers them."""
    parts, inodes = urlsplit(url), set()
    address = ip_address(LOOPBACK if parts.hostname == "localhost" else str(parts.hostname))
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:  # a machine without IPv6
            continue
        for fields in map(str.split, lines):
            at, _, port = fields[1].rpartition(":")
            if fields[3] == _LISTENS and int(port, 16) == parts.port and _reached(at) in (address, None):
                inodes.add(f"socket:[{fields[9]}]")
    return inodes


def _reached(written: str) -> IPv4Address | IPv6Address | None:
    """Return an address as the kernel writes it, each 32 bits turned round; None if it is all of them."""
    words = [
        bytes.fromhex(written[at : at + 8])[:: 1 if sys.byteorder == "big" else -1]
        for at in range(0, len(written), 8)
    ]
    reached = ip_address(b"".join(words))
    if isinstance(reached, IPv6Address) and reached.ipv4_mapped is not None:
        reached = reached.ipv4_mapped
    return None if reached.is_unspecified else reached


def _open(process: int) -> set[str]:
    """Return what a process has open."""
    inodes = set()
    try:
        for link in Path(f"/proc/{process}/fd").iterdir():
            try:
                inodes.add(str(link.readlink()))
            except OSError:  # closed meanwhile
                continue
    except OSError:  # gone, or another user's
        pass
    return inodes
