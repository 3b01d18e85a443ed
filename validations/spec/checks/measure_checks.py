"""Measures: one column each, bounds on the grid, names and shares that fit, numbers that can be added up."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tabularium.mechanisms.histograms.quantile_choices import LARGEST_DENOMINATOR
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.measures.array_owners import owner_of, owners
from tabularium.validations.spec.measures.group_checks import check_groups
from tabularium.validations.spec.measures.measure_fields import CHOICE_MARGIN, KINDS, PART, Measure
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.table_parts import TableEntry
from tabularium.validations.spec.problems import Path, listed, quoted

LARGEST = (
    10**7
)  # steps from zero, times the largest weight: of 9 · 10^8 records a double holds the sum exactly
EXACT = 1 << 53  # up to here every whole number is a double
MOST_BINS = 1 << 14  # of a quantile
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
        if check_groups(draft, (*path, name), table.dimensions, measure):
            _check_one(draft, (*path, name), measure)
    _check_shares(draft, path, table)


def _kinds(measure: Measure) -> int:
    return sum(getattr(measure, kind) is not None for kind in KINDS)


def _check_one(draft: Draft, path: Path, measure: Measure) -> None:
    kinds = [kind for kind in KINDS if getattr(measure, kind) is not None]
    if _kinds(measure) != 1:
        what = f"has {listed(kinds)}" if kinds else f"has none of {listed(KINDS)}"
        draft.add(path, what, f"write one of them with the column it is of, as in {KINDS[0]}: income")
        return
    if not _fits_its_kind(draft, path, measure):
        return
    if any(top <= bottom for bottom, top in zip(measure.bottoms, measure.tops, strict=True)):
        draft.add(
            (*path, "to"), "is not above `from`", "write public bounds of the values, the larger as `to`"
        )
        return
    for key, values in (("from", measure.bottoms), ("to", measure.tops)):
        if any(abs(value) > EXACT or abs(value / measure.step) > EXACT for value in values):
            what = "lies beyond 2^53, in numbers or in steps, where doubles do not tell neighbours apart"
            draft.add((*path, key), what, "choose a larger step, or bounds nearer to zero")
            return
        if any((value / measure.step).denominator != 1 for value in values):
            draft.add((*path, key), "is not a whole number of steps", "choose bounds that `step` divides")
            return
    if not _check_quantile(draft, path, measure):
        return
    if measure.form in ("tree", "choice") and measure.width >= MOST_BINS:
        what = f"{measure.width + 1} values between `from` and `to`, of which each is a cell of a histogram"
        draft.add((*path, "step"), what, f"choose a step that leaves at most {MOST_BINS}")
    if measure.sensitivity > LARGEST:
        what = f"one record may add {measure.sensitivity} steps, more than {LARGEST}"
        draft.add((*path, "step"), what, "choose a larger step, or narrower bounds")


def _check_quantile(draft: Draft, path: Path, measure: Measure) -> bool:
    """Check what only quantiles have, and of these only some; return whether it fits."""
    quantile, before = measure.form in ("tree", "choice"), draft.count()
    if measure.kind == "quantile" and measure.at is None:
        draft.add((*path, "at"), "is missing", 'say which quantile, as in at: "1/4"; the median is 1/2')
    elif measure.kind != "quantile" and measure.at is not None:
        draft.add((*path, "at"), f"a {measure.kind} has no rank", "remove it, or write quantile")
    elif measure.rank == 1 or measure.rank.denominator > LARGEST_DENOMINATOR:
        hint = f"write a rank below 1, in parts of at most {LARGEST_DENOMINATOR}"
        draft.add((*path, "at"), f"{measure.rank} is no rank that can be measured", hint)
    if measure.method is not None and not quantile:
        draft.add((*path, "method"), f"a {measure.kind} is measured in one way", "remove it")
    if measure.margin_share is not None and measure.form != "choice":
        draft.add((*path, "margin_share"), "only a choice needs it", "remove it, or write method: choice")
    elif measure.margin_share == 1:
        draft.add((*path, "margin_share"), "leaves the choice nothing", "write a share below 1")
    return draft.count() == before


def _fits_its_kind(draft: Draft, path: Path, measure: Measure) -> bool:
    """Whether a sum, mean or quantile has bounds, and a rate none."""
    before = draft.count()
    for key, value in (("from", measure.start), ("to", measure.end)):
        if measure.test is None and value is None:
            draft.add(
                path, f"`{key}` is missing", "write public bounds of the values, as from: 0, to: 150000"
            )
        elif measure.test is not None and value is not None:
            draft.add((*path, key), "is the bound of a value, and a test has none", f"remove {key}")
    if measure.test is not None and measure.step != 1:
        draft.add((*path, "step"), "is the grid of a value, and a test has none", "remove step")
    if measure.percent is not None and measure.per is not None:
        draft.add((*path, "per"), "is 100 of a percentage", "remove it, or write rate instead of percent")
    for key in ("per", "over"):
        if measure.test is None and getattr(measure, key) is not None:
            draft.add((*path, key), f"is for a rate, and this is a {measure.kind}", f"remove {key}")
    return draft.count() == before


def _check_shares(draft: Draft, path: Path, table: TableEntry) -> None:
    if any(name for name, measure in table.measures.items() if _kinds(measure) != 1):
        return
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
        if array.measured.form == "choice":
            part = array.measured.margin_share or CHOICE_MARGIN
            squared /= part**2 if definition == "pure" else part
        if squared > LARGEST_SCALE[definition] ** 2:
            hint = "choose a larger step, narrower bounds, or spend more on it"
            draft.add(path, "its noise would be larger than what can be drawn", hint)
