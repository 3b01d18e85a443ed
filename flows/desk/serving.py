"""Serving a desk on 127.0.0.1 until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from tabularium.flows.desk.application import application
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.safety import HOSTS, Session
from tabularium.mechanisms.errors import InputError

_LEAVING_SECONDS = 2  # for pages that are being made


def serve(desk: Desk, port: int, say: Callable[[str], None]) -> None:
    """Serve a desk, and say under which address; a line on standard input asks for a new one.

    Parameters
    ----------
    port
        0 for any that is free.
    say
        Is told each address, which lets in whoever opens it first.

    Raises
    ------
    InputError
        The port is in use.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOSTS[0], port))
        listening.listen()  # whoever is told the address may come before the first page can be made
    except OSError as error:
        reason = error.strerror
    else:
        port = listening.getsockname()[1]
        session = Session(port)
        # Neither addresses, which hold the token, nor errors, which may hold more, are logged.
        config = uvicorn.Config(
            application(desk, session),
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # they could name another client than the one that is there
            lifespan="off",
            timeout_graceful_shutdown=_LEAVING_SECONDS,
        )
        say(_address(port, session.new_token()))
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=_new_addresses, args=(session, port, say), daemon=True).start()
        threading.Thread(target=desk.prepare, daemon=True).start()
        with listening:
            asyncio.run(_Server(config).until_stopped(listening))
        return
    raise InputError(
        f"cannot be used ({reason})", where=f"port {port}", hint="name another with --port, or 0"
    )


class _Server(uvicorn.Server):
    """Ends by a signal, quietly."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :meth:`until_stopped`: uvicorn would raise them again once it has ended."""
        yield

    async def until_stopped(self, listening: socket.socket) -> None:
        """Serve until a signal comes."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(each, setattr, self, "should_exit", True)
        await self.serve(sockets=[listening])


def _new_addresses(session: Session, port: int, say: Callable[[str], None]) -> None:
    for _line in sys.stdin:
        say(_address(port, session.new_token()))


def _address(port: int, token: str) -> str:
    return f"http://{HOSTS[0]}:{port}/enter?token={token}"
