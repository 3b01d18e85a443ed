"""A spec file with a planned budget, shares and levels, its comments and its order as they were.

Only the values that change are cut out and replaced, at the places where the YAML parser found them; what is
missing is put in front of a key that is there. The result is read back before anybody gets it.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from mechanisms.errors import InputError
from tasks.plan.planning import Plan
from validations.spec.load import load_spec

_Edit = tuple[int, int, str]
"""Where a piece of the text begins and ends, and what it becomes."""


def planned_text(plan: Plan) -> str:
    """Return the text of the plan's spec file with everything that was planned in it."""
    text = plan.loaded.path.read_text(encoding="utf-8-sig")
    root = _mapping(yaml.compose(text, Loader=yaml.SafeLoader))
    spec = plan.loaded.spec
    edits = [_scalar(_mapping(root["privacy"][1])["budget"][1], _quoted(spec.privacy.budget))]
    for node, table in zip(root["tables"][1].value, spec.tables, strict=True):
        keys = _mapping(node)
        levels = (
            "{" + ", ".join(f"{_key(name)}: {_quoted(share)}" for name, share in table.levels.items()) + "}"
        )
        wanted = {"share": _quoted(table.share)} | ({"levels": levels} if table.levels else {})
        edits += _set(text, keys, wanted, before="dimensions")
    if plan.tuning is not None:
        tuning = f'{{release: "{plan.tuning.release}", certificate: "{plan.tuning.certificate}"}}'
        edits += _set(text, root, {"tuning": tuning}, before="tables")
    elif "tuning" in root:
        edits += _set(text, root, {"tuning": ""}, before="tables")
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def check_written(path: Path, plan: Plan) -> None:
    """Read a written file back, and see that it says what was planned.

    Raises
    ------
    InputError
        It does not; a file of the house's own making would be at fault.
    """
    found, wanted = load_spec(path).spec, plan.loaded.spec
    same = found.privacy == wanted.privacy and found.tables == wanted.tables and found.tuning == plan.tuning
    if not same:
        raise InputError(
            "the plan cannot be put into this file",
            where=plan.loaded.path.name,
            mend="write budget, shares and levels into it by hand, as --json prints them",
        )


def _mapping(node: Any) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a mapping with the nodes of key and value."""
    return {key.value: (key, value) for key, value in node.value}


def _scalar(node: Any, new: str) -> _Edit:
    return node.start_mark.index, node.end_mark.index, new


def _set(text: str, keys: dict[str, tuple[Any, Any]], wanted: dict[str, str], *, before: str) -> list[_Edit]:
    """Return the edits that give keys of a mapping these values; an empty one removes its key's line."""
    edits, missing = [], []
    for name, new in wanted.items():
        if name not in keys:
            missing.append(f"{name}: {new}")
            continue
        key, value = keys[name]
        if not new:
            end = text.find("\n", _end(text, value)) + 1 or len(text)
            edits.append((key.start_mark.index, end, ""))
        elif isinstance(value, yaml.MappingNode) and not value.flow_style:
            edits.append((key.end_mark.index, _end(text, value), f": {new}"))
        else:
            edits.append((value.start_mark.index, value.end_mark.index, new))
    if missing:
        mark = keys[before][0].start_mark
        flow = _in_flow(text, mark.index, mark.column)
        joint = ", " if flow else "\n" + " " * mark.column
        edits.append((mark.index, mark.index, "".join(each + joint for each in missing)))
    return edits


def _in_flow(text: str, index: int, column: int) -> bool:
    """Say whether a key stands inside braces: something other than a dash is before it on its line."""
    return bool(text[index - column : index].replace("-", "").strip())


def _end(text: str, node: Any) -> int:
    """Return where a value ends: of a block, after its last line's text, before comments and blank lines."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _quoted(number: Fraction) -> str:
    """Return a fraction as a spec has it: a decimal where that is short."""
    decimal = f"{float(number):.6g}"
    plain = Fraction(decimal) == number and "e" not in decimal
    return f'"{decimal}"' if plain else f'"{number}"'


def _key(name: str) -> str:
    """Return a level's name as a key, in quotes unless every reader of YAML sees that text in it."""
    plain = name.isalpha() and name.isascii() and yaml.safe_load(name) == name and len(name) > 1
    return name if plain else f'"{name}"'
