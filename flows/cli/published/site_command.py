"""``tabularium site``: static pages over all releases of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

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
        Path, typer.Option("--out", help="Folder to write; a site that is there is replaced.", metavar="DIR")
    ],
    address: Annotated[
        str, typer.Option(help="Where DIR will be served; feeds then hold whole addresses.", metavar="URL")
    ] = "",
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Copy the releases into DIR, compared with their digests, instead of linking to them.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a web site over all releases: products, periods, search, downloads, feeds, budget over time.

    It reads certificates and indexes alone; needs no home, no server and no other host. What cannot be shown
    is listed with the reason, on the first page too.

    With --json: site (the folder), products, releases, and not_shown (where and why of each).
    """
    with one_line_errors():
        from tabularium.tasks.site.write_site import write_site

        with working("writing the site"):
            found = write_site(releases, out_folder, address=address, copy=copy)
        shown = sum(1 for _ in found.releases)
        if as_json:
            not_shown = [vars(each) for each in found.not_shown]
            counts = {"products": len(found.products), "releases": shown, "not_shown": not_shown}
            print_json({"site": str(out_folder), **counts})
            return
        for each in found.not_shown:
            said = escape(f"{each.where}: not shown: {each.why}")
            err.print(f"[yellow]![/yellow] {said}", soft_wrap=True, highlight=False)
        text = f"{shown} releases of {len(found.products)} products: {out_folder / 'index.html'}"
        out.print(text, soft_wrap=True, highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="site", epilog=_EXAMPLES)(site)
