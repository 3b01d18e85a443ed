"""Commands, shown as somebody would type them and run as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from tabularium.flows.cli.terminal import out


def shown(word: object) -> str:
    """Return a word of a command line as one would type it here: paths below this folder without it."""
    if isinstance(word, Path) and word.is_relative_to(Path.cwd()):
        word = word.relative_to(Path.cwd())
    return shlex.quote(str(word))


def title(text: str) -> None:
    """Begin a part of the story."""
    out.print(f"\n[bold cyan]{text}[/bold cyan]")


def typed(*words: object) -> None:
    """Show a command and run it in this process.

    Raises
    ------
    typer.Exit
        If it fails; it has said why.
    """
    from tabularium.flows.cli.app import app

    out.print(f"[bold]$ tabularium {' '.join(map(shown, words))}[/bold]", soft_wrap=True, highlight=False)
    command = typer.main.get_command(app)
    code = command.main([str(word) for word in words], prog_name="tabularium", standalone_mode=False)
    if code:
        raise typer.Exit(code)
