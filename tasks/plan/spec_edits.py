"""A spec file with a planned budget, shares and levels, its comments and its order as they were.

Only the values that change are cut out and replaced, at the places where the YAML parser found them; what is
missing is put in front of a key that is there. The result is read back before anybody gets it.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.finished_plan import Plan
from tabularium.validations.release_spec.load import examine
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.tables import Table

_Edit = tuple[int, int, str]
"""Where a piece of the text begins and ends, and what it becomes."""


def planned_text(plan: Plan) -> str:
    """Return the text of the plan's spec file with everything that was planned in it."""
    text = plan.loaded.path.read_text(encoding="utf-8-sig")
    whole = yaml.compose(text, Loader=yaml.SafeLoader)
    root = _mapping(whole)
    spec = plan.loaded.spec
    budget = _mapping(root["privacy"][1])["budget"][1]
    edits = [(budget.start_mark.index, budget.end_mark.index, _quoted(spec.privacy.budget))]
    for node, table in zip(root["tables"][1].value, spec.tables, strict=True):
        levels = (
            "{" + ", ".join(f"{_key(name)}: {_quoted(share)}" for name, share in table.levels.items()) + "}"
        )
        wanted = {"share": _quoted(table.share)} | ({"levels": levels} if table.levels else {})
        edits += _set(text, node, wanted, before="dimensions")
        edits += _measure_edits(text, node, plan, table)
    if plan.tuning is not None:
        tuning = f'{{release: "{plan.tuning.release}", certificate: "{plan.tuning.certificate}"}}'
        edits += _set(text, whole, {"tuning": tuning}, before="tables")
    elif "tuning" in root:
        edits += _set(text, whole, {"tuning": ""}, before="tables")
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _measure_edits(text: str, node: Any, plan: Plan, table: Table) -> list[_Edit]:
    """Return the edits of a table's measures: their shares, where those were planned, and their bounds."""
    edits: list[_Edit] = []
    new = {(each.table, each.measure) for each in plan.bounds if each.new}
    for name, measure in table.measures.items():
        own = _mapping(node)["measures"][1]
        inside = _mapping(own)[name][1]
        wanted = {}
        if plan.split(table.name):
            wanted["share"] = _quoted(measure.share or Fraction(0))
        if plan.bounded and (table.name, name) in new and isinstance(measure, OfColumn):
            wanted |= {"from": str(measure.start), "to": str(measure.end), "step": _quoted(measure.step)}
        edits += _set(text, inside, wanted, before=next(iter(_mapping(inside))))
    return edits


def check_written(path: Path, plan: Plan) -> None:
    """Read a written file back, and see that it says what was planned.

    Raises
    ------
    InputError
        It does not; a file of the house's own making would be at fault.
    """
    found, wanted = examine(path).loaded, plan.loaded.spec
    if found is None or (found.spec.privacy, found.spec.tables, found.spec.tuning) != (
        wanted.privacy,
        wanted.tables,
        plan.tuning,
    ):
        raise InputError(
            "the plan cannot be put into this file",
            where=plan.loaded.path.name,
            hint="write budget, shares and levels into it by hand, as --json prints them",
        )


def _mapping(node: Any) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a mapping with the nodes of key and value."""
    return {key.value: (key, value) for key, value in node.value}


def _set(text: str, mapping: Any, wanted: dict[str, str], *, before: str) -> list[_Edit]:
    """Return the edits that give keys of a mapping these values; an empty one removes its key's line."""
    keys, edits, missing = _mapping(mapping), [], []
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
        joint = ", " if mapping.flow_style else "\n" + " " * mark.column
        edits.append((mark.index, mark.index, "".join(each + joint for each in missing)))
    return edits


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
