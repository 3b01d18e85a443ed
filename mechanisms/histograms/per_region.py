"""Per region: one mechanism for each place along one axis of a table, each only on the cells of that place.

Sensitivity and privacy: one record changes the cells of one region. Each region's mechanism has the whole
budget, and all together cost no more: parallel composition (McSherry 2009, Theorem 4; for ρ the divergences
of all other regions are zero). Every region is measured, whether it has records or not. A unit of k records
may be in k regions: the channel holds ε/k or ρ/k² for one record, and the rest is group privacy (Bun &
Steinke 2016, Proposition 1.9).

The cost of the mechanism times the regions; ``denoise`` finishes all of them together, and what draws noise
on every cell draws for all at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import whole_number
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    NoisyCells,
    noisy_counts,
)
from tabularium.mechanisms.linear_measurements.noisy_tree import side_by_side
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism

_CELLS, _STANDS = "cells", "stands"
_MOST_AXES = 64


@dataclass(frozen=True)
class PerRegion(Mechanism):
    """A mechanism of its own for each region of a table.

    Parameters
    ----------
    mechanism
        The name of the mechanism.
    parameters_of_each
        Its parameters, the same for all regions; axes are numbered without that of the regions.
    axis
        Number of the axis of the regions, from 0.
    """

    mechanism: str
    parameters_of_each: Mapping[str, Any] = field(default_factory=dict)
    axis: int = 0

    name: ClassVar[str] = "per_region"

    def __post_init__(self) -> None:
        whole_number(self.axis, 0, _MOST_AXES, "axis")
        parameters = self.each.parameters().items()  # tuples as JSON has them
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in parameters}
        object.__setattr__(self, "parameters_of_each", given)

    @property
    def each(self) -> Mechanism:
        """The mechanism of a region."""
        from tabularium.mechanisms.registry import build

        return build(self.mechanism, **self.parameters_of_each)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the mechanisms that it runs, its own first."""
        return self.name, *self.each.components

    def probe_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape with two regions: one is as good as another."""
        return tuple(min(side, 2) if a == self.axis else side for a, side in enumerate(shape))

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Draw the measurements of every region, each for the whole budget."""
        mechanism, tables = self.each, self._regions(counts)
        mechanism.check_definition(channel.definition)
        mechanism.check_shape(tables.shape[1:])
        if mechanism.per_cell_noise:
            return {_CELLS: channel.add_noise(counts, channel.remaining, purpose=_CELLS)}, {"notes": [{}]}
        arrays, notes = [], []
        cells = tables[0].size
        with channel.parallel(channel.remaining, cells=counts.size, purpose="regions", fold=True) as scope:
            for region, table in enumerate(tables):
                branch = scope.branch(slice(region * cells, (region + 1) * cells), str(region))
                drawn, note = mechanism.draw(mechanism.validated(table), branch)
                # As in ``measure``: the order of an array in memory must not be the data's choice.
                arrays.append({name: np.asarray(array, order="C") for name, array in drawn.items()})
                notes.append(note)
        stands = np.array(scope.representatives(), dtype=np.int64)
        alike = all(note == notes[0] for note in notes)
        return {**stack_ragged(arrays), _STANDS: stands}, {"notes": notes[:1] if alike else notes}

    def finish(self, measured: Measured) -> Release:
        """Return what the mechanism makes of each region, in the shape of the counts.

        ``diagnostics`` has the mean over the regions of what the mechanism estimates of its error, and how
        many regions had what else it says.
        """
        mechanism = self.each
        if _STANDS not in measured.arrays:
            tables = self._regions(measured.arrays[_CELLS])
            made = mechanism.finish_tables(tables, measured.transcript[0])
            if made is not None:
                return self._joined(measured, made[0], None, made[1])
        result = [mechanism.finish(part) for part in self._parts(measured, mechanism)]
        variances = [release.variances for release in result]
        spread = None
        if all(variance is not None for variance in variances):
            spread = np.stack(
                [np.broadcast_to(np.asarray(release.variances), release.values.shape) for release in result]
            )
        values = np.stack([release.values for release in result])
        return self._joined(measured, values, spread, [release.diagnostics for release in result])

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts of all regions, where one draw was made of them."""
        return noisy_counts(measured) if _STANDS not in measured.arrays else None

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the measurements of all regions side by side, whose noise is independent."""
        if _STANDS not in measured.arrays:
            return self.noisy_cells(measured)
        mechanism = self.each
        regions = self._parts(measured, mechanism)
        parts = [mechanism.linear_measurements(region) for region in regions]
        if any(part is None for part in parts):
            return None
        shape = list(_shape_of(regions[0]))
        shape.insert(self.axis, len(regions))
        places = np.moveaxis(np.arange(prod(shape)).reshape(shape), self.axis, 0)
        return side_by_side(parts, list(places.reshape(len(regions), -1)), tuple(shape))

    def _joined(
        self,
        measured: Measured,
        values: Array,
        variances: NDArray[np.float64] | None,
        diagnostics: Sequence[Mapping[str, Any]],
    ) -> Release:
        if variances is not None and np.all(variances == variances.flat[0]):
            spread: float | NDArray[np.float64] | None = float(variances.flat[0])
        else:
            spread = None if variances is None else self._whole(variances)
        return measured.release(self._whole(values), spread, mechanism=self.mechanism, **summary(diagnostics))

    def _parts(self, measured: Measured, mechanism: Mechanism) -> list[Measured]:
        """Return the measurement of each region, as if it were the only one."""
        notes = measured.meta["notes"]
        if _STANDS not in measured.arrays:
            tables = self._regions(measured.arrays[_CELLS])
            event = replace(measured.transcript[0], shape=tables.shape[1:])
            arrays: list[dict[str, Array]] = [{_CELLS: np.ascontiguousarray(table)} for table in tables]
            transcripts: list[tuple[Event, ...]] = [(event,)] * len(tables)
        else:
            stands = measured.arrays[_STANDS].tolist()
            arrays = split_ragged({k: a for k, a in measured.arrays.items() if k != _STANDS}, len(stands))
            drawn = _by_branch(measured.transcript)
            transcripts = [drawn.get(number, ()) for number in stands]
        return [
            Measured(
                mechanism=mechanism.name,
                parameters=mechanism.parameters(),
                arrays=own,
                meta=notes[min(region, len(notes) - 1)],
                transcript=transcript,
                definition=measured.definition,
                insecure=measured.insecure,
            )
            for region, (own, transcript) in enumerate(zip(arrays, transcripts, strict=True))
        ]

    def _regions(self, table: Array) -> Array:
        """Return a table with the axis of its regions first."""
        if self.axis >= table.ndim:
            raise MechanismError(
                f"a table of {table.ndim} dimensions has no such axis", where="axis", hint="count from 0"
            )
        return np.ascontiguousarray(np.moveaxis(table, self.axis, 0))

    def _whole(self, tables: Array) -> Array:
        """Return regions along the first axis as the table they are of."""
        return np.ascontiguousarray(np.moveaxis(tables, 0, self.axis))


def _shape_of(region: Measured) -> tuple[int, ...]:
    """Return the shape of the table of a region; where a mechanism does not say it, an array has it."""
    if "shape" in region.meta:
        return tuple(region.meta["shape"])
    return next(region.arrays[name].shape for name in ("cells", "coefficients") if name in region.arrays)


def _by_branch(transcript: tuple[Event, ...]) -> dict[int, tuple[Event, ...]]:
    """Return the events of each branch of the scope of the regions, as if there were no such scope."""
    result: dict[int, list[Event]] = {}
    for event in transcript:
        own = replace(event, branches=event.branches[1:], alike=1)
        result.setdefault(event.branches[0][1], []).append(own)
    return {number: tuple(events) for number, events in result.items()}


def summary(diagnostics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return diagnostics of all regions together.

    The mean squared error is the mean of theirs, with its standard error; a number or word that is the same
    everywhere stands as it is; of other words, how many regions have which.
    """
    result: dict[str, Any] = {"regions": len(diagnostics)}
    shared = [name for name in diagnostics[0] if all(name in item for item in diagnostics)]
    for name in shared:
        values = [item[name] for item in diagnostics]
        if name == "risk_standard_error":
            result[name] = sqrt(sum(value**2 for value in values)) / len(values)
        elif name == "risk":
            result[name] = sum(values) / len(values)
        elif not all(isinstance(value, str | int | float) for value in values):
            continue
        elif all(value == values[0] for value in values):
            result[name] = values[0]
        elif all(isinstance(value, str) for value in values):
            result[name] = dict(sorted(Counter(values).items()))
    return result


_SHAPES = "_shapes"


def stack_ragged(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the arrays of all parts by name: (parts, …), or flat, with their shapes.

    Shapes are rows of the number of dimensions, and then the sides; -1 for an array that a part has not.
    """
    result: dict[str, Array] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        own = [part.get(name) for part in parts]
        there = [np.asarray(array) for array in own if array is not None]
        if len(there) == len(parts) and len({array.shape for array in there}) == 1:
            result[name] = np.stack(there)
            continue
        shapes = np.zeros((len(parts), 1 + max(array.ndim for array in there)), dtype=np.int64)
        for row, array in zip(shapes, own, strict=True):
            row[0] = -1 if array is None else array.ndim
            row[1 : 1 + max(0, row[0])] = () if array is None else array.shape
        result[name] = np.concatenate([array.reshape(-1) for array in there])
        result[name + _SHAPES] = shapes
    return result


def split_ragged(arrays: Mapping[str, Array], parts: int) -> list[dict[str, Array]]:
    """Return the arrays of each part again."""
    result: list[dict[str, Array]] = [{} for _ in range(parts)]
    for name, array in arrays.items():
        if name.endswith(_SHAPES):
            continue
        if name + _SHAPES not in arrays:
            for part, own in zip(result, array, strict=True):
                part[name] = np.asarray(own)
            continue
        begun = 0
        for part, row in zip(result, arrays[name + _SHAPES].tolist(), strict=True):
            if row[0] >= 0:
                shape = tuple(row[1 : 1 + row[0]])
                size = int(np.prod(shape, dtype=np.int64))
                part[name] = array[begun : begun + size].reshape(shape)
                begun += size
    return result
