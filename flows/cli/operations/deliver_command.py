"""``tabularium deliver``: files into an inbox, with the manifest that says what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.terminal import AsJson, HomePath, one_line_errors, out, print_json, working

_EXAMPLES = """\
Example:  tabularium deliver people.parquet --product persons --period 2026

Example:  tabularium deliver part-*.csv --product persons --period 2026-Q1 --inbox /srv/inbox/persons"""


def deliver(
    files: Annotated[list[Path], typer.Argument(help="Data files, all in one format.", metavar="FILES")],
    product: Annotated[str, typer.Option(help="Its product.")],
    period: Annotated[str, typer.Option(help="Its period.")],
    inbox: Annotated[
        str | None,
        typer.Option(help="Folder; default: the product's inbox in the home.", metavar="DIR"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the drop; default: the period.")] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Copy FILES into an inbox as one drop. Its manifest comes last, so no half drop is read.

    On a machine without a home, give --inbox.
    """
    with one_line_errors():
        from tabularium.mechanisms.errors import InputError
        from tabularium.tasks.arrival.inboxes import Inbox, inbox_of
        from tabularium.tasks.arrival.places import deliver as put
        from tabularium.tasks.runtime.home import Home

        into = Inbox(product, inbox, "") if inbox else inbox_of(Home.found(home), product)
        if into is None:
            raise InputError(
                "no inbox of this product is watched",
                where=f"--product {product}",
                hint="deploy it with --on-arrival DIR, or name a folder with --inbox",
            )
        with working("copying"):
            drop = put(files, into, period, name=name)
        if as_json:
            print_json({"drop": str(drop), "files": [each.name for each in files]})
        else:
            out.print(f"Delivered: {drop}", soft_wrap=True, markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(deliver)
