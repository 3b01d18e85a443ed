"""The base of every mechanism: ``measure`` through a channel, then ``finish`` without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.accounting.transcript import Definition, Event, ratio
from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.channel.metered_channel import facade
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    NoisyCells,
    noisy_counts,
)
from tabularium.mechanisms.measured import Array, Measured, Release

Counts = NDArray[np.int64]


class Mechanism(ABC):
    """Base of the registered mechanisms, each a frozen dataclass of its parameters.

    A mechanism gives two functions. ``draw`` sees the true counts and the channel, and returns only what
    came out of the channel. ``finish`` sees only that. It spends exactly what the channel holds. Of the
    channel it sees a façade (``channel.metered_channel.facade``): it cannot tell a release from an audit.
    """

    name: ClassVar[str]
    definitions: ClassVar[tuple[Definition, ...]] = ("pure", "zcdp")
    releases_noisy_cells: ClassVar[bool] = False
    """Whether it releases every cell as it was measured: with noise of one distribution, and nothing else."""
    noisy_cells_purpose: ClassVar[str | None] = None
    """Of the draw of noise on every cell, the array ``cells``, where there is such a draw."""

    @abstractmethod
    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure checked ``counts`` through ``channel``; return noisy arrays and JSON-able values."""

    @abstractmethod
    def finish(self, measured: Measured) -> Release:
        """Turn measurements into a release: post-processing, which costs no budget."""

    def measure(self, counts: ArrayLike, channel: Channel) -> Measured:
        """Draw this mechanism's measurements of ``counts``.

        Parameters
        ----------
        counts
            Integer array of any dimension, none negative; counts above 2^40 are taken for 2^40.
        channel
            The noise channel; all it holds is spent.

        Raises
        ------
        MechanismError
            The counts or the channel are not what the mechanism can work with; nothing was drawn.
        """
        self.check_definition(channel.definition)
        checked = self.validated(counts)
        start = len(channel.transcript)
        arrays, meta = self.draw(checked, facade(channel))
        return Measured(
            mechanism=self.name,
            parameters=self.parameters(),
            # The order of an array in memory is stored with it: it must not be the data's choice.
            arrays={key: np.asarray(array, order="C") for key, array in arrays.items()},
            meta=meta,
            transcript=channel.transcript[start:],
            definition=channel.definition,
            # Inside another mechanism the channel is a façade, which does not say: the outer one will know.
            insecure=getattr(channel, "insecure", True),
        )

    def check_definition(self, definition: Definition) -> None:
        """Refuse a definition of privacy that the mechanism does not know."""
        if definition not in self.definitions:
            raise MechanismError(
                f"{self.name} needs a budget under {' or '.join(self.definitions)}, not {definition}",
                where=self.name,
                hint="choose another mechanism or another definition",
            )

    def validated(self, counts: ArrayLike) -> Counts:
        """Return the counts as ``draw`` takes them; see ``check_counts``."""
        return check_counts(counts, where=self.name)

    def release(self, counts: ArrayLike, channel: Channel) -> Release:
        """Measure and finish."""
        return self.finish(self.measure(counts, channel))

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the sums of cells that were measured, each with independent noise of known distribution.

        None where there are none. See :mod:`tabularium.mechanisms.linear_measurements.linear_measurement`,
        also for sums that were chosen by noise.
        """
        return self.noisy_cells(measured)

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts of all cells that margins of single cells can be made from, or None.

        They came before any merging, grouping or smoothing. The numbers in the arrays are not looked at.
        """
        return noisy_counts(measured, self.noisy_cells_purpose) if self.noisy_cells_purpose else None

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the mechanisms that it runs: its own."""
        return (self.name,)

    @property
    def per_cell_noise(self) -> bool:
        """Whether all it draws is noise on every cell, ``cells``, for the whole budget.

        Then one draw on the cells of many tables is its draws of each of them.
        """
        return False

    def check_shape(self, shape: tuple[int, ...]) -> None:  # noqa: B027 - most refuse no shape
        """Raise what ``draw`` would raise for tables of this shape before it draws, if that is not all."""

    def finish_tables(self, tables: Array, event: Event) -> tuple[Array, list[dict[str, Any]]] | None:
        """Finish many tables whose cells were measured in one draw, each as if it were the only one.

        ``tables``: Noisy cells, (tables, shape of one...). ``event``: The draw.

        Returns
        -------
        Values in the shape of the tables, and the diagnostics of each; None where there is no quicker way
        than one after the other.
        """
        return None

    def probe_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a table that it refuses for the same public reasons as one of this shape."""
        return shape

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON-able values, fractions as text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {
            name: ratio(value) if isinstance(value, Fraction) else value for name, value in values.items()
        }


def check_counts(counts: ArrayLike, *, where: str = "counts", largest: int = LARGEST_COUNT) -> Counts:
    """Return ``counts`` as a contiguous int64 array, cut off at ``largest``, or say what is wrong with them.

    The bound is public, and cutting off each count there brings no two tables further apart. Refusing a large
    count would say that there is one, and would come after other tables of the release have been drawn.
    """
    array = np.asarray(counts)
    if array.size == 0:
        raise MechanismError("there are no cells to release", where=where, hint="give at least one cell")
    if array.dtype.kind not in "iu":
        raise MechanismError(
            f"counts must be an array of integers, not {array.dtype}",
            where=where,
            hint="count first, and keep the integer type",
        )
    if int(array.min()) < 0:
        raise MechanismError(
            "counts must not be negative", where=where, hint="count records, not differences"
        )
    if int(array.max()) > largest:
        array = np.minimum(array, largest)
    return np.ascontiguousarray(array, dtype=np.int64).reshape(array.shape)
