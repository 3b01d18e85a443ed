"""``tabularium up``: the whole installation on one machine, in the foreground."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import HomePath
from flows.cli.terminal import err, one_line_errors, out
from flows.operations.installation import (
    Installation,
    database_url,
    is_loopback,
    most_runs,
    wait_until_ready,
)
from flows.operations.listeners import LOOPBACK, listening, listens
from flows.operations.server_address import (
    alone,
    credentials,
    forget_address,
    is_its_own,
    server_folder,
    write_address,
)
from flows.operations.supervisor import Part, keeping
from tasks.runtime.home import Home
from tasks.runtime.progress import stopping

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


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
            help="PostgreSQL database of the server (postgresql+asyncpg://…); otherwise a file of the home.",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Most runs at once; without it two a core, and a GiB of memory for each."),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option(help="Folder for the ledger's nightly export, best on another machine; kept in mind."),
    ] = None,
    witness: Annotated[
        Path | None,
        typer.Option(
            envvar="TABULARIUM_WITNESS",
            show_envvar=True,
            help="Folder on another disk that witnesses what the ledger says, against an old copy of it.",
        ),
    ] = None,
) -> None:
    """Run the whole installation until Ctrl-C: Prefect's server, a worker, the watcher of inboxes.

    What dies is started again. `deploy`, `run` and `doctor` of the same home find the server by themselves.
    """
    with one_line_errors():
        place = Home.at(home)
        place.remember_ledger()
        if witness is not None:
            os.environ["TABULARIUM_WITNESS"] = str(witness.absolute())
        at = database_url(database)
        with alone(place), listening(host, port) as listener:
            address, taken = listener.getsockname()[:2]
            try:
                _run(Installation(place, address, taken, at, runs or most_runs()), listener, export_to)
            except (KeyboardInterrupt, SystemExit):
                if stopping.exception is None:
                    raise
                _say("stopped")


def _run(installation: Installation, listener: socket.socket, export_to: Path | None) -> None:
    home = installation.home
    _say("starting; a server takes some ten seconds, and longer the first time")
    try:
        with keeping(_say) as keeper:
            keeper.farewell = lambda: _let_go_on_later(installation)
            server = installation.server(listener)
            keeper.start(server)
            _import_ahead()
            wait_until_ready(installation, server)
            write_address(home, installation.url, server.process.pid if server.process else 0)
            _prepare(installation, export_to)
            keeper.start(installation.worker())
            keeper.start(installation.watcher())
            _welcome(installation)
            while True:
                stopping.check()  # a signal that arrives while a process is forked raises nothing
                keeper.look_after()
                _find_again(installation, server)
                time.sleep(0.25)
    finally:
        forget_address(home)


def _find_again(installation: Installation, server: Part) -> None:
    """Tell the commands which process the server is now, after it was started again."""
    process = server.process.pid if server.process else 0
    if not is_its_own(installation.home) and listens(process, installation.url):
        write_address(installation.home, installation.url, process)


def _import_ahead() -> None:
    """Import, while the server starts, what it is asked through once it answers: both take some seconds."""

    import flows.operations.run_keeper
    import flows.operations.upkeep_schedules
    import flows.upkeep  # noqa: F401


def _prepare(installation: Installation, export_to: Path | None) -> None:
    from flows.operations import run_keeper, upkeep_schedules
    from flows.operations.deployments.deployment import make_work_pool

    with _client(installation) as client:
        make_work_pool(client, installation.runs)
        run_keeper.start_again(client, at_once=True)
        upkeep_schedules.ensure(installation.home, export_to)


def _let_go_on_later(installation: Installation) -> None:
    """Have the runs that are stopped with the installation go on when it runs again."""
    from flows.operations import run_keeper

    with contextlib.suppress(Exception), _client(installation) as client:  # else at the next start
        stopped = run_keeper.start_again(client, at_once=True)
        if stopped:
            _say(f"{stopped} run{'s' * (stopped > 1)} will go on when the installation runs again")


@contextlib.contextmanager
def _client(installation: Installation) -> Iterator[SyncPrefectClient]:
    from flows.operations.prefect_api import settings_of

    with settings_of(installation.url, credentials(installation.home)):
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            yield client


def _welcome(installation: Installation) -> None:
    folder = server_folder(installation.home)
    out.print(f"Tabularium runs: {installation.page}", soft_wrap=True, highlight=False)
    out.print(f"  sign in with the line in {folder / 'password'}", soft_wrap=True, highlight=False)
    out.print(f"  logs: {folder / 'logs'}; Ctrl-C stops everything", soft_wrap=True, highlight=False)
    if not is_loopback(installation.host):
        _say(f"other machines reach {installation.host}: put TLS in front, or passwords travel in the open")
    if "TABULARIUM_WITNESS" not in os.environ:
        _say("no witness outside the home: name a folder on another disk with --witness")


def _say(text: str) -> None:
    err.print(f"{time.strftime('%H:%M:%S')} {text}", soft_wrap=True, highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium up --home /srv/tabularium --port 4200")(up)
