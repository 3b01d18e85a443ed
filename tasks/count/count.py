"""Counting: from records to dense arrays of true counts, zero cells included.

::

    source ─▶ codes ─▶ kept records ─▶ at most c per unit ─▶ cell number in every table ─▶ arrays ─▶ levels

The engine codes, rejects and bounds; it streams one cell number per table and record, in batches of bounded
size, and these are added into arrays over the whole declared domain. One pass serves all tables. Memory
grows with cells, never with rows.

Where there is one small table the engine groups as well, and streams one number per cell. Its hash table is
then in the processor's cache, and its threads share the work; beyond some 100 000 cells adding into an array
is several times cheaper (10 million records, processor seconds: 10 000 cells 0.1 grouped and 0.2 streamed; a
million 0.7 and 0.14; 40 million 2.6 and 0.4), and several tables would need a pass each.

Bounding keeps at most c records of a privacy unit, chosen by a keyed order that is uniform over its
records. A record's place in the order depends on the key, the unit, its own cells, and how many equal
records of the unit stand before it; hence on nobody else's records, so that adding or removing a unit
changes the counts by that unit's at most c records and by nothing more. The key is a keyed digest of the
release id: a run that goes on with a release counts the same records as the one that was cut off.

A table with a universe counts those of the kept records that its ``where`` is true of; in the order by which
records are kept, its cell number of all others is one and the same.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tabularium.mechanisms.errors import InternalError
from tabularium.tasks.count.contributions import (
    NO_ITEM,
    ArrayAggregate,
    accumulate,
    add_grouped,
    as_item,
    bounded,
    engine_columns,
    grouped_sql,
    unit_numbers,
)
from tabularium.tasks.count.count_files import (
    Axis,
    CountFile,
    Counts,
    CountsHandle,
    SizesFile,
    SlabbedCounts,
    Spill,
    add_rows,
    at_finest,
    axis_of,
    counted_levels,
    groups_of,
    place_at,
    write_counts,
)
from tabularium.tasks.count.distinct_counts import DistinctLevel, all_levels, fill
from tabularium.tasks.engines.in_place import IN_PLACE, require_still
from tabularium.tasks.ingest.open_source import (
    InputHandle,
    OpenSource,
    check_unchanged,
    first_row,
    opened,
    stream,
    unreadable,
)
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.derivation import coded_columns
from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.encoding import cell_number, kept
from tabularium.validations.imported_later import Later
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.checks.table_checks import fits, level_shapes, slabs
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.suites.published_tables import CountedTable, check_counts, check_sums
from tabularium.validations.universes.impossible_cells import without_impossible
from tabularium.validations.universes.universe import universe_of

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

# Cells that one pass holds at once, 8 bytes each: several passes when the tables of a spec have more.
_CELLS_PER_PASS = 100_000_000
# Cells up to which the engine groups the records of a lone table.
_GROUPED = 100_000
_OUTSIDE = -1  # the cell number of a record that is in no cell of a table


def count_tables(
    loaded: Loaded, handle: InputHandle, scratch: Path, *, secret: bytes, bounding: str
) -> CountsHandle:
    """Count every table of the spec at every measured level.

    Parameters
    ----------
    scratch
        Folder inside the secure workspace; the arrays go to ``counts`` below it.
    secret
        The agency's secret, for the digests.
    bounding
        The release's key of the order by which records of a unit are kept, hexadecimal.

    Raises
    ------
    InputError
        If the source changed since it was ingested, or cannot be read to its end.
    RuleFailed
        If totals differ between tables.
    """
    folder = scratch / "counts"
    failure = InternalError("the counts cannot be written", where="secure workspace", hint="check its rights")
    redacted(lambda: folder.mkdir(mode=0o700, parents=True, exist_ok=True), failure)
    tables: dict[str, dict[str, CountFile]] = {}
    checked: dict[tuple[str, str], CountedTable] = {}
    summed: dict[tuple[str, str], CountedTable] = {}
    slabbed = {}
    for large in loaded.spec.arrays:
        if loaded.in_slabs(large):
            slabbed[large.name] = _count_in_slabs(loaded, handle, scratch, large, bounding)
            tables[large.name], checked = _levels_of(loaded, large, slabbed[large.name], folder, secret)
    for table, level, array in _counted(loaded, handle, scratch, bounding):
        path = folder / f"{table.name}.{level or 'cells'}.npy"
        digest = redacted(partial(write_counts, path, array, secret), failure)
        possible = Layout.of(loaded, table).possible(level)
        tables.setdefault(table.name, {})[level] = CountFile(str(path), array.shape, digest)
        (checked if table.measured is None else summed)[table.name, level] = CountedTable(
            int(array.sum()),
            int(array.min()),
            array.shape,
            _declared(loaded, table, level),
            table.where or "",
            0 if possible is None else int(np.abs(array[~possible]).sum()),
            table.measured is None or table.measured.identifier is None,
        )
    histograms = {}
    for name, sizes in _sizes(loaded, handle, scratch, bounding):
        path = folder / f"{name}.sizes.npy"
        histograms[name] = SizesFile(str(path), redacted(partial(write_counts, path, sizes, secret), failure))
    units = None
    if loaded.spec.tally_share or loaded.spec.privacy.unit.column is not None:
        path, numbers = folder / "units.npy", _units(loaded, handle, scratch)
        digest = redacted(partial(write_counts, path, numbers, secret), failure)
        units = CountFile(str(path), numbers.shape, digest)
    check_unchanged(handle)
    if handle.kind in IN_PLACE:
        require_still(handle.held, loaded, secret, handle.main)
    check_counts(checked, scratch / "counts.json")
    if summed:
        check_sums(_most(loaded), checked, summed, scratch / "sums.json")
    return CountsHandle(tables, histograms, units, slabbed)


def _counted(
    loaded: Loaded, handle: InputHandle, scratch: Path, key: str
) -> Iterator[tuple[Table, str, Counts]]:
    """Yield the counts of every measured level that fits into memory, and the sums of every measure."""
    held = [table for table in loaded.spec.arrays if not loaded.in_slabs(table)]
    distinct = [
        table for table in held if table.measured is not None and table.measured.identifier is not None
    ]
    for group in _passes(loaded, [table for table in held if table not in distinct]):
        for table, counts in zip(group, _count_group(loaded, handle, scratch, group, key), strict=True):
            for level, array in counted_levels(loaded, table, counts):
                yield table, level, array
    for group in _passes(loaded, distinct):
        for of_table in _count_distinct(loaded, handle, scratch, group, key):
            yield of_table.table, of_table.level, of_table.array


def _count_distinct(
    loaded: Loaded, handle: InputHandle, scratch: Path, group: list[Table], key: str
) -> list[DistinctLevel]:
    """Return the numbers of different values of some arrays at each measured level, from one pass."""

    def count(source: OpenSource) -> list[DistinctLevel]:
        records, names = _cells(loaded, source, key)
        levels = [
            level for table in group for level in DistinctLevel.of(table, names[table.name], loaded.domains)
        ]
        for batch in stream(source.engine, all_levels(levels, records)):
            fill(levels, batch)
        return levels

    with opened(loaded, handle, scratch) as source:
        return redacted(lambda: count(source), lambda: unreadable(loaded, handle, scratch))


def _passes(loaded: Loaded, tables: list[Table]) -> Iterator[list[Table]]:
    """Yield tables in groups that fit into memory together."""
    group: list[Table] = []
    cells = 0
    for table in tables:
        size = axis_of(loaded.domains, table).numbers
        if group and cells + size > _CELLS_PER_PASS:
            yield group
            group, cells = [], 0
        group.append(table)
        cells += size
    if group:
        yield group


def _count_in_slabs(
    loaded: Loaded, handle: InputHandle, scratch: Path, table: Table, key: str
) -> SlabbedCounts:
    """Store the cell numbers of a table by slab, in one pass over the source."""
    axis = axis_of(loaded.domains, table)
    spill = Spill(scratch / "slabs", axis.shape)

    def count(source: OpenSource) -> None:
        cells, names = _cells(loaded, source, key)
        for batch in stream(source.engine, cells.select(*names[table.name])):
            spill.add(at_finest(batch.column(0).to_numpy(zero_copy_only=False), axis))

    with opened(loaded, handle, scratch) as source:
        redacted(lambda: count(source), lambda: unreadable(loaded, handle, scratch))
    return spill.close()


def _levels_of(
    loaded: Loaded, table: Table, slabbed: SlabbedCounts, folder: Path, secret: bytes
) -> tuple[dict[str, CountFile], dict[tuple[str, str], CountedTable]]:
    """Return the levels of a table in slabs that fit into memory, and the checks of all its levels."""
    places = {
        level: place_at(loaded, table, level)
        for level, cells in loaded.level_cells(table).items()
        if fits(cells)
    }
    shapes = level_shapes(table, loaded.domains)
    sums = {level: np.zeros(shapes[level], np.int64) for level in places}
    every, least = 0, 0
    for number, (first, last) in enumerate(slabs(slabbed.shape)):
        counts = slabbed.slab(number)
        every, least = every + int(counts.sum()), min(least, int(counts.min()))
        for level, place in places.items():
            add_rows(sums[level], place[first:last], counts)
    files = {}
    checked = {}
    for level, shape in shapes.items():
        total, smallest = every, least
        if level in sums:
            path = folder / f"{table.name}.{level}.npy"
            files[level] = CountFile(str(path), shape, write_counts(path, sums[level], secret))
            total, smallest = int(sums[level].sum()), int(sums[level].min())
        checked[table.name, level] = CountedTable(total, smallest, shape, shape)
    return files, checked


def _count_group(
    loaded: Loaded, handle: InputHandle, scratch: Path, group: list[Table], key: str
) -> list[Counts]:
    """Return the counts of each table at its finest level, flat, from one pass over the source."""
    axes = {table.name: axis_of(loaded.domains, table) for table in group}
    counts = {name: np.zeros(axis.numbers, np.int64) for name, axis in axes.items()}

    def count(source: OpenSource) -> None:
        cells, names = _cells(loaded, source, key)
        wanted = list(dict.fromkeys(column for name in axes for column in names[name]))
        if len(wanted) == 1 and len(group) == 1 and axes[group[0].name].numbers <= _GROUPED:
            _add_grouped(source, cells, wanted[0], counts[group[0].name], axes[group[0].name])
            return
        for batch in stream(source.engine, cells.select(*wanted)):
            numbers = dict(zip(wanted, batch.columns, strict=True))
            for table, axis in zip(group, axes.values(), strict=True):
                columns = [numbers[column].to_numpy(zero_copy_only=False) for column in names[table.name]]
                if table.where is not None:
                    inside = columns[0] != _OUTSIDE
                    columns = [column[inside] for column in columns]
                cell, *added = columns
                at = at_finest(cell, axis)
                if table.measured is None:
                    np.add.at(counts[table.name], at, 1)
                else:
                    weight = added[1] if added[1:] else None
                    groups = groups_of(at, axis, table.measured.by)
                    accumulate(counts[table.name], at, table.measured, added[0], weight, groups)

    def count_in_place(source: OpenSource) -> None:
        cells, names = _cells(loaded, source, key)
        arrays = [
            ArrayAggregate(
                names[table.name],
                table.measured,
                partial(at_finest, axis=axis),
                partial(groups_of, axis=axis, by=None if table.measured is None else table.measured.by),
                counts[table.name],
            )
            for table, axis in zip(group, axes.values(), strict=True)
        ]
        sql, schema = grouped_sql(source.engine.sql(cells), arrays)
        add_grouped(source.engine.batches(sql, schema), arrays)

    work = count_in_place if handle.kind in IN_PLACE else count
    with opened(loaded, handle, scratch) as source:
        redacted(lambda: work(source), lambda: unreadable(loaded, handle, scratch))
    return list(counts.values())


def _add_grouped(source: OpenSource, cells: Any, column: str, counts: Counts, axis: Axis) -> None:
    """Count one table in the engine, record by record, and add up its cells here."""
    grouped = cells.group_by(column).aggregate(records=ibis._.count()).select(column, "records")
    for batch in stream(source.engine, grouped):
        cell, records = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        inside = cell != _OUTSIDE
        np.add.at(counts, at_finest(cell[inside], axis), records[inside])


def _cells(loaded: Loaded, source: OpenSource, key: str) -> tuple[Any, dict[str, list[str]]]:
    """Return the counted records, each as its cell number in every table, and the columns of each array.

    Those are the cell number of a table, and for a measure what the record adds to it.

    All tables of the spec are there in every pass, so that bounding keeps the same records in each.
    """
    domains, privacy = loaded.domains, loaded.spec.privacy
    records, unit = _kept_records(loaded, source)
    names: dict[str, list[str]] = {}
    cells: dict[str, Any] = {}
    for index, array in enumerate(loaded.spec.arrays):
        if array.measured is None:
            columns = {f"cell{index}": _cell(records, array, domains)}
            cell = next(iter(columns))
        else:
            name = f"measure{index}"
            columns = engine_columns(array.measured, records, source.raw, name, domains, array.along)
        cells |= columns
        names[array.name] = list(dict.fromkeys([cell, *columns]))
    cells |= _items(loaded, source, records)
    if unit is None:
        return records.select(**cells), names
    records = records.select(records[unit].name("unit"), **cells)
    return bounded(records, "unit", list(cells), privacy.max_contributions, key), names


def _cell(records: Any, table: Table, domains: Mapping[str, Domain]) -> Any:
    """Return the cell number of each record in a table, `_OUTSIDE` where the table does not count it."""
    number = cell_number(records, axis_of(domains, table).dimensions, domains)
    if table.where is None:
        return number
    inside = universe_of(table.where, domains).holds(records, domains)
    return ibis.ifelse(inside, number, ibis.literal(_OUTSIDE, type=number.type()))


def _kept_records(loaded: Loaded, source: OpenSource) -> tuple[Any, str | None]:
    """Return the coded records that are kept, and the name of the column of their unit."""
    column = loaded.spec.privacy.unit.column
    unit = source.raw[column] if column is not None else None
    coded = coded_columns(source.table, source.raw, source.columns, loaded.domains)
    records = without_impossible(coded, loaded.spec.impossible, loaded.domains)
    return records.filter(kept(records, loaded.domains, unit)), unit


def _units(loaded: Loaded, handle: InputHandle, scratch: Path) -> Counts:
    """Return the numbers for tallies: units, units that are cut, and records left out.

    The third is limited for each unit as ``cut_units`` says. Exactly how many are left out is shown on
    the terminal of the run, and nowhere else.
    """
    privacy = loaded.spec.privacy
    cut = privacy.cut_units
    up_to = 0 if cut is None else cut.records_up_to or 0

    def count(source: OpenSource) -> dict[str, int]:
        numbers = unit_numbers(*_kept_records(loaded, source), privacy.max_contributions, up_to)
        return first_row(numbers, source.engine)

    with opened(loaded, handle, scratch) as source:
        row = redacted(lambda: count(source), lambda: unreadable(loaded, handle, scratch))
    if privacy.unit.column is not None:
        note(
            f"{row['left_out']:,} of {row['records']:,} records are left out: "
            f"privacy.max_contributions counts {privacy.bounding.partition(';')[0]}. Choose it, like bounds "
            "and edges, from what is publicly known or from a noisy number (cut_units), never from this "
            "line, since the next spec is public"
        )
    return np.array([row["units"], row["cut"], row["limited"]], np.int64)


def _items(loaded: Loaded, source: OpenSource, records: Any) -> dict[str, Any]:
    """Return the item of every record in every histogram, as text in which null differs from any value.

    They go into the order by which records of a unit are chosen: those that differ only in their item are
    not equal.
    """
    items = {}
    for index, histogram in enumerate(loaded.spec.histograms):
        items[f"item{index}"] = as_item(records[source.raw[histogram.of]])
    return items


def _sizes(loaded: Loaded, handle: InputHandle, scratch: Path, key: str) -> Iterator[tuple[str, Counts]]:
    """Yield each histogram's pairs (size, number of items of that size), sizes descending.

    Shape (k, 2); the last pair is (0, 0), so that there always is one. Records without an item are left out.
    """
    for index, histogram in enumerate(loaded.spec.histograms):
        column = f"item{index}"

        def count(column: str = column) -> Counts:
            with opened(loaded, handle, scratch) as source:
                records, _ = _cells(loaded, source, key)
                items = (
                    records.filter(records[column] != NO_ITEM).group_by(column).aggregate(size=ibis._.count())
                )
                pairs = items.group_by("size").aggregate(number=ibis._.count()).select("size", "number")
                sizes = [
                    np.stack([column.to_numpy() for column in batch.columns], axis=1)
                    for batch in stream(source.engine, pairs)
                ]
            table = np.concatenate([np.zeros((1, 2), np.int64), *sizes]).astype(np.int64)
            return table[np.argsort(-table[:, 0], kind="stable")]

        yield histogram.name, redacted(count, lambda: unreadable(loaded, handle, scratch))


def _declared(loaded: Loaded, table: Table, level: str) -> tuple[int, ...]:
    """Return the shape that the spec declares, from the domains only."""
    return level_shapes(table, loaded.domains)[level]


def _most(loaded: Loaded) -> dict[str, int]:
    """Return the most that one record adds to each array of a measure."""
    return {
        array.name: array.measured.sensitivity for array in loaded.spec.arrays if array.measured is not None
    }


@stage("count")
def count(run: Run, handle: InputHandle) -> CountsHandle:
    """Bound contributions and count."""
    home = run.installation
    bounding = hmac.digest(home.subkey("bounding"), run.release_id.encode(), "sha256").hex()[:32]
    return count_tables(run.loaded, handle, run.folder("counts"), secret=home.secret(), bounding=bounding)
