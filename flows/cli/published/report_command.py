"""``tabularium report``: the page of a release, or its entry for a registry, from its folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tabularium
from tabularium.flows.cli.terminal import one_line_errors, out

_EXAMPLE = """\
Example:  tabularium report releases/census/2026/ID --out report.html

Example:  tabularium report releases/census/2026/ID --last releases/census/2025/ID --out report.html

Example:  tabularium report releases/census/2026/ID --registry --out registry.yaml"""


def report_release(
    folder: Annotated[
        Path, typer.Argument(help="A published release: holds certificate.json.", metavar="RELEASE")
    ],
    last: Annotated[
        Path | None,
        typer.Option(help="The release of an earlier period to compare with.", metavar="FOLDER"),
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="New file to write; default: report.html, or registry.yaml.",
            metavar="FILE",
        ),
    ] = None,
    registry: Annotated[
        bool,
        typer.Option(
            "--registry", help="Write an entry for OpenDP's registry of deployments instead (YAML)."
        ),
    ] = False,
) -> None:
    """Write the report of a published release: one page, for people. Costs no budget.

    The release is compared with its certificate, and the certificate with itself; signature and ledger are
    not checked. The page says so at the top.
    """
    with one_line_errors():
        before = None if last is None else tabularium.open(last)
        release = tabularium.open(folder)
        out_file = out_file or Path("registry.yaml" if registry else "report.html")
        (release.registry_entry if registry else release.report)(out_file, last=before)
        out.print(f"Written: {out_file}", soft_wrap=True, highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report", epilog=_EXAMPLE)(report_release)
