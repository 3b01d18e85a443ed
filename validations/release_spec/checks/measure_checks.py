"""Measures: one column each, bounds on the grid, names and shares that fit, numbers that can be added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.release_spec.draft import Draft
from tabularium.validations.release_spec.measures.array_owners import owner_of, owners
from tabularium.validations.release_spec.measures.measure import PART, Measure
from tabularium.validations.release_spec.measures.of_column import ByGroup, OfColumn
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.problems import Path, choose, listed, quoted
from tabularium.validations.release_spec.tables import TableEntry

LARGEST = (
    10**7
)  # steps from zero, times the largest weight: of 9 · 10^8 records a double holds the sum exactly
MOST_NUMBERS = 10**8  # of one array
LARGEST_SCALE = {"pure": 1 << 40, "zcdp": 1 << 26}  # of the samplers
_OWN = ("level", "count", "margin", "measured", "quality", PART)


def check_measures(draft: Draft, path: Path, table: TableEntry) -> None:
    """Check the measures of one table."""
    path = (*path, "measures")
    taken = {*_OWN, *(each for name in table.dimensions for each in (name.casefold(), f"{name}_label"))}
    if table.measures and PART in table.dimensions:
        what = f"the array of a measure has a dimension {quoted(PART)} of its own"
        draft.add((*path[:-1], "dimensions"), what, "rename the column in the source")
    judged = draft.publication is not None and draft.publication.quality is not None
    for name, measure in table.measures.items():
        for column in (name, f"{name}_margin", *([f"{name}_quality"] if judged else [])):
            if column in taken:
                what = f"the table has another column {quoted(column)}"
                draft.add((*path, name), what, "call the measure otherwise")
            taken.add(column)
        if _check_groups(draft, (*path, name), table.dimensions, measure):
            _check_one(draft, (*path, name), measure)
    _check_shares(draft, path, table)


def _check_one(draft: Draft, path: Path, measure: Measure) -> None:
    before = draft.count()
    for keys, what, hint in measure.problems():
        draft.add((*path, *keys), what, hint)
    if draft.count() == before and measure.sensitivity > LARGEST:
        what = f"one record may add {measure.sensitivity} steps, more than {LARGEST}"
        draft.add((*path, "step"), what, "choose a larger step, or narrower bounds")


def _check_groups(draft: Draft, path: Path, dimensions: Iterable[str], measure: Measure) -> bool:
    """Check the bounds of a measure that differ by groups; return whether they are in order."""
    bounds = {"from": measure.start, "to": measure.end} if isinstance(measure, OfColumn) else {}
    grouped = {key: bound for key, bound in bounds.items() if isinstance(bound, ByGroup)}
    before = draft.count()
    if isinstance(measure, OfColumn) and grouped and not measure.may_differ:
        what = f"differs by group, and the values of a {measure.kind} are the same in all of them"
        draft.add((*path, next(iter(grouped))), what, "write one bound for all, or a mean")
    for key, bound in grouped.items():
        _check_group(draft, (*path, key), dimensions, bound)
        if bound.by not in draft.domains:
            return False
    if len({bound.by for bound in grouped.values()}) > 1:
        draft.add((*path, "to", "by"), "is another column than that of `from`", "write the same by in both")
    return draft.count() == before


def _check_group(draft: Draft, path: Path, dimensions: Iterable[str], bound: ByGroup) -> None:
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


def _check_shares(draft: Draft, path: Path, table: TableEntry) -> None:
    own = owners(table.measures)
    for name in table.measures.keys() - own.keys():
        if table.measures[name].share is not None:
            paid = quoted(owner_of(table.measures, name))
            what = f"is read off the array of {paid}, whose share pays for both"
            draft.add((*path, name, "share"), what, "remove it")
    written = [measure.share for measure in own.values() if measure.share is not None]
    if written and len(written) < len(own):
        hint = "give every measure a share, or none for as much as the count"
        draft.add(path, "one measure has a share and another has none", hint)
    elif sum(written, Fraction()) >= 1:
        what = f"the shares of the measures add to {sum(written, Fraction())}, and leave the count nothing"
        draft.add(path, what, "make them add to less than 1")


def check_arrays(draft: Draft, spec: ReleaseSpec, cells: Mapping[str, int]) -> None:
    """Check that the arrays of all measures fit into memory, and that their noise can be drawn.

    Parameters
    ----------
    cells
        Array -> its numbers, over all measured levels.
    """
    definition = spec.privacy.definition
    places = {table.name: place for place, table in enumerate(spec.tables)}
    for array in spec.arrays:
        if array.measured is None:
            continue
        table, _, name = array.name.partition("-")
        path: Path = ("tables", places[table], "measures", name)
        numbers = cells[array.name]
        if numbers > MOST_NUMBERS:
            what = f"its array has {numbers} numbers over the measured levels, more than {MOST_NUMBERS}"
            draft.add(path, what, "choose a larger step, or fewer dimensions")
        loss = min(loss for (owner, _), loss in spec.losses.items() if owner == array.name)
        bound = array.measured.sensitivity
        squared = (
            (bound / loss) ** 2 if definition == "pure" else bound**2 / (2 * loss * array.measured.levels)
        )
        part = array.measured.margin_part
        squared /= part**2 if definition == "pure" else part
        if squared > LARGEST_SCALE[definition] ** 2:
            hint = "choose a larger step, narrower bounds, or spend more on it"
            draft.add(path, "its noise would be larger than what can be drawn", hint)
