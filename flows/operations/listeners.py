"""Who listens on a port of this machine: no password goes to a process that only took a server's place."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

_LISTENS = "0A"  # as the kernel writes the state of a socket
_MOMENT_SECONDS = 0.2


def listens(process: int, url: str) -> bool:
    """Tell whether ``process``, and nobody else, listens on the port of ``url`` on this machine.

    What a process of another user has open is not to be seen, which is as if it did not listen.
    """
    listening = _listening(url)
    return bool(listening) and listening <= _open(process)


def taken_from(process: int, url: str) -> bool:
    """Tell whether somebody else listens where ``process`` should, and still does after a moment."""
    strangers = _listening(url) - _open(process)
    if strangers:
        time.sleep(_MOMENT_SECONDS)  # until the sockets of one that just died are gone
    return bool(strangers & (_listening(url) - _open(process)))


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
