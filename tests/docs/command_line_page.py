"""The pages of the command line, made from the commands themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from typer.main import get_command

from tabularium.flows.cli.app import COMMANDS, app, imported
from tests.docs.pages import item

PAGES_OF = {
    "publish": (
        *("init", "check", "plan", "rehearse", "run", "deliver", "diagnose", "withdraw", "rebuild"),
        *("sample", "compare", "demo"),
    ),
    "read": ("query", "report", "site", "series", "diff", "verify", "improve"),
    "ledger": ("ledger",),
    "keys": ("ledger keys", "ledger release-key"),
    "operate": ("up", "deploy", "watch", "notify", "desk", "doctor", "backup", "restore"),
}
"""Name of a page below docs/reference/command-line -> the commands on it, each with what is below it."""
OFTEN = 3
"""An option with the same text in so many commands is shown once for all of them."""


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


def page_of(name: str) -> str | None:
    """Return the page that shows a command, the most particular one; None of the root."""
    words = name.split()[1:]
    for end in range(len(words), 0, -1):
        for page, shown in PAGES_OF.items():
            if " ".join(words[:end]) in shown:
                return page
    return None


def _commands_of(page: str) -> str:
    every = list(commands(root()))
    shared = _shared(every)
    return "".join(_section(name, command, shared) for name, command in every if page_of(name) == page)


def _list_of_commands(_: str) -> str:
    every = [name for name, _ in commands(root())]
    rows = []
    for page in PAGES_OF:
        links = [
            f"[`{name.removeprefix('tabularium ').removeprefix(f'{page} ')}`](command-line/{page}.md#{_anchor(name)})"
            for name in every
            if page_of(name) == page
        ]
        rows.append(item(f"[{page}](command-line/{page}.md): {', '.join(links)}"))
    return "\n".join(rows)


def _shared_options(_: str) -> str:
    texts: dict[str, str] = {}
    for names, text in _shared(list(commands(root()))):
        texts[names] = max(texts.get(names, ""), text, key=len)
    return "\n".join(item(f"{_quoted(names)}: {text}") for names, text in sorted(texts.items()))


MAKERS: dict[str, Callable[[str], str]] = {
    "commands": _commands_of,
    "list-of-commands": _list_of_commands,
    "shared-options": _shared_options,
}


def _parameters(command: Any) -> list[Any]:
    shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    return sorted(shown, key=lambda p: p.param_type_name != "argument")


def _key(parameter: Any) -> tuple[str, str]:
    return _names(parameter), _cell(parameter.help or "")


def _shared(every: list[tuple[str, Any]]) -> set[tuple[str, str]]:
    found = Counter(_key(p) for name, command in every if page_of(name) for p in _parameters(command))
    return {key for key, number in found.items() if number >= OFTEN}


def _section(name: str, command: Any, shared: set[tuple[str, str]]) -> str:
    parameters = _parameters(command)
    usage = _usage(parameters, shared)
    parts = [f"## `{name}`", f"`{usage}`" if usage else "", _prose(command.help or "")]
    parts.append("\n".join(_lines([p for p in parameters if _key(p) not in shared])))
    return "".join(f"\n{part}\n" for part in parts if part)


def _usage(parameters: list[Any], shared: set[tuple[str, str]]) -> str:
    """Return arguments, required options, and in brackets the options that all commands share."""
    words: list[str] = []
    also: list[str] = []
    for each in parameters:
        if each.param_type_name == "argument":
            words.append(_names(each) if each.required else f"[{_names(each)}]")
        elif each.required:
            words.append(f"{each.opts[0]} {(each.metavar or str(each.name)).upper()}")
        elif _key(each) in shared:
            also.append(f"[{each.opts[0]}]")
    return " ".join([*words, *also])


def _lines(parameters: list[Any]) -> Iterator[str]:
    """Return an item for each parameter; neighbours with the same text share one."""
    for text, some in groupby(parameters, key=_text):
        yield item(f"{', '.join(_quoted(_names(each)) for each in some)}: {text}")


def _text(parameter: Any) -> str:
    default = parameter.default
    flag = getattr(parameter, "is_flag", False) or isinstance(default, bool)
    hidden = parameter.required or flag or not isinstance(default, str | int | float | Path) or default == ""
    return _cell(parameter.help or "") + ("" if hidden else f" Default: `{default}`.")


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("{}[]").upper()
    return " or ".join([*parameter.opts, *parameter.secondary_opts])


def _quoted(names: str) -> str:
    return " or ".join(f"`{each}`" for each in names.split(" or "))


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _prose(text: str) -> str:
    """Wrap paragraphs and the items of lists."""
    paragraphs = text.replace("\f", "").replace("\b", "").strip().split("\n\n")
    return "\n\n".join(_list(p) if re.match(r"\s*- ", p) else fill(_cell(p), 100) for p in paragraphs)


def _list(text: str) -> str:
    items = re.split(r"^\s*- ", text, flags=re.MULTILINE)
    return "\n".join(item(_cell(each)) for each in items if each.strip())


def examples(epilog: str) -> list[str]:
    """Return the commands of an epilog: one paragraph each, or several spaces apart on a line."""
    found = []
    for paragraph in epilog.split("\n\n"):
        if paragraph.strip().startswith("Example:"):
            words = " ".join(paragraph.strip().removeprefix("Example:").split())
            found += [part.strip() for part in re.split(r"(?<=\S) (?=tabularium )", words)]
    return [re.sub(r" \((.*)\)$", r"  # \1", line) for line in found]


def _cell(text: str) -> str:
    return " ".join(text.split())
