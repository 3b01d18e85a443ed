"""Universes: tests that read, of columns that are declared, which some record may pass."""

from __future__ import annotations

from tabularium.mechanisms.errors import InputError
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.rules import RowCountRule
from tabularium.validations.spec.problems import Path, quoted
from tabularium.validations.universes.passable import can_pass
from tabularium.validations.universes.universe import universe_of


def check_universes(draft: Draft) -> None:
    """Check the ``where`` of every table, and that what needs a table of all records has one."""
    for place, table in draft.tables:
        if table.where is not None:
            check_test(draft, ("tables", place, "where"), table.where)
    whole = any(table.where is None for _, table in draft.tables)
    for place, rule in draft.rules if draft.tables and not whole else ():
        if isinstance(rule, RowCountRule) and rule.change_from_last is not None and rule.noisy is None:
            what = "compares totals of all records, and every table has a `where`"
            draft.add(("rules", place, "change_from_last"), what, "add a table without where, or remove it")


def check_test(draft: Draft, path: Path, text: str, *, undeclared: bool = False) -> None:
    """Check that tests read, of columns that are in order, and that some record may pass them."""
    try:
        universe = universe_of(text, draft.domains, undeclared=undeclared)
    except InputError as error:
        if draft.domains.keys() == draft.columns.keys():  # what is not in order may be what is meant
            at = error.where.removeprefix("query").removeprefix(", ")
            draft.add(path, f"{at}: {error.what}" if at else error.what, error.hint)
        return
    hint = f"mend them, or remove the {'measure' if undeclared else 'table'}"
    for name in universe.about:
        if not all(mask.any() for mask in universe.masks(name)):
            draft.add(path, f"no value of {quoted(name)} passes its tests", hint)
            return
    if not can_pass(universe):
        draft.add(path, "no record can pass all these tests together", hint)
