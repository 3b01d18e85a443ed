"""``tabularium verify``: whether a release is what it says, offline and from its folder only."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

import tabularium
from tabularium.flows.cli.terminal import AsJson, one_line_errors, out, print_json, working
from tabularium.mechanisms.errors import NotInstalled

if TYPE_CHECKING:
    from tabularium import Verdict
    from tabularium.tasks.verify.subject import Finding, Subject

_MARKS = {"checked": "[green]✓[/green]", "unchecked": "[yellow]–[/yellow]", "failed": "[red]✗[/red]"}
_EXAMPLES = """\
Example:  tabularium verify releases/census/2026/ID --key agency.pub.pem --export books-2026.txt

Example:  tabularium verify census/2026/ID --since census/2024/ID --since census/2025/ID --strict"""


def verify(
    release: Annotated[Path, typer.Argument(help="Folder of the release.", metavar="RELEASE")],
    key: Annotated[
        Path | None,
        typer.Option(help="The agency's public key; not from the release."),
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Exported ledger; not from the release.")] = None,
    since: Annotated[
        list[Path] | None,
        typer.Option(help="An earlier release; repeatable, oldest first."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 also if something could not be checked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify RELEASE: files, signature, certificate, budget, and tables computed again. Needs no home.

    Exits with 0 if nothing failed, 1 if something did, 2 if no release can be read, 3 if nothing failed but a
    missing library left something unchecked.
    """
    with one_line_errors():
        with working(f"verifying {release}"):
            verdict = tabularium.verify(release, key=key, export=export, since=since or [])
        if as_json:
            print_json(verdict.as_dict())
        else:
            for subject, findings in verdict.by_release:
                _show(_title(subject), findings)
            if verdict.series:
                _show("", list(verdict.series))
            _conclude(verdict)
        if not verdict or (strict and verdict.unchecked):
            raise typer.Exit(1)
        if any(finding.not_installed for finding in verdict.unchecked):
            raise typer.Exit(NotInstalled.exit_code)


def _title(subject: Subject) -> str:
    certificate = subject.certificate
    return _shown(f"{certificate.product} {certificate.period}, release {certificate.release_id}")


def _shown(text: str) -> str:
    """Return a text of a folder that nobody vouches for, so that a terminal shows it as it is."""
    return text if text.isprintable() else ascii(text)


def _show(title: str, findings: list[Finding]) -> None:
    if title:
        out.print(f"[bold]{escape(title)}[/bold]", highlight=False, soft_wrap=True)
    for group, some in groupby(findings, key=lambda finding: finding.group):
        out.print(f"[bold]{escape(group)}[/bold]", highlight=False)
        for finding in some:
            detail = f": {escape(finding.said)}" if finding.said else ""
            if finding.outcome == "unchecked":
                needs = "not checked:" if finding.not_installed else "not checked; it needs"
                detail = f": {needs} {escape(finding.said)}"
            out.print(
                f"  {_MARKS[finding.outcome]} {escape(finding.what)}[dim]{detail}[/dim]"
                if finding.outcome != "failed"
                else f"  {_MARKS[finding.outcome]} {escape(finding.what)}[red]{detail}[/red]",
                soft_wrap=True,
                highlight=False,
            )


def _conclude(verdict: Verdict) -> None:
    from tabularium.tasks.verify.verify_release import NOBODY_CAN

    out.print("[bold]What cannot be verified[/bold]")
    for line in NOBODY_CAN:
        out.print(f"  · {escape(line)}", soft_wrap=True, highlight=False)
    out.print(verdict.summary, style="bold" if verdict else "bold red", highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="verify", epilog=_EXAMPLES)(verify)
