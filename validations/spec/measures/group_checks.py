"""Bounds by group: a dimension of the table with one bound for each of its cells."""

from __future__ import annotations

from collections.abc import Iterable

from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.measures.measure_fields import ByGroup, Measure
from tabularium.validations.spec.problems import Path, choose, listed, quoted


def check_groups(draft: Draft, path: Path, dimensions: Iterable[str], measure: Measure) -> bool:
    """Check the bounds of a measure that differ by groups; return whether they are in order."""
    bounds = {"from": measure.start, "to": measure.end}
    grouped = {key: bound for key, bound in bounds.items() if isinstance(bound, ByGroup)}
    before = draft.count()
    if grouped and measure.median is not None:
        what = "differs by group, and the values of a median are the same in all of them"
        draft.add((*path, next(iter(grouped))), what, "write one bound for all, or a mean")
    for key, bound in grouped.items():
        _check_one(draft, (*path, key), dimensions, bound)
        if bound.by not in draft.domains:
            return False
    if len({bound.by for bound in grouped.values()}) > 1:
        draft.add((*path, "to", "by"), "is another column than that of `from`", "write the same by in both")
    return draft.count() == before


def _check_one(draft: Draft, path: Path, dimensions: Iterable[str], bound: ByGroup) -> None:
    if bound.by not in dimensions:
        hint = choose(bound.by, dimensions, "dimensions")
        draft.add((*path, "by"), f"{quoted(bound.by)} is not a dimension of this table", hint)
        return
    domain = draft.domains.get(bound.by)
    if isinstance(domain, HierarchyDomain):
        hint = "take a column of categories, or of bins, as another dimension"
        draft.add((*path, "by"), f"{quoted(bound.by)} is a hierarchy, whose levels would need bounds", hint)
    elif domain is not None:
        for code in bound.values:
            if code not in domain.codes:
                hint = choose(code, domain.codes, "codes")
                draft.add((*path, "values"), f"{quoted(bound.by)} has no code {quoted(code)}", hint)
        missing = [code for code in domain.codes if code not in bound.values]
        if missing:
            what = f"has no bound for {listed(missing)}"
            draft.add((*path, "values"), what, f"write one for every code of {bound.by}")
