"""Targets: known tables and levels, one kind of accuracy each, and nothing that could not be judged."""

from __future__ import annotations

from tabularium.validations.spec.checks.table_checks import along_of
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.measures.measure import Measure
from tabularium.validations.spec.parts.table_parts import TableEntry
from tabularium.validations.spec.problems import Path, choose, listed, quoted
from tabularium.validations.spec.targets.wanted_margins import Target

_KINDS = ("margin", "relative", "unreliable")


def check_targets(draft: Draft) -> None:
    """Check the targets that could be read."""
    tables = {table.name: (place, table) for place, table in draft.tables}
    for place, target in draft.targets:
        path: Path = ("targets", place)
        number, table = tables.get(target.table, (0, None))
        if table is None:
            _check_kind(draft, path, target)
            if all(draft.reads(("tables", number, "name")) for number, _ in draft.tables):
                what = f"there is no table {quoted(target.table)}"
                draft.add((*path, "table"), what, choose(target.table, list(tables), "tables"))
            continue
        measure = table.measures.get(target.measure or "")
        if measure is None:
            _check_kind(draft, path, target)
            if target.measure is not None and draft.reads(("tables", number, "measures")):
                what = f"table {table.name} has no measure {quoted(target.measure)}"
                hint = choose(target.measure, list(table.measures), "measures")
                draft.add((*path, "measure"), what, hint)
        else:
            _check_measure(draft, path, target, measure)
        if draft.reads(("tables", number, "dimensions")) and draft.reads(("tables", number, "levels")):
            _check_level(draft, path, target, table)


def _check_kind(draft: Draft, path: Path, target: Target) -> None:
    given = [kind for kind in _KINDS if getattr(target, kind) is not None]
    if len(given) != 1:
        what = f"has {listed(given)}" if given else "says no accuracy"
        draft.add(path, what, 'write one of margin: 25, relative: "10%" with at: 500, unreliable: "20%"')
    elif (target.relative is None) != (target.at is None):
        hint = "write at: 500, say" if target.at is None else "remove at"
        draft.add(path, "`relative` and `at` go together", hint)
    elif target.largest == 0:
        draft.add((*path, "relative"), "no noise is as small as that", "write a part above zero")
    elif target.unreliable is not None:
        quality = draft.publication.quality if draft.publication is not None else None
        if draft.publication is not None and (quality is None or quality.unreliable is None):
            what = "nothing says when a cell is unreliable"
            hint = 'write publication: {quality: {unreliable: "30%"}}'
            draft.add((*path, "unreliable"), what, hint)
    if target.value is not None:
        draft.add((*path, "value"), "is for a mean or rate", "remove value")


def _check_measure(draft: Draft, path: Path, target: Target, measure: Measure) -> None:
    """Check what is wanted of a measure: of a sum as of a count, of a mean or rate at a number of records."""
    if not measure.plannable:
        why = "" if measure.linear else ", which depends on where the values lie"
        why = " over other numbers" if measure.denominator else why
        what = f"no budget is planned for the margin of a {measure.in_words}{why}"
        draft.add((*path, "measure"), what, "remove this target; its share stays in proportion to the count")
    elif target.unreliable is not None:
        hint = 'write margin: 25, or of a sum relative: "10%" with at: 500'
        draft.add((*path, "unreliable"), "is for counts", hint)
    elif measure.linear:
        _check_kind(draft, path, target)
    elif target.relative is not None:
        hint = f"write the margin of the {measure.kind} as margin: 25"
        draft.add((*path, "relative"), "is for counts and sums", hint)
    elif target.margin is None or target.at is None:
        what = f"the margin of a {measure.kind} depends on how many records there are"
        draft.add(path, what, "write both, as in margin: 25, at: 500 (records in a cell)")
    elif target.value is not None and not (
        measure.bottom <= target.value <= measure.bottom + max(measure.spans)
    ):
        hint = f"write a {measure.kind} that lies between them"
        draft.add((*path, "value"), "lies beyond the bounds of the measure", hint)


def _check_level(draft: Draft, path: Path, target: Target, table: TableEntry) -> None:
    if target.level is None or any(name not in draft.domains for name in table.dimensions):
        return
    along = along_of(table, draft.domains)
    measured = list(table.levels or ())
    if along is None:
        draft.add((*path, "level"), "no dimension of this table is a hierarchy", "remove level")
        return
    if any(level not in along.levels for level in measured):
        return  # which has been said of the table
    deepest = max((along.levels.index(level) for level in measured), default=len(along.levels) - 1)
    shown = list(along.levels[: deepest + 1])
    if draft.postprocessing is not None and not draft.postprocessing.consistency:
        shown = measured or [along.levels[-1]]
    if target.level not in shown:
        what = f"table {table.name} publishes no level {quoted(target.level)}"
        draft.add((*path, "level"), what, choose(target.level, shown, "levels"))
