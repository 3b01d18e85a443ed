"""Commands with what they print, as a terminal shows them: SVG without a font or a script from elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

WIDTH = 84
# As rich has it, without the fonts that it loads from another host.
_FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def printed(command: str, folder: Path) -> str:
    """Run a command of ours in a folder, and return what a terminal shows of it in the end, with its colours.

    Raises
    ------
    subprocess.CalledProcessError
        The command failed.
    """
    words = command.partition("#")[0].split()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TABULARIUM_HOME": str(folder / "home"),
        "TABULARIUM_WITNESS": str(folder / "witness"),
        "FORCE_COLOR": "1",
        "COLUMNS": str(WIDTH),
    }
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    return settled(done.stdout.decode()).replace(f"{folder}/", "")


def settled(text: str) -> str:
    """Return what is left on a terminal once lines were written over."""
    lines: list[str] = []
    for line in re.sub(r"\x1b\[\?25[lh]", "", text).replace("\r", "").split("\n"):
        for _ in range(line.count("\x1b[1A")):
            lines.pop()
        lines.append(line.replace("\x1b[1A", "").rpartition("\x1b[2K")[2])
    return "\n".join(lines)


def picture(commands: list[tuple[str, str]], title: str) -> str:
    """Return a picture of commands, each with what it printed."""
    from rich.console import Console
    from rich.terminal_theme import DIMMED_MONOKAI
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, output in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output.strip("\n")), soft_wrap=False)
        console.print()
    found = console.export_svg(
        title=title, theme=DIMMED_MONOKAI, code_format=_FORMAT, unique_id="terminal", font_aspect_ratio=0.6
    )
    return re.sub(r"[ \t]+$", "", found, flags=re.MULTILINE)
