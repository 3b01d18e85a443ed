"""``tabularium notify``: mails or calls of a webhook when something was published, refused, or waits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import one_line_errors, out, print_json


def notify(
    file: Annotated[Path, typer.Argument(help="Automations, such as deploy/automations.yaml.")],
    to: Annotated[
        str | None,
        typer.Option(
            envvar="TABULARIUM_NOTIFY",
            show_envvar=True,
            help="Where messages go: https://… or mailtos://…; needed the first time. With "
            "a password in it, set TABULARIUM_NOTIFY instead.",
        ),
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Set up Prefect's notifications from FILE. Repeating it changes only what differs."""
    with one_line_errors():
        from prefect.client.orchestration import get_client

        from tabularium.flows.operations.deployments.notifications import load_automations
        from tabularium.flows.operations.prefect_api import connected
        from tabularium.tasks.runtime.home import Home

        with connected(Home.found(home)), get_client(sync_client=True) as client:
            names = load_automations(client, file, to or "")
        if as_json:
            print_json({"automations": names})
        else:
            for name in names:
                out.print(name, soft_wrap=True, markup=False, highlight=False)
            place = urlsplit(to).hostname if to else None
            said = f"Messages go to {place or 'the address given'}." if to else "Messages go where they went."
            out.print(said, soft_wrap=True, markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example:  tabularium notify deploy/automations.yaml --to https://hooks.example.org/release"
    )(notify)
