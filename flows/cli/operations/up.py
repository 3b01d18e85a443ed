"""Commands that run until Ctrl-C: ``up`` (the installation on one machine), ``watch`` (inboxes), ``desk``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.terminal import HomePath, err, one_line_errors, out, working
from tabularium.flows.operations.installation import (
    Installation,
    database_url,
    is_loopback,
    most_runs,
    wait_until_ready,
)
from tabularium.flows.operations.listeners import LOOPBACK, listening, listens
from tabularium.flows.operations.server_address import (
    forget_address,
    only_installation,
    server_folder,
    write_address,
)
from tabularium.flows.operations.supervisor import end_with_the_keeper, keeping
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.extras import require
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import stopping

_FAREWELL_SECONDS = 30.0
_PREPARING_SECONDS = 180.0


def up(
    home: HomePath = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")
    ] = 4200,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine, put TLS in front.")
    ] = LOOPBACK,
    database: Annotated[
        str | None,
        typer.Option(
            envvar="PREFECT_SERVER_DATABASE_CONNECTION_URL",
            show_envvar=True,
            help="Database of the server, postgresql+asyncpg://…; default: a file of the home.",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at once; default: two per core, with a GiB of memory each."),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option(help="Folder for the ledger's nightly export, best on another machine; remembered."),
    ] = None,
    witness: Annotated[
        Path | None,
        typer.Option(
            envvar="TABULARIUM_WITNESS",
            show_envvar=True,
            help="Folder on another disk for the ledger's witness.",
        ),
    ] = None,
) -> None:
    """Run the whole installation until Ctrl-C: Prefect's server, a worker, the watcher of inboxes.

    It restarts what fails. `deploy`, `run` and `doctor` of the same home find the server.
    """
    with one_line_errors():
        require("sqlalchemy", "prefect", "watchfiles", where="up")  # in processes whose errors go to logs
        opened = Home.at(home)
        opened.remember_ledger()
        if witness is not None:
            os.environ["TABULARIUM_WITNESS"] = str(witness.absolute())
        at = database_url(database)
        with only_installation(opened), listening(host, port) as listener:
            address, taken = listener.getsockname()[:2]
            try:
                _run(Installation(opened, address, taken, at, runs or most_runs()), listener, export_to)
            except (KeyboardInterrupt, SystemExit):
                if stopping.exception is None:
                    raise
                _say("stopped")


def _run(installation: Installation, listener: socket.socket, export_to: Path | None) -> None:
    home = installation.home
    _say("starting; a server takes some ten seconds, and longer the first time")
    try:
        with keeping(_say) as keeper:
            keeper.on_stop = lambda: _let_go_on_later(installation)
            server = installation.server(listener)
            keeper.start(server)
            exports = [] if export_to is None else ["--export-to", str(export_to.absolute())]
            preparing = _prefects_side(installation, "--runs", str(installation.runs), *exports)
            wait_until_ready(installation, server)
            known = server.process.pid if server.process else 0
            write_address(home, installation.url, known)
            message = _prepared(preparing)
            if preparing.returncode:
                raise InputError(
                    f"the pool of runs and the upkeep cannot be made ({message})",
                    where=installation.url,
                    hint="fix that, then run again",
                )
            keeper.start(installation.worker())
            keeper.start(installation.watcher())
            _welcome(installation)
            while True:
                # A signal that arrives while a process is forked raises nothing.
                stopping.raise_if_requested()
                keeper.look_after()
                now = server.process.pid if server.process else 0
                if now != known and listens(now, installation.url):  # it was started again
                    write_address(home, installation.url, known := now)
                time.sleep(0.25)
    finally:
        forget_address(home)


def _prefects_side(installation: Installation, *words: str) -> subprocess.Popen[str]:
    """Start what is done through Prefect's client, which this process never imports."""
    return subprocess.Popen(  # noqa: S603 - this very Python
        [
            *(sys.executable, "-P", "-m", "tabularium.flows.operations.deployments.prepare"),
            *("--home", str(installation.home.path), *words),
        ],
        env=installation.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        umask=0o077,
        preexec_fn=end_with_the_keeper,  # noqa: PLW1509 - this process has one thread
    )


def _prepared(preparing: subprocess.Popen[str]) -> str:
    """Wait for what is prepared, and return what it says; a server that died meanwhile answers nothing."""
    try:
        return preparing.communicate(timeout=_PREPARING_SECONDS)[0].strip()
    except subprocess.TimeoutExpired:
        preparing.kill()
        preparing.wait()
        return "the server does not answer any more"


def _let_go_on_later(installation: Installation) -> None:
    """Have the runs that are stopped with the installation go on when it runs again."""
    leaving = _prefects_side(installation, "--stopping")
    try:
        message = leaving.communicate(timeout=_FAREWELL_SECONDS)[0].strip()
    except subprocess.TimeoutExpired:  # they go on at the next start all the same
        leaving.kill()
        leaving.wait()
        return
    if leaving.returncode == 0 and message != "0":
        _say(f"{message} run{'s' * (message != '1')} will go on when the installation runs again")


def _welcome(installation: Installation) -> None:
    folder = server_folder(installation.home)
    out.print(f"Tabularium runs: {installation.page}", soft_wrap=True, highlight=False)
    out.print(f"  sign in with the line in {folder / 'password'}", soft_wrap=True, highlight=False)
    out.print(f"  logs: {folder / 'logs'}; Ctrl-C stops everything", soft_wrap=True, highlight=False)
    if not is_loopback(installation.host):
        _say(f"other machines reach {installation.host}: put TLS in front, or passwords travel in the open")


def _say(text: str) -> None:
    err.print(f"{time.strftime('%H:%M:%S')} {text}", soft_wrap=True, highlight=False, markup=False)


_WATCH_EXAMPLES = "Example:  tabularium watch --home /var/lib/tabularium/home"


def watch(home: HomePath = None) -> None:
    """Watch every inbox of a home and start releases when data arrive. Stop it with Ctrl-C.

    `tabularium up` starts one; on another machine, set PREFECT_API_URL. You may kill it at any time, and run
    several.
    """
    with one_line_errors():
        from tabularium.flows.operations.watcher import watch_until_stopped
        from tabularium.tasks.runtime.home import Home

        watch_until_stopped(Home.at(home))


PORT = 4280


def desk(
    key: Annotated[
        Path | None,
        typer.Option(help="Private key (PEM) of the officer; without it you only look."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any.")] = PORT,
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--folder",
            help="Copy of publication folder or drafts, for a home elsewhere; repeatable.",
        ),
    ] = None,
    home: HomePath = None,
) -> None:
    """Open the officer's desk in a browser: what waits, with cost and content, to be signed.

    The address that it prints admits the first person who opens it: give it to nobody. Enter prints a new
    one. The key's passphrase is forgotten after a quarter of an hour without use.
    """
    with one_line_errors():
        with working("opening the desk"):
            from tabularium.flows.desk.desk import Desk, SigningKey
            from tabularium.flows.desk.serving import serve
            from tabularium.mechanisms.errors import InputError
            from tabularium.tasks.runtime.home import Home

            home_path = Home.found(home).path
            for folder in folders or ():
                if not folder.is_dir():
                    raise InputError(
                        "is no folder", where=f"--folder {folder}", hint="name one that is there"
                    )
            opened = Desk(
                home_path,
                tuple(folder.resolve() for folder in folders or ()),
                None if key is None else SigningKey(home_path, key),
            )
            opened.last_entry()
        serve(opened, port, lambda address: out.print(address, soft_wrap=True, highlight=False))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example:  tabularium up --home /srv/tabularium --port 4200")(up)
    app.command(epilog=_WATCH_EXAMPLES)(watch)
    app.command(epilog="Example:  tabularium desk --key officer.pem")(desk)
