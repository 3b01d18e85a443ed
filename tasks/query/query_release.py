"""A published release folder as tables for queries, from its certificate, lists and files only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    KnownSums,
    MeasuredAttribute,
    Measurement,
    NoisyTable,
    PublishedCells,
    PublishedTable,
)
from tabularium.mechanisms.queries.attributes import AnyAttribute, TreeAttribute, listed, near, shown_number
from tabularium.mechanisms.queries.grammar import Member, Query, Word, plain
from tabularium.mechanisms.queries.measures import SizeHistogram
from tabularium.mechanisms.queries.sources import MeasuredLevel, NoisySource, table_of
from tabularium.mechanisms.registry import MECHANISMS, restore
from tabularium.tasks.margins.error_model import LevelError, margin_base
from tabularium.tasks.postprocess.table_layout import Layout, known_on_tree
from tabularium.tasks.publish.measurement_files import MOST_NUMBERS, read_measurement
from tabularium.tasks.publish.read_release import Released, ReleasedNumbers
from tabularium.validations import certificate as schema
from tabularium.validations.certificate import Certificate
from tabularium.validations.domains.domains import HierarchyDomain, attribute_of, tree_of
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.tables import Table, array_of
from tabularium.validations.universes.universe import put_within


@dataclass(frozen=True, eq=False)
class OpenRelease:
    """A release folder that has been read.

    ``verified``: whether every file was compared with the certificate.
    """

    folder: Path
    certificate: Certificate
    digest: str
    verified: bool
    tables: tuple[ReleasedTable, ...]
    histograms: tuple[SizeHistogram, ...] = ()

    @property
    def level(self) -> float:
        """The level of its margins."""
        return float(self.certificate.confidence)

    @property
    def of_a_universe(self) -> list[str]:
        """The names of the tables that do not count all records."""
        return [table.name for table in self.tables if table.table.where is not None]

    @property
    def asked(self) -> tuple[ReleasedTable, ...]:
        """The tables, and the array of each of their measures."""
        return (*self.tables, *(array for table in self.tables for array in table.arrays))


def open_release(folder: Path, *, table: str | None = None, verify: bool = True) -> OpenRelease:
    """Read a release folder.

    ``verify``: compare every file with its digest in the certificate first.

    Raises
    ------
    InputError
        No release lies there, or it has no such table.
    PublicationError
        It is not what its certificate says.
    """
    return asked_release(Released.open(folder, whole=verify), table=table, verified=verify)


def asked_release(released: Released, *, table: str | None, verified: bool) -> OpenRelease:
    """Return a release folder that was read as tables for queries; as :func:`open_release`."""
    folder, certificate, loaded = released.folder, released.certificate, released.loaded
    names = [entry.name for entry in loaded.spec.tables]
    if table is not None and table not in names:
        raise InputError(
            "the release has no table of this name",
            where=f"--table {table}",
            hint=f"known are {', '.join(names)}",
        )
    tables = tuple(
        ReleasedTable(released, entry, named=table is not None)
        for entry in loaded.spec.tables
        if table in (None, entry.name)
    )
    histograms = tuple(
        SizeHistogram(histogram.name, histogram.of, partial(released.histogram, histogram.name))
        for histogram in loaded.spec.histograms
    )
    return OpenRelease(folder, certificate, released.digest, verified, tables, histograms)


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """The counts of a published table, whose files are read on demand.

    ``named``: whether this table is to be asked, whichever records it counts.
    """

    released: Released
    table: Table
    named: bool = False

    @property
    def name(self) -> str:
        """Its name in the spec."""
        return self.table.name

    @property
    def arrays(self) -> tuple[ReleasedMeasure, ...]:
        """The arrays of its measures."""
        return tuple(
            ReleasedMeasure(self.released, self.table, self.named, measure) for measure in self.table.measures
        )

    @property
    def array(self) -> str:
        """The name of the measured array."""
        return self.table.name

    @cached_property
    def layout(self) -> Layout:
        """Its layout in the files."""
        return self.released.layouts[self.name]

    @cached_property
    def axes(self) -> Axes:
        """Its attributes."""
        along = self.layout.along
        return Axes(
            None if along is None else tree_of(along, self.layout.nodes),
            tuple(attribute_of(domain) for domain in self.layout.others),
        )

    @property
    def noisy(self) -> NoisySource | None:
        """Its noisy measurements, where they are published and have a known distribution."""
        return self._known[0]

    @property
    def published(self) -> PublishedTable | None:
        """Its published cells, unless they are the measurements themselves."""
        return self._known[1]

    @property
    def single(self) -> PublishedCells | None:
        """Nothing: counts add up."""
        return None

    @cached_property
    def known(self) -> tuple[KnownSums, ...]:
        """The sums of invariants that measurements do not contradict; they are about all records."""
        if self.table.where is not None:
            return ()
        conflicts = {
            invariant.name for invariant in self.released.certificate.invariants if invariant.beyond_chance
        }
        sums = [
            known_sums(known, self.axes, self.released.loaded)
            for known in self.released.loaded.known
            if known.name not in conflicts
        ]
        return tuple(known_sum for known_sum in sums if known_sum is not None)

    def asked(self, query: Query) -> Query | None:
        """Return the query without tests that all its records pass; None if it asks for other records."""
        tests = put_within(query.where, self.table, self.released.domains)
        if tests is not None:
            return replace(query, where=tests)
        return query if self.named or query.table is not None else None

    @cached_property
    def _known(self) -> tuple[NoisySource | None, PublishedTable | None]:
        noisy, published = self._noisy(), self._published()
        consistent = self.released.spec.postprocessing.consistency
        complete = published is not None and bool(
            np.isfinite(published.values).all()
        )  # nothing is suppressed
        measured = published is not None and published.noise is not None and not consistent and complete
        if noisy is None and published is not None and measured:
            return _as_measured(published), None
        return noisy, published

    @property
    def _drawn(self) -> tuple[int, ...]:
        """The shape of the measurement at a node."""
        return self.axes.shape

    def _noisy(self) -> NoisySource | None:
        if self.released.certificate.measurements.withheld is not None:
            return None
        parts = []
        for level, nodes in self.layout.cuts.items():
            most = 64 * prod(self.layout.shape(level)) + MOST_NUMBERS
            measured = read_measurement(self.released.folder, self.array, level, most=most)
            linear = restore(measured).linear_measurements(measured)
            if linear is None:
                return None
            possible = self.released.layouts[self.array].measured_at(level)
            parts.append(MeasuredLevel(nodes, linear, possible))
        return table_of(self.axes, parts, self._impossible, self._drawn)

    @property
    def _impossible(self) -> NDArray[np.bool_] | None:
        """(nodes, *drawn) mask of impossible cells, which are exactly zero."""
        impossible = self.released.layouts[self.array].impossible
        return None if impossible is None else impossible.reshape(-1, *self._drawn)

    def _published(self) -> PublishedTable | None:
        about = self.released.certificate.tables[self.name]
        read = self.released.table(self.name)
        mechanism = MECHANISMS.get(self.table.mechanism)
        one_variance = mechanism is not None and mechanism.releases_noisy_cells
        return self._cells(read, about, one_variance=one_variance)

    def _cells(
        self,
        read: ReleasedNumbers,
        about: schema.Table | schema.Measure,
        *,
        one_variance: bool,
        unit: float = 1.0,
    ) -> PublishedTable:
        layout, axes, level = self.layout, self.axes, self.released.level
        shape = (layout.nodes, *axes.shape)
        values, margin = read.counts.reshape(shape) / unit, read.margins.reshape(shape) / unit
        noise = None
        if about.margins.method != "exact":
            rms_error = _rms_errors(layout, about.margins)
        elif not one_variance:
            rms_error = margin / quantile(level)
        else:
            noise = _noise(axes, layout, about.noise_variance or {}, self._impossible)
            complete = read.present.all()
            rms_error = np.sqrt(noise.estimated_variances if complete else noise.measured_variances)
        return PublishedTable(axes, values, margin, read.present, rms_error, level, noise)


@dataclass(frozen=True, eq=False)
class ReleasedMeasure(ReleasedTable):
    """The array of a measure of a published table, and its published numbers."""

    measure: str = ""

    @property
    def array(self) -> str:
        """The name of what was measured."""
        return array_of(self.table.measures, self.table.name, self.measure)

    @cached_property
    def axes(self) -> Axes:
        """The attributes of the table, then the measure."""
        counts = super().axes
        return Axes(counts.tree, (*counts.others, self.asks))

    @cached_property
    def asks(self) -> MeasuredAttribute:
        """The measure as queries know it."""
        return measured_attribute(self.measure, self._about)

    @property
    def single(self) -> PublishedCells | None:
        """Its published cells, where they do not add up."""
        if self._adds_up:
            return None
        read, axes = self.released.table(self.name, self.measure), self.axes
        axes = Axes(axes.tree, (*axes.others[:-1], Attribute("", ("",), ("",))))
        shape = (self.layout.nodes, *axes.shape)
        values, margins = read.counts.reshape(shape), read.margins.reshape(shape)
        return PublishedCells(axes, values, margins, read.present, self.released.level)

    @cached_property
    def known(self) -> tuple[KnownSums, ...]:
        """Nothing: invariants are counts."""
        return ()

    @property
    def _about(self) -> Measure:
        return self.table.measures[self.measure]

    @property
    def _adds_up(self) -> bool:
        """Whether the published numbers add up: one per cell, with the same bounds for all."""
        return self._about.parts == 1 and self._about.by is None and self._about.adds_up

    @property
    def _drawn(self) -> tuple[int, ...]:
        return (*self.axes.shape[:-1], self._about.parts)

    def _noisy(self) -> NoisySource | None:
        # Where bounds differ by group, so does what a number of the array stands for; a choice adds up to
        # nothing.
        if self._about.by is not None or not self._about.adds_up:
            return None
        noisy, bins = super()._noisy(), self.asks.cells
        if not isinstance(noisy, NoisyTable) or bins == self._about.parts:
            return noisy
        # Of a tree the single values of the grid, which have independent noise; they are counted last.
        return NoisyTable(
            self.axes,
            tuple(
                replace(measurement, values=measurement.values[..., -bins:])
                for measurement in noisy.measurements
            ),
            None if noisy.impossible is None else noisy.impossible[..., -bins:],
        )

    def _published(self) -> PublishedTable | None:
        if not self._about.linear or not self._adds_up:
            return None
        about = (self.released.certificate.tables[self.name].measures or {})[self.measure]
        read = self.released.table(self.name, self.measure)
        return self._cells(read, about, one_variance=True, unit=float(self._about.grid))


def _noise(
    axes: Axes, layout: Layout, variances: dict[str, float], impossible: NDArray[np.bool_] | None
) -> NoisyTable:
    nothing = np.zeros((1, *axes.shape))
    parts = tuple(Measurement(nodes, nothing, variances[level]) for level, nodes in layout.cuts.items())
    return NoisyTable(axes, parts, impossible)


def _rms_errors(layout: Layout, about: schema.Margins) -> NDArray[np.float64]:
    """Return the root mean squared errors behind the published margins."""
    method = cast("schema.Method", about.method)  # a histogram, which has none, cannot be asked
    errors = about.mean_squared_error or dict.fromkeys(layout.cuts, 1.0)
    parts: dict[str, tuple[NDArray[Any], LevelError]] = {
        level: (np.zeros(layout.shape(level)), LevelError(method, errors[level])) for level in layout.cuts
    }
    return np.sqrt(margin_base(layout, parts).variances[:, 0])


def _as_measured(published: PublishedTable) -> NoisyTable:
    """Return cells that were published exactly as measured as measurements."""
    assert published.noise is not None  # noqa: S101 - the caller has looked
    nodes = np.flatnonzero(published.present)
    variances = published.noise.measured_variances[nodes]
    measured = (Measurement(nodes, published.values[nodes], variances),)
    return NoisyTable(published.axes, measured, published.noise.impossible)


def measured_attribute(name: str, measure: Measure) -> MeasuredAttribute:
    """Return a measure as the last attribute of its array, whose numbers are those of the array.

    See :mod:`tabularium.mechanisms.queries.measures`. Of a rate over another table the array has what
    passes its test, and that is what can be asked for.
    """
    answers = measure.answers
    if measure.by is not None or not measure.adds_up:
        answers = answers[:1] if measure.query_shown is not None else ()
    values, unit = measure.query_values
    codes, numbers = tuple(shown_number(value) for value in values), np.array(values)
    return MeasuredAttribute(
        name,
        codes,
        codes,
        numbers,
        numbers,
        column="" if measure.test is not None else measure.of,
        answers=answers,
        unit=unit,
        signed=measure.linear and measure.signed,
        about=measure.about_query,
        shown=(measure.query_shown, float(measure.rank or 0.5)),
        alike=(*measure.counts_alike[1:], measure.test),
        additive=measure.adds_up,
    )


def known_sums(known: KnownMarginal, axes: Axes, loaded: Loaded) -> KnownSums | None:
    """Return the sums of an invariant for a table, over columns that the table does not cross.

    None where the table has a column of it in another coding, such as leaves where it has a hierarchy.
    """
    places = {attribute.name: index for index, attribute in enumerate(axes.attributes)}
    sizes = {name: loaded.domains[name].size for name in known.flat}
    values, index = _along(known, axes, loaded)
    values = values.reshape(len(values), *sizes.values())
    gone = tuple(1 + at for at, name in enumerate(sizes) if name not in places)
    values = values.sum(axis=gone)
    # Of each cell along each attribute, its place in the numbers; 0 where they do not tell its cells apart.
    parts = [index]
    for name, size in sizes.items():
        if name in places:
            if axes.attributes[places[name]].cells != size:
                return None
            parts.append({places[name]: np.arange(size)})
    shape = (len(axes.leaves), *axes.shape)
    first = int(axes.tree is None)  # the one leaf of a table without a hierarchy is no attribute
    groups = np.zeros(shape, np.intp)
    for part, size in zip(parts, values.shape, strict=True):
        groups *= size
        for cells_at, cells in part.items():
            groups += cells.reshape([-1 if axis == cells_at + first else 1 for axis in range(len(shape))])
    return KnownSums(known.name, groups, values.reshape(-1))


def _along(
    known: KnownMarginal, axes: Axes, loaded: Loaded
) -> tuple[NDArray[np.float64], dict[int, NDArray[np.intp]]]:
    """Return numbers (nodes, cells), and of the hierarchy among the attributes the node of each leaf."""
    named = {attribute.name: index for index, attribute in enumerate(axes.attributes)}
    if known.along is None or known.along not in named:
        return known.values.sum(axis=0, keepdims=True).astype(np.float64), {}
    tree, values = known_on_tree(loaded, known)
    domain, axis = loaded.domains[known.along], named[known.along]
    attribute = axes.attributes[axis]
    assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
    assert isinstance(attribute, TreeAttribute)  # noqa: S101 - it is that domain as queries know it
    # Nodes come in the order of their depth: those further down than the numbers belong to one above them.
    at = attribute.leaves.astype(np.intp)
    while (below := at >= tree.nodes).any():
        at[below] = domain.parents[at[below]]
    return values, {axis: at}


# --- the sum of chosen cells of a published table, as the query that asks for it

Codes = Mapping[str, "str | int | Iterable[str | int]"]
_PLAIN = re.compile(r"[^\s()=<>!,'\"≤≥≠]+")
_WORDS = frozenset({"and", "between", "by", "from", "group", "in", "is", "not", "or", "up", "where"})


def total_query(table: ReleasedTable, codes: Codes) -> tuple[Query, str]:
    """Return the query for the sum of the cells with these codes, and its text.

    ``codes``: column -> its codes; all of a column that is left out.

    Raises
    ------
    InputError
        Naming a column that the table does not cross, or the column of a code that is unknown, with those
        that are near.
    """
    attributes = {attribute.name: attribute for attribute in table.axes.attributes}
    tests, written = [], []
    for column, given in codes.items():
        if column not in attributes:
            raise InputError(
                f"is no column that table {table.name} crosses",
                where=f"column {column}",
                hint=f"known are {listed(list(attributes), 16)}",
            )
        if isinstance(given, Iterable) and not isinstance(given, str):
            chosen = [str(code) for code in given]
        else:
            chosen = [str(given)]
        _see_that_they_are_known(attributes[column], chosen)
        tests.append(Member(Word(column, 1), tuple(Word(code, 1) for code in chosen)))
        written.append(f"{_quoted(column)} in ({', '.join(map(_quoted, chosen))})")
    where = f" where {' and '.join(written)}" if written else ""
    query = Query("count", None, (), tuple(tests), table=Word(table.name, 1))
    return query, f"count from {_quoted(table.name)}{where}"


def _see_that_they_are_known(attribute: AnyAttribute, chosen: Sequence[str]) -> None:
    where = f"column {attribute.name}"
    if not chosen:
        raise InputError(
            "no code is named", where=where, hint="name one or more, or leave the column out for all"
        )
    known = set(attribute.codes)
    for code in chosen:
        if code in known:
            continue
        if isinstance(attribute, TreeAttribute) and code in attribute.hidden:
            raise InputError(
                f"{plain(code)} lies below what this table is published for",
                where=where,
                hint=f"its deepest level is {plain(attribute.levels[-1])}",
            )
        close = near(code, attribute.codes, attribute.labels)
        hint = f"did you mean {listed(close)}?" if close else f"known are {listed(attribute.codes)}"
        raise InputError(f"there is no code {plain(code)}", where=where, hint=hint)


def _quoted(text: str) -> str:
    """Return a name or code as a query writes it."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return f'"{text}"' if "'" in text else f"'{text}'"
