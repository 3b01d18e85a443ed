"""Rates: tests that read and that some record may pass, and public figures or a table that they are over."""

from __future__ import annotations

from pathlib import Path as FilePath

from tabularium.validations.domains.levels import nodes_to
from tabularium.validations.spec.checks.invariant_checks import read_figures
from tabularium.validations.spec.checks.table_checks import along_of
from tabularium.validations.spec.checks.universe_checks import check_test
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.table_parts import PLAIN, Figures, TableEntry
from tabularium.validations.spec.problems import Path, choose, listed, quoted


def check_rates(draft: Draft, folder: FilePath) -> None:
    """Check the tests of rates and what they are over, and read public figures, relative to ``folder``."""
    users: dict[str, list[tuple[Path, TableEntry]]] = {}
    for place, table in draft.tables:
        for name, measure in table.measures.items():
            path: Path = ("tables", place, "measures", name)
            if measure.test is not None:
                check_test(draft, (*path, measure.kind), measure.test, undeclared=True)
            if measure.denominator is not None:
                users.setdefault(measure.denominator, []).append(((*path, "over"), table))
    for place, figures in draft.figures:
        _check_figures(draft, ("figures", place), figures, folder, users.get(figures.name, []))
    for name, found in users.items():
        for where, table in found:
            _check_over(draft, where, table, name)


def _check_figures(
    draft: Draft, path: Path, figures: Figures, folder: FilePath, users: list[tuple[Path, TableEntry]]
) -> None:
    before = draft.count()
    draft.check_dimensions((*path, "dimensions"), figures.dimensions)
    if draft.count() > before or any(name not in draft.domains for name in figures.dimensions):
        return
    if not users:
        if all(draft.reads(("tables", place, "measures")) for place, _ in draft.tables):
            draft.add(
                path, "no rate is over these numbers", f"write over: {figures.name} in a rate, or remove"
            )
        return
    found = (along_of(table, draft.domains) for _, table in users)
    along = next((each for each in found if each is not None and each.name in figures.dimensions), None)
    known = read_figures(draft, path, figures, folder, along)
    if known is not None:
        draft.public.append(known)


def _check_over(draft: Draft, path: Path, table: TableEntry, name: str) -> None:
    """See that a table, invariant or figures have a number for every cell of ``table``."""
    every: list[TableEntry | Figures] = [each for _, each in draft.tables]
    every += [each for _, each in (*draft.invariants, *draft.figures)]
    entries = {each.name: each for each in every}
    if name not in entries:
        hint = choose(name, entries, "tables, invariants and figures")
        draft.add(path, f"there is nothing of the name {quoted(name)}", hint)
        return
    over = entries[name]
    extra = [each for each in over.dimensions if each not in table.dimensions]
    if extra:
        what = f"{quoted(name)} has {listed(extra)}, which this table has not"
        draft.add(path, what, "take numbers with the dimensions of the table, or with fewer")
        return
    if isinstance(over, TableEntry) and over.mechanism not in (None, *PLAIN):
        what = f"the counts of {quoted(name)} have errors of an unknown distribution by {over.mechanism}"
        draft.add(path, what, f"take a table that is measured by {listed(PLAIN)}")
        return
    if any(each not in draft.domains for each in (*table.dimensions, *over.dimensions)):
        return
    along = along_of(table, draft.domains)
    if along is None or along.name not in over.dimensions:
        return
    hint = f"take numbers that go down to the levels of {along.name} in this table"
    if isinstance(over, TableEntry):
        other = along_of(over, draft.domains)
        level = _deepest(over, along.levels) if other is not None and other.name == along.name else None
    else:
        known = next((each for each in (*draft.known, *draft.public) if each.name == name), None)
        if known is None:
            return
        level = known.level if known.along == along.name else None
    if level is None or nodes_to(along, level) < nodes_to(along, _deepest(table, along.levels)):
        at = "has it at its leaves alone" if level is None else f"stops at {quoted(level)}"
        draft.add(path, f"along {quoted(along.name)} {quoted(name)} {at}", hint)


def _deepest(table: TableEntry, levels: tuple[str, ...]) -> str:
    """Return the deepest measured level of a table."""
    measured = table.levels or {}
    return next((level for level in reversed(levels) if level in measured), levels[-1])
