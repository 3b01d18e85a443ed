"""A real PostgreSQL for the tests: its own folder, its own port, never root, gone at the end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.debian import Unavailable, found

OWNER = "keeper"
_LONGEST_SOCKET = 80  # of the 107 letters that a socket's path may have


def _account() -> dict[str, Any]:
    """Return who the server runs as: this user, or if that is root somebody harmless."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise Unavailable("PostgreSQL refuses to run as root, and there is no other user")


class Server:
    """A server in a folder of its own."""

    def __init__(self, folder: Path, *, durable: bool = False, **settings: str) -> None:
        self.programs, self.who = found("postgresql"), _account()
        self.home = folder
        self.data = folder / "data"
        self.socket = str(folder) if len(str(folder)) < _LONGEST_SOCKET else ""
        if self.who:
            os.chown(folder, self.who["user"], self.who["group"])
            for parent in folder.parents:  # an own temporary folder is closed to others
                if (
                    parent.stat().st_uid == os.geteuid()
                    and parent.stat().st_mode & 0o055 != 0o055
                    and parent != Path("/root")
                ):
                    parent.chmod(parent.stat().st_mode | 0o011)
        command = [self.programs / "initdb", "-D", self.data, "-U", OWNER, "-A", "trust", "-E", "UTF8"]
        self._run([*command, "--locale=C", "--no-sync", "--wal-segsize=1"])
        self.settings = {
            "fsync": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.socket,
            "shared_buffers": "64MB",
            "max_connections": "150",
            "max_wal_size": "256MB",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.start()

    def _run(self, command: list[Any]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self.who)
        if done.returncode:
            raise Unavailable(f"{command[0]} failed: {done.stderr[-500:]}")

    def start(self) -> None:
        """Start, or start again on the same port."""
        self.port = self.port or _free_port()
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        log = (self.home / "log").open("ab")
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.data, "-p", str(self.port), *options],
            stdout=log, stderr=log, cwd="/", start_new_session=True, **self.who,
        )  # fmt: skip
        log.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Unavailable("the server did not start: " + self.log()[-500:]) from None
                time.sleep(0.05)
            else:
                return

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: ``SIGINT`` in good order, ``SIGQUIT`` at once (``immediate``), ``SIGKILL`` as a crash would."""
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(60)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def dsn(self, database: str, user: str = OWNER) -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database}"

    def url(self, database: str, user: str = OWNER) -> str:
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        """How a spec names a database: by the server's socket, over which nothing can be overheard."""
        return f"postgresql://{OWNER}@/{database}?host={self.socket}&port={self.port}"

    def new_database(self) -> str:
        """Make an empty database and return its name."""
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")  # type: ignore[call-overload]
        close_schema(self.dsn(name))
        return name

    def drop_database(self, name: str) -> None:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]

    @contextmanager
    def away(self, name: str) -> Iterator[None]:
        """Have a database take no connection while the block runs, those that there are ended."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")  # type: ignore[call-overload]
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            try:
                yield
            finally:
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")  # type: ignore[call-overload]


@contextmanager
def running(under: Path | None = None, **settings: Any) -> Iterator[Server]:
    """Run a server while the block runs; raises :class:`Unavailable` where none can be had."""
    memory = Path("/dev/shm")
    if under is None and os.access(memory, os.W_OK) and not settings.get("durable"):
        under = memory
    folder = Path(tempfile.mkdtemp(prefix="tabularium-pg-", dir=under))
    folder.chmod(0o755)
    server = None
    try:
        server = Server(folder, **settings)
        yield server
    finally:
        if server is not None and server.process is not None and server.process.poll() is None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def close_schema(dsn: str) -> None:
    """Take from everybody what PostgreSQL before 15 gave: to create in the schema ``public``."""
    with psycopg.connect(dsn) as connection:
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
