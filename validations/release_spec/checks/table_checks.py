"""Tables and histograms: known dimensions, shares that add to one, levels, mechanisms, countable sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.validations.domains.domains import Domain, HierarchyDomain, cut, nodes_to
from tabularium.validations.release_spec.columns import HierarchyColumn
from tabularium.validations.release_spec.measures.measure import PART, Measure
from tabularium.validations.release_spec.measures.of_column import ByGroup, OfColumn
from tabularium.validations.release_spec.mechanism_parameters import parameters_of
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.privacy import tallies_of
from tabularium.validations.release_spec.problems import Path, choose, listed, quoted
from tabularium.validations.release_spec.tables import (
    APART,
    PER_REGION,
    Table,
    TableEntry,
    counts_of,
    in_order,
    owner_of,
    owners,
    with_shares,
)

# Measures: one column each, bounds on the grid, names and shares that fit, numbers that can be added up.


LARGEST_CHANGE = (
    10**7
)  # steps from zero, times the largest weight: of 9 · 10^8 records a double holds the sum exactly
MOST_NUMBERS = 10**8  # of one array
LARGEST_SCALE = {"pure": 1 << 40, "zcdp": 1 << 26}  # of the samplers
_RESERVED = ("level", "count", "margin", "measured", "quality", PART)


def check_measures(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    """Check the measures of one table."""
    path = (*path, "measures")
    taken = {
        *_RESERVED,
        *(name_taken for name in table.dimensions for name_taken in (name.casefold(), f"{name}_label")),
    }
    if table.measures and PART in table.dimensions:
        what = f"the array of a measure has a dimension {quoted(PART)} of its own"
        partial.add((*path[:-1], "dimensions"), what, "rename the column in the source")
    judged = partial.publication is not None and partial.publication.quality is not None
    for name, measure in table.measures.items():
        for column in (name, f"{name}_margin", *([f"{name}_quality"] if judged else [])):
            if column in taken:
                what = f"the table has another column {quoted(column)}"
                partial.add((*path, name), what, "call the measure otherwise")
            taken.add(column)
        if _check_groups(partial, (*path, name), table.dimensions, measure):
            _check_one(partial, (*path, name), measure)
    _check_measure_shares(partial, path, table)


def _check_one(partial: PartialSpec, path: Path, measure: Measure) -> None:
    before = partial.count()
    for keys, what, hint in measure.problems():
        partial.add((*path, *keys), what, hint)
    if partial.count() == before and measure.sensitivity > LARGEST_CHANGE:
        what = f"one record may add {measure.sensitivity} steps, more than {LARGEST_CHANGE}"
        partial.add((*path, "step"), what, "choose a larger step, or narrower bounds")


def _check_groups(partial: PartialSpec, path: Path, dimensions: Iterable[str], measure: Measure) -> bool:
    """Check the bounds of a measure that differ by groups; return whether they are in order."""
    bounds = {"from": measure.start, "to": measure.end} if isinstance(measure, OfColumn) else {}
    grouped = {key: bound for key, bound in bounds.items() if isinstance(bound, ByGroup)}
    before = partial.count()
    if isinstance(measure, OfColumn) and grouped and not measure.may_differ:
        what = f"differs by group, and the values of a {measure.kind} are the same in all of them"
        partial.add((*path, next(iter(grouped))), what, "write one bound for all, or a mean")
    for key, bound in grouped.items():
        _check_group(partial, (*path, key), dimensions, bound)
        if bound.by not in partial.domains:
            return False
    if len({bound.by for bound in grouped.values()}) > 1:
        partial.add((*path, "to", "by"), "is another column than that of `from`", "write the same by in both")
    return partial.count() == before


def _check_group(partial: PartialSpec, path: Path, dimensions: Iterable[str], bound: ByGroup) -> None:
    if bound.by not in dimensions:
        hint = choose(bound.by, dimensions, "dimensions")
        partial.add((*path, "by"), f"{quoted(bound.by)} is not a dimension of this table", hint)
        return
    domain = partial.domains.get(bound.by)
    if isinstance(domain, HierarchyDomain):
        hint = "take a column of categories, or of bins, as another dimension"
        partial.add((*path, "by"), f"{quoted(bound.by)} is a hierarchy, whose levels would need bounds", hint)
    elif domain is not None:
        for code in bound.values:
            if code not in domain.codes:
                hint = choose(code, domain.codes, "codes")
                partial.add((*path, "values"), f"{quoted(bound.by)} has no code {quoted(code)}", hint)
        missing = [code for code in domain.codes if code not in bound.values]
        if missing:
            what = f"has no bound for {listed(missing)}"
            partial.add((*path, "values"), what, f"write one for every code of {bound.by}")


def _check_measure_shares(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    arrays = owners(table.measures)
    for name in table.measures.keys() - arrays.keys():
        if table.measures[name].share is not None:
            paid = quoted(owner_of(table.measures, name))
            what = f"is read off the array of {paid}, whose share pays for both"
            partial.add((*path, name, "share"), what, "remove it")
    written = [measure.share for measure in arrays.values() if measure.share is not None]
    if written and len(written) < len(arrays):
        hint = "give every measure a share, or none for as much as the count"
        partial.add(path, "one measure has a share and another has none", hint)
    elif sum(written, Fraction()) >= 1:
        what = f"the shares of the measures add to {sum(written, Fraction())}, and leave the count nothing"
        partial.add(path, what, "make them add to less than 1")


def check_arrays(partial: PartialSpec, spec: ReleaseSpec, cells: Mapping[str, int]) -> None:
    """Check that the arrays of all measures fit into memory, and that their noise can be drawn.

    ``cells``: array -> its numbers, over all measured levels.
    """
    definition = spec.privacy.definition
    places = {table.name: index for index, table in enumerate(spec.tables)}
    for array in spec.arrays:
        if array.measured is None:
            continue
        table, _, name = array.name.partition("-")
        path: Path = ("tables", places[table], "measures", name)
        numbers = cells[array.name]
        if numbers > MOST_NUMBERS:
            what = f"its array has {numbers} numbers over the measured levels, more than {MOST_NUMBERS}"
            partial.add(path, what, "choose a larger step, or fewer dimensions")
        loss = min(loss for (owner, _), loss in spec.losses.items() if owner == array.name)
        bound = array.measured.sensitivity
        squared = (
            (bound / loss) ** 2 if definition == "pure" else bound**2 / (2 * loss * array.measured.levels)
        )
        part = array.measured.margin_part
        squared /= part**2 if definition == "pure" else part
        if squared > LARGEST_SCALE[definition] ** 2:
            hint = "choose a larger step, narrower bounds, or spend more on it"
            partial.add(path, "its noise would be larger than what can be drawn", hint)


DIMENSION_LIMIT = 16
RESERVED_COLUMNS = ("level", "count", "margin", "measured")  # columns that a published table has of its own
QUALITY = "quality"  # and with quality rules


def check_tables(partial: PartialSpec) -> None:
    """Check the tables that could be read, each by itself and all together."""
    definition = partial.privacy.definition if partial.privacy is not None else None
    for index, table in partial.tables:
        path: Path = ("tables", index)
        before = partial.count()
        _check_dimensions(partial, path, table)
        _check_levels(partial, path, table)
        _check_regions(partial, path, table)
        check_mechanism(partial, path, table, definition)
        check_measures(partial, path, table)
        if partial.count() == before:
            _check_size(partial, path, table)
        if partial.count() == before and definition is not None:
            _check_dry_run(partial, path, table, definition)
    _check_shares(partial)


def _check_shares(partial: PartialSpec) -> None:
    written = partial.document.data.get("tables")
    unread = [index for index, _ in partial.tables if not partial.reads(("tables", index, "share"))]
    if not partial.tables or len(partial.tables) < len(written) or unread:
        return  # a share that does not read may be the one that is missing
    shares = [table.share for _, table in partial.tables if table.share is not None]
    if shares and len(shares) < len(partial.tables):
        for index, table in partial.tables:
            if table.share is None:
                hint = "give every table a share, or none for equal parts"
                partial.add(("tables", index), "`share` is missing, and other tables have one", hint)
    elif shares and sum(shares) != 1:
        what = f"the shares of the tables add to {sum(shares, Fraction())}"
        index = partial.tables[-1][0]
        partial.add(
            ("tables", index, "share"), what, "make them add to exactly 1, or leave all out for equal parts"
        )


def _check_dimensions(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    path = (*path, "dimensions")
    if not table.dimensions:
        partial.add(path, "is empty", "name at least one column")
    if len(table.dimensions) > DIMENSION_LIMIT:
        partial.add(path, f"more than {DIMENSION_LIMIT} dimensions", "cross fewer columns")
    partial.check_dimensions(path, table.dimensions)
    judged = partial.publication is not None and partial.publication.quality is not None
    levels = {
        *RESERVED_COLUMNS,
        *([QUALITY] if judged else []),
        *(f"{name}_label".casefold() for name in table.dimensions),
    }
    for index, name in enumerate(table.dimensions):
        if name in partial.columns and name not in table.dimensions[:index] and name.casefold() in levels:
            what = f"a published table has a column {quoted(name)} of its own"
            partial.add((*path, index), what, "rename the column in the source")


def _check_levels(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    if any(name not in partial.columns or partial.columns[name] is None for name in table.dimensions):
        return  # what does not read may be the hierarchy
    trees = hierarchies(partial, table)
    along = table.along
    if along is not None and along not in table.dimensions:
        hint = choose(along, table.dimensions, "dimensions")
        partial.add((*path, "along"), f"{quoted(along)} is not a dimension of this table", hint)
        return
    if along is not None and along not in trees:
        partial.add((*path, "along"), f"{quoted(along)} is not a hierarchy", _name_one(trees))
        return
    along = along if along is not None else next(iter(trees), None)
    if table.levels is None:
        return
    path = (*path, "levels")
    if along is None:
        partial.add(path, "no dimension of this table is a hierarchy", "remove levels")
        return
    if not table.levels:
        partial.add(path, "is empty", "remove it to measure the leaf level only")
        return
    column = partial.columns[along]
    known = column.levels if isinstance(column, HierarchyColumn) else ()
    for level in table.levels if known else ():
        if level not in known:
            what = f"{quoted(along)} has no level {quoted(level)}"
            partial.add((*path, level), what, choose(level, known, "levels"))
    total = sum(table.levels.values(), Fraction())
    if total != 1:
        partial.add(path, f"the shares of the levels add to {total}", "make them add to exactly 1")


def _check_regions(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    """Check that what a table is measured per is one of its dimensions, and not the only one."""
    if table.per is None or not partial.reads((*path, "per")):
        return
    if table.per not in table.dimensions:
        what = f"{quoted(table.per)} is not a dimension of this table"
        partial.add((*path, "per"), what, choose(table.per, table.dimensions, "dimensions"))
    elif len(table.dimensions) == 1:
        what = f"each place of {quoted(table.per)} has one cell only"
        partial.add((*path, "per"), what, "cross it with another dimension, or remove per")


def _name_one(names: Iterable[str]) -> str:
    known = list(names)
    return (
        f"name one of {listed(known)}" if known else "remove along: no dimension of this table is a hierarchy"
    )


def hierarchies(partial: PartialSpec, table: TableEntry) -> list[str]:
    """Return the dimensions of ``table`` that are declared as hierarchies, in order."""
    columns = [(name, partial.columns.get(name)) for name in table.dimensions]
    return [name for name, column in columns if isinstance(column, HierarchyColumn)]


def _check_size(partial: PartialSpec, path: Path, table: TableEntry) -> None:
    if any(name not in partial.domains for name in table.dimensions) or not partial.reads((*path, "levels")):
        return
    filled = _with_levels(table, partial.domains, Fraction(1), "pure")
    cells = table_cells(filled, partial.domains)
    reason = why_not(partial, filled, cells) if not fits(cells) else None
    if reason is not None:
        sizes = " × ".join(str(partial.domains[name].size) for name in table.dimensions)
        what = f"{cells} cells over the measured levels ({sizes} at the leaves) are too many: {reason}"
        partial.add(
            (*path, "dimensions"),
            what,
            "change that, or use coarser bins, fewer dimensions, or several smaller tables",
        )


def _check_dry_run(partial: PartialSpec, path: Path, table: TableEntry, definition: Definition) -> None:
    """Ask the mechanism itself, once the shapes of the table are known."""
    keys = ("dimensions", "levels", "along", "mechanism", "parameters", "per", "margin_share")
    if any(name not in partial.domains for name in table.dimensions):
        return
    if all(partial.reads((*path, key)) for key in keys):
        filled = _with_levels(table, partial.domains, Fraction(1), definition)
        check_dry_run(partial, path, counts_of(filled), level_shapes(filled, partial.domains), definition)


def fill_in(
    table: TableEntry, domains: dict[str, Domain], share: Fraction, definition: Definition = "pure"
) -> Table:
    """Return the table with its share, its mechanism, its levels from the root down, and its margin share.

    Without ``levels`` the deepest level has the whole share of the table.
    """
    filled = _with_levels(table, domains, share, definition)
    counts = counts_of(filled)
    source = error_source(counts.mechanism, counts.parameters, definition, level_shapes(filled, domains))
    if source != "none" or filled.margin_share is not None:
        return filled
    return filled.model_copy(update={"margin_share": MARGIN_SHARE})


def _with_levels(
    table: TableEntry, domains: dict[str, Domain], share: Fraction, definition: Definition
) -> Table:
    along = along_of(table, domains)
    levels: dict[str, Fraction] = {}
    if along is not None:
        written = table.levels or {along.levels[-1]: Fraction(1)}
        levels = {name: written[name] for name in along.levels if name in written}
    return Table(
        name=table.name,
        title=table.title,
        dimensions=table.dimensions,
        where=table.where,
        size=table.size,
        share=table.share if table.share is not None else share,
        levels=levels,
        along=None if along is None else along.name,
        mechanism=table.mechanism or default_mechanism(definition),
        parameters=table.parameters,
        per=table.per,
        margin_share=table.margin_share,
        prior=table.prior,
        measures={
            name: in_order(
                measure,
                {
                    dimension: domains[dimension].codes
                    for dimension in table.dimensions
                    if dimension in domains
                },
            )
            for name, measure in with_shares(table.measures).items()
        },
    )


def along_of(table: TableEntry, domains: dict[str, Domain]) -> HierarchyDomain | None:
    """Return the dimension that has the levels: the hierarchy that is named, or else the first one."""
    named = (domains.get(name) for name in table.dimensions if table.along in (None, name))
    return next((domain for domain in named if isinstance(domain, HierarchyDomain)), None)


def level_shapes(table: Table, domains: dict[str, Domain]) -> dict[str, Shape]:
    """Return the shape in which each measured level is counted; of ``""`` without a hierarchy."""
    parts = () if table.measured is None or table.measured.part_domain is None else (table.measured.parts,)
    crossed = table.dimensions[: len(table.dimensions) - len(parts)]
    others = (*(domains[name].size for name in crossed if name != table.along), *parts)
    along = along_of(table, domains) if table.along is not None else None
    if along is None:
        return {"": others}
    return {level: (len(cut(along, level)), *others) for level in table.levels}


def level_cells(table: Table, domains: dict[str, Domain]) -> dict[str, int]:
    """Return the number of cells of each measured level; of ``""`` for a table without a hierarchy."""
    return {level: math.prod(shape) for level, shape in level_shapes(table, domains).items()}


def published_sizes(partial: PartialSpec) -> Iterator[tuple[Path, TableEntry, int]]:
    """Yield each table that can be read: its path, itself, and its rows when it is published."""
    added_up = partial.postprocessing is None or partial.postprocessing.consistency
    for index, table in partial.tables:
        path = ("tables", index)
        if all(name in partial.domains for name in table.dimensions) and partial.reads((*path, "levels")):
            yield path, table, _published_rows(table, partial.domains, added_up=added_up)


def _published_rows(table: TableEntry, domains: dict[str, Domain], *, added_up: bool) -> int:
    """Return the rows of a published table: its cells at every node down to the deepest measured level.

    Where levels are not made to add up (``added_up``), only those that were measured are published.
    """
    filled = _with_levels(table, domains, Fraction(1), "pure")
    along = domains[filled.along] if filled.along is not None else None
    if not isinstance(along, HierarchyDomain) or not added_up:
        return table_cells(filled, domains)
    nodes = max(nodes_to(along, level) for level in filled.levels)
    return nodes * math.prod(domains[name].size for name in table.dimensions if name != filled.along)


def table_cells(table: Table, domains: dict[str, Domain]) -> int:
    """Return the number of cells of a table over all its measured levels."""
    return sum(level_cells(table, domains).values())


# What a mechanism refuses for public reasons, and whether it states its error, is found by running it on a
# small empty table with seeded noise that is thrown away. Nothing here depends on data.

ErrorSource = Literal["exact", "risk", "none"]
Shape = tuple[int, ...]

MARGIN_SHARE = Fraction(1, 20)
"""The part of a table's budget that measures its error where the mechanism cannot tell it."""

_REHEARSED_CELLS = 256
_PAGE = "docs/reference/spec/mechanisms.md"
_NAMES: dict[Definition, str] = {"pure": "pure differential privacy", "zcdp": "zero-concentrated privacy"}


def default_mechanism(definition: Definition) -> str:
    """Return what measures a table that names no mechanism."""
    return "identity" if definition == "pure" else "gaussian"


def check_mechanism(
    partial: PartialSpec, path: Path, table: TableEntry, definition: Definition | None
) -> None:
    """Check name, parameters and definition of a table's mechanism.

    ``definition``: of the spec; None where it does not read.
    """
    from tabularium.mechanisms import MECHANISMS

    if not partial.reads((*path, "mechanism")):
        return
    name = table.mechanism or default_mechanism(definition or "pure")
    if name not in MECHANISMS:
        what = f"there is no mechanism {quoted(name)}"
        partial.add((*path, "mechanism"), what, choose(name, MECHANISMS, "mechanisms"))
        return
    kind = MECHANISMS[name]
    if definition is not None and definition not in kind.definitions:
        what = f"{name} does not give {_NAMES[definition]}, which the budget is an amount of"
        hint = f"choose another mechanism, such as {default_mechanism(definition)}; {_PAGE} lists them"
        partial.add((*path, "mechanism"), what, hint)
        return
    if partial.reads((*path, "parameters")):
        mechanism = check_parameters(partial, path, name, table.parameters)
        if mechanism is not None:
            _check_attributed(partial, path, name, mechanism)


def check_parameters(
    partial: PartialSpec,
    path: Path,
    name: str,
    given: dict[str, Any],
    *,
    unwritten: tuple[str, ...] = (),
) -> Mechanism | None:
    """Check the parameters of a mechanism, and return it with them; None when they do not fit.

    Parameters
    ----------
    path
        Of the table or histogram that holds the parameters.
    given
        The parameters as the spec has them.
    unwritten
        Parameters of the mechanism that a spec may not write.
    """
    from tabularium.mechanisms import MECHANISMS, build

    before = partial.count()
    known = [parameter for parameter in parameters_of(MECHANISMS[name]) if parameter.name not in unwritten]
    names = [parameter.name for parameter in known]
    for written in given:
        if written not in names:
            what = f"{name} has no parameter {quoted(written)}{' here' if unwritten else ''}"
            hint = choose(written, names, "parameters") if names else "remove it: it takes none"
            partial.add((*path, "parameters", written), what, hint)
    for parameter in known:
        if parameter.required and parameter.name not in given:
            what = f"{name} needs the parameter {quoted(parameter.name)}"
            key = "parameters" if given else "mechanism"
            partial.add((*path, key), what, f"write parameters: {{{parameter.name}: …}}, see {_PAGE}")
    if partial.count() > before:
        return None
    try:
        return build(name, **given)
    except MechanismError as error:
        _add_complaint(partial, path, given, error, names)
    except (TypeError, ValueError, ArithmeticError):
        what = f"{name} does not take these values"
        partial.add((*path, "parameters"), what, f"see {_PAGE} for what it takes")
    return None


def _check_attributed(partial: PartialSpec, path: Path, name: str, mechanism: Mechanism) -> None:
    """Check that a mechanism releases a count for every cell of a table."""
    if getattr(mechanism, "unattributed", False):
        what = "sorted counts no longer belong to the cells of a table"
        partial.add((*path, "parameters", "unattributed"), what, "write unattributed: false")
    elif not getattr(mechanism, "attributed", True):
        what = f"{name} releases how many cells have which count, and not which cells have it"
        partial.add((*path, "mechanism"), what, "choose a mechanism that releases a count for every cell")


def _add_complaint(
    partial: PartialSpec, path: Path, given: dict[str, Any], error: MechanismError, known: list[str]
) -> None:
    """Note what a mechanism refuses, at the parameter that it names."""
    field: Path = (*path, "parameters" if given else "mechanism")
    what = error.what
    if error.where in given:
        field = (*field, error.where)
    elif error.where in known:
        what = f"{quoted(error.where)}: {what}"
    partial.add(field, what, error.hint or "choose another mechanism or other parameters")


def check_dry_run(
    partial: PartialSpec, path: Path, table: Table, shapes: dict[str, Shape], definition: Definition
) -> None:
    """Check that a mechanism takes tables of these shapes, and that its error is known or can be measured.

    Parameters
    ----------
    table
        With the mechanism that measures its counts; in each region, where it has any.
    shapes
        Measured level -> the shape in which it is counted.
    """
    from tabularium.mechanisms import MECHANISMS

    name, parameters = table.mechanism, table.parameters
    if name == PER_REGION:
        name, parameters = parameters["mechanism"], parameters["parameters_of_each"]
    try:
        source = error_source(table.mechanism, table.parameters, definition, shapes)
    except MechanismError as error:
        names = [parameter.name for parameter in parameters_of(MECHANISMS[name])]
        _add_complaint(partial, path, parameters, error, names)
        return
    if source == "exact" and table.margin_share is not None:
        what = f"the error of {name} is known exactly, so no budget is spent to measure it"
        partial.add((*path, "margin_share"), what, "remove margin_share")
    consistent = partial.postprocessing is not None and partial.postprocessing.consistency
    if source == "none" and table.margin_share == 0 and len(shapes) > 1 and consistent:
        what = "levels are made to agree by their errors, and this leaves them unknown"
        partial.add((*path, "margin_share"), what, "write a share above zero, or measure one level")


def error_source(
    name: str, parameters: dict[str, Any], definition: Definition, shapes: dict[str, Shape]
) -> ErrorSource:
    """Return what a mechanism tells of its error: the exact variance, a risk estimate, or nothing.

    Raises
    ------
    MechanismError
        What the mechanism refuses for public reasons.
    """
    text = repr(sorted(parameters.items()))
    sources = {_dry_run_source(name, text, definition, shape) for shape in dict.fromkeys(shapes.values())}
    if "none" in sources:
        return "none"
    return "risk" if "risk" in sources else "exact"


@lru_cache(maxsize=256)
def _dry_run_source(name: str, parameters: str, definition: Definition, shape: Shape) -> ErrorSource:
    """Rehearse on a smaller table; only where that is refused on the whole one, which may be why."""
    small = shrunk(shape)
    try:
        return _dry_run(name, parameters, definition, small)
    except MechanismError:
        if small == shape:
            raise
    return _dry_run(name, parameters, definition, shape)


def _dry_run(name: str, parameters: str, definition: Definition, shape: Shape) -> ErrorSource:
    from ast import literal_eval

    from tabularium.mechanisms import build
    from tabularium.mechanisms.channel import SeededChannel

    mechanism = build(name, **dict(literal_eval(parameters)))
    shape = mechanism.probe_shape(shape)
    channel = SeededChannel(1, seed=0, definition=definition)
    release = mechanism.release(np.zeros(shape, np.int64), channel)
    if release.values.shape != shape:
        raise MechanismError(
            f"{name} releases no table of cells", where=name, hint="choose another mechanism"
        )
    if release.variances is not None:
        return "exact"
    return "risk" if "risk" in release.diagnostics else "none"


def shrunk(shape: Shape) -> Shape:
    """Return a shape of at most 256 cells (or all ones) with as many axes, none longer than it was."""
    sizes = list(shape)
    while math.prod(sizes) > _REHEARSED_CELLS:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[longest] = (sizes[longest] + 1) // 2
    return tuple(sizes)


# A table of more cells than are held at once is counted and measured some nodes of its hierarchy at a time,
# and finished family by family (``docs/explanation/scale.md``). For that its noise must know nothing of
# other cells, and no other table may have to agree with it.

HELD = 10**8
"""Cells that are held at once: of a table over its measured levels, of a level, of the children of a node.
What is drawn is known by whether its level is cut, and by its slab: with another number here or below, a
release that was cut off would be drawn once more. So both stay."""
LARGEST = 2 * 10**10
"""Cells of the largest table, over its measured levels."""
SLAB = 1 << 24
"""Cells of a slab, about."""


def fits(cells: int) -> bool:
    """Whether so many cells are held at once."""
    return cells <= HELD


def slabs(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the slabs of a level, each as its first row and the one after its last.

    ``shape``: in which the level is counted: its nodes first.
    """
    step = max(1, SLAB // max(1, math.prod(shape[1:])))
    return ((first, min(first + step, shape[0])) for first in range(0, shape[0], step))


def why_not(partial: PartialSpec, table: Table, cells: int) -> str | None:
    """Return what keeps a table of more than `HELD` cells from being done in slabs; None if nothing does."""
    steps, source = partial.postprocessing, partial.source
    reasons = {
        f"{LARGEST:,} is the most": cells > LARGEST,
        "it has no hierarchy along which it could be cut": table.along is None,
        "it must be the only table of its spec": len(partial.tables) + len(partial.histograms) > 1,
        f"it must be measured with {' or '.join(APART)}, without per and margin_share": (
            table.mechanism not in APART or table.per is not None or bool(table.margin_share)
        ),
        "it can have no where, no measures, no prior, no invariants and no impossible cells": bool(
            table.where or table.measures or table.prior or partial.invariants or partial.impossible
        ),
        "all steps of post-processing must be on": steps is not None
        and not (steps.consistency and steps.nonnegativity and steps.rounding),
        "it must be counted by DuckDB, without source.engine": source is not None
        and source.engine != "duckdb",
        f"a family, or all roots, have more than {HELD:,} cells: a level between or above would solve that": (
            _largest_family(partial, table) > HELD
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _largest_family(partial: PartialSpec, table: Table) -> int:
    """Return the cells of the largest family (all roots are one); 0 without a hierarchy."""
    domain = None if table.along is None else partial.domains[table.along]
    if not isinstance(domain, HierarchyDomain):
        return 0
    inner = math.prod(partial.domains[name].size for name in table.dimensions if name != table.along)
    children = np.bincount(domain.parents[domain.parents >= 0], minlength=1)
    return max(int(children.max()), int((domain.parents < 0).sum())) * inner


MECHANISM = "privhist"
_NOT_WRITTEN = ("form",)  # counting decides it


def check_histograms(partial: PartialSpec) -> None:
    """Check the histograms that could be read, each by itself and all together."""
    total = _tallies(partial)
    if total >= 1:
        what = f"the shares of noisy rules and cut units add to {total}, and leave nothing for the tables"
        partial.add(("privacy",), what, "make them add to less than 1")
        return
    for index, histogram in partial.histograms:
        path: Path = ("histograms", index)
        check_parameters(partial, path, MECHANISM, histogram.parameters, unwritten=_NOT_WRITTEN)
        total += histogram.share
        if total >= 1:
            others = "histograms, noisy rules and cut units" if _tallies(partial) else "the histograms"
            what = f"the shares of {others} add to {total}, and leave nothing for the tables"
            partial.add((*path, "share"), what, "make them add to less than 1")
            return


def _tallies(partial: PartialSpec) -> Fraction:
    """Return the part of the budget that noisy rules and the numbers of cut units take."""
    cut = None if partial.privacy is None else partial.privacy.cut_units
    return sum((tally.share for tally in tallies_of((rule for _, rule in partial.rules), cut)), Fraction())
