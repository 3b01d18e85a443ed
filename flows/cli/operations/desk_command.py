"""``tabularium desk``: the officer's desk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.options import HomePath
from tabularium.flows.cli.terminal import one_line_errors, out, working

PORT = 4280


def desk(
    key: Annotated[
        Path | None,
        typer.Option(help="Private key (PEM) of the officer who signs; without it you can only look."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any.")] = PORT,
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--folder",
            help="A copy of the publication folder or of drafts, for a home elsewhere; repeatable.",
        ),
    ] = None,
    home: HomePath = None,
) -> None:
    """Open the officer's desk in a browser: what waits, with cost and content, to be signed.

    It listens only on 127.0.0.1. The address that it prints admits the first person who opens it: give it to
    nobody. Enter prints a new one, Ctrl-C ends it. A page asks for the passphrase of the key, and forgets it
    after a quarter of an hour without use.
    """
    with one_line_errors():
        with working("opening the desk"):
            from tabularium.flows.desk.desk import Desk
            from tabularium.flows.desk.serving import serve
            from tabularium.flows.desk.signing import SigningKey
            from tabularium.mechanisms.errors import InputError
            from tabularium.tasks.runtime.home import Home

            place = Home.found(home).path
            for folder in folders or ():
                if not folder.is_dir():
                    raise InputError(
                        "is no folder", where=f"--folder {folder}", hint="name one that is there"
                    )
            opened = Desk(
                place,
                tuple(folder.resolve() for folder in folders or ()),
                None if key is None else SigningKey(place, key),
            )
            opened.last_entry()
        serve(opened, port, lambda address: out.print(address, soft_wrap=True, highlight=False))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium desk --key officer.pem")(desk)
