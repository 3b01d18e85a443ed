"""``tabularium watch``: the process that looks at inboxes."""

from __future__ import annotations

import typer

from tabularium.flows.cli.options import HomePath
from tabularium.flows.cli.terminal import one_line_errors

_EXAMPLES = "Example:  tabularium watch --home /var/lib/tabularium/home"


def watch(home: HomePath = None) -> None:
    """Watch every inbox of a home and start releases when data arrive. Stop it with Ctrl-C.

    `tabularium up` starts one; on another machine, set PREFECT_API_URL. You may kill it at any time and run
    several at once.
    """
    with one_line_errors():
        from tabularium.flows.operations.watcher import watch_until_stopped
        from tabularium.tasks.runtime.home import Home

        watch_until_stopped(Home.at(home))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(watch)
