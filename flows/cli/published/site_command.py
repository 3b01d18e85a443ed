"""``tabularium site``: static pages over all releases of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import tabularium
from tabularium.flows.cli.options import AsJson
from tabularium.flows.cli.terminal import err, one_line_errors, out, print_json, working

_EXAMPLES = """\
Example:  tabularium site releases --out site

Example:  tabularium site releases --out /srv/www/statistics --copy --address https://example.org/statistics/"""


def site(
    releases: Annotated[
        Path, typer.Argument(help="Folder of releases: holds PRODUCT/PERIOD/RELEASE.", metavar="RELEASES")
    ],
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder to write; replaces a site that is there.", metavar="DIR")
    ],
    address: Annotated[
        str,
        typer.Option(help="Address where DIR will be served; feeds then hold full addresses.", metavar="URL"),
    ] = "",
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Copy the releases into DIR, checked against their digests, instead of linking to them.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a web site over all releases: products, periods, search, downloads, feeds, budget over time.

    It reads only certificates and indexes, and needs no home, server or network. Releases that cannot be
    shown are listed with the reason, also on the first page.

    With --json: site (the folder), products, releases, and not_shown (where and why of each).
    """
    with one_line_errors():
        with working("writing the site"):
            found = tabularium.site(releases, out_folder, address=address, copy=copy)
        if as_json:
            print_json(found.as_dict())
            return
        for each in found.not_shown.itertuples():
            said = escape(f"{each.where}: not shown: {each.why}")
            err.print(f"[yellow]![/yellow] {said}", soft_wrap=True, highlight=False)
        out.print(found._headline(), soft_wrap=True, highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="site", epilog=_EXAMPLES)(site)
