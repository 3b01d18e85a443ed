"""The processes of an installation on one machine: Prefect's server, a worker, the watcher of inboxes.

::

    tabularium up ──keeps──▶ server   the API and the UI; its database is a file of the home, or PostgreSQL
                         ├─▶ worker   starts each run of the pool `tabularium` as a process of its own
                         └─▶ watcher  tells the server what has arrived, and has dead runs start again

Who may use the API can have code run as the user of the worker. So the server asks for the password of the
home, which no command line shows, and listens on this machine only unless set otherwise.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import socket
import sys
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from tabularium.flows.operations.listeners import LOOPBACK, server_command
from tabularium.flows.operations.names_in_prefect import HEARTBEAT_SECONDS, WORK_POOL
from tabularium.flows.operations.server_address import answers, credentials, past_proxies, server_folder
from tabularium.flows.operations.supervisor import ManagedProcess
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

_STARTUP_SECONDS = 180.0  # a fresh database is migrated first, which takes long on a busy machine
_QUERY_SECONDS = 2
_MEMORY_OF_A_RUN = 1 << 30
#: What persons sign and restore with; no process of an installation needs it.
_OF_PERSONS = ("TABULARIUM_KEY_PASSPHRASE", "TABULARIUM_BACKUP_PASSPHRASE")


@dataclass(frozen=True)
class Installation:
    """What runs where.

    Attributes
    ----------
    database
        URL of the server's database; a file of the home where there is none.
    runs
        How many the worker has at work at once.
    """

    home: Home
    host: str
    port: int
    database: str | None = None
    runs: int = 1

    @property
    def url(self) -> str:
        """URL of the API, as clients on this machine use it."""
        return f"http://{_reachable(self.host)}:{self.port}/api"

    @property
    def page(self) -> str:
        """URL of the UI, as a browser on this machine uses it."""
        return self.url.removesuffix("/api")

    def server(self, listener: socket.socket) -> ManagedProcess:
        """Return Prefect's server, which inherits ``listener``: clients wait there while it starts again."""
        secrets = {"PREFECT_SERVER_API_AUTH_STRING": credentials(self.home)}
        if self.database is not None:
            secrets["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = self.database
        environment = {**self.environment(), **secrets, "PREFECT_UI_API_URL": "/api"}
        server_files = server_folder(self.home)
        for folder in (server_files / "ui").glob(
            "**/"
        ):  # copied from a read-only package; a new one replaces it
            folder.chmod(0o700)
        return ManagedProcess(
            "server", server_command(listener), environment, server_files, (listener.fileno(),)
        )

    def worker(self) -> ManagedProcess:
        """Return the worker: each run is a process that it starts."""
        # By its name a worker that starts again is the same one to the server.
        name = platform.node() or WORK_POOL
        return self._part(
            "worker", ["tabularium.flows.operations.worker", "--name", name, "--limit", str(self.runs)]
        )

    def watcher(self) -> ManagedProcess:
        """Return the watcher of inboxes."""
        return self._part("watcher", ["tabularium.flows.cli.app", "watch", "--home", str(self.home.path)])

    def _part(self, name: str, words: list[str]) -> ManagedProcess:
        return ManagedProcess(
            name, [sys.executable, "-P", "-m", *words], self.environment(), server_folder(self.home)
        )

    def environment(self) -> dict[str, str]:
        """Return the environment of every process: this one's, with the settings of the installation."""
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PREFECT_") and name not in _OF_PERSONS
        }
        folder = server_folder(self.home)
        temporary = folder / "tmp"  # of the worker; in a shared folder another user may have been first
        temporary.mkdir(mode=0o700, exist_ok=True)
        return {
            **ours,
            **past_proxies(self.url),
            "TMPDIR": str(temporary),
            "TABULARIUM_HOME": str(self.home.path),
            "PREFECT_HOME": str(folder / "prefect"),
            # Else Prefect writes the page into its own package, where it may have no right to.
            "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(folder / "ui"),
            "PREFECT_API_URL": self.url,
            "PREFECT_API_AUTH_STRING": credentials(self.home),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PREFECT_CLI_PROMPT": "false",
            "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
            "PREFECT_WORKER_QUERY_SECONDS": str(_QUERY_SECONDS),
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_SECONDS),
        }


def most_runs() -> int:
    """Return how many runs this machine has room for at once: two a core, and a GiB of memory for each."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return max(1, min(2 * len(os.sched_getaffinity(0)), memory // _MEMORY_OF_A_RUN - 1))


def database_url(given: str | None) -> str | None:
    """Return the URL of the server's database with the driver that Prefect needs.

    Raises
    ------
    InputError
        If it is no PostgreSQL database; its text is not repeated, for it may hold a password.
    """
    if given is None:
        return None
    if not re.match(r"postgres(ql)?(\+\w+)?://", given):
        raise InputError(
            "the server's database is PostgreSQL, or left out",
            where="--database",
            hint="write postgresql+asyncpg://USER@HOST/NAME",
        )
    return "postgresql+asyncpg" + given[given.index("://") :]


def wait_until_ready(installation: Installation, server: ManagedProcess) -> None:
    """Wait until the server answers and its database is there.

    Raises
    ------
    InputError
        If it ends, or needs too long.
    """
    end = time.monotonic() + _STARTUP_SECONDS
    while server.ended() is None and time.monotonic() < end:
        if answers(f"{installation.url}/ready"):
            return
        time.sleep(0.1)
    raise InputError(
        "Prefect's server did not come up",
        where=str(server_folder(installation.home) / "logs" / "server.log"),
        hint="read there why, most often a database that cannot be reached, then run again",
    )


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reachable(host: str) -> str:
    everywhere = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - what to ask for, not what to listen on
    address = everywhere.get(host, host)
    return f"[{address}]" if ":" in address else address
