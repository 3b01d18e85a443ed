"""docs/reference/command-line.md, made from the commands themselves.

``python -m tests.docs.command_line_page`` writes the page anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from typer.main import get_command

from tabularium.flows.cli.app import COMMANDS, app, imported

PATH = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"

HEAD = """# The command line

Every command has `--help` with an example, and exits with a code other than zero on failure, after
one line that says what is wrong, where, and how to mend it. With `--json` a command prints JSON for
programs.

This page is made from the commands: `python -m tests.docs.command_line_page` writes it anew.
"""


def commands(command: Any, name: str = "tabularium") -> Iterator[tuple[str, Any]]:
    """Go through a command and all below it, groups first."""
    yield name, command
    for child, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {child}")


def root() -> Any:
    """Return the whole command line as a Click command, every command imported."""
    group: Any = get_command(app)
    for name in COMMANDS:
        group.add_command(imported(name))
    return group


def page() -> str:
    """Return the text of the page."""
    return HEAD + "".join(_section(name, command) for name, command in commands(root()))


def _section(name: str, command: Any) -> str:
    parts = [f"## `{name}`", _prose(command.help or "")]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    if below := getattr(command, "commands", {}):
        rows = [f"| [`{child}`](#{_anchor(f'{name} {child}')}) | {_first(c)} |" for child, c in below.items()]
        parts.append("\n".join(["| command | what it does |", "|---|---|", *rows]))
    else:
        usage = [name, *(f"[{_called(a)}]" if not a.required else _called(a) for a in arguments)]
        parts.append(f"```text\n{' '.join([*usage, '[OPTIONS]'] if options else usage)}\n```")
    if shown := [_row(p) for p in (*arguments, *options) if not getattr(p, "hidden", False)]:
        parts.append("\n".join(["| parameter | default | meaning |", "|---|---|---|", *shown]))
    if examples := _examples(command.epilog or ""):
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    return "".join(f"\n{part}\n" for part in parts if part)


def _row(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    names = [_called(parameter)] if argument else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.default
    if parameter.required:
        said = "required"
    elif getattr(parameter, "is_flag", False) or isinstance(default, bool):
        said = ""
    else:
        said = f"`{default}`" if isinstance(default, (str, int, float, Path)) else ""
    called = " or ".join(f"`{each}`" for each in names)
    return f"| {called} | {said} | {_cell(parameter.help or '')} |"


def _called(argument: Any) -> str:
    return (argument.metavar or str(argument.name)).strip("{}[]").upper()


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _first(command: Any) -> str:
    return _cell((command.help or "").strip().split("\n\n")[0])


def _prose(text: str) -> str:
    """Wrap paragraphs; leave lists as they are."""
    paragraphs = text.replace("\f", "").replace("\b", "").strip().split("\n\n")
    return "\n\n".join(p if re.match(r"\s*- ", p) else fill(" ".join(p.split()), 100) for p in paragraphs)


def _examples(epilog: str) -> list[str]:
    """Return the commands of an epilog: one paragraph each, or several spaces apart on a line."""
    found = []
    for paragraph in epilog.split("\n\n"):
        if paragraph.strip().startswith("Example:"):
            words = " ".join(paragraph.strip().removeprefix("Example:").split())
            found += [part.strip() for part in re.split(r"(?<=\S) (?=tabularium )", words)]
    return [re.sub(r" \((.*)\)$", r"  # \1", line) for line in found]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
