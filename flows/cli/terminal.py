"""Shared parts of commands: arguments and options, progress, tables, one-line errors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tabularium.mechanisms.errors import DataRefused, TabulariumError
from tabularium.tasks.runtime.progress import stopping

SpecPath = Annotated[Path, typer.Argument(help="The release spec (YAML).", metavar="SPEC")]
HomePath = Annotated[
    Path | None,
    typer.Option("--home", help="Home of the installation; default: TABULARIUM_HOME, else ~/.tabularium."),
]
Revises = Annotated[
    str | None,
    typer.Option(help="Publish product and period again, for this reason; an officer must approve it."),
]
MeasurementsOf = Annotated[
    str | None,
    typer.Option(
        "--measurements-of",
        metavar="RELEASE_ID",
        help="Make the revision from this earlier release's measurements: without data, and free.",
    ),
]
SameInput = Annotated[
    bool,
    typer.Option("--same-input", help="Allow an input that was released for another period."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

# What is printed may be a name that people chose: ":skull:" is no picture.
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


@dataclass
class TerminalReporter:
    """One line per finished stage on standard error, a spinner while one runs."""

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    quiet: bool = False
    _status: Status | None = None

    def started(self, stage: str) -> None:
        """Show that a stage runs."""
        if not self.quiet and err.is_terminal:
            self._status = err.status(f"{stage} …")
            self._status.start()

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Say how long the stage took."""
        before = self.stages.get(stage, {"seconds": 0.0})["seconds"]
        self.stages[stage] = {"seconds": round(before + seconds, 3), "peak_mib": round(peak_mib)}
        self._stop()
        if not self.quiet:
            err.print(f"  [green]✓[/green] {stage:<24}{seconds:8.2f} s")

    def advanced(self, cells: int, of: int) -> None:
        """Show how far the stage is."""
        if self._status is not None and cells:
            self._status.update(f"{cells:,} of {of:,} cells …")

    def fetched(self, percent: int) -> None:
        """Show how much of the source was fetched."""
        if self._status is not None:
            self._status.update(f"{percent} % of the source is fetched …")

    def noted(self, text: str) -> None:
        """Show a note."""
        self.notes.append(text)
        if not self.quiet:
            err.print(f"  [yellow]![/yellow] {escape(text)}", soft_wrap=True, highlight=False)

    def failed(self, stage: str) -> None:
        """Say that the stage failed; the error itself follows at the end."""
        self._stop()
        if not self.quiet:
            err.print(f"  [red]✗[/red] {stage}")

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something goes on which can take minutes."""
    if not err.is_terminal:
        yield
        return
    with err.status(f"{what} …"):
        yield


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an error of ours into one line on standard error and a non-zero exit."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        # A library that is interrupted, say in the middle of an import, may fail in a way of its own.
        raise typer.Exit(_explained(stopping.exception or error)) from None


def _explained(error: BaseException) -> int:
    """Say in one line what ended the command; return its exit code."""
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        return 1  # Rich, of a table that nobody reads on
    if isinstance(error, KeyboardInterrupt | SystemExit):
        err.print("[bold red]stopped[/bold red]; run the same command again to go on", soft_wrap=True)
        return int(error.code or 0) if isinstance(error, SystemExit) else 130
    if not isinstance(error, TabulariumError):
        from tabularium.tasks.runtime.stage import sanitised

        error = sanitised(error, "tabularium")
    if shown := getattr(error, "traceback", ""):  # of what was unexpected before any data were opened
        err.print(Text(shown.rstrip()), soft_wrap=True, highlight=False)
    err.print(f"[bold red]error:[/bold red] {escape(error.line())}", soft_wrap=True, highlight=False)
    if isinstance(error, DataRefused) and error.again:
        err.print(f"see it again: {escape(error.again)}", soft_wrap=True, highlight=False)
    return error.exit_code


def say(text: str, *, style: str = "", soft_wrap: bool = True) -> None:
    """Print a line as it is: names in it are no markup and no emoji, whatever they hold.

    ``soft_wrap``: whether the line stays one line however narrow the terminal is, so that it can be copied.
    """
    out.print(Text(text, style=style), soft_wrap=soft_wrap)


def print_json(value: Any) -> None:
    """Print a value for programs."""
    write(json.dumps(value, indent=2, default=str) + "\n", last=True)


def write(text: str, *, last: bool = False) -> None:
    """Write to standard output; end without a message where the reader has closed the pipe."""
    try:
        sys.stdout.write(text)
        if last:
            sys.stdout.flush()
    except BrokenPipeError:
        # What is held back still is written when the process ends, and would be refused once more.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise typer.Exit(1) from None


def table(*columns: str, title: str = "") -> Table:
    """Return an empty table in the house's look; columns that start with ``>`` are right-aligned."""
    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        made.add_column(
            column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    return made


def bar(part: Fraction, total: Fraction, width: int = 24) -> str:
    """Return a bar that is ``part/whole`` full."""
    full = int(width * part / total) if total else 0
    return "█" * full + "░" * (width - full)
